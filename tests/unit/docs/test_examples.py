# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories that the pages show can be copied: they are YAML, and no line of them is joined with the next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "roles").glob("*/README.md"))]
BLOCK = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)


def examples():
    """(page, text) of each indented block that begins with a variable, or with the name of a file of variables."""
    for page in PAGES:
        for found in BLOCK.findall(page.read_text("utf-8")):
            if re.match(r" {4}(# (group|host)_vars/|berth_\w+:\s)", found):
                yield pytest.param(found, id="%s-%s" % (page.name, " ".join(found.split())[:40]))


@pytest.mark.parametrize("text", list(examples()))
def test_an_example_of_variables_is_yaml(text):
    assert isinstance(yaml.safe_load(text), dict)
