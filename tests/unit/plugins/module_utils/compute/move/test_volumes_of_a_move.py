# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance with a volume goes to another host on one storage: real records, real marks and owners, a fake libvirt. Whenever
the run is killed, at most one host owns the volume, and the next run comes to the end (C26)."""

from __future__ import annotations

import os
from pathlib import Path

import memory_names as memory
import pytest
from memory_names import D, S
from volume_move_case import DB, KILLS, THERE, UUIDS, file_of, files, kill_everywhere, owner_file

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner, volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksOfAnotherHost
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import set_aside, startable, update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live_checks, volumes
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, volume_move
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import VolumeStore, change
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, IN, OUT, OWN
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import (
    VolumeElsewhere,
    VolumeInUse,
    VolumeNotFound,
)


def test_a_volume_goes_with_its_instance_and_stays_where_it_is(fleet):
    before = file_of(fleet).read_bytes()
    fleet.went("resize")
    assert fleet.roles() == {S: (OUT, OUT), D: (OWN, OWN)}
    assert fleet.volume(D).generation > fleet.volume(S).generation
    fleet.went("confirm")
    assert fleet.roles() == {D: (OWN, OWN)} and fleet.volume(D).phase == ACTIVE
    assert file_of(fleet).read_bytes() == before and files(fleet) == ["disk.qcow2", "owner"]
    assert fleet.went("confirm") is False


def test_a_revert_gives_the_volume_back_and_forgets_nothing(fleet):
    fleet.run("resize")
    fleet.went("revert")
    assert fleet.roles() == {S: (OWN, OWN)}
    assert fleet.volume(S).spec["instance"]["name"] == memory.NAME and files(fleet) == ["disk.qcow2", "owner"]
    fleet.went("resize")
    fleet.went("confirm")
    assert fleet.roles() == {D: (OWN, OWN)}


@pytest.mark.long
@pytest.mark.parametrize("name", KILLS)
def test_whenever_a_run_is_killed_one_host_owns_the_volume_and_the_next_run_ends_it(name, make_fleet, kill_before):
    def look(fleet, _ended):
        assert file_of(fleet).exists()

    kill_everywhere(name, make_fleet, kill_before, look)


def test_a_destination_expects_a_volume_as_late_as_its_source_says_and_never_as_earlier(fleet):
    """The source owned it again since, with a later generation: what the destination counts on from must not be behind."""
    fleet.run("resize", until=lambda: fleet.volume(D) is not None)
    store, record = VolumeStore.beside(fleet.host(D).store), fleet.held(D)
    for said in ([7, 1], [5, 1]):
        volume_move.expect(store, record, [{"uuid": DB, "generation": said}])
        assert list(fleet.volume(D).generation) == [7, 1]


def test_no_host_owns_a_volume_whose_file_is_not_there(fleet):
    """Its record would say that the volume is whole, and the other host could remove what it kept."""
    fleet.run("resize", until=lambda: fleet.volume(D) is not None)
    file_of(fleet).unlink()
    there = fleet.host(D)
    with pytest.raises(VolumeNotFound):
        volumes.Volumes(there.compute, there.identity, fleet.held(D)).own()
    assert fleet.volume(D).role == IN


@pytest.mark.parametrize("of, uuid", [(paths.instance, memory.UUID), (paths.volume, DB)])
def test_a_host_whose_records_are_old_moves_nothing_of_another_hosts(fleet, of, uuid):
    """Records that were put back from a backup, while the host that has the instance by now is silent."""
    owner.write(fleet.host(S).compute.pool, uuid, UUIDS[D], of)
    done = fleet.run("resize")
    assert ("VolumeElsewhere" if uuid == DB else "DisksOfAnotherHost") in done.error
    assert fleet.held(S).op is None and owner.read(fleet.host(S).compute.pool, uuid, of) == UUIDS[D]


def test_a_move_of_what_does_not_have_its_volume_begins_nothing(fleet):
    """So update_disks, which the hint names, can do its work."""
    store = VolumeStore.beside(fleet.host(S).store)
    change(store, store.read(DB), "detach", None)
    done = fleet.run("resize")
    assert "VolumeNotAttached" in done.error and fleet.held(S).op is None
    web = Instance(fleet.host(S).compute, memory.UUID, timeout=1)
    update_disks.claim_volumes(web, web.at_rest("update_disks"), False, None)
    fleet.went("resize")


@pytest.mark.follows("forget_old_volume")
def test_an_old_record_of_the_volume_on_the_destination_is_told_and_goes_by_hand(fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "check", lambda: None)  # two say that it is theirs, as one is from a backup
    free = dict(fleet.volume(S).spec, instance=None)
    VolumeStore.beside(fleet.host(D).store).restore(fleet.volume(S).replace(spec=free))
    done = fleet.run("resize")
    assert "VolumeConflict: %s already has a record of volume db" % os.uname().nodename in done.error
    assert volume_hints.forget_old_volume("db", DB) in done.error
    (Path(fleet.host(D).store.state_dir) / "volumes" / DB / "record.json").rename(tmp_path / "kept")
    fleet.went("resize")
    fleet.went("confirm")
    assert fleet.roles() == THERE


def test_a_destination_that_owned_the_volume_before_the_move_keeps_its_record_and_file_when_the_move_is_given_up(
    fleet, monkeypatch
):
    """Which of the two is the newer one is for a person to say: both come from a backup, or one does."""
    monkeypatch.setattr(fleet, "check", lambda: None)  # two say that it is theirs
    monkeypatch.setattr(volumes.storage, "is_shared", lambda _record: False)
    before = fleet.volume(S)
    VolumeStore.beside(fleet.host(D).store).restore(before)
    done = fleet.run("resize")
    assert "VolumeConflict" in done.error and fleet.host(D).store.read(memory.UUID) is None, "the move is given up"
    assert fleet.volume(D).generation == before.generation and file_of(fleet).exists()


@pytest.mark.follows("forget_or_have_volume")
def test_a_volume_of_a_host_that_is_gone_for_good_is_had_by_who_gets_its_record(fleet):
    fleet.went("resize")
    fleet.went("confirm")
    assert Instance(fleet.host(D).compute, memory.UUID, timeout=1).absent() is True
    backup = fleet.volume(D)
    VolumeStore.beside(fleet.host(S).store).restore(backup)
    with pytest.raises(
        VolumeElsewhere, match="the record of %s is out of date" % fleet.host(S).connection.getHostname()
    ) as caught:
        volume.delete(fleet.host(S).compute, DB)
    assert "run rm %s" % owner_file(fleet) in caught.value.hint
    Path(owner_file(fleet)).unlink()
    assert volume.delete(fleet.host(S).compute, DB) is True


def test_a_lost_destination_that_comes_back_starts_nothing_and_its_delete_leaves_the_volume(fleet):
    """The source has the volume again; what the destination knows of it is old, and counts for nothing."""
    fleet.run("resize")
    source, there = fleet.host(S), fleet.host(D)
    volume_of_s = VolumeStore.beside(source.store)
    volumes.Volumes(source.compute, source.identity, source.store.read(memory.UUID)).own()
    assert volume_of_s.read(DB).role == OWN and volume_of_s.read(DB).generation > fleet.volume(D).generation
    record = there.store.read(memory.UUID)
    with pytest.raises(VolumeElsewhere) as caught:
        startable.check(there.compute, record)
    assert caught.value.hint == volume_hints.forget_or_have_volume("db", DB, owner_file(fleet))
    for way in (there.effects.start, there.effects.resume):
        with pytest.raises(VolumeElsewhere):
            way(record)
    goes = dict(record.spec, volumes=[dict(record.spec["volumes"][0], delete_on_termination=True)])
    volume.release(there.compute, record.replace(spec=goes))
    assert fleet.volume(D) is None and file_of(fleet).exists() and fleet.volume(S).role == OWN


@pytest.mark.follows("forget_or_have_volume")
def test_what_an_old_backup_says_of_a_volume_gives_it_to_nobody(fleet, tmp_path):
    """The record of the source is put back after the volume went to the destination, was kept there and is free."""
    old = Path(fleet.host(S).store.state_dir) / "volumes" / DB / "record.json"
    data = old.read_bytes()
    fleet.run("resize")
    fleet.run("confirm")
    assert Instance(fleet.host(D).compute, memory.UUID, timeout=1).absent() is True
    assert fleet.roles() == {D: (None, OWN)} and fleet.volume(D).spec["instance"] is None
    old.parent.mkdir(mode=0o700, exist_ok=True)
    old.write_bytes(data)
    old.chmod(0o600)
    with pytest.raises(
        VolumeElsewhere, match="the record of %s is out of date" % fleet.host(S).connection.getHostname()
    ) as caught:
        volume.delete(fleet.host(S).compute, DB)
    assert (
        caught.value.hint == volume_hints.forget_or_have_volume("db", DB, owner_file(fleet)) and file_of(fleet).exists()
    )
    old.rename(tmp_path / "kept")
    assert volume.delete(fleet.host(S).compute, DB) is False
    assert volume.delete(fleet.host(D).compute, DB) is True and not file_of(fleet).exists()


THIRD = "31111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def test_a_side_of_a_move_uses_no_disks_that_a_third_host_owns(fleet):
    """One side was given up as lost, the other moved the instance on; now that one is given up, and the first is back."""
    fleet.run("resize")
    pool, sides = fleet.host(D).compute.pool, {name: fleet.host(name) for name in (S, D)}
    token = {"op": fleet.held(D).op, "attempt": fleet.held(D).migration["attempt"]}
    domain_of_d = sides[D].compute.connection.domains[memory.UUID]
    domain_of_d.destroy()
    owner.write(pool, memory.UUID, THIRD)
    before = {name: fleet.held(name) for name in sides}
    record = fleet.held(D)
    for way in (sides[D].effects.start, sides[D].effects.resume):
        with pytest.raises(DisksOfAnotherHost):
            way(record)
    for name, step in ((S, "reclaim"), (D, "erase"), (S, "erase")):
        with pytest.raises(DisksOfAnotherHost):
            table.run(sides[name], memory.UUID, step, token, lost=True)
    assert {name: fleet.held(name) for name in sides} == before and owner.read(pool, memory.UUID) == THIRD
    assert not domain_of_d.isActive() and file_of(fleet).exists()


def test_a_volume_is_no_strange_disk_to_a_live_migration_and_another_file_is(fleet):
    host = fleet.host(S)
    record, found = host.store.read(memory.UUID), host.compute.connection.domains[memory.UUID]
    pool = str(host.compute.pool)
    assert live_checks.disk_problems(found.xml, record, pool, False) == []
    changed = found.xml.replace(DB, "2" * 8 + DB[8:])
    assert "a disk that is not the instance's own" in " ".join(live_checks.disk_problems(changed, record, pool, False))


def test_a_copy_with_old_records_that_is_set_aside_leaves_the_volume_to_the_host_that_has_it(fleet):
    """Else two hosts would call it theirs, and no playbook would touch it any more."""
    old = {Path(store.state_dir) / store.below / uuid: uuid for store, uuid in records_of(fleet, S)}
    data = {path: (path / "record.json").read_bytes() for path in old}
    fleet.went("resize")
    fleet.went("confirm")
    for path in old:
        path.mkdir(mode=0o700, exist_ok=True)
        (path / "record.json").write_bytes(data[path])
        (path / "record.json").chmod(0o600)
    assert fleet.roles() == {S: (OWN, OWN), D: (OWN, OWN)}
    set_aside.set_aside(Instance(fleet.host(S).compute, memory.UUID, timeout=1), 1)
    assert fleet.roles() == THERE and file_of(fleet).exists()


def records_of(fleet, name):
    store = fleet.host(name).store
    return [(store, memory.UUID), (VolumeStore.beside(store), DB)]


def test_no_other_instance_gets_a_volume_that_is_on_its_way(fleet, wanted):
    fleet.run("resize")
    spec, _seed = wanted("other")
    spec.update(pool="berth", volumes=[{"name": "db", "size_gb": 2, "delete_on_termination": False, "slot": 0}])
    for name in (S, D):
        error = claim.claim_all(fleet.host(name).compute, [{"spec": spec, "token": "t2"}])[0]["error"]
        assert error["code"] == VolumeInUse.__name__, name
        with pytest.raises(VolumeInUse):
            volume.delete(fleet.host(name).compute, DB)
