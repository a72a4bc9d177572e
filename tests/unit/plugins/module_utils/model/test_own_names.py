# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A name that a host says is used for an instance or a volume only if it is its own: hints name them in commands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from plain_data import changed  # noqa: E402
from test_host_document import GOOD, INSTANCE  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model import reply_shapes  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.host_document import check  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid  # noqa: E402


@pytest.mark.parametrize("lie", ["web-2", "all", "*", "web-1; rm -rf x", "WEB-1", "web-1,db", "x" * 250])
def test_an_instance_is_called_by_its_uuid_where_its_name_is_that_of_another_or_of_none(lie):
    """Hints name instances in commands: --limit must not act on another one, or on all."""
    for foreign, called in (False, INSTANCE["uuid"]), (True, lie):
        found = check(changed(GOOD, ("instances", 0), {**INSTANCE, "name": lie, "foreign": foreign}))["instances"][0]
        assert found == {**INSTANCE, "name": called, "foreign": foreign}
    assert check(changed(GOOD, ("instances", 0, "project_id"), "blue"))["instances"][0]["name"] == INSTANCE["uuid"]
    again = {**INSTANCE, "name": "all", "uuid": instance_uuid("default", "all")}
    assert check(changed(GOOD, ("instances", 0), again))["instances"][0]["name"] == again["uuid"], (
        "no instance has that name"
    )


def test_what_cannot_be_a_project_gives_no_name_to_a_failed_build():
    """The host may choose the uuid for it, and an -e of Ansible may set several variables."""
    told = {"uuid": instance_uuid("a berth_all=true", "web-1"), "name": "web-1", "project_id": "a berth_all=true"}
    failure = {**told, "code": "DiskExists", "message": "no"}
    assert check({**GOOD, "failed_instances": [failure]})["failed_instances"][0]["name"] == told["uuid"]


VOLUME = {
    "uuid": volume_uuid("default", "db"), "name": "db", "project_id": "default", "size_gb": 20, "pool": "berth", "role": "OWN",
    "phase": "active", "instance": {"uuid": INSTANCE["uuid"], "name": "web-1"},
}  # fmt: skip


def volume(**changes):
    return check({**GOOD, "volumes": [{**VOLUME, **changes}]})["volumes"][0]


@pytest.mark.parametrize("lie", [{"name": "db2"}, {"project_id": "blue"}, {"name": "db -e x=y"}])
def test_a_volume_is_called_by_its_uuid_where_its_name_is_that_of_another(lie):
    """It counts in the project that its host says."""
    assert volume() == VOLUME
    told = volume(**lie)
    assert (told["name"], told["project_id"]) == (VOLUME["uuid"], lie.get("project_id", "default"))


def test_what_cannot_be_a_project_is_none_of_a_volume():
    """An -e of Ansible may set several variables."""
    told = volume(uuid=volume_uuid("a berth_volume=x", "db"), project_id="a berth_volume=x", instance=None)
    assert (told["name"], told["project_id"]) == (told["uuid"], "?")


def test_who_has_a_volume_is_called_by_its_uuid_where_its_name_is_that_of_another():
    other = {"uuid": INSTANCE["uuid"], "name": "web-2"}
    assert volume(instance=other)["instance"] == {**other, "name": INSTANCE["uuid"]}
    assert volume(instance=None)["instance"] is None


def test_so_it_is_in_what_a_host_says_after_the_claims():
    record = {
        "uuid": INSTANCE["uuid"], "name": "all", "project_id": "default", "role": "OWN", "generation": [1, 2], "phase": "active",
        "token": "a", "power_state": None, "group": None, "vcpus": 1, "pcpus": 0, "memory_mb": 64, "nics": [],
    }  # fmt: skip
    (told,) = reply_shapes.REPLIES["rescan"].fields["instances"]([record])
    assert told == {**record, "name": INSTANCE["uuid"]}
    named = {**record, "name": "web-1"}
    assert reply_shapes.REPLIES["rescan"].fields["instances"]([named]) == [named]
