# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record that somebody edited into a move that it has no part in, or whose move lacks a part, is an error that names the
instance, the field and what to do: no playbook ends in a traceback."""

from __future__ import annotations

import itertools
import json
import os

import memory_names as memory
import pytest
from memory_names import D, S
from plain_data import ABSENT, changed

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import summary
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common, table
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import STAGES
from ansible_collections.berth.kvm.plugins.module_utils.model.record import RecordInvalid

MOVING = sorted(state for state, stage in STAGES.items() if stage.cold or stage.live)
NONSENSE = [ABSENT, None, "x", -1, True, [], {"a": 1}]


def write(fleet, name, record):
    path = os.path.join(fleet.host(name).store.state_dir, "instances", memory.UUID, "record.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(record, stream)


def test_a_phase_of_a_move_without_a_move_is_refused_with_what_to_do(fleet):
    good = fleet.held(S).to_dict()
    for (role, phase), missing in itertools.product(MOVING, ("op", "migration")):
        write(fleet, S, {**good, "op": "ab" * 16, "migration": None, "role": role, "phase": phase, missing: None})
        told = "%s.* %s .* %s, .* %s is null" % (memory.UUID, memory.NAME, phase, missing)
        with pytest.raises(RecordInvalid, match=told) as refused:
            fleet.held(S)
        assert "restore_record" in refused.value.hint


def places(record):
    """The parts of a move, and those of its requests that make disks."""
    for part, value in sorted(record["migration"].items()):
        yield ("migration", part)
        if isinstance(value, dict):
            yield from (("migration", part, key) for key in value)
            yield from (("migration", part, "flavor", key) for key in value.get("flavor") or ())


def uses(host, record):
    token = {"op": record["op"], "attempt": record["migration"]["attempt"]}
    peer = {"role": "OUT", "op": record["op"], "phase": "keep", "generation": [1, 0]}
    yield lambda: common.view(host, memory.UUID)
    yield lambda: facts._own(host.store.read(memory.UUID), {})
    yield lambda: summary.describe(host.store.read(memory.UUID), "running")
    yield lambda: host.compute.pool_of(host.store.read(memory.UUID))
    for step in ("begin", "see_kept", "revert", "give_back", "confirm", "drop_old", "finish"):
        yield lambda step=step: table.run(host, memory.UUID, step, token, peer)


@pytest.mark.long
@pytest.mark.parametrize("name", [S, D])
def test_nonsense_in_any_part_of_a_move_is_a_typed_error_or_does_no_harm(fleet, name):
    fleet.went("resize")
    host, good, untyped = fleet.host(name), fleet.held(name).to_dict(), []
    for place, value in itertools.product(places(good), NONSENSE):
        for use in uses(host, good):
            write(fleet, name, changed(good, place, value))
            try:
                fleet.held(name)
            except RecordInvalid:
                break  # so it is refused to each of them
            try:
                use()
            except BerthError:
                continue
            except Exception as error:  # pylint: disable=broad-exception-caught
                untyped.append((place, value, repr(error)))
    assert not untyped
