# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CONTRIBUTING names each file that a chore touches: seen by one that was done, all of whose files its section names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
# Heading -> (one that was added, the table that got its row, files that only mention it).
CHORES = {
    "Add an image property": ("hw_vif_multiqueue_enabled", "PROPERTIES", ()),
    "Add an operation": (
        "unpause",
        "OPERATIONS",
        ("plugins/module_utils/conductor/doctor.py", "playbooks/pause.yml", "playbooks/unpause.yml"),
    ),
    "Add a filter or weigher": ("AggregateRamFilter", None, ()),
    "Add a check of the doctor": ("FilesBeside", "TODO", ()),
    "Add a setting of a host": ("cpu_shared_set", "HostSettings", ("plugins/module_utils/compute/host/facts.py",)),
    "Add a fact of a host": ("libvirt_version", "FACTS", ()),
}


def section(heading):
    return PAGE.partition("\n## %s\n" % heading)[2].partition("\n## ")[0]


def files_with(word):
    """The files that ship and have the word, other than pages."""
    found = subprocess.run(
        ["grep", "-rlwE", "(berth_host_)?" + word, "plugins", "roles", "playbooks"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in found.stdout.split() if line.endswith((".py", ".yml"))}


def is_named(path, text):
    """By its path, or its end; its folder; or its bare name, where that is that of a module."""
    parts = ("/".join(Path(path).parts[at:]) for at in range(len(Path(path).parts)))
    stem = r"`%s`" % Path(path).stem
    return any("`%s`" % part in text for part in parts) or "/%s/`" % Path(path).parent.name in text or stem in text


@pytest.mark.parametrize("heading", CHORES)
def test_a_chore_touches_no_file_that_its_section_does_not_name(heading):
    word, table, mentions = CHORES[heading]
    text = section(heading)
    assert text and (table is None or "`%s`" % table in text)
    touched = files_with(word) - set(mentions)
    assert touched and sorted(path for path in touched if not is_named(path, text)) == []


@pytest.mark.parametrize("heading", CHORES)
def test_each_file_that_a_chore_names_is_there(heading):
    named = re.findall(r"`((?:[a-z_]+/)+[A-Za-z_]+\.(?:py|yml|md))`", section(heading))
    rooms = ("", "plugins", "plugins/module_utils")
    assert named and [path for path in named if not any((ROOT / room / path).is_file() for room in rooms)] == []


def test_a_file_that_is_not_named_is_told():
    assert not is_named("plugins/module_utils/conductor/tides.py", section("Add an operation"))
    assert is_named("plugins/module_utils/conductor/operations.py", section("Add an operation"))
