# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that is booted from a kernel of its image: proven, beside the disks, in the definition, and with it in every move."""

from __future__ import annotations

import copy
import hashlib
import os
import stat
from xml.etree import ElementTree

import pytest
from sample_catalog import CHECKSUM, variables

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, unused_images
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import ImageInvalid
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain_xml
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks
from ansible_collections.berth.kvm.plugins.module_utils.model import request_shape
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request, resize_request

KERNEL = {"url": "https://x/vmlinuz", "checksum": CHECKSUM}
INITRD = {"url": "https://x/initrd", "checksum": "sha256:" + "1" * 64}


def request(properties=None, extra_specs=None, **parts):
    given = copy.deepcopy(variables())
    given["berth_flavors"]["m1.tiny"]["extra_specs"] = extra_specs or {}
    given["berth_images"]["debian-12"].update(parts, properties=properties or {})
    given["berth_images"]["vmlinuz"] = {**KERNEL, "disk_format": "raw"}
    asked = {"inventory_hostname": "web-1", "berth_flavor": "m1.tiny", "berth_image": "debian-12"}
    return build_request(asked, Catalog.from_variables(given))[0]


def record(spec):
    return Record(
        uuid=spec["uuid"], name="web-1", project_id="default", role="OWN", generation=[1, 0], token="t", phase="active",
        spec=spec, resources={},
    )  # fmt: skip


def rendered(spec, arch="x86_64"):
    return ElementTree.fromstring(domain_xml.render(record(spec), domain_xml.Host("kvm", arch, "/pool")))


def refusal(**given):
    with pytest.raises(BerthError) as caught:
        request(**given)
    return caught.value


def test_the_guest_boots_from_the_files_beside_its_disks():
    spec = request({"os_command_line": 'console=ttyS0 a="<&\'"'}, kernel=KERNEL, initrd=INITRD)
    os_element = rendered(spec).find("os")
    beside = "/pool/instances/%s/" % spec["uuid"]
    assert [os_element.findtext(tag) for tag in ("kernel", "initrd", "cmdline")] == [
        beside + "kernel", beside + "initrd", "console=ttyS0 a=\"<&'\"",
    ]  # fmt: skip


def test_a_kernel_needs_no_initrd_and_no_command_line():
    os_element = rendered(request(kernel=KERNEL)).find("os")
    assert os_element.find("kernel") is not None
    assert os_element.find("initrd") is None and os_element.find("cmdline") is None


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_a_guest_with_a_kernel_has_no_firmware_of_its_own(arch):
    assert rendered(request(kernel=KERNEL), arch).find("os").get("firmware") is None


def test_a_request_without_a_kernel_is_what_it_was_before():
    spec = request()
    assert not {"kernel", "initrd"} & set(spec["image"])
    assert rendered(spec).find("os/kernel") is None
    assert request_shape.request(spec) == spec


def test_a_request_with_a_kernel_is_read_again_as_it_was():
    spec = request(kernel=KERNEL, initrd=INITRD)
    assert request_shape.request(spec)["image"]["initrd"] == INITRD


@pytest.mark.parametrize(
    "given, field",
    [
        ({"initrd": INITRD}, "initrd"),
        ({"properties": {"os_command_line": "quiet"}}, "properties.os_command_line"),
        ({"kernel": KERNEL, "properties": {"hw_firmware_type": "uefi"}}, "kernel"),
        ({"kernel": KERNEL, "extra_specs": {"hw:firmware_type": "uefi"}}, "kernel"),
        ({"kernel": KERNEL, "properties": {"kernel_id": "vmlinuz"}}, "properties.kernel_id"),
        ({"properties": {"kernel_id": "vmlinux"}}, "properties.kernel_id"),
        ({"properties": {"kernel_id": "debian-12"}}, "properties.kernel_id"),
        ({"kernel": {"url": "https://x/a"}}, "kernel.checksum"),
        ({"kernel": {"url": "/a/../b", "checksum": CHECKSUM}}, "kernel.url"),
        ({"kernel": "https://x/a"}, "kernel"),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_kernel_is_refused_by_name(given, field):
    assert refusal(**given).field == "berth_images.debian-12." + field


def test_an_unknown_kernel_says_what_was_meant():
    error = refusal(properties={"kernel_id": "vmlinux"})
    assert (error.code, error.hint) == ("ImageNotFound", "Did you mean vmlinuz?")


def test_the_root_disk_is_called_what_the_image_says_or_it_is_refused():
    assert refusal(properties={"img_root_device_name": "/dev/sda"}).field.endswith("img_root_device_name")
    assert refusal(properties={"root_device_name": "/dev/hda"}).rule == "/dev/vda, as a root disk on virtio is called"
    spec = request({"img_root_device_name": "/dev/sda", "hw_disk_bus": "scsi"})
    assert rendered(spec).find("devices/disk/target").get("dev") == "sda"


def test_a_guest_whose_root_device_was_never_looked_at_is_resized_as_before():
    spec = dict(request())
    spec["image"] = dict(spec["image"], properties={"img_root_device_name": "/dev/xvda"})
    assert (
        resize_request(spec, {"berth_flavor": "m1.small"}, Catalog.from_variables(variables()))["flavor"]["vcpus"] == 2
    )


# ---- on the host


@pytest.fixture
def built(tmp_path):
    """(pool, spec): the kernel and initrd of a request, had from files beside the pool."""
    pool = tmp_path / "pool"
    pool.mkdir(mode=0o711)
    parts = {}
    for part, content in (("kernel", b"MZ" + b"k" * 700), ("initrd", b"\x1f\x8b" + b"i" * 1022)):
        (tmp_path / part).write_bytes(content)
        checksum = "sha256:" + hashlib.sha256(content).hexdigest()
        parts[part] = {"url": str(tmp_path / part), "checksum": checksum}
    spec = request(**parts)
    os.makedirs(str(pool / "instances" / spec["uuid"]))
    return str(pool), spec


def build(pool, spec):
    disk.build_boot_files(pool, spec["uuid"], spec, HostSettings(image_directories=(os.path.dirname(pool),)))


def test_the_files_are_whole_sectors_of_what_was_proven_for_the_owner_only(built):
    pool, spec = built
    build(pool, spec)
    for part, size in (("kernel", 1024), ("initrd", 1024)):
        path = os.path.join(pool, "instances", spec["uuid"], part)
        with open(path, "rb") as stream, open(spec["image"][part]["url"], "rb") as source:
            content, original = stream.read(), source.read()
        assert content == original.ljust(size, b"\0")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert sorted(os.listdir(os.path.join(pool, "instances", spec["uuid"]))) == ["initrd", "kernel"]


def test_a_kernel_of_another_checksum_is_the_requests_fault_and_no_other_hosts_matter(built):
    pool, spec = built
    spec["image"]["kernel"]["checksum"] = CHECKSUM
    with pytest.raises(ImageInvalid) as caught:
        build(pool, spec)
    assert not caught.value.retryable and not caught.value.host_fault and "kernel of debian-12" in str(caught.value)
    assert os.listdir(os.path.join(pool, "instances", spec["uuid"])) == []


def test_a_kernel_without_an_end_is_not_copied(built, monkeypatch):
    pool, spec = built
    monkeypatch.setattr(disk, "LARGEST", 512)
    with pytest.raises(ImageInvalid, match="larger than 512 bytes"):
        build(pool, spec)


def test_the_cache_keeps_the_kernel_of_an_instance(built):
    _pool, spec = built
    parts = [spec["image"], spec["image"]["kernel"], spec["image"]["initrd"]]
    assert unused_images.checksums([record(spec)]) == {part["checksum"] for part in parts}


def test_kernel_and_initrd_travel_with_the_disks_and_no_guest_writes_to_them(built):
    pool, spec = built
    build(pool, spec)
    names = [planned.name for planned in disk.planned(spec)]
    assert names == ["root", "seed", "kernel", "initrd", "nvram"]
    told = [{"name": name} for name in names]
    assert [entry["name"] for entry in disks.read_only(told)] == ["seed", "kernel", "initrd"]
    moving = record(spec).replace(migration={"old_spec": spec, "new_spec": spec}, op="a" * 32)
    assert [old.name for old in disks.old_ones(pool, moving)] == []
