# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever comes without a token, or with that of another move, gets a typed error or an answer, and changes nothing."""

from __future__ import annotations

import itertools

import pytest
from move_side import ANOTHER_OP, UUID, D, S, Side
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps.table import STEPS, run
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, OWN, STAGES

# These begin a move.
BEGINS = ("begin", "claim")


def put_there(side, state):
    if state is None:
        return
    side.holds(state)
    if not STAGES[state].live and not STAGES[state].cold:
        plant(side.store, side.store.read(UUID).replace(op=None, migration=None))


TOKENS = {"op": None, "attempt": 0}, {"op": ANOTHER_OP, "attempt": 2}


@pytest.mark.parametrize("state", [None, *STAGES], ids=str)
def test_a_step_without_the_token_of_its_move_changes_nothing(tmp_path, state):
    there, here = Side(tmp_path, D), Side(tmp_path, S)
    there.holds((OWN, "resized"), op=ANOTHER_OP)
    put_there(here, state)
    before = here.store.read(UUID)
    for step, token, said in itertools.product(STEPS, TOKENS, (None, {}, there.said(), there.said(role=None, op=None))):
        if step in BEGINS and token.get("op") and (before is None or before.state() == (OWN, ACTIVE)):
            continue
        error = None
        try:
            run(here, UUID, step, token, said)
        except Exception as raised:
            error = raised
        assert error is None or isinstance(error, BerthError), (step, token, said, error)
        assert (here.store.read(UUID), here.effects.done) == (before, []), (step, token, said)
