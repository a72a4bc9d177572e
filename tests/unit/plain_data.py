# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain data with one part changed: what a host may send, and what a person may have written into a record."""

from __future__ import annotations

ABSENT = object()


def changed(document, at, put):
    """A copy with another value at this path of keys and indexes; ABSENT removes what is there."""
    if not at:
        return put
    document = {**document} if isinstance(document, dict) else list(document)
    if len(at) > 1:
        document[at[0]] = changed(document[at[0]], at[1:], put)
    elif put is ABSENT:
        del document[at[0]]
    else:
        document[at[0]] = put
    return document


def texts(value):
    """Each text in it, also the names of fields."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value
