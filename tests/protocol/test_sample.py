# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A few walks through each case of test_interleavings: quick enough for every run of the tests (I1-I5, I12)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_interleavings import CASES, MUTANTS, explore  # noqa: E402

WALKS = 24


@pytest.mark.parametrize("name", CASES)
def test_some_interleavings_keep_the_invariants(name):
    states, violation, path = explore(**CASES[name], walks=WALKS)
    assert violation is None, "%s after %s" % (violation, path)
    assert states > WALKS


@pytest.mark.parametrize("name", MUTANTS)
def test_the_sample_is_large_enough_to_catch_a_protocol_without_this_rule(name, monkeypatch):
    break_it, case = MUTANTS[name]
    break_it(monkeypatch)
    assert explore(**case, walks=WALKS * len(CASES))[1] is not None
