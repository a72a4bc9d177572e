# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record that was lost is taken back from the definition of its guest; what never was is not made up."""

from __future__ import annotations

import contextlib
import json
import os
import shutil

import fake_libvirt
import pytest
from instance_case import Case
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksOfAnotherHost, GuestRunsAlready
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import (
    registry_mark,
    state_directory,
    whereabouts,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.record_copy import RecordUnrecoverable, take_back
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.record import RecordInvalid

MOVED_BY = {"op": "ab" * 16, "epoch": 2}


@pytest.fixture
def web(prepared, wanted):
    state_directory.establish(prepared.store)
    case = Case(prepared, wanted("web1"))
    case.make()
    return case


def lose_record(case):
    shutil.rmtree("%s/instances/%s" % (case.host.store.state_dir, case.uuid))


@pytest.mark.parametrize("on", [True, False], ids=["running", "off"])
def test_a_lost_record_is_taken_back_in_a_later_epoch_than_anybody_has_heard_of(web, on):
    if not on:
        web.instance().stopped(0)
    before, starts = web.record, web.domain.starts
    lose_record(web)
    assert take_back(web.instance(), [7, 3], dry=True) and web.record is None
    assert take_back(web.instance(), [7, 3])
    after = web.record
    same = ("uuid", "name", "project_id", "role", "phase", "spec", "resources", "vm_state", "power_state")
    assert {name: getattr(after, name) for name in same} == {name: getattr(before, name) for name in same}
    assert (after.generation, web.domain.starts) == ([8, 0], starts)
    assert take_back(web.instance(), [7, 3]) is False
    assert web.instance().stopped(0) is on
    assert web.instance().started() is True


@pytest.mark.parametrize("dry", [False, True])
def test_a_run_without_a_registry_takes_no_record_back_on_a_host_that_belongs_to_one(web, dry):
    lose_record(web)
    with web.host.store.host_lock():
        registry_mark.keep(web.host.store, {"kind": "etcd", "incarnation": "one", "revision": 7})
    with pytest.raises(registry_mark.RegistryDiffers):
        take_back(web.instance(), [7, 3], dry)
    assert web.record is None


def test_a_record_that_others_saw_later_is_taken_for_the_newest_by_a_persons_word(web):
    assert take_back(web.instance(), web.record.generation) is False
    assert take_back(web.instance(), [4, 0])
    assert web.record.generation == [5, 0]


@pytest.mark.follows("restore_backup_of_record")
def test_without_a_guest_or_a_copy_nothing_is_made_up(web, wanted, tmp_path):
    backup = shutil.copytree(web.host.store.state_dir, tmp_path / "backup")
    lose_record(web)
    web.domain.xml = web.domain.xml.replace("record>", "note>")
    with pytest.raises(RecordUnrecoverable, match="from a backup") as refused:
        take_back(web.instance(), [0, 0])
    assert refused.value.hint == state_hints.restore_backup_of_record(web.uuid)
    domain = web.host.connection.domains.pop(web.uuid)
    with pytest.raises(RecordUnrecoverable, match="from a backup"):
        take_back(web.instance(), [0, 0])
    assert web.record is None
    web.host.connection.domains[web.uuid] = domain
    other = Case(web.host, wanted("made-since-the-backup"))
    other.make()
    shutil.copytree(backup / "instances" / web.uuid, os.path.join(web.host.store.state_dir, "instances", web.uuid))
    assert take_back(web.instance(), [7, 3]) and web.record.generation == [8, 0]
    state_directory.check(web.host.store)
    assert other.record.phase == "active", "a backup of all of it would have taken the records of others back with it"


@pytest.mark.follows("restore_damaged_record")
def test_a_damaged_record_is_restored_or_moved_away_and_taken_back(web, tmp_path):
    path = os.path.join(web.host.store.state_dir, "instances", web.uuid, "record.json")
    backup = shutil.copy(path, tmp_path / "backup")
    for nonsense in ("", "{", '{"schema": 1}'):
        with open(path, "w", encoding="ascii") as stream:
            stream.write(nonsense)
        with pytest.raises(RecordInvalid) as refused:
            web.host.store.records()
        assert web.uuid in refused.value.message and "instances/%s " % web.uuid in refused.value.hint
        with pytest.raises(RecordInvalid):
            take_back(web.instance(), [0, 0])
    shutil.copy(backup, path)
    before, starts = web.record, web.domain.starts
    os.rename(path, tmp_path / "away")
    assert take_back(web.instance(), before.generation) and web.domain.starts == starts
    assert web.record.spec == before.spec and web.record.generation > before.generation


@pytest.mark.parametrize("role, phase", [("OWN", "building"), ("CLAIM", "claimed")])
def test_a_guest_that_runs_is_not_made_anew_by_a_record_from_before_it_was_made(role, phase, web, tmp_path):
    """Its root disk would be made anew. What the error says brings the record back."""
    path = os.path.join(web.host.store.state_dir, "instances", web.uuid, "record.json")
    with open(path, encoding="utf-8") as stream:
        record = json.load(stream)
    record.update(role=role, phase=phase, generation=[1, 0], vm_state="building", power_state="nostate")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(record, stream)
    starts = web.domain.starts
    with pytest.raises(GuestRunsAlready, match="old copy") as refused:
        web.instance().started("t1", web.seed)
    assert "restore_record" in refused.value.hint
    if role == "OWN":  # a claim is dropped
        os.rename(path, tmp_path / "away")
    assert take_back(web.instance(), [1, 0]) and web.domain.starts == starts
    assert (web.record.role, web.record.phase, web.root.exists()) == ("OWN", "active", True)


def test_disks_of_another_host_are_not_taken_back(web):
    lose_record(web)
    owner.write(str(web.host.pool), web.uuid, "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a")
    with pytest.raises(DisksOfAnotherHost):
        take_back(web.instance(), [0, 0])
    assert web.record is None


def test_a_guest_that_a_move_brought_here_is_taken_back_with_its_move_ended_only_if_its_disks_were_taken_over(web):
    """Until then the source has all that is to be had of them."""
    lose_record(web)
    os.remove(os.path.join(str(web.host.pool), "instances", web.uuid, owner.FILE))
    with pytest.raises(RecordUnrecoverable, match="had not been taken over here") as refused:
        take_back(web.instance(), [2, 0], moved_by=MOVED_BY)
    assert refused.value.hint == state_hints.restore_backup_of_record(web.uuid) and web.record is None
    owner.write(str(web.host.pool), web.uuid, web.host.identify())
    assert take_back(web.instance(), [2, 0], moved_by=MOVED_BY)
    assert (web.record.generation, web.record.lost_moves, web.record.op) == ([3, 0], ["ab" * 16], None)


@pytest.mark.follows("restore_backup_of_record")
@pytest.mark.parametrize("dry", [True, False], ids=["check", "run"])
def test_a_guest_from_before_its_move_is_not_what_the_move_brought_here(web, dry):
    """As from a backup of the guests and their disks, of an earlier stay: what the source kept is newer, and would go."""
    lose_record(web)
    with pytest.raises(RecordUnrecoverable, match="guest of web1 here is from before its move") as refused:
        take_back(web.instance(), [3, 0], dry, moved_by={**MOVED_BY, "epoch": 3})
    assert refused.value.hint == state_hints.restore_backup_of_record(web.uuid) and web.record is None
    assert take_back(web.instance(), [3, 0], moved_by={**MOVED_BY, "epoch": 2}), (
        "it was defined before the source let go"
    )


def test_a_guest_without_a_record_can_be_deleted_and_the_host_says_that_it_is_gone(web):
    lose_record(web)
    assert web.instance().absent(after=[3, 4]) is True
    assert (web.domain, web.root.exists()) == (None, False)
    assert whereabouts.recall(web.host.store, [web.uuid])[web.uuid]["gone"] == [3, 4]
    assert web.instance().absent(after=[3, 4]) is False


@pytest.fixture
def typo(prepared, wanted):
    """An instance whose record names a pool that the host does not have."""
    spec, seed = wanted("web1")
    case = Case(prepared, ({**spec, "pool": "no-such-pool"}, seed))
    real = case.host.connection.storagePoolLookupByName

    def look_up(name):
        if name == "no-such-pool":
            raise fake_libvirt.libvirtError(fake_libvirt.CONSTANTS["VIR_ERR_NO_STORAGE_POOL"], "no such pool")
        return real(name)

    case.host.connection.storagePoolLookupByName = look_up
    return case


def test_a_build_in_a_pool_that_is_not_there_leaves_nothing(typo):
    with pytest.raises(Exception, match="storage pool no-such-pool"):
        typo.make()
    assert typo.record is None


def test_an_instance_in_a_pool_that_is_not_there_can_be_deleted(typo):
    typo.claim()
    plant(typo.host.store, typo.record.next(role="OWN", phase="deleting", vm_state="building", generation=[1, 5]))
    assert typo.instance().absent() is True
    assert typo.record is None


def test_a_guest_is_not_removed_where_its_pool_is_not_there_with_its_disks(web, monkeypatch):
    """The pool is only not defined at this moment: its disks would be left for ever."""
    monkeypatch.setattr(type(web.host), "has_pool", lambda _host, _name: False)
    monkeypatch.setattr(web.host, "pool_path", lambda _name: {}["no such pool"], raising=False)
    spec = dict(web.record.spec, pool="gone-pool")
    web.host.store.compare_and_swap(web.record, web.record.next(spec=spec, phase="deleting"))
    with contextlib.suppress(KeyError):
        web.instance().absent(changed_disks=True)
    assert web.domain is not None and web.record is not None
