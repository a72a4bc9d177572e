# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of a terminal: what a run printed, in the colours in which it printed it."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "docs" / "docsite"))

import terminal  # noqa: E402

RED, GREEN = terminal.COLOURS["31"], terminal.COLOURS["32"]
LONG = "x" * terminal.COLUMNS


@pytest.mark.parametrize(
    "text, lines",
    [
        ("ok", [[("", "ok")]]),
        ("a \x1b[0;32mok\x1b[0m b", [[("", "a "), (GREEN, "ok"), ("", " b")]]),
        ("\x1b[1;31mfailed\nand why\x1b[0m\nend", [[(RED, "failed")], [(RED, "and why")], [("", "end")]]),
        ("a\n\nb", [[("", "a")], [], [("", "b")]]),
        (LONG + "yz\nb", [[("", LONG)], [("", "yz")], [("", "b")]]),
        (LONG + "\nb", [[("", LONG)], [("", "b")]]),
    ],
    ids=["plain", "coloured", "a colour over lines", "an empty line", "a long line", "a full line"],
)
def test_a_terminal_shows_lines_in_their_colours(text, lines):
    assert terminal.spans(text) == lines


def test_the_picture_has_each_line_one_below_the_other_and_its_title():
    picture = ElementTree.fromstring(terminal.svg("web1   <ok> & done\n\x1b[0;32mweb2\x1b[0m\n", "A run & more"))
    name = "{http://www.w3.org/2000/svg}"
    assert picture.find(name + "title").text == "A run & more"
    lines = picture.findall(name + "text")
    assert ["".join(line.itertext()) for line in lines] == ["web1   <ok> & done".replace(" ", "\u00a0"), "web2"]
    assert lines[1].find(name + "tspan").get("fill") == GREEN
    heights = [int(line.get("y")) for line in lines]
    assert heights[0] < heights[1] < int(picture.get("height"))
