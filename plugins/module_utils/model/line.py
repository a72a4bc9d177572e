# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of text for people, which a terminal may show as a colour: what an instance or host is like, and its failed builds."""

from __future__ import annotations

from typing import Iterable, List

from .messages import Document

FAILED, CHANGED, UNCHANGED, LEFT_OUT, WARNING = "failed", "changed", "unchanged", "left out", "warning"


class Line(str):
    """Plain text in every other respect. ``kind`` is one of the above, or empty."""

    kind: str = ""


def marked(kind: str, texts: Iterable[str]) -> List[str]:
    lines = [Line(text) for text in texts]
    for line in lines:
        line.kind = kind
    return list(lines)


def described(document: Document) -> str:
    """ "2 failed builds, the last 35 min ago" of a host state document; empty if none counts."""
    count, seconds = document.get("failed_builds") or 0, document.get("failed_build_age_s")
    if not count:
        return ""
    text = "%d failed build%s" % (count, "" if count == 1 else "s")
    if seconds is None:
        return text
    return "%s, %s%s ago" % (text, "" if count == 1 else "the last ", age(seconds))


def age(seconds: int) -> str:
    minutes = max(1, seconds // 60)
    return "%d min" % minutes if minutes < 120 else "%d h" % (minutes // 60)
