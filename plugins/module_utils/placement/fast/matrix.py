# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The explanations of a run in compact form: every verdict and raw weight of every host at each decision, as columns.

A Matrix is {hosts: [key], columns: [column], requests: [entry]}. A column has one value per host, at any moment of the run
(see History). An entry refers to columns by number:

    {candidates: {moment, verdicts, rules, asked, used}, among, drops,
     instances: [{uuid, moment, filters: [[name, verdicts or null: skipped]], weighers: [[name, raw, multiplier, least]],
                  front: [host], claims: [[host, passed, reason]], host}]}

A verdict is [passed, reason, numbers], null for a pass without reason or numbers. A null among the candidates' verdicts
is a pass of ``rules`` [[rule, numbers]] with room for ``asked`` besides what the columns ``used`` count. The rest is
arithmetic on these numbers: a normalised weight is (raw - low) / (high - low) over the hosts that passed (low is
``least`` where that is not null), a weight is the sum of normalised x multiplier, and the order is by weight, then by
which host was chosen last in this request, then by place in ``hosts``; ``front`` is what a random choice put first, and
``drawn_among``, only with a random choice, how many hosts could have come first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base import PASS, Verdict, normalize

# Columns: one value per host, as it was at any moment of a run.
#
# A moment is the number of changes to hosts before it. A decision changes one host, so the values of all hosts at a
# thousand decisions are one list and a thousand changes.


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


class Matrix:
    """Hosts and columns; explanation() reads an entry."""

    def __init__(self, hosts, columns):
        self.hosts = hosts
        self.columns = columns

    @classmethod
    def from_document(cls, document):
        columns = [read_column(column, len(document["hosts"])) for column in document["columns"]]
        return cls(document["hosts"], columns)

    def to_document(self, requests):
        return {
            "hosts": self.hosts,
            "columns": [column.to_document() for column in self.columns],
            "requests": requests,
        }

    def explanation(self, entry):
        """Return the entry as RequestResult.explanation; ``instances`` makes each of its items when it is read."""
        found = entry["candidates"]
        if found is None:
            return {"candidates": {}, "instances": []}
        candidates = self._candidates(found)
        passing = [index for index, rules in enumerate(candidates) if all(verdict.passed for _rule, verdict in rules)]
        if not passing:
            return {"candidates": dict(zip(self.hosts, candidates)), "instances": []}
        if entry["among"] is not None:
            passing = sorted(set(passing).intersection(entry["among"]))
        return {"candidates": dict(zip(self.hosts, candidates)), "instances": Instances(self, entry, passing)}

    def at(self, number, moment):
        return self.columns[number].at(moment)

    def _candidates(self, found):
        """[[(rule, Verdict)]] of all hosts."""
        asked, moment = found["asked"], found["moment"]
        rules = [(rule, Verdict(True, "", numbers)) for rule, numbers in found["rules"]]
        used = zip(*(self.at(number, moment) for number in found["used"])) if asked else [()] * len(self.hosts)
        return [
            [
                *rules,
                ("capacity", Verdict(True, "", {"asked": asked, "used": dict(zip(asked, counts)), "shortfalls": []})),
            ]
            if verdicts is None
            else [(rule, Verdict(*verdict)) for rule, verdict in verdicts]
            for verdicts, counts in zip(self.at(found["verdicts"], moment), used)
        ]


class Instances(Sequence):
    """The outcome of all hosts for each instance of a request, in the form of RequestResult.

    A host that a filter refused stays refused for the rest of the request: only chosen hosts change. So each instance
    can be read alone.
    """

    def __init__(self, matrix, entry, candidates):
        self.matrix, self.entries, self.drops = matrix, entry["instances"], entry["drops"]
        self.candidates = candidates
        self.asked = self._steps(self.drops, 0, candidates)[1] if self.entries else []
        self._last = (None, None)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        entry, keys = self.entries[at], self.matrix.hosts
        hosts = self._order(at - 1) if at else self.candidates
        dropped, hosts = self._steps(self.drops, at, hosts)
        filtered, passing = self._steps(entry["filters"], at, hosts)
        weighers, weights = self._weighed(at, passing)
        order = self._last_order(at, passing, weights)
        return {
            "uuid": entry["uuid"],
            "hosts": [keys[index] for index in hosts],
            "filters": [self._by_host(*step) for step in dropped + filtered],
            "weighers": weighers,
            "weights": {keys[index]: weight for index, weight in weights.items()},
            "order": [keys[index] for index in order],
            "claims": [
                {"host": keys[index], "passed": passed, "reason": why} for index, passed, why in entry["claims"]
            ],
            "host": None if entry["host"] is None else keys[entry["host"]],
            **({"drawn_among": entry["drawn_among"]} if "drawn_among" in entry else {}),
        }

    # -- filters
    def _steps(self, filters, at, hosts):
        """([(name, {index: verdict} or None)], indexes that pass): one filter after the other, until none is left."""
        moment, steps = self.entries[at]["moment"], []
        for name, column in filters:
            if column is None:
                steps.append((name, None))
                continue
            values = self.matrix.at(column, moment)
            steps.append((name, {index: values[index] for index in hosts}))
            hosts = [index for index in hosts if values[index] is None or values[index][0]]
            if not hosts and filters is not self.drops:
                break
        return steps, hosts

    def _by_host(self, name, verdicts):
        keys = self.matrix.hosts
        by_host = {
            keys[index]: PASS if verdict is None else Verdict(*verdict) for index, verdict in (verdicts or {}).items()
        }
        return {"filter": name, "skipped": verdicts is None, "verdicts": by_host}

    # -- weights
    def _weighed(self, at, hosts):
        """([what each weigher gave], {index: weight})."""
        if len(hosts) < 2:
            return [], dict.fromkeys(hosts, 0.0)
        moment, keys = self.entries[at]["moment"], [self.matrix.hosts[index] for index in hosts]
        columns, sums = [], [0.0] * len(hosts)
        for name, column, multiplier, least in self.entries[at]["weighers"]:
            values, times = self.matrix.at(column, moment), self.matrix.at(multiplier, moment)
            raw, times = [values[index] for index in hosts], [times[index] for index in hosts]
            normalised = normalize(raw, least)
            sums = [total + multiplier * part for total, multiplier, part in zip(sums, times, normalised)]
            columns.append(
                {
                    "weigher": name,
                    "raw": dict(zip(keys, raw)),
                    "normalised": dict(zip(keys, normalised)),
                    "multiplier": dict(zip(keys, times)),
                }
            )
        return columns, dict(zip(hosts, sums))

    def _order(self, at):
        """The indexes of the hosts that passed for an instance, best first."""
        if self._last[0] != at:
            passing = self._steps(self.entries[0]["filters"], 0, self.asked)[1]
            passing = self._steps(self.entries[at]["filters"], at, passing)[1] if at else passing
            self._last_order(at, passing, self._weighed(at, passing)[1])
        return self._last[1]

    def _last_order(self, at, passing, weights):
        chosen_at = {entry["host"]: number for number, entry in enumerate(self.entries[:at], 1)}
        order = sorted(passing, key=lambda index: (-weights[index], -chosen_at.get(index, 0), index))
        front = self.entries[at]["front"]
        if front:
            rest = set(front)
            order = [*front, *(index for index in order if index not in rest)]
        self._last = (at, order)
        return order
