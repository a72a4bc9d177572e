# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records why hosts were or were not chosen, while the fast pipeline decides: as entries of a matrix (see matrix.py).

The records are columns with one value per host. Verdicts and raw weights change only for the host that has taken an
instance, so recording the next decision reads that host, not the fleet.
"""

from __future__ import annotations

from .. import capacity
from ..base import PASS, Verdict
from ..filtering import judge
from . import columns
from .kind import SOFT, kind_key
from .matrix import History, Matrix, Spread, Watched


class Recorder:
    """The columns of one run, in ``matrix``; entries refer to them by number."""

    def __init__(self, hosts, filters, weighers):
        self.hosts, self.filters, self.weighers = hosts, filters, weighers
        self.matrix = Matrix(hosts.keys(), [])
        self.numbers = {}  # {key of a column: its number}
        self.multipliers = [self._multiplier(weigher) for weigher in weighers]

    def request(self, spec):
        return RequestRecord(self, spec)

    # -- columns, by number
    def _column(self, key, make):
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.matrix.columns)
            self.matrix.columns.append(make())
        return number

    def _watched(self, key, values, read):
        """Return a column that is read again for changed hosts. ``values`` and ``read`` give the present values."""
        changes = self.hosts.changes
        number = self._column(key, lambda: Watched(values(), read, len(changes)))
        self.matrix.columns[number].follow(changes)
        return number

    def _same(self, value):
        return self._column(("same", repr(value)), lambda: Spread(len(self.hosts), value))

    def _spread(self, everyone, but):
        if not but:
            return self._same(everyone)
        self.matrix.columns.append(Spread(len(self.hosts), everyone, but))
        return len(self.matrix.columns) - 1

    def _multiplier(self, weigher):
        found = self.hosts.multipliers(weigher)
        return self._column(
            ("multiplier", weigher.name),
            lambda: History(found) if isinstance(found, list) else Spread(len(self.hosts), found),
        )

    # -- candidates
    def used(self, name):

        def read(index):
            return self.hosts.state(index).used.get(name, 0)

        return self._watched(("used", name), lambda: self.hosts.used(name), read)

    def candidates(self, kind, key):
        query = kind.query
        # Passing hosts differ in numbers: of aggregates, of the form that pinned CPUs take, of pools.
        telling = bool(query.member_of or query.fallback) or self.hosts.count_disks_apart(query.spec)

        def read(index):
            state = self.hosts.state(index)
            if not telling and query.passes(state) and query.same_cell(state):
                return None
            return query.verdicts(state)

        return self._watched(("candidates", key), lambda: self._first_look(query, telling, read), read)

    def _first_look(self, query, telling, read):
        """Return the verdicts on all hosts; None for those that obviously pass by their numbers."""
        if telling or not query.is_plain or not self.hosts.documents:
            return [read(index) for index in range(len(self.hosts))]
        values = [None] * len(self.hosts)
        documents = self.hosts.documents
        lacking = [index for index, document in enumerate(documents) if query.networks_and_pool.lacks(document)]
        for index in {*capacity.doubtful(documents, query.ask.amounts), *lacking, *self.hosts.changes}:
            values[index] = read(index)
        return values

    # -- filters
    def drop(self, rule, key, kept, named, reason):
        """Return the column of a rule that keeps (``kept``) or refuses the hosts that the request names."""
        refused = Verdict(False, reason)
        everyone, these = (refused, None) if kept else (None, refused)
        return self._column((rule, key), lambda: Spread(len(self.hosts), everyone, dict.fromkeys(sorted(named), these)))

    def rejected(self, filter_, kind, key):
        """Return the column of a filter's verdicts; None is a pass without reason or numbers."""

        def read(index):
            verdict = judge(filter_, self.hosts.state(index), kind.spec)
            return None if verdict == PASS else verdict

        found = self._alike(filter_, kind, key, read)
        if found is not None:
            return found
        return self._watched((filter_.name, key), lambda: [read(index) for index in range(len(self.hosts))], read)

    def _alike(self, filter_, kind, key, read):
        """Return the column if the filter says which hosts get the same verdict, else None."""
        try:
            uuids = filter_.about(kind.spec)
            where = None if uuids is None else self._where(uuids, kind.spec.instance_group)
        except Exception:
            # check() will show this for every host
            return None
        if where is not None:
            outside = next((index for index in range(len(self.hosts)) if index not in where), None)
            everyone = None if outside is None else read(outside)
            but = {index: read(index) for index in sorted(where)}
            return None if _raised(everyone) else self._spread(everyone, but)
        if not filter_.reads or not self.hosts.documents:
            return None
        return self._column((filter_.name, key), lambda: self._by_facts(filter_.reads, read))

    def _where(self, uuids, group):
        """Return the indexes of the hosts that have some of these instances, or that their group names."""
        if not uuids:
            return set()
        where = self.hosts.having(uuids)
        where.update(index for name in (group.hosts if group else ()) for index in self.hosts.named.get(name, ()))
        return where

    def _by_facts(self, names, read):
        """Return verdicts that depend only on these fields of the documents, which no decision changes."""
        documents = self.hosts.documents
        known, but, everyone = {}, {}, read(0)
        for name in names:
            value = documents[0].get(name)
            for index, document in enumerate(documents):
                if document.get(name) != value and index not in but:
                    facts = repr([document.get(each) for each in names])
                    if facts not in known:
                        known[facts] = read(index)
                    # A verdict of a filter that raised names the host.
                    but[index] = read(index) if _raised(known[facts]) else known[facts]
        if _raised(everyone):
            but.update((index, read(index)) for index in range(1, len(documents)) if index not in but)
        return Spread(len(self.hosts), everyone, but)

    # -- weights
    def raw(self, weigher, kind):
        if weigher.name in columns.READERS:
            values = self.hosts.column(weigher)
            return self._watched(("raw", weigher.name), lambda: list(values), values.__getitem__)
        group = kind.spec.instance_group
        if group is not None and SOFT.get(group.policy) == weigher.name:
            where = sorted(self.hosts.having(group.members))
            return self._spread(0, {index: weigher.raw(self.hosts.state(index), kind.spec) for index in where})
        return self._same(0)


def _raised(verdict):
    return verdict is not None and isinstance(verdict.numbers, dict) and "plugin" in verdict.numbers


class RequestRecord:
    """The entry of one request; a call returns the explanation in the form of RequestResult."""

    def __init__(self, recorder, spec):
        self.recorder = recorder
        self.key = kind_key(spec, recorder.hosts)
        self.entry = {"candidates": None, "among": None, "drops": [], "instances": []}

    def __call__(self):
        return self.recorder.matrix.explanation(self.entry)

    def candidates(self, kind):
        recorder, asked = self.recorder, kind.amounts
        self.entry["candidates"] = {
            "moment": len(recorder.hosts.changes),
            "verdicts": recorder.candidates(kind, self.key),
            "rules": kind.query.rules(),
            "asked": asked,
            "used": [recorder.used(name) for name in asked],
        }
        self.entry["among"] = kind.among
        self.entry["drops"] = [[rule, recorder.drop(rule, self.key, *arguments)] for rule, *arguments in kind.drops]

    def instance(self, kind, number):
        recorder, spec = self.recorder, kind.spec
        note = InstanceRecord()
        note.entry.update(
            uuid=spec.instance_uuid,
            moment=len(recorder.hosts.changes),
            filters=[
                [
                    filter_.name,
                    None
                    if number and filter_.run_filter_once_per_request
                    else recorder.rejected(filter_, kind, self.key),
                ]
                for filter_ in kind.filters
            ],
            weighers=[
                [weigher.name, recorder.raw(weigher, kind), multiplier, weigher.minval]
                for weigher, multiplier in zip(recorder.weighers, recorder.multipliers)
            ],
        )
        self.entry["instances"].append(note.entry)
        return note


class InstanceRecord:
    """The entry of one instance, filled in while its host is chosen."""

    def __init__(self):
        self.entry = {"front": [], "claims": [], "host": None}

    def front(self, indexes, drawn_among):
        self.entry["front"] = indexes
        if drawn_among > 1:
            self.entry["drawn_among"] = drawn_among

    def claim_failed(self, state, index, amounts):
        short = capacity.shortfalls(state, amounts)
        self.entry["claims"].append([index, False, "; ".join(shortfall["reason"] for shortfall in short)])

    def chosen(self, index, reason):
        self.entry["claims"].append([index, True, reason])
        self.entry["host"] = index
