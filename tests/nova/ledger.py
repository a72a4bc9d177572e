# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was asked of both sides in which of Nova's tests, and the wrapper that asks."""

from __future__ import annotations

import collections
import functools
import inspect
from collections.abc import Callable
from typing import Any
from unittest import mock


class CannotAsk(Exception):
    """This question has no form here; the text says why."""


class Ledger:
    """Per test of Nova: the questions asked, the differences, and why others were not asked."""

    def __init__(self) -> None:
        self.test: str | None = None
        self.asking = False
        self.asked: dict[str, int] = collections.Counter()
        self.differences: dict[str, list[str]] = collections.defaultdict(list)
        self.reasons: dict[str, list[str]] = collections.defaultdict(list)

    def note(self, what: str, ours: tuple, theirs: tuple, same: Callable[[Any, Any], bool]) -> None:
        self.asked[self.test] += 1
        equal = ours[0] == theirs[0] and (ours[0] == "error" or same(ours[1], theirs[1]))
        if not equal:
            self.differences[self.test].append("%s: Nova %s, here %s" % (what, shown(theirs), shown(ours)))


def shown(answer: tuple) -> str:
    kind, value = answer
    text = "raises %s: %s" % (type(value).__name__, value) if kind == "error" else repr(value)
    return " ".join(text.split())[:300]


def outcome(call: Callable[[], Any]) -> tuple:
    try:
        return "value", call()
    except Exception as error:
        return "error", error


def ask(
    ledger: Ledger,
    owner: Any,
    name: str,
    ours: Callable[..., Callable[[], Any]],
    theirs: Callable[..., Any] = lambda result, *args: result,
    same: Callable[[Any, Any], bool] = lambda left, right: left == right,
) -> None:
    """From now on a call of ``owner.name`` is answered by Nova, and the same is asked here.

    ``ours`` translates the arguments, before Nova may change them, and gives the call that answers. ``theirs`` makes of Nova's
    result, and of the arguments as they are then, what is compared. Only the outermost call of a test's asks.
    """
    given = inspect.getattr_static(owner, name)
    original = given.__func__ if isinstance(given, staticmethod | classmethod) else given
    bind = inspect.signature(original).bind

    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        if ledger.asking or ledger.test is None:
            return original(*args, **kwargs)
        ledger.asking = True
        try:
            bound = bind(*args, **kwargs)
            bound.apply_defaults()
            values = tuple(bound.arguments.values())
            answer = _answer(ledger, owner, name, ours, values)
            kind, value = outcome(lambda: original(*args, **kwargs))
            if answer is not None:
                told = outcome(lambda: theirs(value, *values)) if kind == "value" else (kind, value)
                ledger.note(name, answer, told, same)
        finally:
            ledger.asking = False
        if kind == "error":
            raise value
        return value

    for attribute in ("cache_clear", "cache_info"):
        if hasattr(original, attribute):
            setattr(asked, attribute, getattr(original, attribute))
    setattr(owner, name, type(given)(asked) if isinstance(given, staticmethod | classmethod) else asked)


def _answer(ledger: Ledger, owner: Any, name: str, ours: Callable, values: tuple) -> tuple | None:
    """What is answered here, or None with the reason noted."""
    replaced = [
        each for each, value in vars(owner).items() if isinstance(value, mock.NonCallableMock) and each != "LOG"
    ]
    try:
        if replaced:
            raise CannotAsk("parts of Nova are replaced in it")
        call = ours(*values)
    except CannotAsk as why:
        ledger.reasons[ledger.test].append(str(why))
        return None
    except (AttributeError, KeyError, TypeError, NotImplementedError) as error:
        ledger.reasons[ledger.test].append("its stand-ins say too little for %s (%s)" % (name, type(error).__name__))
        return None
    return outcome(call)
