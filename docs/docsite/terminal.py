# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run printed, with its colours, as a picture of a terminal."""

from __future__ import annotations

import html
import re

COLUMNS = 120
LINE, CHARACTER, MARGIN = 17, 8.43, 14  # px, of a font of 14 px
COLOURS = {
    "30": "#7d8590", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341",
    "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea", "37": "#f0f6fc",
}  # fmt: skip
ANSI = re.compile(r"\x1b\[([0-9;]*)m")


def spans(text: str) -> list[list[tuple[str, str]]]:
    """The lines of a terminal of ``COLUMNS``, each as pairs of a colour, empty for the usual one, and a text."""
    lines: list[list[tuple[str, str]]] = [[]]
    room, colour = COLUMNS, ""
    for at, part in enumerate(ANSI.split(text)):
        if at % 2:
            colour = next((COLOURS[code] for code in part.split(";") if code in COLOURS), "")
            continue
        for piece in re.split("(\n)", part):
            while piece:
                if piece == "\n" or not room:
                    lines.append([])
                    room = COLUMNS
                if piece == "\n":
                    break
                lines[-1].append((colour, piece[:room]))
                piece, room = piece[room:], room - len(piece[:room])
    return lines


def svg(text: str, title: str) -> str:
    lines = spans(text.rstrip("\n"))
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    written = ["<title>%s</title>" % html.escape(title), '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>']
    for at, line in enumerate(lines, 1):
        texts = "".join(_span(*span) for span in line)
        written.append('<text x="%d" y="%d">%s</text>' % (MARGIN, MARGIN + at * LINE - 4, texts))
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"'
    style = ' fill="#d5dbe1" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">'
    return "\n".join([head % (width, height, width, height) + style, *written, "</svg>", ""])


def _span(colour: str, text: str) -> str:
    """No-break spaces, because viewers join the usual ones."""
    text = html.escape(text).replace(" ", "\u00a0")
    return '<tspan fill="%s">%s</tspan>' % (colour, text) if colour else text
