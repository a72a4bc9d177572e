# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance with a volume goes to another host that has a storage of its own: the file is copied, the source's stays until the
move is over. Whenever the run is killed, one whole volume is left, on the host that owns it (C26)."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import memory_names as memory
import pytest
from memory_names import D, S
from volume_move_case import BACK, DB, KILLS, THERE, WAITS, Effects, elsewhere, kill_everywhere

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, new_volume, volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host, volumes
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, room
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import VolumeStore
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import IN, OUT, OWN
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import VolumeInUse

REAL = moving_host.Effects
MANIFEST = moving_host.disks.manifest
QCOW2 = b"QFI\xfb" + (3).to_bytes(4, "big") + bytes(16) + (2 << 30).to_bytes(8, "big") + bytes(72)
BEFORE, AFTER = b"as it was before the move", b"what the guest wrote after it"


class Copying(Effects):
    """The volumes are copied by the functions that ship."""

    disks, receive, send, complete = REAL.disks, REAL.receive, REAL.send, REAL.complete

    def allocate(self, spec, limits):
        return REAL.allocate(self, spec, limits)


@pytest.fixture
def apart(make_fleet, tmp_path, monkeypatch):
    """apart(): a fleet whose hosts have a storage each; of the instance's disks there is the volume alone."""
    wires, number = {}, itertools.count()
    plans = SimpleNamespace(plan=lambda _spec: [], VOLUME=disk.VOLUME, GIB=disk.GIB, DATA=disk.DATA)

    def open_targets(_uuid, wanted, _key, address, attempt):
        for entry in wanted:
            wires[entry["name"]] = Path(moving_host.disks.paths.incoming_file(entry["path"], attempt))
            wires[entry["name"]].write_bytes(b"")
        return [{"name": entry["name"], "host": address, "port": 1} for entry in wanted]

    def send(_uuid, found, targets, *_more):
        assert sorted(target["name"] for target in targets) == sorted(entry["name"] for entry in found)
        for entry in found:
            wires[entry["name"]].write_bytes(Path(entry["path"]).read_bytes())
        return {"bytes": 1, "seconds": 1}

    def make(**more):
        fleet = make_fleet(**more)
        for host in fleet.hosts.values():
            host.effects.__class__ = Copying
        elsewhere(fleet, tmp_path / str(next(number)))
        at(fleet, S).write_bytes(BEFORE)
        fleet.options = {"revert_volumes": True}
        return fleet

    monkeypatch.setattr(moving_host.disks, "planned", lambda _spec: [])
    monkeypatch.setattr(moving_host.disks, "disks", plans)
    monkeypatch.setattr(moving_host.disks, "manifest", MANIFEST)
    monkeypatch.setattr(moving_host.disks, "virtual_size", lambda _path, _form: 2 << 30)
    monkeypatch.setattr(moving_host.transfer, "allocated", lambda _disk: 0)
    monkeypatch.setattr(moving_host.transfer, "open_targets", open_targets)
    monkeypatch.setattr(moving_host.transfer, "send", send)
    monkeypatch.setattr(room, "allocate", lambda *_: {})
    monkeypatch.setattr(Copying, "address", lambda _self: "127.0.0.1")
    return make


def at(fleet, name):
    return Path(fleet.host(name).compute.pool_of(fleet.volume(S) or fleet.volume(D))) / "volumes" / DB / "disk.qcow2"


def names(fleet, name):
    directory = at(fleet, name).parent
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else None


def test_the_volume_is_copied_and_the_source_keeps_its_own_until_the_confirm(apart):
    fleet = apart()
    fleet.went("resize")
    assert fleet.roles() == WAITS and at(fleet, D).read_bytes() == at(fleet, S).read_bytes() == BEFORE
    at(fleet, D).write_bytes(AFTER)
    fleet.went("confirm")
    assert fleet.roles() == THERE and names(fleet, S) is None
    assert at(fleet, D).read_bytes() == AFTER and names(fleet, D) == ["disk.qcow2", "owner"]
    assert fleet.went("confirm") is False


def test_a_revert_gives_the_sources_copy_back_and_removes_the_other(apart):
    fleet = apart()
    fleet.went("resize")
    at(fleet, D).write_bytes(AFTER)
    there = at(fleet, D)
    fleet.went("revert")
    assert fleet.roles() == BACK and at(fleet, S).read_bytes() == BEFORE and not there.parent.exists()
    assert names(fleet, S) == ["disk.qcow2", "owner"]


@pytest.mark.follows("keep_writes_or_revert")
@pytest.mark.parametrize("kind", ["resize", "migration"])
def test_a_revert_that_would_lose_writes_is_refused_before_the_guest_stops_and_both_ways_out_keep_what_they_say(
    kind, apart
):
    for way in ("keep", "lose"):
        fleet = apart()
        fleet.kind = kind
        fleet.went("resize")
        at(fleet, D).write_bytes(AFTER)
        there, fleet.options = at(fleet, D), {}
        for _again in (1, 2):
            done = fleet.run("revert")
            assert (
                "VolumeWritesLost" in done.error
                and fleet.roles() == WAITS
                and fleet.host(D).effects.running(memory.UUID)
            )
            assert volume_hints.keep_writes_or_revert(memory.NAME, kind == "resize") in done.error
        if way == "keep":
            fleet.went("confirm")
            assert fleet.roles() == THERE and at(fleet, D).read_bytes() == AFTER
        else:
            fleet.options = {"revert_volumes": True}
            fleet.went("revert")
            assert fleet.roles() == BACK and at(fleet, S).read_bytes() == BEFORE and not there.parent.exists()


def test_a_move_that_fails_before_the_guest_runs_there_is_given_up_without_being_asked(apart):
    fleet = apart()
    fleet.options = {}
    fleet.run("resize", until=lambda: names(fleet, D))
    fleet.went("revert")
    assert fleet.roles() == BACK and at(fleet, S).read_bytes() == BEFORE and not names(fleet, D)


def test_a_revert_that_was_begun_with_the_option_goes_on_without_it(apart):
    fleet = apart()
    fleet.went("resize")
    fleet.run("revert", until=lambda: fleet.held(D).phase == "reverting")
    fleet.options = {}
    fleet.went("revert")
    assert fleet.roles() == BACK


def whole(fleet, ended):
    """Whoever owns the volume has all of it, and nobody has nothing of it."""
    own = [name for name in fleet.hosts if fleet.volume(name) and fleet.volume(name).role == OWN]
    complete = [name for name in fleet.hosts if at(fleet, name).is_file() and at(fleet, name).read_bytes()]
    assert set(own) <= set(complete) and len(own) <= 1
    if not own:  # between the two: the source keeps its own until the other owns it
        assert fleet.volume(S).role == OUT and S in complete or fleet.volume(D).role == OUT and S in complete
    if ended:
        here = [host for host in fleet.hosts if names(fleet, host)]
        assert here == ([S, D] if fleet.roles() == WAITS else list(fleet.roles()))


@pytest.mark.parametrize("name", KILLS)
def test_whenever_a_run_is_killed_one_whole_volume_is_left_and_the_next_run_ends_it(name, apart, kill_before):
    kill_everywhere(name, apart, kill_before, whole)


def test_a_delete_between_the_two_keeps_the_volume_that_arrived(apart):
    """The source has let go, the destination has not taken over: the copy is all that the purge of the source leaves."""
    fleet = apart()
    fleet.run("resize", until=lambda: fleet.held(S).role == OUT)
    assert fleet.roles() == {S: (OUT, OUT), D: (IN, IN)} and not at(fleet, D).exists()
    fleet.went("delete")
    assert fleet.roles() == {D: (None, OWN)} and at(fleet, D).read_bytes() == BEFORE and names(fleet, S) is None
    assert volume.delete(fleet.host(D).compute, DB) is True and fleet.roles() == {}


def test_a_delete_without_the_lost_source_makes_no_volume_of_half_a_copy(apart):
    fleet = apart()
    fleet.run("resize", until=lambda: names(fleet, D))
    record = fleet.held(D)
    token = {"op": record.op, "attempt": record.migration["attempt"]}
    table.run(fleet.host(D), memory.UUID, "erase", token, {"role": None, "lost": True}, lost=True)
    assert fleet.volume(D) is None and names(fleet, D) is None
    assert fleet.volume(S).role == OWN and at(fleet, S).read_bytes() == BEFORE


def test_a_destination_that_holds_files_of_the_volume_is_refused_and_they_stay(apart):
    fleet = apart()
    at(fleet, D).parent.mkdir(parents=True)
    at(fleet, D).write_bytes(AFTER)
    done = fleet.run("resize")
    assert "MigrationPreCheckError" in done.error and fleet.roles() == BACK and at(fleet, D).read_bytes() == AFTER
    assert fleet.host(S).effects.running(memory.UUID)


def test_a_host_that_sees_the_volume_and_not_the_instance_copies_nothing_over_it(apart, monkeypatch):
    """A mount of volumes/ alone."""
    fleet = apart()
    at(fleet, D).parent.mkdir(parents=True)
    at(fleet, D).write_bytes(BEFORE)
    monkeypatch.setattr(volumes.storage, "is_one", lambda _pool, uuid, *_: uuid == DB)
    done = fleet.run("resize")
    assert "VolumeStays" in (done.error or "it was moved") and fleet.roles() == BACK


@pytest.mark.follows("grow_record")
def test_a_volume_that_was_grown_by_hand_is_refused_before_the_guest_stops_and_goes_when_its_record_says_so(
    apart, monkeypatch
):
    fleet = apart()
    monkeypatch.setattr(moving_host.disks, "virtual_size", lambda _path, _form: (2 << 30) + 1)
    done = fleet.run("resize")
    assert "CannotResizeDisk" in done.error and volume_hints.grow_record(memory.NAME, "db", 3) in done.error
    assert fleet.host(S).effects.running(memory.UUID) and at(fleet, S).read_bytes() == BEFORE
    fleet.went("revert")
    at(fleet, S).write_bytes(QCOW2)
    grown = [dict(fleet.held(S).spec["volumes"][0], size_gb=3)]
    source = fleet.host(S).compute
    new_volume.claim_growth(source, {"name": "db", "size_gb": 3, "instance": memory.UUID}, "t9")
    new_volume.confirm_growth(source, DB, "t9")
    update_disks(Instance(source, memory.UUID, timeout=1), [], grown)
    fleet.wanted = fleet.held(S).spec
    fleet.went("resize")
    assert fleet.roles() == WAITS


def test_a_source_that_offers_no_volume_is_refused_before_the_guest_stops(apart, monkeypatch):
    fleet = apart()
    monkeypatch.setattr(Copying, "disks", lambda _self, _record: [])
    done = fleet.run("resize")
    assert "does not offer volume db" in done.error and fleet.host(S).effects.running(memory.UUID)


def test_the_room_of_the_volume_is_claimed_with_the_move_and_counts_by_its_own_record(apart, monkeypatch):
    fleet, asked = apart(), []

    def allocate(_ledger, request, _limits):
        asked.append(request.data_gb)
        return {"vcpus": 1, "memory_mb": 64, "disk_gb": 3, "resources": {"DISK_GB": 3}}

    monkeypatch.setattr(claim.Ledger, "allocate", allocate)
    fleet.went("resize")
    assert asked == [2] and fleet.held(D).resources["disk_gb"] == 1 and fleet.volume(D).resources["disk_gb"] == 2
    assert not fleet.held(D).spec["volumes"][0].get("new")


def test_a_run_that_goes_on_with_a_killed_claim_asks_for_the_room_of_the_volume_again(apart, monkeypatch):
    fleet = apart()
    fleet.run("resize", until=lambda: fleet.volume(D))
    store = VolumeStore.beside(fleet.host(D).store)
    store.compare_and_swap(store.read(DB), None)
    monkeypatch.setattr(room, "allocate", lambda _host, _record, more_gb: refuse(more_gb))
    done = fleet.run("resize")
    assert "no room for 2" in done.error and fleet.volume(D) is None


def refuse(more_gb):
    raise BerthError("no room for %d" % more_gb)


def test_no_host_gives_the_volume_to_another_instance_while_the_resize_waits(apart):
    fleet = apart()
    fleet.went("resize")
    for name in (S, D):
        with pytest.raises(VolumeInUse):
            volume.delete(fleet.host(name).compute, DB)
