# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A line of text for people with what it tells, which a terminal may show as a colour."""

from __future__ import annotations

from typing import Iterable, List

FAILED, CHANGED, UNCHANGED, LEFT_OUT, WARNING = "failed", "changed", "unchanged", "left out", "warning"


class Line(str):
    """Plain text in every other respect. ``kind`` is one of the above, or empty."""

    kind: str = ""


def marked(kind: str, texts: Iterable[str]) -> List[str]:
    lines = [Line(text) for text in texts]
    for line in lines:
        line.kind = kind
    return list(lines)
