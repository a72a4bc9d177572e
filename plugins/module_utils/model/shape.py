# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks for the shape of what a host sends: functions from a value, as json reads it, to its cleaned copy.

They are for the controller, which must not trust a host: types are compared exactly, sizes are limited before anything
is examined closely, and the first Fault ends the check. schema.py checks what people write; it reports all faults.
"""

# True is an int to isinstance, and a subclass may behave in any way: here the exact type counts.
# pylint: disable=unidiomatic-typecheck

from __future__ import annotations

import re
from typing import Any, Callable, Collection, List, Mapping, Optional, TypeVar

from .cpu_list import MAX_CPU
from .identity import UUID
from .messages import Document
from .safe_text import clean, is_safe, is_safe_block

Check = Callable[[Any], Any]
T = TypeVar("T")

MOST = 1 << 50
PARTS_LIMIT = 2000


class Fault(Exception):
    """``path``: the keys that lead to the fault, the innermost first; joined only when needed."""

    def __init__(self, value: Any, rule: str, *path: Any) -> None:
        super().__init__(rule)
        self.value, self.rule, self.path = value, rule, list(path)

    def field(self) -> str:
        parts = ("[%d]" % key if type(key) is int else "." + shorten(key) for key in reversed(self.path))
        return "".join(parts).lstrip(".") or "document"


def shorten(key: Any) -> str:
    return clean(key if type(key) is str else type(key).__name__, 64)


def show(value: Any) -> str:
    """A short and harmless rendering of what a host sent."""
    if type(value) is str:
        return repr(clean(value, 60))
    if type(value) is int and value.bit_length() > 64:
        return "a number of %d bits" % value.bit_length()
    if type(value) in (int, float, bool, type(None)):
        return repr(value)
    if type(value) in (list, dict):
        return "%s of %d" % (type(value).__name__, len(value))
    return clean(type(value).__name__)


# Each check is a function value -> cleaned value. Types are compared exactly: bool is no number, and a
# subclass of str is not what json gives.


def whole(low: int, high: int = MOST) -> Callable[[Any], int]:
    rule = "a whole number from %d to %d" % (low, high)

    def check_whole(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise Fault(value, rule)
        return value

    return check_whole


def number(low: float, high: float) -> Callable[[Any], float]:
    rule = "a number from %g to %g" % (low, high)

    def check_number(value: Any) -> float:
        # NaN is not between any two numbers; a whole number too large for a float can be compared all the same
        if type(value) not in (int, float) or not low <= value <= high:
            raise Fault(value, rule)
        return value

    return check_number


def flag(value: Any) -> bool:
    if type(value) is not bool:
        raise Fault(value, "true or false")
    return value


def text(longest: int = 255) -> Callable[[Any], str]:
    rule = "one line of at most %d printable characters without template marks" % longest

    def check_text(value: Any) -> str:
        if type(value) is not str or not is_safe(value, longest):
            raise Fault(value, rule)
        return value

    return check_text


def word(pattern: str, longest: int = 255) -> Callable[[Any], str]:
    match = re.compile(pattern + r"\Z", re.ASCII).match
    rule = "text like %s, at most %d long" % (pattern, longest)

    def check_word(value: Any) -> str:
        if type(value) is not str or len(value) > longest or not match(value):
            raise Fault(value, rule)
        return value

    return check_word


def cleaned(longest: int = 1024) -> Callable[[Any], str]:
    """Text for people, made harmless where it is not: one line, at most ``longest`` characters."""

    def check_cleaned(value: Any) -> str:
        if type(value) is not str:
            raise Fault(value, "text")
        return clean(" ".join(value[: 4 * longest].split()), longest)

    return check_cleaned


def block(longest: int) -> Callable[[Any], str]:
    """Text of many lines, such as XML or PEM: printable, without template marks."""
    rule = "at most %d printable characters in lines, without template marks" % longest

    def check_block(value: Any) -> str:
        if type(value) is not str or not is_safe_block(value, longest):
            raise Fault(value, rule)
        return value

    return check_block


def words(pattern: str, limit: int, longest: int = 255) -> Callable[[Any], List[str]]:
    """A list of words; checked as a single text, since hosts send hundreds of them."""
    match = re.compile(r"(?:(?:%s)\n)*\Z" % pattern, re.ASCII).match
    rule = "a list of at most %d texts like %s" % (limit, pattern)

    def check_words(value: Any) -> List[str]:
        if type(value) is not list or len(value) > limit or not set(map(type, value)) <= {str}:
            raise Fault(value, rule)
        if value and max(map(len, value)) > longest:
            raise Fault(value, rule)
        joined = "".join([text + "\n" for text in value])
        if not match(joined) or joined.count("\n") != len(value):
            raise Fault(value, rule)
        return list(value)

    return check_words


def choice(*choices: str) -> Callable[[Any], str]:
    def check_choice(value: Any) -> str:
        if type(value) is not str or value not in choices:
            raise Fault(value, "one of " + ", ".join(choices))
        return value

    return check_choice


def or_null(check_value: Callable[[Any], T]) -> Callable[[Any], Optional[T]]:
    def check_optional(value: Any) -> Optional[T]:
        return None if value is None else check_value(value)

    return check_optional


def cpus(value: Any) -> List[int]:
    if (
        type(value) is not list
        or len(value) > MAX_CPU + 1
        or not set(map(type, value)) <= {int}
        or (value and not (min(value) >= 0 and max(value) <= MAX_CPU))
    ):
        raise Fault(value, "a list of CPU numbers from 0 to %d" % MAX_CPU)
    return list(value)


def list_of(check_item: Callable[[Any], T], limit: int) -> Callable[[Any], List[T]]:
    rule = "a list of at most %d items" % limit

    def check_list(value: Any) -> List[T]:
        if type(value) is not list or len(value) > limit:
            raise Fault(value, rule)
        cleaned: List[T] = []
        try:
            for item in value:
                cleaned.append(check_item(item))
        except Fault as fault:
            fault.path.append(len(cleaned))
            raise
        return cleaned

    return check_list


def generation(value: Any) -> List[int]:
    """[epoch, n] of a record."""
    numbers = _NUMBERS(value)
    if len(numbers) != 2:
        raise Fault(value, "[epoch, number]")
    return numbers


_NUMBERS = list_of(whole(0, 1 << 40), 2)


def map_of(check_key: Check, check_value: Check, limit: int) -> Callable[[Any], Document]:
    def check_map(value: Any) -> Document:
        if type(value) is not dict or len(value) > limit:
            raise Fault(value, "an object of at most %d fields" % limit)
        cleaned: Document = {}
        for key, item in value.items():
            try:
                cleaned[check_key(key)] = check_value(item)
            except Fault as fault:
                fault.path.append(key)
                raise
        return cleaned

    return check_map


class Object:
    """An object with these fields; unknown ones are dropped, so that they can do no harm."""

    def __init__(self, fields: Mapping[str, Check], optional: Collection[str] = ()) -> None:
        self.fields, self.optional = dict(fields), frozenset(optional)

    def __call__(self, value: Any) -> Document:
        if type(value) is not dict:
            raise Fault(value, "an object")
        cleaned: Document = {}
        name = ""
        try:
            for name, check_value in self.fields.items():
                if name in value:
                    cleaned[name] = check_value(value[name])
                elif name not in self.optional:
                    raise Fault(None, "this field is required")
        except Fault as fault:
            fault.path.append(name)
            raise
        return cleaned


object_of = Object  # named like the functions around it


def _plain_data(parts: int, depth_limit: int, check_text: Callable[[str], Optional[str]]) -> Check:
    """Plain data of unknown shape: numbers of a sane size, texts as ``check_text`` returns them (None: refused)."""
    rule = "plain data of at most %d parts, %d deep, with safe texts and numbers" % (parts, depth_limit)

    def check_data(value: Any) -> Any:
        left = [parts]

        def copy(part: Any, depth: int) -> Any:
            left[0] -= 1
            kind = type(part)
            if left[0] >= 0 and depth <= depth_limit:
                if kind is str:
                    read = check_text(part)
                    if read is not None:
                        return read
                if part is None or kind is bool or (kind in (int, float) and -MOST <= part <= MOST):
                    return part
                if kind is list and len(part) <= parts:
                    return [copy(item, depth + 1) for item in part]
                if kind is dict and len(part) <= parts and all(type(key) is str and is_safe(key, 255) for key in part):
                    return {key: copy(item, depth + 1) for key, item in part.items()}
            raise Fault(part, rule)

        return copy(value, 0)

    return check_data


def _safe(part: str) -> Optional[str]:
    return part if is_safe(part) else None


anything = _plain_data(PARTS_LIMIT, 6, _safe)
# A request with its topology, which placement and the other host read.
large = _plain_data(10 * PARTS_LIMIT, 10, _safe)
# What is only shown to people: its texts are cleaned, none is refused.
shown = _plain_data(PARTS_LIMIT, 6, clean)


def mapping(check_data: Check) -> Callable[[Any], Document]:
    """``check_data`` for an object."""

    def check_mapping(value: Any) -> Document:
        if type(value) is not dict:
            raise Fault(value, "an object")
        return check_data(value)

    return check_mapping


uuid = word(UUID, 36)
address = word(r"[0-9A-Fa-f:.]+", 45)
state = or_null(word(r"[a-z][a-z0-9_-]*", 64))
