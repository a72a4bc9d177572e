# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A locked instance is neither changed nor deleted, whoever locked it: the inventory, or its host for all controllers."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import locks, own_uuids, what_to_create
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceIsLocked


@pytest.fixture(autouse=True)
def uuids_are_names(monkeypatch):
    monkeypatch.setattr(own_uuids, "instance_uuid", lambda _project, name: name)


def _record(uuid, role="OWN", **more):
    parts = {"phase": "active", "group": None, "project_id": "default", "foreign": False}
    return {"uuid": uuid, "name": uuid, "role": role, **parts, **more}


def _fleet(**hosts):
    return read_fleet(
        {name: {"document": {"uuid": "id-" + name, "instances": held}} for name, held in hosts.items()}, dict
    )


def _instances(names, fleet):
    flavor = {"vcpus": 1, "memory_mb": 512}
    specs = {
        name: {"uuid": name, "name": name, "project_id": "default", "group": None, "flavor": flavor} for name in names
    }
    return what_to_create.sort_out(specs, fleet)


@pytest.mark.parametrize("operation", ["delete", "keep_one", "reboot", "start", "stop", "update_disks"])
@pytest.mark.parametrize("locked, there", [(True, None), (None, "ann@ctl")], ids=["inventory", "host"])
def test_a_lock_stops_what_would_change_the_instance(operation, locked, there):
    places = _fleet(h1=[_record("a", locked=there)]).places["a"]
    with pytest.raises(InstanceIsLocked):
        locks.check(operation, "a", locked, places)


@pytest.mark.parametrize("operation", ["console", "lock", "recover", "unlock"])
def test_a_lock_stops_nobody_from_looking_unlocking_or_starting_it_after_a_power_cut(operation):
    locks.check(operation, "a", True, _fleet(h1=[_record("a", locked="ann@ctl")]).places["a"])


def test_create_ends_no_delete_of_a_locked_instance():
    here = _fleet(h1=[_record("a", phase="deleting"), _record("b"), _record("c", phase="deleting")])
    instances = _instances("abcd", here)
    locks.hold_locked(instances, {"a": "ann", "b": True, "c": None, "d": True}, here)
    assert {name: instance.get("state") for name, instance in instances.items()} == {
        "a": "failed",
        "b": "existing",
        "c": "existing",
        "d": None,
    }
    assert instances["a"]["error"]["code"] == "InstanceIsLocked"
    assert {name for name, instance in instances.items() if instance.get("locked")} == {"a", "b"}


def test_an_instance_that_is_locked_on_its_host_is_locked_for_create():
    here = _fleet(h1=[_record("a", locked="ann@ctl"), _record("b")])
    instances = _instances("ab", here)
    locks.hold_locked(instances, {}, here)
    assert [instances[name].get("locked") for name in "ab"] == ["ann@ctl", None]


def test_a_host_that_only_has_a_claim_locks_nobody_elses_instance():
    here = _fleet(h1=[_record("a", "CLAIM", locked="mallory")], h2=[_record("a")])
    instances = _instances("a", here)
    locks.hold_locked(instances, {}, here)
    assert instances["a"].get("locked") is None
    locks.check_unlocked_there("a", here.places["a"])


@pytest.mark.follows("unlock_in_inventory")
@pytest.mark.parametrize("locked, says", [("its owner tests", ": its owner tests"), (True, ""), ("yes", "")])
def test_a_lock_of_the_inventory_says_its_reason_its_place_and_how_to_lift_it(locked, says):
    with pytest.raises(InstanceIsLocked) as refused:
        locks.check("delete", "web1", locked, ())
    assert refused.value.message == "Instance web1 is locked by berth_locked of the inventory" + says
    assert refused.value.hint == fleet_hints.unlock_in_inventory("web1")
    locks.check("delete", "web1", None, ())
