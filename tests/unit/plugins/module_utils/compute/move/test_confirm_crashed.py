# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A confirmation removes the way back: of a guest that is known to have crashed only when that is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import GuestCrashed, GuestNotSeen  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import confirm as confirm_step  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import hints  # noqa: E402

S, D = memory_names.S, memory_names.D


def moved(kind="resize", crashed=True, window=0):
    """(world, its owner); the guest has crashed there."""
    world, controller = memory.World(kind=kind), memory_controller.Controller("resize", "op0")
    controller.options = {"confirm_window": window}
    while controller.state == "run":
        controller.advance(world)
    owner = S if kind == "here" else D
    world.crashed = owner if crashed else None
    return world, owner


def confirm(world, owner, **options):
    record = world.records[owner]
    token = {"op": record["op"], "attempt": record["migration"]["attempt"]}
    return table.run(world.host(owner), memory_names.UUID, "confirm", token, {"role": None}, **options)


@pytest.mark.parametrize("kind", ["resize", "here"])
def test_a_crashed_guest_is_not_confirmed_and_nothing_is_changed(kind):
    world, owner = moved(kind)
    before = world.key()
    with pytest.raises(
        GuestCrashed, match="the guest of vm .* on %s has crashed: said so. Nothing was confirmed" % owner
    ):
        confirm(world, owner)
    assert world.key() == before
    _changed, said = confirm(world, owner, crashed=True)
    assert said["phase"] == "confirming" and said["health"] == {"state": "crashed", "seen": "said so"}


def test_the_timer_never_confirms_a_crashed_guest_whatever_is_set(monkeypatch):
    monkeypatch.setattr(
        memory.Host, "since_boot", lambda host: {"boot_id": "the only one", "uptime": host.world.uptime}
    )
    monkeypatch.setattr(memory.World, "uptime", 0, raising=False)
    world, owner = moved(window=1)
    world.uptime = 10
    with pytest.raises(GuestCrashed):
        confirm(world, owner, when_due=True, crashed=True)
    world.crashed = None
    assert confirm(world, owner, when_due=True)[1]["phase"] == "confirming"


@pytest.mark.follows("guest_not_seen")
@pytest.mark.parametrize("seen", ["not looked at", "no panic seen", "off"])
@pytest.mark.parametrize("was_on", [True, False])
def test_the_timer_keeps_the_way_back_of_a_guest_that_nobody_saw_come_up(seen, was_on, monkeypatch):
    """Such as one in the shell of its firmware. A person's word confirms it; one that was off before has nothing to show."""
    monkeypatch.setattr(
        memory.Host, "since_boot", lambda host: {"boot_id": "the only one", "uptime": host.world.uptime}
    )
    monkeypatch.setattr(memory.World, "uptime", 0, raising=False)
    world, owner = moved(crashed=False, window=1)
    world.uptime, world.seen = 10, seen
    if not was_on:
        monkeypatch.setattr(confirm_step, "was_on", lambda record: False)
        assert confirm(world, owner, when_due=True)[1]["phase"] == "confirming"
        return
    before = world.key()
    with pytest.raises(GuestNotSeen, match="it is unknown whether the guest of vm .* came up: %s" % seen) as kept:
        confirm(world, owner, when_due=True)
    assert world.key() == before and kept.value.hint == hints.guest_not_seen("vm")
    assert confirm(world, owner)[1]["phase"] == "confirming"


def test_what_is_known_of_a_guest_is_said_when_it_is_confirmed():
    world, owner = moved(crashed=False)
    assert confirm(world, owner)[1]["health"]["state"] == "answers"


def test_a_confirm_that_was_begun_is_ended_whatever_became_of_the_guest():
    world, owner = moved(crashed=False)
    confirm(world, owner)
    world.crashed = owner
    assert confirm(world, owner)[1]["phase"] == "confirming"


def test_with_the_source_lost_there_is_no_way_back_to_keep():
    world, owner = moved()
    assert confirm(world, owner, lost=True)[1]["health"]["state"] == "crashed"


def test_a_live_migration_of_a_crashed_guest_ends_like_any_other():
    world, controller = memory.World(kind="live-migration"), memory_controller.Controller("resize", "op0")
    world.crashed = D
    while controller.state == "run":
        controller.advance(world)
    assert controller.state == "done" and world.records[D]["phase"] == "active"
