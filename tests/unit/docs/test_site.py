# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site is built from every page, with its pictures, without a warning, and needs nothing of the network, neither built nor read."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs" / "docsite"))

import pictures  # noqa: E402

pytestmark = pytest.mark.long

LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']([^"']+)|<link[^>]*\shref=["']([^"']+)|url\(["']?([^"')]+)"""
)


PICTURE = re.compile(r'<img alt="([^"]+)" src="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("myst_parser")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "docs/docsite/build.py", "--pages", "--to", folder]
    environment = {"PATH": "%s:/usr/bin:/bin" % Path(sys.executable).parent, "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def on_page(site, page):
    """What the page shows besides text: (its words for those who do not see it, its file)."""
    path = site / "docs" / page
    return [(words, path.parent / file) for words, file in PICTURE.findall(path.read_text("utf-8"))]


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


def test_the_tutorial_shows_what_a_create_prints(site):
    words, picture = on_page(site, "tutorial.html")[0]
    shown = picture.read_text("utf-8").replace("\u00a0", " ")
    assert "berth.kvm.create" in words and "web1       active  h1" in shown and "analytics  failed  -     huge" in shown
    assert str(ROOT) not in shown


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
@pytest.mark.parametrize("page", ["tutorial.html", "report.html"])
def test_a_page_shows_the_report_in_a_browser(site, page):
    words, picture = on_page(site, page)[-1]
    assert "report" in words and picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 50_000


def test_without_chromium_the_build_says_that_the_picture_of_the_report_lacks(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pictures.photograph(tmp_path / "report.html", tmp_path / "report.png", tmp_path) is False
    assert capsys.readouterr().out == "docs: without the picture of the report: chromium is not installed\n"


@pytest.mark.parametrize(
    "made, line", [({}, ""), ({"report": "a.png"}, "![A page](../pictures/a.png)\n")], ids=["missing", "made"]
)
def test_a_page_has_a_picture_where_one_was_made_and_nothing_where_it_lacks(made, line):
    text = "a\n\n<!-- picture: report: A page -->\n\nb\n"
    assert pictures.shown(text, Path("docs/placement/x.md"), made) == "a\n\n" + line + "\nb\n"


def test_a_page_has_no_place_for_a_picture_that_is_never_made():
    places = {
        found for page in (ROOT / "docs").rglob("*.md") for found in pictures.PLACE.findall(page.read_text("utf-8"))
    }
    assert {name for name, _words in places} == {"create", "report"}
