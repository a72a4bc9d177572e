# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode of a move is refused where the real run would be before it changed anything, and changes nothing itself."""

from __future__ import annotations

import copy
import types

import pytest
from memory_walks import D, S, memory, memory_controller, memory_names, walk

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host, rehearsal, storage
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError


class Rehearsal(memory_controller.Controller):
    """A playbook with --check: each leg is a module of its own, which knows only what it is sent."""

    def __init__(self, action):
        super().__init__(action, "op-" + action)
        self.legs, self.would_change = [], False

    def _step(self, world):
        given = dict(self.given)
        uuid, steps, token, peer = (given.pop(name) for name in ("uuid", "steps", "token", "peer"))
        self.steps, self.legs = (), [*self.legs, (self.host, tuple(steps))]
        changed, self.said, self.token = rehearsal.rehearse(world.host(self.host), uuid, steps, token, peer, **given)
        self.leg_changed, self.would_change = changed, self.would_change or changed


def state_of(world):
    return copy.deepcopy({name: value for name, value in vars(world).items() if name != "nonces"})


def rehearsed(world, action):
    before, controller = state_of(world), Rehearsal(action)
    while controller.state == "run":
        controller.advance(world)
    assert state_of(world) == before
    return controller


ACTIONS = [
    ("resize", [], "resize"),
    ("resize", ["resize"], "confirm"),
    ("resize", ["resize"], "revert"),
    ("resize", ["resize"], "delete"),
    ("live-migration", [], "resize"),
    ("here", [], "resize"),
    ("here", ["resize"], "confirm"),
    ("here", ["resize"], "revert"),
    ("here", ["resize"], "delete"),
]


def world_of(kind, before, **more):
    world = memory.World(kind=kind, **more)
    for each in before:
        assert walk(world, each).state == "done"
    return world


@pytest.mark.parametrize("more", [{}, {"shared": True}, {"volume": True}], ids=str)
@pytest.mark.parametrize("kind, before, action", ACTIONS)
def test_check_mode_of_what_would_be_done_is_well_and_changes_nothing(kind, before, action, more):
    found = rehearsed(world_of(kind, before, **more), action)
    assert (found.state, found.error) == ("done", None) and found.would_change


@pytest.mark.parametrize("kind, before, action", ACTIONS)
@pytest.mark.parametrize("where", [S, D])
def test_a_snapshots_layer_refuses_check_mode_where_it_refuses_the_run(kind, before, action, where):
    if (kind, where) == ("live-migration", D):
        return  # the destination has no disk yet
    worlds = [world_of(kind, before), world_of(kind, before)]
    for world in worlds:
        world.changed = where
    real, dry = walk(worlds[0], action), rehearsed(worlds[1], action)
    assert (dry.state, dry.error) == (real.state, real.error)


def refusing(name):
    """What the hosts' own checks say, each by the effect that asks it."""

    def refuse(self, *_given, **_options):
        raise BerthError("%s refuses" % name)

    return refuse


@pytest.mark.parametrize(
    "kind, effect",
    [("resize", "check_destination"), ("resize", "check_room"), ("resize", "allocate"), ("live-migration", "allocate")],
)
def test_a_destination_refuses_check_mode_as_it_refuses_the_claim(kind, effect, monkeypatch):
    monkeypatch.setattr(memory.Effects, effect, refusing(effect))
    found = rehearsed(memory.World(kind=kind), "resize")
    assert found.state == "failed" and effect + " refuses" in found.error


def test_the_source_judges_in_check_mode_what_the_destination_says_of_the_running_guest(monkeypatch):
    monkeypatch.setattr(memory.Effects, "inspect_live", lambda self, record, guest: {"problems": ["no such CPU"]})
    found = rehearsed(memory.World(kind="live-migration"), "resize")
    assert found.error.startswith("MigrationPreCheckError") and "no such CPU" in found.error


def test_of_a_crashed_guest_check_mode_of_a_confirm_is_refused():
    world = world_of("resize", ["resize"])
    world.crashed = D
    assert rehearsed(world, "confirm").error.startswith("GuestCrashed")


def test_every_look_of_check_mode_is_an_effect_that_there_is():
    assert {name for name in rehearsal.LOOKS if not hasattr(moving_host.Effects, name)} == set()


def test_shared_storage_is_known_before_anything_is_marked(tmp_path):
    record = types.SimpleNamespace(uuid=memory_names.UUID, migration={"source": {"uuid": "host-S"}})
    assert not storage.is_owned_by_source(str(tmp_path), record)
    (tmp_path / "instances" / record.uuid).mkdir(mode=0o711, parents=True)
    storage.owner.write(str(tmp_path), record.uuid, "host-S")
    assert storage.is_owned_by_source(str(tmp_path), record)
