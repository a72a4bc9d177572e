# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection is upgraded between two runs of a move: the records are those that the first version wrote, and what
this version makes of them is what it makes of its own."""

from __future__ import annotations

import copy
import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
from memory_names import D, S  # noqa: E402
from move_runs import Run, walk  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record  # noqa: E402

KINDS = ("resize", "migration", "live-migration")
# Parts of a move that the first version did not have, and one that it had.
SINCE = ("shared", "waits_since", "new_resources")
EARLIER = {"confirm_by": None}


def moments(kind):
    """The worlds in which the controller of a move may be gone, one of each kind."""
    world, controller, seen = memory.World(kind=kind), memory_controller.Controller("resize", "op0"), set()
    while controller.state == "run":
        controller.advance(world)
        if world.key() not in seen and any(record and record["op"] for record in world.records.values()):
            seen.add(world.key())
            yield copy.deepcopy(world)


def of_the_first_version(world):
    world = copy.deepcopy(world)
    for record in filter(None, world.records.values()):
        if record["migration"]:
            known = {part: value for part, value in record["migration"].items() if part not in SINCE}
            record["migration"] = {**known, **EARLIER}
    return world


def brought(world, actions):
    """What each run ends with, and what there is then; each step checks that there is one guest with all its writes."""
    ends = []
    for action in actions:
        run = walk(world, Run(action))
        ends.append((run.state, run.error))
    parts = ("role", "phase", "op", "vm_state")
    held = {name: record and [record[part] for part in parts] for name, record in world.records.items()}
    return ends, held, world.guest, world.disks, world.kept


@pytest.mark.parametrize("actions", [("move", "confirm"), ("revert",), ("delete",)], ids=" ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_a_move_that_the_first_version_began_ends_as_one_of_this_version(kind, actions):
    number = 0
    for number, world in enumerate(moments(kind), 1):
        expected = brought(copy.deepcopy(world), actions)
        assert brought(of_the_first_version(world), actions) == expected, (number, world.records)
        assert "RecordInvalid" not in str(expected)
    assert number > 1


@pytest.mark.parametrize(("action", "owner"), [("move", D), ("revert", S)])
def test_a_cold_move_whose_copy_the_first_version_had_verified_goes_on_or_back(action, owner):
    """This version has that phase for live migrations only."""
    found = 0
    for world in moments("resize"):
        record = world.records[D]
        if record and (record["role"], record["phase"]) == ("IN", "incoming"):
            found += 1
            record.update(phase="verified", migration={**record["migration"], "verified": 1})
            old = of_the_first_version(world)
            run = walk(old, Run(action))
            assert (run.state, old.records[owner]["role"]) == ("done", "OWN"), run.error
    assert found > 2


def test_what_a_later_version_adds_to_a_record_or_to_its_move_is_kept_in_every_step():
    for world, action in itertools.product(moments("resize"), ("move", "revert")):
        here = copy.deepcopy(world)
        for record in filter(None, here.records.values()):
            record["later"] = {"a": 1}
            record["migration"] = record["migration"] and {**record["migration"], "later": 2}
        walk(here, Run(action))
        left = [record for record in here.records.values() if record]
        assert left and any(record.get("later") == {"a": 1} for record in left), here.records
        assert all(record["migration"].get("later") == 2 for record in left if record["migration"]), here.records
        assert all(Record.from_dict(record).to_dict() == record for record in left)
