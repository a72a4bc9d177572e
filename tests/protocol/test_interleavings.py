# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing is lost and nothing runs twice, whatever runs at the same time and wherever it dies (I1-I5, I12)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import explorer  # noqa: E402
import memory  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common, resize  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps.table import STEPS  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError  # noqa: E402

CASES = {
    "resize, guest writes, host crash": dict(actions=["resize"], kills=1, crashes=1, writes=2),
    "resize of a stopped instance": dict(actions=["resize"], kills=1, crashes=1, vm_state="stopped"),
    "two resizes": dict(actions=["resize", "resize"], kills=1),
    "resize against abort, guest writes": dict(actions=["resize", "abort"], kills=1, writes=1),
    "resize against abort, host crash": dict(actions=["resize", "abort"], kills=0, crashes=1),
    "revert against confirm": dict(actions=["resize", "confirm", "revert"], kills=1, after={1: 0, 2: 0}),
    "revert against confirm, host crash": dict(actions=["resize", "confirm", "revert"], kills=0, crashes=1, after={1: 0, 2: 0}),  # noqa: E501
    "revert, guest writes": dict(actions=["resize", "revert"], kills=1, crashes=1, writes=2, after={1: 0}),
    "two reverts": dict(actions=["resize", "revert", "revert"], kills=1, after={1: 0, 2: 0}),
    "delete during resize": dict(actions=["resize", "delete"], kills=1, crashes=1),
    "delete against revert": dict(actions=["resize", "revert", "delete"], kills=1, after={1: 0, 2: 0}),
    "delete against confirm": dict(actions=["resize", "confirm", "delete"], kills=1, after={1: 0, 2: 0}),
    "here": dict(actions=["resize"], kind="here", kills=1, crashes=1, writes=1),
    "here, revert against confirm": dict(actions=["resize", "confirm", "revert"], kind="here", kills=1, crashes=1, after={1: 0, 2: 0}),  # noqa: E501
    "here, two resizes against abort": dict(actions=["resize", "abort"], kind="here", kills=1),
    "grows": dict(actions=["resize"], kind="here", grows=True, kills=1, crashes=1, writes=1),
    "grows, revert against confirm": dict(actions=["resize", "confirm", "revert"], kind="here", grows=True, kills=1, crashes=1, after={1: 0, 2: 0}),  # noqa: E501
    "grows, two resizes against abort": dict(actions=["resize", "abort"], kind="here", grows=True, kills=1),
    "grows, delete": dict(actions=["resize", "delete"], kind="here", grows=True, kills=1),
    "shared, guest writes, host crash": dict(actions=["resize"], shared=True, kills=1, crashes=1, writes=2),
    "shared, resize against abort": dict(actions=["resize", "abort"], shared=True, kills=1, writes=1),
    "shared, revert against confirm": dict(actions=["resize", "confirm", "revert"], shared=True, kills=1, after={1: 0, 2: 0}),  # noqa: E501
    "shared, revert, guest writes": dict(actions=["resize", "revert"], shared=True, kills=1, crashes=1, writes=2, after={1: 0}),  # noqa: E501
    "shared, live": dict(actions=["resize"], kind="live-migration", shared=True, kills=1, crashes=1, writes=2),
    "shared, live against abort": dict(actions=["resize", "abort"], kind="live-migration", shared=True, kills=1),
    "volume, two resizes": dict(actions=["resize", "resize"], shared=True, volume=True, kills=1),
    "volume, host crash": dict(actions=["resize"], shared=True, volume=True, kills=1, crashes=1, writes=1),
    "volume, resize against abort": dict(actions=["resize", "abort"], shared=True, volume=True, kills=1),
    "volume, revert against confirm": dict(actions=["resize", "confirm", "revert"], shared=True, volume=True, kills=1, after={1: 0, 2: 0}),  # noqa: E501
    "volume, delete during resize": dict(actions=["resize", "delete"], shared=True, volume=True, kills=1, crashes=1),
    "volume, delete against revert": dict(actions=["resize", "revert", "delete"], shared=True, volume=True, kills=1, after={1: 0, 2: 0}),  # noqa: E501
    "live of a paused instance": dict(actions=["resize"], kind="live-migration", vm_state="paused", kills=1, crashes=1),
    "live of a paused instance against abort": dict(actions=["resize", "abort"], kind="live-migration", vm_state="paused", kills=1),
    "shared, live of a paused instance": dict(actions=["resize"], kind="live-migration", vm_state="paused", shared=True, kills=1, crashes=1),  # noqa: E501
    "volume, live": dict(actions=["resize"], kind="live-migration", shared=True, volume=True, kills=1, crashes=1),
    "volume, live against abort": dict(actions=["resize", "abort"], kind="live-migration", shared=True, volume=True, kills=1),
    "volume, live beside who takes over": dict(actions=["resize", "take over"], kind="live-migration", shared=True, volume=True, kills=1),  # noqa: E501
    "volume on its way, two resizes": dict(actions=["resize", "resize"], volume=True, kills=1),
    "volume on its way, host crash": dict(actions=["resize"], volume=True, kills=1, crashes=1, writes=1),
    "volume on its way, resize against abort": dict(actions=["resize", "abort"], volume=True, kills=1),
    "volume on its way, revert against confirm": dict(actions=["resize", "confirm", "revert"], volume=True, kills=1, after={1: 0, 2: 0}),  # noqa: E501
    "volume on its way, delete during resize": dict(actions=["resize", "delete"], volume=True, kills=1, crashes=1),
    "volume on its way, delete against revert": dict(actions=["resize", "revert", "delete"], volume=True, kills=1, after={1: 0, 2: 0}),  # noqa: E501
    "volume on its way, live": dict(actions=["resize"], kind="live-migration", volume=True, kills=1, crashes=1, writes=1),
    "volume on its way, live against abort": dict(actions=["resize", "abort"], kind="live-migration", volume=True, kills=1),
    "volume on its way, live against delete": dict(actions=["resize", "delete"], kind="live-migration", volume=True, kills=1),
    "volume on its way, live beside who takes over": dict(actions=["resize", "take over"], kind="live-migration", volume=True, kills=1),  # noqa: E501
    "volume on its way, live, source's libvirtd dies at Finish": dict(actions=["resize", "abort"], kind="live-migration", volume=True, kills=1, lose="halted"),  # noqa: E501
    "volume, here": dict(actions=["resize", "revert"], kind="here", volume=True, kills=1, after={1: 0}),
    "live, lost reply": dict(actions=["resize"], kind="live-migration", kills=1, crashes=1, writes=1, lose=True),
    "live, source's libvirtd dies at Finish": dict(actions=["resize"], kind="live-migration", kills=1, crashes=1, writes=1, lose="halted"),  # noqa: E501
    "live, source's libvirtd dies at Finish, against abort": dict(actions=["resize", "abort"], kind="live-migration", kills=1, lose="halted"),  # noqa: E501
    "live, source's libvirtd dies at Finish, shared": dict(actions=["resize"], kind="live-migration", shared=True, kills=1, writes=1, lose="halted"),  # noqa: E501
    "live": dict(actions=["resize"], kind="live-migration", kills=1, crashes=1, writes=2),
    "live twice": dict(actions=["resize", "resize"], kind="live-migration", kills=1),
    "live beside who takes over": dict(actions=["resize", "take over"], kind="live-migration", kills=1),
    "live, against abort, beside who takes over": dict(actions=["resize", "abort", "take over"], kind="live-migration", kills=0),  # noqa: E501
    "live, against delete, beside who takes over": dict(actions=["resize", "delete", "take over"], kind="live-migration", kills=0),  # noqa: E501
    "live, host crash, beside who takes over": dict(actions=["resize", "take over"], kind="live-migration", kills=0, crashes=1),  # noqa: E501
    "live against abort": dict(actions=["resize", "abort"], kind="live-migration", kills=1),
    "live against delete": dict(actions=["resize", "delete"], kind="live-migration", kills=1),
}  # fmt: skip


def explore(
    actions,
    vm_state="active",
    kind="resize",
    shared=False,
    volume=False,
    grows=False,
    lose=False,
    unpaused=False,
    walks=None,
    **options,
):
    """All interleavings, or only some ``walks``."""

    def make():
        world = memory.World(vm_state=vm_state, kind=kind, shared=shared, volume=volume, grows=grows)
        world.lose_finish = lose
        if unpaused:
            world.unpaused = True
        return world

    return explorer.sample(make, actions, walks, 1, **options) if walks else explorer.explore(make, actions, **options)


@pytest.mark.parametrize("name", CASES)
def test_every_interleaving_keeps_the_invariants(name):
    states, violation, path = explore(**CASES[name])
    assert violation is None, "%s after %s" % (violation, path)
    assert states > 20


def without_fencing(monkeypatch):
    def fenced(host, uuid, token, roles):
        record = common.existing(host, uuid)
        if record.migration is None:
            raise BerthError("it is in no move")
        return record

    for step in STEPS.values():
        monkeypatch.setitem(step.__globals__, "fenced", fenced)


def without_sending(monkeypatch):
    monkeypatch.setattr(resize, "check_sent", lambda record, token, peer, sent: None)
    monkeypatch.setitem(STEPS, "send", lambda *args, **options: False)
    monkeypatch.setattr(memory.Effects, "complete", lambda self, record: None)


def without_freeze(monkeypatch):
    def freeze(host, uuid, token, _peer=None, **_options):
        record = common.fenced(host, uuid, token, ("OWN",))
        common.put(host, record, common.moved(record, frozen=token["attempt"]).replace(phase="frozen"))

    monkeypatch.setitem(STEPS, "freeze", freeze)
    monkeypatch.setattr(memory.Effects, "running", lambda self, uuid: False)


def with_an_early_owner(monkeypatch):
    def receive(host, uuid, token, _peer=None, **_options):
        record = common.fenced(host, uuid, token, ("IN",))
        common.put(host, record, record.replace(role="OWN", phase="resized"))

    monkeypatch.setitem(STEPS, "receive", receive)


def without_tombstones(monkeypatch):
    monkeypatch.setattr(memory.Store, "is_buried", lambda self, op: False)


def with_a_start_of_any_record(monkeypatch):
    def start(host, uuid, token, _peer=None, **_options):
        host.effects.start(common.existing(host, uuid))
        return True

    monkeypatch.setitem(STEPS, "start", start)


def with_an_early_finish(monkeypatch):
    original = STEPS["finish"]
    monkeypatch.setitem(STEPS, "purge", lambda *args, **kw: False)
    monkeypatch.setitem(STEPS, "finish", lambda h, u, t, peer=None, **kw: original(h, u, t, {"role": None}, **kw))


def with_a_purge_of_shared_disks(monkeypatch):
    monkeypatch.setattr(memory.Effects, "leaves_the_disks", lambda self, record: False)


def without_letting_go_of_volumes(monkeypatch):
    monkeypatch.setattr(memory.Effects, "let_go_of_volumes", lambda self, record: None)


def with_volumes_that_are_not_taken_back(monkeypatch):
    monkeypatch.setattr(memory.Effects, "take_back", lambda self, record: None)


MUTANTS = {
    "an older attempt is not fenced": (without_fencing, dict(actions=["resize", "abort"], kills=0)),
    "the source lets go of what it has not sent": (without_sending, dict(actions=["resize"], kills=1)),
    "the guest is not stopped": (without_freeze, dict(actions=["resize"], kills=0, writes=2)),
    "the destination acquires first": (with_an_early_owner, dict(actions=["resize"], kills=0)),
    "no tombstones": (without_tombstones, dict(actions=["resize", "abort"], kills=1)),
    "anybody starts": (with_a_start_of_any_record, dict(actions=["resize", "abort"], kills=1)),
    "a purge removes shared disks": (with_a_purge_of_shared_disks, dict(actions=["resize", "confirm"], shared=True, kills=0, after={1: 0})),  # noqa: E501
    "the source keeps its volumes": (without_letting_go_of_volumes, dict(actions=["resize"], shared=True, volume=True, kills=0)),
    "a revert leaves the volumes": (with_volumes_that_are_not_taken_back, dict(actions=["resize", "revert"], shared=True, volume=True, kills=0, after={1: 0})),  # noqa: E501
    "finished before the other side is purged": (with_an_early_finish, dict(actions=["resize", "confirm"], kills=0, after={1: 0})),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_protocol_without_this_rule_is_caught(name, monkeypatch):
    break_it, case = MUTANTS[name]
    break_it(monkeypatch)
    violation = explore(**case)[1]
    assert violation is not None
    assert "too many states" not in str(violation)


def test_a_live_migration_that_does_not_arrive_paused_is_caught():
    assert explore(["resize"], kind="live-migration", kills=0, lose=True, unpaused=True)[1] is not None
