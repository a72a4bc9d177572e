# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of error codes is made from the code, and every code says what it means."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("make_errors", DOCS / "make_errors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_errors_is_fresh(generator):
    """`make docs` writes it again."""
    assert (DOCS / "errors.md").read_text("utf-8") == generator.page()


def test_every_error_says_what_it_means(generator):
    assert [code for code, node, _classes in generator.errors() if not generator.meaning(node)] == []


def test_two_errors_of_one_name_are_refused(generator, tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / (name + ".py")).write_text('class Taken(BerthError):\n    """It is taken, as %s says."""\n' % name)
    monkeypatch.setattr(generator, "CORE", tmp_path)
    with pytest.raises(ValueError, match=r"Taken is a class in first\.py and second\.py"):
        generator.page()
