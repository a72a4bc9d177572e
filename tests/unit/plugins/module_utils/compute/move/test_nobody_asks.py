# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run that asked for a copy has ended in the middle of it: the guest goes on on the source, and the next run begins anew."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402
from move_runs import Run, check_whole, walk  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import RunEnded  # noqa: E402
from ansible_collections.berth.kvm.plugins.modules import migration  # noqa: E402

S, D = memory_names.S, memory_names.D


def before(step, vm_state="active", shared=False):
    """A resize whose controller dies right before the source does ``step`` -> (world, controller)"""
    world, controller = memory.World(vm_state=vm_state, shared=shared), memory_controller.Controller("resize", "op0")
    while not controller.is_before(step):
        controller.advance(world)
    world.hung_up = True
    return world, controller


def attempted(world, controller, step):
    """What the module on the source does, which knows of nothing but its own output."""
    peer = controller.given["peer"]
    return migration.attempt(
        world.host(S), memory_names.UUID, step, controller.token, peer, sent=controller.said.get("sent")
    )


@pytest.mark.parametrize("shared", [False, True], ids=["local", "shared"])
def test_a_guest_is_not_stopped_for_a_run_that_has_ended(shared):
    world, controller = before("freeze", shared=shared)
    with pytest.raises(RunEnded):
        attempted(world, controller, "freeze")
    assert world.guest[S] == memory_names.ON and world.records[S]["phase"] == "resizing"


@pytest.mark.parametrize("shared", [False, True], ids=["local", "shared"])
def test_the_source_does_not_let_go_where_nobody_goes_on_and_its_guest_runs_again(shared):
    world, controller = before("release", shared=shared)
    assert world.guest[S] == memory_names.OFF
    with pytest.raises(RunEnded):
        attempted(world, controller, "release")
    world.check()
    assert world.guest[S] == memory_names.ON and world.records[S]["role"] == "OWN"
    world.write()
    with pytest.raises(BerthError):
        # Whatever still carries the old attempt does nothing any more.
        table.run(world.host(S), memory_names.UUID, "release", controller.token, controller.given["peer"], sent=1)
    assert world.guest[S] == memory_names.ON


@pytest.mark.parametrize("action, owner", [("move", D), ("revert", S), ("delete", None)])
def test_the_next_run_brings_what_it_is_run_for(action, owner):
    world, controller = before("release")
    with pytest.raises(RunEnded):
        attempted(world, controller, "release")
    world.hung_up = False
    world.write()
    again = walk(world, Run(action))
    assert again.state == "done", again.error
    if owner == D:
        assert world.records[D]["phase"] == "resized" and world.guest == {S: memory_names.OFF, D: memory_names.ON}
        assert walk(world, Run("confirm")).state == "done"
    if owner:
        check_whole(world, owner)
    else:
        assert not any(world.records.values())


def test_a_stopped_instance_stays_stopped():
    world, controller = before("release", vm_state="stopped")
    with pytest.raises(RunEnded):
        attempted(world, controller, "release")
    assert world.guest[S] == memory_names.OFF and world.records[S]["phase"] == "resizing"


def test_a_run_that_took_the_move_up_since_is_not_disturbed():
    world, controller = before("release")
    again = Run("move")
    while world.records[S]["migration"]["attempt"] == controller.token["attempt"]:
        again.advance(world)
    held = world.key()
    with pytest.raises(BerthError):
        attempted(world, controller, "release")
    assert world.key() == held


def test_a_hang_of_the_guests_own_qemu_is_no_reason_to_stop_it(monkeypatch):
    from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import GuestHung
    from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host, precopy
    from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

    def fails(*_given):
        raise TransferFailed("the copy has made no progress for 600 s")

    def hung(_record):
        raise GuestHung("its QEMU process is stopped")

    effects = moving_host.Effects(SimpleNamespace(connection=None))
    monkeypatch.setattr(moving_host.disks, "manifest", lambda *_given, **_more: [])
    monkeypatch.setattr(precopy, "is_possible", lambda *_given: True)
    monkeypatch.setattr(precopy, "copy_running", fails)
    monkeypatch.setattr(effects, "pool_path", lambda _record: "/pool")
    given = None, [{"name": "root"}], "k", {"copy_while_running": True}
    monkeypatch.setattr(effects, "check_movable", lambda _record: None)
    assert effects.presend(*given) == {"failed": "the copy has made no progress for 600 s"}
    monkeypatch.setattr(effects, "check_movable", hung)
    with pytest.raises(GuestHung):
        effects.presend(*given)
