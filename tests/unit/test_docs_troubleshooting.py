# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of what to do has each error code in one place, that of symptoms a command in each section; their links lead somewhere."""

from __future__ import annotations

import collections
import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "troubleshooting.md").read_text("utf-8")
SYMPTOMS = (DOCS / "symptoms.md").read_text("utf-8")


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


@pytest.mark.parametrize("name", ["troubleshooting.md", "symptoms.md"])
def test_every_link_of_the_page_leads_to_a_page_and_its_heading(name):
    links = re.findall(r"\]\(([\w./-]+\.md)?(?:#([\w-]+))?\)", (DOCS / name).read_text("utf-8"))
    assert links
    for page, heading in links:
        text = (DOCS / (page or name)).read_text("utf-8")
        anchors = [
            re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-")
            for line in re.findall(r"^#+ (.+)$", text, re.M)
        ]
        assert not heading or heading in anchors, (page, heading)


SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", SYMPTOMS, re.MULTILINE))
LOOKS = {"show", "console", "place", "hosts", "doctor"}  # playbooks that change nothing


def test_the_symptoms_that_people_come_with_have_a_section():
    words = ["log in", "no host is valid", "no address", "ssh to a host hangs", "move is stuck", "disk is full"]
    words += ["came back after an outage", "who runs where", "slow"]
    assert [word for word in words if not any(word in title for title in SECTIONS)] == []


@pytest.mark.parametrize("title", [title for title in SECTIONS if title != "It is slow"])
def test_a_symptom_begins_with_one_command_that_changes_nothing(title):
    commands = re.findall(r"^    (\S.*)$", SECTIONS[title], re.MULTILINE)
    assert len(commands) == 1
    playbook = re.match(r"ansible-playbook -i fleet.yml berth\.kvm\.(\w+)", commands[0])
    assert (playbook and playbook[1] in LOOKS) or "--check" in commands[0] or "ansible.builtin.ping" in commands[0]


def test_the_page_of_symptoms_is_found_from_where_people_begin():
    for page in (DOCS / "README.md", DOCS / "i-want-to.md", DOCS / "troubleshooting.md", DOCS.parent / "README.md"):
        assert "symptoms.md" in page.read_text("utf-8"), page
