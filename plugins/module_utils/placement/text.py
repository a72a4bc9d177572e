# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What placement shows, as plain text in columns and as plain JSON."""

from __future__ import annotations

from ..model.safe_text import visible

WIDTH = 80  # columns of a terminal of which nothing is known
MOST_WHOLE = 10


def number(value):
    """A number as a person writes it: at most 4 digits after the point, none where it is whole."""
    if value is None:
        return "-"
    if isinstance(value, float) and value - value == 0:
        return ("%.4f" % value).rstrip("0").rstrip(".") if value != int(value) else str(int(value))
    return str(value)


def table(heads, rows, indent="  "):
    """Return the lines of a table; columns are as wide as their widest cell, the last one is not padded.

    All tables are made here: names and reasons may come from a host, so each cell passes through visible().
    """
    cells = [[visible(str(cell)) for cell in row] for row in [heads, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heads) - 1)]
    return [
        (indent + "  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[-1]])).rstrip()
        for row in cells
    ]


def cut_if_many(lines, width):
    """Whole lines, or of more than MOST_WHOLE of them what is within ``width`` columns: so many hosts are silent alike."""
    if len(lines) <= MOST_WHOLE:
        return lines
    shown = [str(visible(line)) for line in lines]
    return [line if len(line) <= width else line[: width - 3] + "..." for line in shown]


def plain(value):
    """Plain JSON: tuples and sets become lists (sets sorted), other objects their text, NaN and infinities text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(part) for part in value), key=repr)
    if hasattr(value, "to_document"):
        return plain(value.to_document())
    return str(value)
