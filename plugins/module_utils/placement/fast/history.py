# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Columns: one value per host, as it was at any moment of a run.

A moment is the number of changes to hosts before it. A decision changes one host, so the values of all hosts at a
thousand decisions are one list and a thousand changes.
"""

from __future__ import annotations


class History:
    """A column whose values change: the first values, and every change since as (moment, index of the host, value)."""

    def __init__(self, values, changes=()):
        self.values = values
        self.changes = list(changes)

    def at(self, moment):
        """Return the values of all hosts at a moment."""
        values = list(self.values)
        for when, index, value in self.changes:
            if when > moment:
                break
            values[index] = value
        return values

    def to_document(self):
        return {"values": self.values, "changes": self.changes}


class Watched(History):
    """A History of a running pipeline; ``read`` gives the value of a host as it is now."""

    def __init__(self, values, read, seen):
        super().__init__(values)
        self.read = read
        self.now = list(values)
        self.seen = seen

    def follow(self, changed):
        """Read the changed hosts again; ``changed`` has the indexes of all changes of the run in order."""
        moment = len(changed)
        if self.seen == moment:
            return
        for index in dict.fromkeys(changed[self.seen :]):
            value = self.read(index)
            if value != self.now[index]:
                self.now[index] = value
                self.changes.append((moment, index, value))
        self.seen = moment


class Spread:
    """A column that never changes and is the same for most hosts: ``everyone``, except ``but`` {index: value}."""

    def __init__(self, number, everyone, but=()):
        self.number = number
        self.everyone = everyone
        self.but = dict(but)

    def at(self, moment):
        values = [self.everyone] * self.number
        for index, value in self.but.items():
            values[index] = value
        return values

    def to_document(self):
        return {"all": self.everyone, "but": list(self.but.items())}


def read_column(document, number):
    """Return the column of a document for ``number`` hosts."""
    if "values" in document:
        return History(document["values"], document["changes"])
    return Spread(number, document["all"], document["but"])
