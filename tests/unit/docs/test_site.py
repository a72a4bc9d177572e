# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site is built from every page, without a warning, and needs nothing of the network, neither built nor read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']([^"']+)|<link[^>]*\shref=["']([^"']+)|url\(["']?([^"')]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("myst_parser")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "docs/docsite/build.py", "--pages", "--to", folder]
    environment = {"PATH": "%s:/usr/bin:/bin" % Path(sys.executable).parent, "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_every_page_is_on_the_site(site):
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page.relative_to(ROOT).with_suffix(".html")).exists()] == []


def test_the_first_page_leads_to_every_page_of_the_documentation(site):
    text = (site / "index.html").read_text("utf-8")
    assert [page.stem for page in (ROOT / "docs").glob("*.md") if 'href="docs/%s.html"' % page.stem not in text] == []


def test_no_page_loads_anything_from_elsewhere(site):
    loaded = {
        (path.name, address)
        for path in [*site.rglob("*.html"), *site.rglob("*.css")]
        for found in LOADED.findall(path.read_text("utf-8"))
        for address in found
        if re.match(r"(https?:)?//", address)
    }
    assert loaded == set()
