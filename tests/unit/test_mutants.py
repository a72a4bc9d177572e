# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of tests/mutants fits the code: ``make mutants`` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))

import mutants  # noqa: E402


def test_every_mutant_breaks_one_place_that_is_there_and_names_tests_that_are_there():
    assert mutants.misfits(mutants.read_list()) == []
