# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that is safe to take from a host: one printable line that no template engine would render."""

from __future__ import annotations

import re
from typing import Any

TEMPLATE = re.compile(r"\{(?=[{%#])")
LONGEST = 1024


def is_safe(text: str, longest: int = LONGEST) -> bool:
    """Whether the text is printable by Unicode's rules (no control, format or bidi characters, no lone surrogate),
    without {{, {% and {#."""
    return len(text) <= longest and text.isprintable() and not ("{" in text and TEMPLATE.search(text))


def visible(text: str) -> str:
    """The text as a terminal may show it, on one line: what moves its cursor, hides or turns text becomes "?"."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def visible_all(value: Any) -> Any:
    """A copy of plain data in which every text is visible; lengths and template marks stay as they are."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_all(key): visible_all(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [visible_all(part) for part in value]
    return value


def clean(text: str, longest: int = 255) -> str:
    """The nearest safe text: at most ``longest`` characters, and unsafe ones become "?"."""
    if is_safe(text, longest):
        return text
    return TEMPLATE.sub("?", visible(text[:longest]))


def clean_all(value: Any) -> Any:
    """A copy of plain data with every text in it clean, names of fields too."""
    if isinstance(value, str):
        return value if is_safe(value) else clean(value, LONGEST)
    if isinstance(value, dict):
        return {clean_all(key): clean_all(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_all(part) for part in value]
    return value
