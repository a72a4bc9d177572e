# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that is safe to take from a host: one printable line that no template engine would render."""

from __future__ import annotations

import re
from typing import Any, Callable

TEMPLATE = re.compile(r"\{(?=[{%#])")
LONGEST = 1024
_LINES = str.maketrans("\n\r\t", "   ")


def is_safe(text: str, longest: int = LONGEST) -> bool:
    """Whether the text is printable by Unicode's rules (no control, format or bidi characters, no lone surrogate),
    without {{, {% and {#."""
    return len(text) <= longest and text.isprintable() and not ("{" in text and TEMPLATE.search(text))


def is_safe_block(text: str, longest: int) -> bool:
    """Whether the text is safe and printable in lines, such as XML or PEM."""
    return len(text) <= longest and text.translate(_LINES).isprintable() and not TEMPLATE.search(text)


def visible(text: str) -> str:
    """The text as a terminal may show it, on one line: what moves its cursor, hides or turns text becomes "?"."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def visible_all(value: Any) -> Any:
    """A copy of plain data in which every text is visible; lengths and template marks stay as they are."""
    return _with_texts(value, visible)


def in_utf8(value: Any) -> Any:
    """A copy of plain data that JSON can carry: bytes of file names that are no UTF-8 become "?"."""
    return _with_texts(value, _encodable)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of plain data with every text in it changed, names of fields too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_with_texts(key, change): _with_texts(part, change) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_texts(part, change) for part in value]
    return value


def clean(text: str, longest: int = 255) -> str:
    """The nearest safe text: at most ``longest`` characters, and unsafe ones become "?"."""
    if is_safe(text, longest):
        return text
    return TEMPLATE.sub("?", visible(text[:longest]))


def clean_all(value: Any) -> Any:
    """A copy of plain data with every text in it clean, names of fields too."""
    return _with_texts(value, _cleaned)


def _cleaned(text: str) -> str:
    return clean(text, LONGEST)
