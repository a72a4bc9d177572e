# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a real browser, Debian's chromium: wide and narrow, light and dark."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest
from placement_case import VM, place
from test_write_report import Case

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")]
# The ratio of two colours is WCAG 2.1's; 4.5 is what it asks for text of this size.
LOOK = """<script>
const focused = document.hasFocus();
const channel = (value) => { value /= 255; return value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4; };
const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
const light = (colour) => { const [r, g, b] = parts(colour).map(channel); return .2126 * r + .7152 * g + .0722 * b; };
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (parts(colour)[3] !== 0) return colour;
  }
};
const texts = [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility()
  && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
const ratios = texts.map((element) => {
  const pair = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
  return [(pair[0] + .05) / (pair[1] + .05), element.textContent.trim().slice(0, 40)];
}).sort((a, b) => a[0] - b[0]);
const outlines = [...document.querySelectorAll('a, button, main, h2')].filter((element) => element.checkVisibility()).map((element) => {
  element.focus({focusVisible: true});
  return [element.tagName, getComputedStyle(element).outlineStyle];
});
document.documentElement.dataset.found = JSON.stringify({
  wide: document.documentElement.scrollWidth, window: innerWidth, dark: matchMedia('(prefers-color-scheme: dark)').matches,
  texts: texts.length, worst: ratios[0], unseen: outlines.filter(([, style]) => style === 'none').map(([tag]) => tag),
  focused,
  headless: [...document.querySelectorAll('section')].filter((section) => !section.querySelector('h2')).length,
});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report as it is written, but that its policy lets in the script that looks at it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        case = Case(tmp_path_factory.mktemp("report"), monkeypatch)
        place({"web1": VM, "huge": {**VM, "berth_flavor": "huge"}}, None, args={"plan": True})
        case.silence("h3", "UNREACHABLE: " + "no-route-to-host-" * 20)
        assert not case.write().get("failed")
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", case.page.read_text("utf-8"))
    looked_at = case.page.with_name("looked-at.html")
    looked_at.write_text(text.replace("</body>", LOOK + "</body>"), "utf-8")
    return looked_at


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [500, 1160, 1280])  # px; chromium has no narrower window, tables begin at 1153
def test_all_text_is_readable_nothing_scrolls_sideways_and_what_has_the_focus_is_seen(page, tmp_path, width, dark):
    found = seen(page, tmp_path, width, dark)
    assert (found["dark"], found["texts"] > 50, found["headless"]) == (dark, True, 0)
    assert found["wide"] <= found["window"] <= width
    assert found["worst"][0] >= 4.5, found["worst"]
    assert found["unseen"] == []


def seen(page, directory, width, dark):
    """What the script found. A busy machine may show the page before its window has the focus, so that nothing can get it."""
    for number in range(5):
        found = looked_with(directory / str(number), page, width, dark)
        if found["focused"]:
            break
    return found


def looked_with(profile, page, width, dark):
    words = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--window-size=%d,900" % width,
        "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--user-data-dir=%s" % profile, "--blink-settings=preferredColorScheme=%d" % (not dark),
    ]  # fmt: skip
    shown = subprocess.run([*words, page.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(html.unescape(re.search('data-found="([^"]*)"', shown).group(1)))
