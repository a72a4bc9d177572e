# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of every error of the collection: a stable code, and whether another host should be tried; several errors as
one; and the shortening of long lists of names."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, List, Optional

from .messages import Document


class BerthError(Exception):
    """An error that a person reads and a program can act on.

    ``field``, ``value``, ``rule`` and ``hint`` say which input was wrong, what it was, what it must be and what to do.
    ``retryable`` is true where the same request may succeed on another host (Nova: RescheduledException).
    ``host_fault`` is true where a build that fails so tells something about the host and counts against it. Further
    keyword arguments become parts of the result, unchanged.
    """

    retryable = False
    host_fault = False

    def __init__(
        self,
        message: str,
        field: Optional[str] = None,
        value: Any = None,
        rule: Optional[str] = None,
        hint: Optional[str] = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value
        self.rule = rule
        self.hint = hint
        self.details = details
        self.also: List[BerthError] = []  # further errors that were found at the same time, see joined

    @property
    def code(self) -> str:
        return type(self).__name__

    def to_dict(self) -> Document:
        """The error as plain data: {code, message, retryable, field, value, rule, hint, ...details}, empty parts left out."""
        parts = {"field": self.field, "value": self.value, "rule": self.rule, "hint": self.hint, **self.details}
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            **{name: part for name, part in parts.items() if part is not None},
            **({"also": [error.to_dict() for error in self.also]} if self.also else {}),
        }

    def __str__(self) -> str:
        return "; ".join([worded(self.message, self.rule, self.hint), *map(str, self.also)])

    def to_result(self) -> Document:
        """What a module or action gives to fail_json: {msg, error_code, retryable, error}."""
        return {
            "msg": "%s: %s" % (self.code, self),
            "error_code": self.code,
            "retryable": self.retryable,
            "error": self.to_dict(),
        }


LOGIN = re.compile(r"//[^/@\s]+@")  # the user and password in a URL


def _represented(value: Any) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # levels without end, or a number that Python turns into no text
        return "a %s that is too large to be shown" % type(value).__name__


class InvalidInput(BerthError):
    """A value breaks a rule. The error names the field, the value and the rule. Nothing was changed."""

    def __init__(self, field: str, value: Any, rule: Optional[str], hint: Optional[str] = None, **details: Any) -> None:
        shown = LOGIN.sub("//...@", _represented(value))
        if len(shown) > 120:
            shown = shown[:117] + "..."
        fault = "nothing is given" if value is None else "%s is not valid" % shown
        super().__init__("%s: %s" % (field, fault), field=field, value=shown, rule=rule, hint=hint, **details)


class InstanceExists(BerthError):
    """A host already holds the instance, or has a domain with its name or uuid that berth does not manage."""


class InstanceIsLocked(BerthError):
    """The instance is locked, with berth.kvm.lock or in the inventory, so it was not changed."""


def joined(errors: Iterable[BerthError]) -> BerthError:
    """One error for all of them: the first, with the others in ``also``."""
    flat = list(dict.fromkeys(found for error in errors for found in (error, *error.also)))
    for error in flat:
        error.also = []
    flat[0].also = flat[1:]
    return flat[0]


MOST_NAMED = 10  # faults, and names of instances that share one


def worded(message: str, rule: Optional[str], hint: Optional[str]) -> str:
    return message + (" (%s)" % rule if rule else "") + (". " + hint if hint else "")


def shortened(names: List[str], most: int = MOST_NAMED) -> str:
    """The first names, and how many more there are."""
    more = " and %d more" % (len(names) - most) if len(names) > most else ""
    return ", ".join(names[:most]) + more


def together(checks: Iterable[Callable[[], Any]]) -> List[Any]:
    """The results of all ``checks``, functions without arguments. Raises their errors joined, so that all are reported
    together."""
    results, errors = [], []
    for check in checks:
        try:
            results.append(check())
        except BerthError as error:
            errors.append(error)
    if errors:
        raise joined(errors)
    return results
