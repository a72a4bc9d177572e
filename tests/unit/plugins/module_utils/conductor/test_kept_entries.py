# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance that exists keeps its flavor and image, whatever became of the catalog: conductor/kept_entries.py."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import kept_entries
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.request_digest import digests
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import FlavorNotFound, ImageNotFound
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

SMALL = {"vcpus": 1, "memory_mb": 128, "root_gb": 1}
GUEST = {"url": "https://images/guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}
VALUES = {"berth_flavor": "small", "berth_image": "guest"}
HAS = {**SMALL, "name": "small", "ephemeral_gb": 0, "swap": 0, "extra_specs": {"ram_kind": "fast"}}


def catalog(flavors=None, images=None):
    return Catalog.from_variables({"berth_flavors": flavors or {}, "berth_images": images or {}})


def place(role="OWN", content=None, image="guest", props=None):
    content, kept = content or HAS, digests({"image": {"name": image}})
    return {
        "role": role, "flavor": content["name"], "content": content, "request_digests": kept, "image_props": props or {},
    }  # fmt: skip


def test_what_the_catalog_lacks_is_as_the_record_has_it_and_is_told():
    found, kept = kept_entries.with_kept(catalog(), VALUES, [place()])
    assert found.flavor("small", "default")["extra_specs"] == {"ram_kind": "fast"}
    assert found.image("guest", "default")["name"] == "guest"
    assert kept == [kept_entries.NOT_THERE % ("flavor", "small"), kept_entries.NOT_THERE % ("image", "guest")]


def test_what_the_catalog_has_counts():
    full = catalog({"small": {**SMALL, "vcpus": 4}}, {"guest": GUEST})
    assert kept_entries.with_kept(full, VALUES, [place()]) == (full, [])


def test_of_an_instance_without_an_image_no_image_is_told():
    values = {**VALUES, "berth_image": None}
    assert kept_entries.with_kept(catalog(), values, [place(image=None)])[1] == [
        kept_entries.NOT_THERE % ("flavor", "small")
    ]


def with_volumes(images):
    volumes = {"db": {"size_gb": 2, "image": "data"}, "logs": {"size_gb": 2, "image": "data"}, "tmp": {"size_gb": 1}}
    given = {"berth_flavors": {"small": SMALL}, "berth_images": images, "berth_volumes_defined": volumes}
    return Catalog.from_variables(given)


@pytest.mark.parametrize("lacks_own", [True, False])
def test_the_image_of_a_volume_refuses_no_instance_that_exists(lacks_own):
    """What the volume was made from is on it, and create makes no volume for an instance that exists."""
    values = {**VALUES, "inventory_hostname": "web1", "berth_volumes": ["db", "logs", "tmp"]}
    found, kept = kept_entries.with_kept(with_volumes({} if lacks_own else {"guest": GUEST}), values, [place()])
    lacked = ["guest", "data"] if lacks_own else ["data"]
    assert kept == [kept_entries.NOT_THERE % ("image", name) for name in lacked]
    assert [each["name"] for each in build_request(values, found)[0]["volumes"]] == ["db", "logs", "tmp"]
    image = {"name": "guest", "properties": {}}
    told = kept_entries.with_entries(with_volumes({} if lacks_own else {"guest": GUEST}), values, HAS, image)
    assert told == (found, kept), "the request that a host gets its seed from"


@pytest.mark.parametrize("places", [[], [place(role="CLAIM")]], ids=["nowhere", "not built yet"])
def test_a_new_instance_needs_the_image_of_its_volume(places):
    values = {**VALUES, "inventory_hostname": "web1", "berth_volumes": ["db"]}
    found, kept = kept_entries.with_kept(with_volumes({"guest": GUEST}), values, places)
    assert not kept
    with pytest.raises(ImageNotFound):
        build_request(values, found)


@pytest.mark.parametrize("volumes", [["nowhere"], [{"no": 1}], 7])
def test_volumes_that_are_wrong_are_told_by_the_request(volumes):
    full = with_volumes({"guest": GUEST})
    assert kept_entries.with_kept(full, {**VALUES, "berth_volumes": volumes}, [place()]) == (full, [])


def test_a_disabled_flavor_refuses_no_instance_that_has_it():
    disabled = catalog({"small": {**SMALL, "disabled": True}}, {"guest": GUEST})
    found, kept = kept_entries.with_kept(disabled, VALUES, [place()])
    assert found.flavor("small", "default") and len(kept) == 1


def test_an_image_whose_kernel_is_gone_refuses_no_instance_that_has_it():
    loader = {**GUEST, "properties": {"kernel_id": "vmlinuz"}}
    found, kept = kept_entries.with_kept(catalog({"small": SMALL}, {"guest": loader}), VALUES, [place()])
    assert kept == [kept_entries.NOT_THERE % ("image", "guest")] and not found.images["guest"]["properties"]


@pytest.mark.parametrize(
    "specs, props",
    [
        ({"os:secure_boot": "required"}, {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}),
        ({}, {"hw_disk_bus": "ide", "hw_machine_type": "pc"}),
        ({}, {"kernel_id": "vmlinuz", "os_command_line": "quiet"}),
    ],
)
def test_a_flavor_that_needs_what_its_image_says_gives_a_request_without_the_image_in_the_catalog(specs, props):
    """One request that cannot be made refuses the whole run."""
    values = {**VALUES, "inventory_hostname": "web1"}
    has = {**HAS, "extra_specs": specs}
    found, kept = kept_entries.with_kept(catalog(), values, [place(content=has, props=props)])
    booted_directly = {"kernel_id", "os_command_line"}
    assert found.images["guest"]["properties"].keys() == props.keys() - booted_directly and len(kept) == 2
    assert build_request(values, found)[0]["flavor"]["extra_specs"] == specs


def test_properties_that_no_catalog_could_have_are_not_taken_from_a_host():
    full = catalog({"small": SMALL})
    assert kept_entries.with_kept(full, VALUES, [place(props={"hw_firmware_type": "other"})]) == (full, [])


@pytest.mark.parametrize(
    "places",
    [[], [place(role="CLAIM")], [place(content={**HAS, "name": "other"}, image="other")]],
    ids=["that no host has", "that is not built yet", "whose record has other names"],
)
def test_an_instance_needs_the_catalog(places):
    found, kept = kept_entries.with_kept(catalog(), VALUES, places)
    assert not kept
    with pytest.raises(FlavorNotFound):
        found.flavor("small", "default")
    with pytest.raises(ImageNotFound):
        found.image("guest", "default")


@pytest.mark.parametrize("content", [{**HAS, "vcpus": 0}, {"name": "small"}, {**HAS, "extra_specs": [1]}])
def test_a_flavor_that_no_catalog_could_have_is_not_taken_from_a_host(content):
    assert not kept_entries.with_kept(catalog(images={"guest": GUEST}), VALUES, [place(content=content)])[1]


def test_nothing_is_made_from_what_only_a_record_has():
    instance = {"state": None}
    kept_entries.tell(instance, ["the catalog has no image guest any more, the instance keeps it"])
    assert instance["state"] == "failed"
