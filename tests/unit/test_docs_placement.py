# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.placement import registry
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import METRICS, OPTIONS

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_of_filters_and_weighers_are_what_their_docstrings_say():
    """Run docs/generate.py when this fails."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_filter_and_weigher_says_its_options_and_its_source():
    for page in (ROOT / "docs" / "placement").rglob("*/*.md"):
        text = page.read_text(encoding="utf-8")
        assert "| options |" in text, page
        assert "| source |" in text or page.stem == "DumpFilter", page


def examples():
    spec = importlib.util.spec_from_file_location("placement_examples", ROOT / "docs" / "placement_examples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLES = examples()
FILTERS, WEIGHERS = registry.builtin("filters"), registry.builtin("weighers")


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_the_example_of_a_filter_passes_one_host_and_refuses_the_other(name):
    said = [word.split(":")[0] for _host, word in EXAMPLES.run(name, "filters")]
    assert said == ["passes", "passes" if name in EXAMPLES.PASS_ALWAYS else "fails"]


@pytest.mark.parametrize("name", sorted(WEIGHERS))
def test_the_example_of_a_weigher_tells_the_hosts_apart(name):
    said = [word for _host, word in EXAMPLES.run(name, "weighers")]
    assert (said[0] == said[1]) == (name in EXAMPLES.WEIGH_NOTHING)


def test_every_example_is_of_something_that_exists():
    assert set(EXAMPLES.EXAMPLES) == {*FILTERS, *WEIGHERS}


def test_every_default_that_a_docstring_names_is_the_one_of_the_option():
    for entry in [*FILTERS.values(), *WEIGHERS.values()]:
        told = "".join(re.findall(r"Options: (.*?)(?:\n\s*\n|Aggregate metadata|$)", entry.__doc__, re.DOTALL))
        for name, value in re.findall(r"([a-z_]+) \(([-\w.\[\]]+)\)", " ".join(told.split())):
            default = entry.options[name] if name in entry.options else {**METRICS, **OPTIONS}[name][0]
            shown = {"true": True, "false": False, "[]": [], "none": None}.get(value, value)
            assert str(default) == str(shown), (entry.__name__, name)


def test_every_link_between_the_pages_of_placement_leads_somewhere():
    pages = [*(ROOT / "docs" / "placement").rglob("*.md"), ROOT / "docs" / "nova-names.md"]
    pages += [ROOT / "docs" / "how-to-write-a-filter.md", ROOT / "docs" / "packing.md"]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), "%s: %s" % (page, link)


def test_every_file_that_the_map_of_novas_names_speaks_of_exists():
    """S46"""
    text = (ROOT / "docs" / "nova-names.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:model|placement|module_utils)/[a-z_/]+(?:\.py)?)`", text):
        path = name if name.startswith("module_utils") else "module_utils/" + name
        assert (ROOT / "plugins" / path).exists(), name
    for module in re.findall(r"(?:module|action) `berth\.kvm\.([a-z_]+)`", text):
        assert (ROOT / "plugins" / "modules" / (module + ".py")).exists(), module
    for role in re.findall(r"roles? ((?:`[a-z_]+`(?:, )?)+)", text):
        for name in re.findall(r"`([a-z_]+)`", role):
            assert (ROOT / "roles" / name).is_dir(), name
