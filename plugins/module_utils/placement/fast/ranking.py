# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passing hosts of a request from best to worst, in the order of weighing.best_first(), made host by host.

Weights are kept as columns of numbers and computed again only if an extreme of the normalisation moves.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools

from ..weighing import draws, weighed
from . import columns
from .kind import SOFT, View

# How many sets of weights are kept for requests whose extremes differ.
VIEWS = 8


class Ranking:
    """``terms`` are the weighers that can tell hosts apart: [(weigher, multipliers, values)].

    No host may change while one of the generators below runs. ``records`` says whether a Recorder can derive the
    weights from the hosts' columns.
    """

    records = True

    def __init__(self, hosts, options, weighers, rng):
        self.hosts, self.options, self.weighers, self.rng = hosts, options, weighers, rng
        self.views = {}
        self._terms = None
        self.round = 0
        self.chosen_at = {}
        self.touched = []  # indexes of hosts whose weight or place among equals has changed, in order

    @property
    def terms(self):
        if self._terms is None:
            self._terms = []
            for weigher in self.weighers:
                multipliers = self.hosts.multipliers(weigher)
                if weigher.name not in columns.READERS or multipliers == 0:
                    continue
                values = self.hosts.column(weigher)
                if weigher.name in self.hosts.columns or values.count(values[0]) != len(values):
                    self._terms.append((weigher, multipliers, values))
        return self._terms

    # -- changes
    def choose(self, index):
        """Note that the host has taken an instance: among equals it comes first until the request ends."""
        self.round += 1
        self.chosen_at[index] = self.round
        self.changed(index)

    def changed(self, index):
        """Note that a host has changed: its numbers follow now, its place in a view when that is used again."""
        self.hosts.changed(index)
        self.touched.append(index)

    def new_request(self):
        """Among equals, hosts that were chosen in an earlier request come in their place by index again."""
        if self.round:
            self.touched += self.chosen_at
            self.chosen_at, self.round = {}, 0

    # -- weights
    def _view(self, key):
        view = self.views.get(key)
        if view is None:
            while len(self.views) >= VIEWS:
                del self.views[next(iter(self.views))]
            view = self.views[key] = View(self._weights(key))
            touched = self.chosen_at
        else:
            touched = dict.fromkeys(self.touched[view.seen :])
        view.seen = len(self.touched)
        for index in touched:
            view.update(index, self._weight(key, index), self.chosen_at.get(index, 0))
        return view

    def _weights(self, key):
        """Return the weights of all hosts, summed in the order of the weighers' names as in the plain pipeline.

        ``key``: ((number of the term, low, spread), ...) of the terms that distinguish the passing hosts.
        """
        total = None
        for number, low, spread in key:
            _weigher, multiplier, values = self.terms[number]
            if low == 0.0 and multiplier == 1.0:
                total = (
                    [x / spread for x in values] if total is None else [w + x / spread for w, x in zip(total, values)]
                )
                continue
            total = total or [0.0] * len(values)
            if isinstance(multiplier, list):
                total = [w + m * ((x - low) / spread) for w, m, x in zip(total, multiplier, values)]
            elif low == 0.0 and multiplier == -1.0:
                total = [w - x / spread for w, x in zip(total, values)]
            else:
                total = [w + multiplier * ((x - low) / spread) for w, x in zip(total, values)]
        return total or [0.0] * len(self.hosts)

    def _weight(self, key, index):
        total, terms = 0.0, self.terms
        for number, low, spread in key:
            _weigher, multiplier, values = terms[number]
            if isinstance(multiplier, list):
                multiplier = multiplier[index]
            total += multiplier * ((values[index] - low) / spread)
        return total

    # -- the passing hosts, best first
    def in_order(self, kind):
        """(-weight, -chosen_at, index) of the passing hosts, best first; only one such generator at a time."""
        soft = self._soft(kind.spec)
        return self._in_soft_order(kind, soft) if soft else self._in_base_order(kind)

    def _in_base_order(self, kind):
        ranges = kind.ranges()
        if ranges is None:
            return
        key = _key(ranges)
        if kind.narrow is not None:
            yield from sorted(
                (-self._weight(key, index), -self.chosen_at.get(index, 0), index)
                for index in kind.narrow
                if kind.ok(index)
            )
            return
        view = self._view(key)
        try:
            while True:
                entry = view.top()
                if entry is None:
                    return
                view.set_aside()
                if kind.ok(entry[2]):
                    yield entry
        finally:
            view.restore()

    def _soft(self, spec):
        """(weigher, multiplier) of the request's soft group policy, or None."""
        group = spec.instance_group
        name = group and SOFT.get(group.policy)
        for weigher in self.weighers if name else ():
            if weigher.name == name and weigher.configured() != 0:
                return weigher, weigher.sign * weigher.configured()
        return None

    def _in_soft_order(self, kind, soft):
        """As _in_base_order, with the weight of a soft group added: few hosts have members, all others have the same.

        The soft weighers come last by name, so their part is added last, as in the plain pipeline.
        """
        weigher, multiplier = soft
        spec = kind.spec
        where = self.hosts.having(spec.instance_group.members)
        if kind.narrow is not None:
            where.intersection_update(kind.narrow)
        raws = {index: weigher.raw(self.hosts.state(index), spec) for index in where if kind.ok(index)}
        with contextlib.closing(self._in_base_order(kind)) as base:
            others = (entry for entry in base if entry[2] not in raws)
            first = next(others, None)
            values = list(raws.values()) + ([0] if first is not None else [])
            low, high = (float(min(values)), float(max(values))) if values else (0.0, 0.0)

            def with_part(entry, raw):
                part = multiplier * ((raw - low) / (high - low)) if high != low else 0.0
                return (-(part - entry[0]), entry[1], entry[2])

            members = sorted(with_part(entry, raws[entry[2]]) for entry in self._entries(kind, raws))
            rest = itertools.chain(() if first is None else (first,), others)
            yield from heapq.merge(members, _by_ties(with_part(entry, 0) for entry in rest))

    def _entries(self, kind, indexes):
        """(-weight, -chosen_at, index) of passing hosts, without the soft part."""
        key = _key(kind.ranges() or ())
        return [(-self._weight(key, index), -self.chosen_at.get(index, 0), index) for index in indexes]

    @property
    def draws(self):
        return draws(self.options)

    def drawn(self, order, note):
        """Yield the order with its front shuffled as the options say."""
        if not self.draws:
            yield from order
            return
        front, equal = list(itertools.islice(order, 1)), 1
        if self.options["shuffle_best_same_weighed_hosts"] and front:
            after = []
            for entry in order:
                if entry[0] != front[0][0]:
                    after = [entry]
                    break
                front.append(entry)
            equal = len(front)
            if equal > 1:
                self.rng.shuffle(front)
            front += after
        front += itertools.islice(order, max(0, self.options["host_subset_size"] - len(front)))
        size = min(self.options["host_subset_size"], len(front))
        if size > 1:
            front.insert(0, front.pop(self.rng.randrange(size)))
        if note:
            note.front([entry[2] for entry in front], max(equal, size))
        yield from front
        yield from order


def _key(ranges):
    """Return the key of a View: (number of the term, low, spread) of the terms that distinguish the passing hosts."""
    return tuple((number, low, high - low) for number, (low, high) in enumerate(ranges) if high != low)


def _by_ties(entries):
    """Yield entries, which come by weight, with equal weights (perhaps equal by rounding) in the order of ties."""
    for _weight, equal in itertools.groupby(entries, key=lambda entry: entry[0]):
        yield from sorted(equal)


# The passing hosts from best to worst where a weigher has no column: all of them are weighed for every instance.
#
# The filters are still asked only about hosts that have changed, which is where the plain pipeline spends its time.


class FullRanking(Ranking):
    """A Ranking that weighs as the plain pipeline does, with any weighers; it does not record why."""

    terms = ()
    records = False

    def __init__(self, *given):
        super().__init__(*given)
        self.left_out = set()  # hosts that a weigher could not weigh: not asked again within the request

    def new_request(self):
        super().new_request()
        self.left_out = set()

    def in_order(self, kind):
        """(-weight, -chosen_at, index) of the passing hosts that every weigher can weigh, best first."""
        indexes = range(len(self.hosts)) if kind.narrow is None else kind.narrow
        passing = [index for index in indexes if index not in self.left_out and kind.ok(index)]
        states = [self.hosts.state(index) for index in passing]
        weights = weighed(self.weighers, kind.spec, states)
        weights = {index: weights[id(state)] for index, state in zip(passing, states) if id(state) in weights}
        self.left_out.update(index for index in passing if index not in weights)
        yield from sorted((-weight, -self.chosen_at.get(index, 0), index) for index, weight in weights.items())
