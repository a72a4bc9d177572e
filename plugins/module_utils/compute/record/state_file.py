# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON files beside the records. One that was cut off, emptied or edited is never treated as missing. For one
that was removed see whereabouts.py."""

from __future__ import annotations

import json

from ...model import state_hints
from ...model.errors import BerthError
from ...model.safe_text import clean
from .. import durable

# What a parser may raise for data of another shape.
NONSENSE = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)


class StateDamaged(BerthError):
    """A file in the host's state directory is damaged or was edited. It is not used and was left as it is."""


def read(directory, name, parse, absent):
    """Return ``parse`` of the file's content, or ``absent`` if there is none. StateDamaged if it cannot be parsed."""
    return decode(durable.read_in(directory, name), "%s/%s" % (directory, name), parse, absent)


def decode(data, where, parse, absent):
    """Do the same with the bytes of the file, or None."""
    if data is None:
        return absent
    try:
        return parse(json.loads(data.decode("utf-8")))
    except (*NONSENSE, BerthError) as error:
        raise StateDamaged(
            "%s is damaged: %s" % (where, clean(str(error), 200)), hint=state_hints.restore_or_move_away(where)
        )


def dict_of(value, parse_item):
    """Return {text: item} with each item parsed."""
    return {text(key): parse_item(item) for key, item in value.items()}


def list_of(value, parse_item):
    if not isinstance(value, list):
        raise ValueError("not a list")
    return [parse_item(item) for item in value]


def text(value):
    if not isinstance(value, str):
        raise ValueError("%.60r is not text" % (value,))
    return value


def count(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError("%.60r is not a number from 0" % (value,))
    return value


def whole(value):
    if not isinstance(value, int):
        raise ValueError("%.60r is not a whole number" % (value,))
    return count(value)
