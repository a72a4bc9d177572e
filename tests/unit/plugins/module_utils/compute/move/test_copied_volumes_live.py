# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running instance with a volume goes to another host that has a storage of its own: libvirt copies the volume with the other
disks. Its file is there, and empty, before it has arrived: so that it exists says nothing (C26)."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import memory_names as memory  # noqa: E402
from fake_libvirt import BY_USER, MIGRATED, PAUSED  # noqa: E402
from memory_names import D, S  # noqa: E402
from test_copied_volumes import AFTER, BEFORE, REAL, Copying, apart, at, names  # noqa: E402, F401  pylint: disable=unused-import
from volume_move_case import BACK, THERE  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import IN, OUT, OWN  # noqa: E402


class Live(Copying):
    """Libvirt's part: what is written to the volume on the source goes along until the guest has left."""

    has_left, arrived, prepare_live = REAL.has_left, REAL.arrived, REAL.prepare_live
    receive_seed, send_seed, resume = REAL.receive_seed, REAL.send_seed, REAL.resume
    there = None

    def describe_live(self, record):
        return {}

    def inspect_live(self, record, guest):
        return {"problems": []}

    def check_live(self, record, seen, options, there=None):
        return []

    def follow_live(self, record, options):
        return False

    def migrate_live(self, record, targets, options, there=None):
        if self.has_left(record.uuid):
            return
        here, guest = (host.connection.lookupByUUIDString(record.uuid) for host in (self, self.there))
        at(self.fleet, S).write_bytes(AFTER)
        at(self.fleet, D).write_bytes(AFTER)
        guest.now, guest.reason = PAUSED, BY_USER
        here.end(MIGRATED)

    def channel_to_destination(self, uuid, op):
        return None

    def channel_to_source(self, uuid, op):
        return SimpleNamespace(receive=lambda is_wanted: None)


@pytest.fixture
def running(apart, monkeypatch):  # noqa: F811
    """running(): as apart(), and the instance is to be moved while it runs."""
    monkeypatch.setattr(moving_host.live.transfer, "make_empty", lambda path, _form, _size: Path(path).write_bytes(b""))

    def make(**more):
        fleet = apart(**more)
        fleet.kind = "live-migration"
        for host in fleet.hosts.values():
            host.effects.__class__ = Live
            host.effects.fleet = fleet
        fleet.host(S).effects.there = fleet.host(D).effects
        return fleet

    return make


def test_the_volume_arrives_with_all_that_was_written_and_the_source_keeps_nothing(running):
    fleet = running()
    fleet.went("resize")
    assert fleet.roles() == THERE and at(fleet, D).read_bytes() == AFTER and names(fleet, S) is None
    assert names(fleet, D) == ["disk.qcow2", "owner"] and fleet.host(D).effects.running(memory.UUID)


def whole(fleet, ended):
    """Whoever owns the volume has all of it; one host at the most owns it, and between two the source's file stays."""
    own = [name for name in fleet.hosts if fleet.volume(name) and fleet.volume(name).role == OWN]
    complete = [name for name in fleet.hosts if at(fleet, name).is_file() and at(fleet, name).read_bytes()]
    assert set(own) <= set(complete) and len(own) <= 1
    assert own or S in complete
    if ended:
        assert [host for host in fleet.hosts if names(fleet, host)] == list(fleet.roles())


THEN = {"resize": [THERE], "abort": [BACK, THERE], "delete": [{S: (None, OWN)}, {D: (None, OWN)}]}


@pytest.mark.long
@pytest.mark.parametrize("then", THEN)
def test_whenever_a_run_is_killed_one_whole_volume_is_left_and_the_next_run_ends_it(then, running, kill_before):  # noqa: F811
    ends = []
    for number in itertools.count():
        fleet = running()
        if not kill_before(number, lambda fleet=fleet: fleet.run("resize")):
            break
        fleet.check()
        whole(fleet, False)
        if not any(held.op for held in map(fleet.held, fleet.hosts) if held):
            continue  # it has not begun, or is over
        fleet.went(then)
        ends.append(fleet.roles())
        assert ends[-1] in THEN[then], "killed before write %d" % number
        whole(fleet, True)
    assert all(end in ends for end in THEN[then])


def lost(fleet):
    """Delete it on the destination, whose source is lost."""
    record = fleet.held(D)
    token = {"op": record.op, "attempt": record.migration["attempt"]}
    table.run(fleet.host(D), memory.UUID, "erase", token, {"role": None, "lost": True}, lost=True)


def test_a_delete_without_the_lost_source_makes_no_volume_of_an_empty_file(running):
    fleet = running()
    fleet.run("resize", until=lambda: names(fleet, D))
    assert at(fleet, D).read_bytes() == b"" and fleet.roles() == {S: (OWN, OWN), D: (IN, IN)}
    lost(fleet)
    assert fleet.volume(D) is None and names(fleet, D) is None


def test_a_delete_without_the_lost_source_keeps_the_volume_of_a_guest_that_has_arrived(running):
    fleet = running()
    fleet.run("resize", until=lambda: fleet.host(D).effects.arrived(fleet.held(D)) if fleet.held(D) else False)
    assert fleet.held(D).migration["verified"] is None
    lost(fleet)
    assert fleet.roles()[D] == (OWN, OWN) and at(fleet, D).read_bytes() == AFTER


def test_a_delete_between_the_two_keeps_the_volume_that_arrived(running):
    fleet = running()
    fleet.run("resize", until=lambda: fleet.held(S).role == OUT)
    assert fleet.roles() == {S: (OUT, OUT), D: (IN, IN)}
    fleet.went("delete")
    assert fleet.roles() == {D: (None, OWN)} and at(fleet, D).read_bytes() == AFTER and names(fleet, S) is None


def test_a_volume_that_was_grown_by_hand_is_refused_before_anything_of_it_is_copied(running, monkeypatch):
    fleet = running()
    monkeypatch.setattr(moving_host.disks, "virtual_size", lambda _path, _form: (2 << 30) + 1)
    done = fleet.run("resize")
    assert "CannotResizeDisk" in done.error and at(fleet, S).read_bytes() == BEFORE
    assert fleet.host(S).effects.running(memory.UUID)
