# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many builds failed on a host of late, in words for every table that shows a host."""

from __future__ import annotations

from .messages import Document


def described(document: Document) -> str:
    """ "2 failed builds, the last 35 min ago" of a host state document; empty if none counts."""
    count, age = document.get("failed_builds") or 0, document.get("failed_build_age_s")
    if not count:
        return ""
    text = "%d failed build%s" % (count, "" if count == 1 else "s")
    if age is None:
        return text
    return "%s, %s%s ago" % (text, "" if count == 1 else "the last ", _age(age))


def _age(seconds: int) -> str:
    minutes = max(1, seconds // 60)
    return "%d min" % minutes if minutes < 120 else "%d h" % (minutes // 60)
