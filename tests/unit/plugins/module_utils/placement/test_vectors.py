# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions recorded from Nova, replayed without it (S08, S36, S38, S39, S45)."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[4]
_spec = importlib.util.spec_from_file_location("parity_answer", TESTS / "parity" / "answer.py")
answer = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(answer)


PROFILES = (
    "basic az groups numa pci caps mixed all any words weights isolation odd needs units cells devices bare crowd"
).split()


@pytest.fixture(scope="module")
def vectors():
    with gzip.open(TESTS / "vectors" / "nova34.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("profile", PROFILES)
def test_decisions_recorded_from_nova_are_repeated(vectors, profile):
    mine = [vector for vector in vectors if vector["profile"] == profile]
    assert any(answers for entry in mine for answers in entry["answers"])
    for entry in mine:
        assert answer.answer(entry["scenario"]) == entry["answers"]


def test_every_recorded_profile_is_repeated(vectors):
    assert {vector["profile"] for vector in vectors} == set(PROFILES)
