# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/records.md has every field of records and requests, as the code has them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
_spec = importlib.util.spec_from_file_location("make_records", DOCS / "make_records.py")
make_records = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_records)


def test_the_page_of_records_is_fresh():
    assert (DOCS / "records.md").read_text("utf-8") == make_records.text(), "run docs/make_records.py"


def test_a_field_without_words_stops_the_page(monkeypatch):
    """A27"""
    monkeypatch.delitem(make_records.REQUEST, "host_zone")
    with pytest.raises(SystemExit, match="host_zone"):
        make_records.text()
