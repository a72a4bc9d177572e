# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of VMware and Hyper-V become qcow2 in the cache, and none makes a host read another file (CVE-2022-47951)."""

from __future__ import annotations

import hashlib
import lzma
import os
import random
import subprocess

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import converted_image, image
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    BuildFailed,
    FlavorTooSmall,
    ImageInvalid,
    ImageUnavailable,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings

MIB = 1 << 20
DISK = random.Random(2).randbytes(MIB) + b"\0" * (6 * MIB) + random.Random(3).randbytes(MIB)
KINDS = {"vmdk": ("monolithicSparse", "streamOptimized"), "vhdx": ("dynamic", "fixed")}
EACH = [(kind, subformat) for kind, subformats in KINDS.items() for subformat in subformats]


def exported(directory, kind, subformat=None, disk=DISK):
    """Return the bytes of the disk in another format, as qemu-img writes it."""
    raw, path = directory / "disk.raw", directory / ("disk." + kind)
    raw.write_bytes(disk)
    options = ["-f", "raw", "-O", kind, "-o", "subformat=" + (subformat or KINDS[kind][0])]
    subprocess.run(["qemu-img", "convert", *options, "--", str(raw), str(path)], check=True)
    return path.read_bytes()


def inside(path):
    """The content of a cached disk."""
    out = path + ".inside"
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", "--", path, out], check=True)
    with open(out, "rb") as file:
        content = file.read()
    os.unlink(out)
    return content


@pytest.fixture
def take(pool, tmp_path):
    """Have an image of this content taken into the cache."""

    def take(content, kind, root_gb=1, **settings):
        path = tmp_path / "published"
        path.write_bytes(content)
        stated = {"url": str(path), "checksum": "sha256:" + hashlib.sha256(content).hexdigest(), "disk_format": kind}
        settings = HostSettings(image_directories=(str(tmp_path),), **settings)
        return image.ensure(pool, {"name": "guest", **stated}, root_gb, settings)

    return take


def is_run(*_arguments, **_more):
    raise AssertionError("QEMU was run")


def left(pool):
    return os.listdir(os.path.join(pool, "images"))


@pytest.mark.parametrize("kind, subformat", EACH)
def test_an_image_of_another_hypervisor_is_kept_as_qcow2_with_the_same_content(take, pool, tmp_path, kind, subformat):
    found = take(exported(tmp_path, kind, subformat), kind)
    assert (found["format"], found["virtual_size"], found["fetched"]) == ("qcow2", len(DISK), True)
    assert inside(found["path"]) == DISK
    assert os.stat(found["path"]).st_mode & 0o777 == 0o600
    assert sorted(left(pool)) == sorted(os.path.basename(found["path"]) + end for end in ("", ".sha256"))


def test_one_that_is_compressed_is_unpacked_and_converted(take, tmp_path):
    assert inside(take(lzma.compress(exported(tmp_path, "vmdk")), "vmdk")["path"]) == DISK


def test_a_converted_image_is_found_again_and_somebody_who_changed_it_is_found_out(take, tmp_path):
    content = exported(tmp_path, "vmdk")
    path = take(content, "vmdk")["path"]
    os.utime(path)
    assert take(content, "vmdk")["fetched"] is False
    with open(path, "r+b") as file:
        file.seek(1 << 18)
        file.write(b"changed")
    with pytest.raises(ImageUnavailable, match="was changed: its checksum differs"):
        take(content, "vmdk")


def test_one_whose_disk_is_larger_than_the_flavor_is_refused(take, pool, tmp_path):
    content = exported(tmp_path, "vhdx", "dynamic", DISK + b"\0" * (1 << 30))
    with pytest.raises(FlavorTooSmall):
        take(content, "vhdx")
    assert left(pool) == []


def test_one_that_the_pool_has_no_room_for_is_not_converted(take, pool, tmp_path, monkeypatch):
    content, room = exported(tmp_path, "vmdk", "streamOptimized", b"12" * (4 * MIB)), paths.free_bytes
    monkeypatch.setattr(paths, "free_bytes", lambda path: room(path) and 4 * MIB)
    monkeypatch.setattr(converted_image, "make", is_run)
    with pytest.raises(ImageUnavailable, match="does not fit into the pool"):
        take(content, "vmdk")
    assert left(pool) == []


def changed(content, at, new):
    return content[:at] + new + content[at + len(new) :]


def flat(content, secret):
    """A sparse header without capacity: QEMU follows the descriptor to other files."""
    text = '# Disk DescriptorFile\nversion=1\ncreateType="monolithicSparse"\nRW 8 FLAT "%s" 0\n' % secret
    return changed(changed(content, 12, b"\0" * 8), 512, text.encode().ljust(1024, b"\0"))


FAULTS = {
    "a descriptor alone": lambda content: (
        b'# Disk DescriptorFile\ncreateType="monolithicFlat"\nRW 8 FLAT "/etc/shadow" 0\n'
    ),
    "no capacity": lambda content: flat(content, "/etc/shadow"),
    "another type": lambda content: content.replace(b'createType="monolithicSparse"', b'createType="monolithicFlat"  '),
    "two types": lambda content: content.replace(b"CID=", b'createType="streamOptimized"\nCID=', 1),
    "no type": lambda content: content.replace(b"createType", b"createTape"),
    "a parent": lambda content: content.replace(b"ddb.virtualHWVersion", b'parentFileNameHint="/'),
    "no descriptor": lambda content: changed(content, 28, b"\0" * 8),
    "a descriptor far away": lambda content: changed(content, 28, b"\xff" * 7),
    "a footer of its own": lambda content: changed(content, 56, b"\xff" * 8) + b"\0" * 1536,
    "nothing but the magic": lambda content: content[:4],
    "another format": lambda content: b"vhdxfile" + content[8:],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_vmdk_that_is_not_the_whole_disk_is_refused_before_qemu_reads_it(take, pool, tmp_path, monkeypatch, fault):
    content = exported(tmp_path, "vmdk")
    broken = FAULTS[fault](content)
    assert broken != content
    monkeypatch.setattr(converted_image, "run", is_run)
    with pytest.raises(ImageInvalid) as raised:
        take(broken, "vmdk")
    assert raised.value.hint
    assert left(pool) == []


@pytest.mark.follows("one_vmdk")
def test_who_gives_the_descriptor_of_a_datastore_is_told_which_file_is_the_disk(take, tmp_path):
    descriptor = exported(tmp_path, "vmdk", "monolithicFlat")
    with pytest.raises(ImageInvalid) as raised:
        take(descriptor, "vmdk")
    assert raised.value.hint == disk_hints.one_vmdk()
    found = take((tmp_path / "disk-flat.vmdk").read_bytes(), "raw")
    with open(found["path"], "rb") as file:
        assert file.read() == DISK


@pytest.mark.parametrize("kind, size", [("vmdk", 1 << 12), ("vhdx", 1 << 15)])
def test_one_that_is_damaged_is_no_image(take, pool, tmp_path, kind, size):
    with pytest.raises((ImageInvalid, BuildFailed)):
        take(exported(tmp_path, kind)[:size], kind)
    assert left(pool) == []
