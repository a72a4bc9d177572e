# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operators of extra specs: how a flavor says what a capability must be (Nova: extra_specs_ops)."""

from __future__ import annotations

import operator


def _number(compare):
    return lambda value, words: compare(float(value), float(words[0]))


def _text(compare):
    return lambda value, words: compare(value, words[0])


OPERATORS = {
    "=": _number(operator.ge),
    ">=": _number(operator.ge),
    "<=": _number(operator.le),
    "==": _number(operator.eq),
    "!=": _number(operator.ne),
    "s==": _text(operator.eq),
    "s!=": _text(operator.ne),
    "s<": _text(operator.lt),
    "s<=": _text(operator.le),
    "s>": _text(operator.gt),
    "s>=": _text(operator.ge),
    "<in>": lambda value, words: words[0] in value,
    "<all-in>": lambda value, words: all(word in value for word in words),
}


def match(value, wanted):
    """Whether a value satisfies "operator word ..."; without an operator both must be the same text.

    Raise ValueError if an operator for numbers gets something else.
    """
    words = wanted.split()
    if words and words[0] == "<or>":
        return value in words[1::2]
    if not words or words[0] not in OPERATORS:
        return value == wanted
    return len(words) > 1 and OPERATORS[words[0]](value, words[1:])
