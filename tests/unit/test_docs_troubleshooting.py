# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of what to do has each error code in one place, and its links lead somewhere."""

from __future__ import annotations

import collections
import importlib.util
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "troubleshooting.md").read_text("utf-8")


def codes():
    """All public error codes, as docs/errors.md is made of them."""
    spec = importlib.util.spec_from_file_location("make_errors", DOCS / "make_errors.py")
    make_errors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_errors)
    return {code for code, _node, _everything in make_errors.errors()}


def in_tables():
    """Code -> in how many rows of the page it stands in the first column."""
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    return collections.Counter(code for row in rows for code in re.findall(r"`(\w+)`", row))


def test_every_error_code_has_its_place_in_the_page_of_what_to_do():
    assert not codes() - set(in_tables()), "say in docs/troubleshooting.md what to do about these"


def test_each_place_is_of_a_code_that_exists_and_there_is_no_second():
    assert not set(in_tables()) - codes()
    assert [code for code, times in in_tables().items() if times > 1] == []


def test_every_link_of_the_page_leads_to_a_page_and_its_heading():
    for page, heading in re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", PAGE):
        text = (DOCS / page).read_text("utf-8")
        anchors = [
            re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-")
            for line in re.findall(r"^#+ (.+)$", text, re.M)
        ]
        assert not heading or heading in anchors, (page, heading)
