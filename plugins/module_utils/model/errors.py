# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every error of the collection: typed, with a stable code, and a word on whether another host makes sense."""

from __future__ import annotations


class BerthError(Exception):
    """An error that a person reads and a program can act on.

    ``field``, ``value``, ``rule`` and ``hint`` say which input was wrong, what it was, what it must be and what to do.
    ``retryable`` is true where the same request may succeed on another host (Nova: RescheduledException).
    Further keyword arguments become part of the result as they are.
    """

    retryable = False

    def __init__(self, message, field=None, value=None, rule=None, hint=None, **details):
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value
        self.rule = rule
        self.hint = hint
        self.details = details

    @property
    def code(self):
        return type(self).__name__

    def to_dict(self):
        """The error as plain data: {code, message, retryable, field, value, rule, hint, ...details}, empty parts left out."""
        parts = {"field": self.field, "value": self.value, "rule": self.rule, "hint": self.hint, **self.details}
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            **{name: part for name, part in parts.items() if part is not None},
        }

    def __str__(self):
        text = self.message
        if self.rule:
            text += " (%s)" % self.rule
        if self.hint:
            text += ". " + self.hint
        return text

    def to_result(self):
        """What a module or action gives to fail_json: {msg, error_code, retryable, error}."""
        return {
            "msg": "%s: %s" % (self.code, self),
            "error_code": self.code,
            "retryable": self.retryable,
            "error": self.to_dict(),
        }


class InvalidInput(BerthError):
    """A value that breaks a rule: the field, the value and the rule are named, nothing was changed."""

    def __init__(self, field, value, rule, hint=None, **details):
        shown = repr(value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        super().__init__(
            "%s: %s is not valid" % (field, shown), field=field, value=shown, rule=rule, hint=hint, **details
        )
