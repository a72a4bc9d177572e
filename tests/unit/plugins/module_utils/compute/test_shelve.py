# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shelve and unshelve: the procedures, the host's part of them with real qcow2 files, and a backup host or a directory of the host."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from backup_case import make_place, needed
from instance_case import Killed
from shelve_case import (
    KVM,
    MIB,
    OF_BACKUP,
    OF_INSTANCE,
    ON,
    SHELVED,
    STORE,
    Fleet,
    backups,
    closed,
    make_room,
    make_web,
)
from small_disks import holds

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import acts as backup_acts
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import backup_chain, place, restore
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, gate, shelve
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import drained
from ansible_collections.berth.kvm.plugins.module_utils.conductor import locate
from ansible_collections.berth.kvm.plugins.module_utils.conductor.outcome_of_create import left_as_found
from ansible_collections.berth.kvm.plugins.module_utils.model import (
    fleet_hints,
    hints,
    operation_hints,
    quota,
    shelves,
    snapshot_hints,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState, TransferFailed

pytestmark = [needed, pytest.mark.long]
OFF = ("stopped", None, "shutdown", False)


@pytest.fixture
def kept_at(prepared, wanted, monkeypatch, tmp_path):
    """kept_at(host): the fleet of web1, whose backups are there."""
    case = make_web(prepared, wanted("web1"), monkeypatch, tmp_path)
    yield lambda host: Fleet(case, make_place(tmp_path, monkeypatch), host)
    closed(case.uuid)


@pytest.fixture
def web(kept_at):
    """Its backups are in a directory of its KVM host."""
    return kept_at(None)


@pytest.fixture(params=[STORE, None], ids=["backup host", "directory"])
def either(request, kept_at):
    return kept_at(request.param)


def has_its_disks(web):
    return holds(web.case.root, 1) and holds(web.case.root.parent / "data-db.qcow2", 2, MIB)


def is_safe(web):
    """What the guest wrote is in its disks, or in the backup that its record names."""
    shelved = shelves.of(web.case.record.spec)
    return has_its_disks(web) or bool(shelved) and shelved["backup"] in backups(web)


def test_a_shelved_instance_has_neither_guest_nor_disks_nor_room_and_unshelve_brings_all_of_it_back(either):
    before, files = either.case.record, either.files()
    assert either.good("shelve").changed and either.case.state() == SHELVED
    (backup,) = backups(either)
    assert either.case.record.spec["shelved"] == {"backup": backup, "to": either.to, "host": either.host}
    assert (
        either.case.domain is None
        and either.case.record.resources == {}
        and either.files() == ["attached.json", "owner", "seed.iso"]
    )
    assert not gate.is_permitted(either.case.uuid, either.case.host.run_dir)
    assert either.good("unshelve").changed and either.case.state() == ON and has_its_disks(either)
    assert either.files() == files and "shelved" not in either.case.record.spec and backups(either) == [backup]
    assert either.case.record.resources["memory_mb"] == before.resources["memory_mb"]
    events = [each["event"] for each in either.case.record.history]
    assert events[-5:] == ["stop", "backup", "shelve", "unshelve", "start"]


def test_both_change_nothing_when_they_are_run_again(web):
    assert not web.good("unshelve").changed
    web.good("shelve")
    assert not web.good("shelve").changed and web.asked == [(KVM, "shelved"), *web.asked[1:]] and len(backups(web)) == 1
    web.good("unshelve")
    assert not web.good("unshelve").changed and web.asked == [(KVM, "unshelved")]


def test_check_mode_changes_nothing_and_says_what_would_be(web):
    before = web.case.record
    assert web.good("shelve", dry=True).changed and (web.case.record, web.case.state()) == (before, ON)
    assert os.listdir(web.to) == []
    web.good("shelve")
    before = web.case.record
    assert not web.good("shelve", dry=True).changed and web.good("unshelve", dry=True).changed
    assert web.case.record == before and web.files() == ["attached.json", "owner", "seed.iso"]


def test_a_place_for_backups_that_is_not_there_is_found_while_the_guest_still_runs(web):
    web.to += "-gone"
    assert web.refused("shelve")["code"] == "BackupPlaceUnfit" and web.case.state() == ON
    assert web.refused("shelve", dry=True)["code"] == "BackupPlaceUnfit"


OF_HOST = (
    "stop", "stopped", "backup", "backup copy", "backup copied", "shelve begin", "shelve domain", "shelve disk", "shelve room",
)  # fmt: skip


@pytest.mark.parametrize("step", OF_HOST)
def test_a_shelve_that_is_killed_at_any_step_of_the_host_loses_nothing_and_the_next_ends_it(web, step):
    with pytest.raises(Killed):
        web.run("shelve", killed_at=step)
    assert is_safe(web)
    web.good("shelve")
    assert web.case.state() == SHELVED and is_safe(web) and web.files() == ["attached.json", "owner", "seed.iso"]


OF_WAY_BACK = (
    "unshelve room",
    "restore",
    "restore disk",
    "restored",
    "start define",
    "start permit",
    "start guest",
    "start done",
)


@pytest.mark.parametrize("step", OF_WAY_BACK)
def test_an_unshelve_that_is_killed_at_any_step_of_the_host_is_ended_by_the_next(web, step):
    web.good("shelve")
    with pytest.raises(Killed):
        web.run("unshelve", killed_at=step)
    assert is_safe(web) and len(backups(web)) == 1
    web.good("unshelve")
    assert web.case.state() == ON and has_its_disks(web)


@pytest.mark.parametrize("step", ["restore", "restore disk", "restored"])
def test_a_shelve_after_an_unshelve_that_was_killed_gives_the_room_back_and_keeps_the_backup(web, step):
    web.good("shelve")
    shelved = web.case.record.spec["shelved"]
    with pytest.raises(Killed):
        web.run("unshelve", killed_at=step)
    assert web.case.record.resources
    assert web.good("shelve").changed and web.case.state() == SHELVED and web.case.record.resources == {}
    assert (
        web.case.record.spec["shelved"] == shelved
        and web.files() == ["attached.json", "owner", "seed.iso"]
        and is_safe(web)
    )


def answers_of(web, operation):
    """How many answers a run of it gets."""
    web.good(operation)
    return len(web.asked)


def test_both_are_ended_by_the_next_run_whichever_answer_was_the_last_that_a_killed_one_got(either):
    in_all = answers_of(either, "shelve"), answers_of(either, "unshelve")
    for at in range(1, in_all[0]):
        with pytest.raises(Killed):
            either.run("shelve", killed_after=at)
        assert is_safe(either), at
        either.good("shelve")
        assert either.case.state() == SHELVED and is_safe(either), at
        back = 1 + at % (in_all[1] - 1)
        with pytest.raises(Killed):
            either.run("unshelve", killed_after=back)
        assert is_safe(either), back
        either.good("unshelve")
        assert either.case.state() == ON and has_its_disks(either), back


@pytest.mark.follows("shelve_again")
def test_one_that_was_changed_between_its_backup_and_its_shelving_keeps_its_disks(web):
    def go_on():
        if web.asked[1:]:
            acts.act(web.case.instance(), {**OF_INSTANCE, "state": "started"}, False)
            acts.act(web.case.instance(), {**OF_INSTANCE, "state": "stopped"}, False)

    web.before["shelved"] = go_on
    error = web.refused("shelve")
    assert (error["code"], error["hint"]) == ("ShelveNotPossible", operation_hints.shelve_again("web1"))
    assert has_its_disks(web) and web.case.state() == OFF
    web.before = {}
    web.good("shelve")


@pytest.mark.follows("shelve_again")
def test_one_that_runs_again_after_its_backup_keeps_its_disks(web):
    web.before["shelved"] = lambda: (
        web.asked[1:] and acts.act(web.case.instance(), {**OF_INSTANCE, "state": "started"}, False)
    )
    error = web.refused("shelve")
    assert (error["code"], error["hint"]) == ("InstanceInvalidState", operation_hints.shelve_again("web1"))
    assert has_its_disks(web) and web.case.state() == ON


def test_a_backup_that_fails_keeps_the_disks(web, monkeypatch):
    def fail(*_arguments):
        raise TransferFailed("the storage is full")

    monkeypatch.setattr(backup_chain, "read_back", fail)
    assert web.refused("shelve")["code"] in ("BackupFailed", "BackupNotKept") and has_its_disks(web)
    assert web.case.state() == OFF


def test_a_backup_that_cannot_be_restored_gives_the_room_back_and_the_instance_stays_shelved(either):
    either.good("shelve")
    shelved = either.case.record.spec["shelved"]
    path = place.Place(either.to, either.case.uuid).path(shelved["backup"], "root.qcow2")
    whole = open(path, "rb").read()
    open(path, "r+b").write(b"damaged")
    assert either.refused("unshelve")["code"] == "BackupDamaged"
    assert either.case.state() == SHELVED and either.case.record.resources == {}
    open(path, "wb").write(whole)
    either.good("unshelve")
    assert has_its_disks(either)


@pytest.mark.follows("make_room_to_unshelve")
def test_a_host_without_room_leaves_it_shelved_and_says_to_make_some(web, monkeypatch):
    web.good("shelve")
    before = web.case.record
    make_room(web.case.host, monkeypatch, 512)
    for dry in (True, False):
        error, nowhere = web.run("unshelve", dry=dry).errors
        assert (error["code"], error["hint"]) == ("ClaimFailed", operation_hints.make_room_to_unshelve("web1", "kvm1"))
        assert nowhere["code"] == "NoValidHost"
    assert web.case.record == before
    make_room(web.case.host, monkeypatch)
    web.good("unshelve")


def test_a_host_that_was_drained_takes_none_back(web):
    web.good("shelve")
    drained.drain(web.case.host.store, "memory")
    error = web.run("unshelve").errors[0]
    assert (error["code"], error.get("hint")) == ("HostDrained", None), "more room would not help"
    assert web.case.state() == SHELVED


def test_its_quota_counts_as_before_and_its_host_has_its_room(web):
    web.good("shelve")
    of = web.case.record.spec["flavor"]
    counted = shelves.reported(web.case.record)
    assert counted == {"shelved": {"vcpus": of["vcpus"], "memory_mb": of["memory_mb"]}}
    entry = {"uuid": web.case.uuid, "project_id": "default", "vcpus": 0, "memory_mb": 0, **counted}
    used = quota.usage([{"instances": [entry]}])["default"]
    assert (used["instances"], used["cores"], used["ram"]) == (1, of["vcpus"], of["memory_mb"])
    web.good("unshelve")
    assert shelves.reported(web.case.record) == {}


LEGAL = ("absent", "shelved", "unshelved", "recovered", "locked", "unlocked", "present")


@pytest.mark.parametrize("state", sorted(set(acts.ACTS) - {*LEGAL, "adopted", "left", "recorded"}))
def test_nothing_else_is_done_with_a_shelved_instance_and_unshelve_makes_it_active(web, state):
    web.good("shelve")
    before = web.case.record
    params = {**OF_INSTANCE, "state": state, "disks": [], "volumes": None, "reboot": "soft", "snapshot": "s", "rescue_image": {},
              "discards": [], "discards_root": None, "only_claim": False, "reason": "", "new_name": "web9"}  # fmt: skip
    for dry in (True, False):
        with pytest.raises(InstanceInvalidState, match="vm_state shelved_offloaded") as refused:
            acts.act(web.case.instance(), params, dry)
        assert refused.value.hint == hints.make_active("web1", "unshelve")
    assert web.case.record == before


def test_no_backup_of_it_is_made_so_no_retention_removes_the_one_that_it_is_in(web):
    web.good("shelve")
    with pytest.raises(InstanceInvalidState, match="vm_state shelved_offloaded"):
        backup_acts.outcome_of(web.case.instance(), {**OF_BACKUP, "state": "made", "to": web.to, "keep": 1}, False)
    assert is_safe(web)


def test_the_backup_of_a_shelved_instance_is_not_deleted(either):
    either.good("shelve")
    (backup,) = backups(either)
    state = "let_go" if either.host else "deleted"
    with pytest.raises(InstanceInvalidState, match="vm_state shelved_offloaded") as refused:
        backup_acts.outcome_of(
            either.case.instance(), {**OF_BACKUP, "state": state, "to": either.to, "backup": backup}, False
        )
    assert refused.value.hint == hints.make_active("web1", "unshelve") and is_safe(either)


def test_create_leaves_it_shelved_and_says_so_and_one_that_it_is_to_run_is_refused(web):
    web.good("shelve")
    before = web.case.record
    params = {
        **OF_INSTANCE,
        "state": "present",
        "power_state": None,
        "mend": True,
        "spec": web.case.spec,
        "seed": web.case.seed,
    }
    done = acts.outcome_of(web.case.instance(), params, False)
    assert not done["changed"] and web.case.record == before and web.case.domain is None
    assert left_as_found({"name": "web1", "result": done["instance"]}) == "shelved_offloaded; %s" % hints.run_it(
        "unshelve"
    )
    with pytest.raises(InstanceInvalidState) as refused:
        acts.outcome_of(web.case.instance(), {**params, "power_state": "running"}, False)
    assert refused.value.hint == hints.make_active("web1", "unshelve")
    assert web.case.record == before


def test_delete_removes_what_is_here_and_says_which_backup_stays(either):
    either.good("shelve")
    (backup,) = backups(either)
    where = "backup1:%s" % either.to if either.host else either.to
    assert shelve.kept(either.case.instance()) == ["backup %s in %s" % (backup, where)]
    assert acts.act(either.case.instance(), {**OF_INSTANCE, "state": "absent"}, False)
    assert either.case.record is None and not either.case.root.parent.exists() and backups(either) == [backup]


def test_snapshots_are_in_no_backup_so_it_is_refused_with_the_guest_running(web):
    entry = {"name": "before", "made_at": "2026-01-01T00:00:00Z", "size_gb": 0, "disks": ["root"]}
    web.case.instance().swap(web.case.record.replace(spec={**web.case.record.spec, "snapshots": [entry]}))
    error = web.refused("shelve")
    assert (error["code"], error["hint"]) == ("ShelveNotPossible", snapshot_hints.delete_one("web1", "before"))
    assert web.case.state() == ON


@pytest.mark.parametrize("task, ended_by", [("shelving_offloading", "shelve"), ("unshelving", "unshelve")])
def test_what_a_killed_run_left_is_ended_by_its_own_operation(task, ended_by):
    found = {"role": "OWN", "phase": "active", "task_state": task, "vm_state": "shelved_offloaded"}
    assert locate.to_end(found, "web1") == fleet_hints.end_it("web1", ended_by)


def test_the_doctor_does_not_miss_a_guest_that_is_shelved(web):
    web.good("shelve")
    assert list(doctor._domains(web.case.host, [web.case.record])) == []
    assert list(doctor._disks(web.case.host, [web.case.record])) == []


def test_what_was_restored_counts_as_used_before_the_guest_starts(web, monkeypatch):
    """A delete removes new volumes, which nobody has written to."""
    used = []
    assert not web.run("shelve").errors
    monkeypatch.setattr(
        restore, "volume", SimpleNamespace(mark_used=lambda _store, record: used.append(record.vm_state))
    )
    assert not web.run("unshelve").errors
    assert used == [SHELVED[0]]


def test_an_evacuation_from_a_backup_is_over_once_the_instance_is_shelved_on_purpose():
    """Else the next evacuation would start it."""
    made = shelves.made_again({}, {"backup": "b", "to": "/b", "host": None}, "lost")
    assert shelves.EVACUATED in shelves.ended(made)
    assert shelves.EVACUATED not in shelves.begun(shelves.ended(made), "b", "/b", None)
