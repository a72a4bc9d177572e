# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request that boots from a volume: its flavor's root disk takes no room, the volume does (A15, A21)."""

from __future__ import annotations

import json

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.create import to_upload
from ansible_collections.berth.kvm.plugins.module_utils.model import request_shape
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request, resize_request
from ansible_collections.berth.kvm.plugins.module_utils.placement.requested import requested

IMAGE = {"url": "http://example.org/i", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2", "min_disk": 8}
CATALOG = {
    "berth_flavors": {
        "tiny": {"vcpus": 1, "memory_mb": 64, "root_gb": 5},
        "swaps": {"vcpus": 1, "memory_mb": 64, "root_gb": 5, "ephemeral_gb": 3},
        "large": {"vcpus": 1, "memory_mb": 64, "root_gb": 10},
    },
    "berth_images": {
        "guest": IMAGE,
        "sata": {**IMAGE, "properties": {"hw_disk_bus": "sata"}},
        "uploaded": {**{part: IMAGE[part] for part in IMAGE if part != "url"}, "upload": "/srv/i"},
    },
    "berth_volumes_defined": {
        "os": {"size_gb": 10},
        "small": {"size_gb": 4},
        "db": {"size_gb": 20},
        "data": {"size_gb": 8, "image": "guest"},
        "other": {"size_gb": 8, "image": "sata"},
        "uploaded": {"size_gb": 8, "image": "uploaded"},
        "of-none": {"size_gb": 8, "image": "none"},
        "too-small": {"size_gb": 7, "image": "guest"},
    },
}
OS = {"os": {"boot_index": 0}}


def build(volumes, **given):
    web = {"inventory_hostname": "web1", "berth_flavor": "tiny", "berth_image": "guest", "berth_volumes": volumes}
    return build_request({**web, **given}, Catalog.from_variables(CATALOG))[0]


def disk_gb(spec):
    return requested(RequestSpec.from_dict(spec)).amounts.get("DISK_GB", 0)


def test_the_volume_counts_and_the_flavors_root_disk_does_not():
    spec = build({**OS, "db": None}, berth_flavor="swaps")
    assert spec["is_bfv"] is True and [entry.get("boot_index") for entry in spec["volumes"]] == [0, None]
    assert disk_gb(spec) == 3  # both are there
    new = {**spec, "volumes": [dict(entry, new=True) for entry in spec["volumes"]]}
    assert disk_gb(new) == 3 + 10 + 20


def test_a_request_that_boots_from_its_own_root_disk_is_what_it_was():
    with pytest.raises(BerthError) as caught:  # the flavor's root disk is too small for the image
        build(["db"])
    assert caught.value.code == "FlavorDiskSmallerThanMinDisk"
    catalog = {**CATALOG, "berth_images": {"guest": {**IMAGE, "min_disk": 0}}}
    web = {"inventory_hostname": "web1", "berth_flavor": "tiny", "berth_image": "guest", "berth_volumes": ["db"]}
    spec = build_request(web, Catalog.from_variables(catalog))[0]
    assert "is_bfv" not in spec and "boot_index" not in spec["volumes"][0] and disk_gb(spec) == 5


@pytest.mark.parametrize("index", [0, "0"])
def test_the_guest_boots_from_the_volume_with_boot_index_zero(index):
    assert build({"os": {"boot_index": index}})["volumes"][0]["boot_index"] == 0


@pytest.mark.parametrize("index", [1, "1"])
def test_the_next_boot_indexes_follow_a_volume_or_the_root_disk(index):
    spec = build({**OS, "db": {"boot_index": index}})
    assert [entry["boot_index"] for entry in spec["volumes"]] == [0, 1] and spec["is_bfv"] is True
    spec = build({"db": {"boot_index": index}, "small": {"boot_index": 2}}, berth_flavor="large")
    assert [entry["boot_index"] for entry in spec["volumes"]] == [1, 2] and "is_bfv" not in spec


def test_a_data_volume_is_made_from_the_image_that_its_definition_names():
    spec = build({**OS, "data": None})
    parts = {part: IMAGE[part] for part in ("url", "checksum", "disk_format")}
    assert [entry.get("image") for entry in spec["volumes"]] == [None, {"name": "guest", **parts}]
    assert RequestSpec.from_dict(spec).to_dict()["volumes"] == spec["volumes"]
    assert request_shape.request(spec)["volumes"] == spec["volumes"]


def test_a_volume_to_boot_from_may_name_the_image_of_its_instance_and_no_other():
    assert "image" not in build({"data": {"boot_index": 0}})["volumes"][0]
    with pytest.raises(InvalidInput) as caught:
        build({"other": {"boot_index": 0}})
    assert caught.value.field == "berth_volumes_defined.other.image"


def test_a_volume_may_be_made_from_an_image_that_is_on_the_controller():
    request = build({**OS, "uploaded": None, "data": None})
    sources = [entry.get("image", {}).get("upload") for entry in request["volumes"]]
    assert sources == [None, "/srv/i", None]
    assert [(image["name"], size_gb) for image, size_gb in to_upload(request)] == [("uploaded", 8)]
    request_shape.request(json.loads(json.dumps(request)))  # as a host reads it


def test_what_a_guest_boots_from_is_sent_in_the_size_of_the_volume():
    request = build(OS, berth_image="uploaded")
    assert [(image["name"], size_gb) for image, size_gb in to_upload(request)] == [("uploaded", 10)]


@pytest.mark.parametrize("index", [-1, "-1", None])
def test_a_volume_that_the_guest_never_boots_from_has_minus_one_or_no_index(index):
    spec = build({**OS, "db": {"boot_index": index}})
    assert [entry.get("boot_index") for entry in spec["volumes"]] == [0, None]


@pytest.mark.parametrize(
    "volumes, field",
    [
        ({"os": {"boot_index": 16}}, "berth_volumes.os.boot_index"),
        ({"os": {"boot_index": 2}}, "berth_volumes"),
        ({"os": {"boot_index": 0}, "db": {"boot_index": 2}}, "berth_volumes"),
        ({**OS, "of-none": None}, "berth_volumes_defined.of-none.image"),
        ({**OS, "too-small": None}, "berth_volumes_defined.too-small.size_gb"),
        ({"os": {"boot_index": -2}}, "berth_volumes.os.boot_index"),
        ({"os": {"boot_index": True}}, "berth_volumes.os.boot_index"),
        ({"os": {"boot_index": 0}, "db": {"boot_index": 0}}, "berth_volumes"),
        ({"os": {"boot_index": 0, "source": "snapshot"}}, "berth_volumes.os.source"),
        ({"small": {"boot_index": 0}}, "berth_volumes_defined.small.size_gb"),
    ],
)
def test_what_is_not_built_or_does_not_fit_is_refused_by_its_field(volumes, field):
    with pytest.raises(BerthError) as caught:
        build(volumes)
    assert caught.value.field == field


def test_all_faults_of_a_volume_to_boot_from_are_told_at_once():
    with pytest.raises(BerthError) as caught:
        build({"small": {"boot_index": 0}}, berth_image="sata")
    assert "min_disk of image sata" in str(caught.value) and "hw_disk_bus virtio" in str(caught.value)


def test_a_resize_leaves_it_as_it_is():
    spec = build(OS)
    parts = resize_request(spec, {"berth_flavor": "swaps"}, Catalog.from_variables(CATALOG))
    assert disk_gb({**spec, **parts}) == 3
