# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are alike: which hosts pass (checked only when it matters), and the extremes over the passing hosts."""

from __future__ import annotations

import heapq
from itertools import repeat

from ...model.guest_settings import GuestNeeds
from .. import prefilters
from ..filtering import NAMED_HOSTS, judge, skips_filters
from ..networks_and_pools import NetworksAndPool

# How many of the best hosts are read before all are put in order.
FIRST = 64


class View:
    """Weights of all hosts under one normalisation: a heap of (-weight, -chosen_at, index), and each host's valid entry."""

    def __init__(self, weights):
        self.weights = weights
        self.current = {}
        self.aside = []
        self.full = False
        self.seen = 0  # how many changes of hosts it has followed
        number = len(weights)
        if number > FIRST:
            best = heapq.nlargest(FIRST, zip(weights, repeat(0), range(0, -number, -1)))
            self.heap = [(-weight, 0, -negative) for weight, _zero, negative in best]
            self.floor = self.heap[-1]
        else:
            self.floor = None
            self.heap = [(-weight, 0, index) for index, weight in enumerate(weights)]
            self.full = True
        heapq.heapify(self.heap)
        for entry in self.heap:
            self.current[entry[2]] = entry

    def top(self):
        """Return the best valid entry, or None."""
        heap, current = self.heap, self.current
        while True:
            while heap and current.get(heap[0][2]) is not heap[0]:
                heapq.heappop(heap)
            if self.full or (heap and heap[0] <= self.floor):
                return heap[0] if heap else None
            self.fill()
            heap, current = self.heap, self.current

    def fill(self):
        """Put every host in the heap, changed ones with their current entry, except those set aside."""
        self.full = True
        current = self.current
        entries = [current.get(index) or (-weight, 0, index) for index, weight in enumerate(self.weights)]
        self.current = {entry[2]: entry for entry in entries}
        aside = {entry[2] for entry in self.aside}
        self.heap = [entry for entry in entries if entry[2] not in aside] if aside else entries
        heapq.heapify(self.heap)

    def set_aside(self):
        """Take the top entry away until restore()."""
        self.aside.append(heapq.heappop(self.heap))

    def restore(self):
        for entry in self.aside:
            heapq.heappush(self.heap, entry)
        self.aside = []

    def update(self, index, weight, chosen_at):
        self.weights[index] = weight
        entry = (-weight, -chosen_at, index)
        self.current[index] = entry
        heapq.heappush(self.heap, entry)


SOFT = {"soft-affinity": "ServerGroupSoftAffinityWeigher", "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher"}


def kind_key(spec, hosts):
    """Return a hashable value that is equal for requests that judge hosts alike."""
    group = spec.instance_group
    here = ()
    if group is not None and group.policy not in SOFT:
        # ServerGroupAntiAffinityFilter passes the host that has this same instance.
        here = (group.uuid, *(uuid for uuid in spec.instance_uuids if uuid in hosts.of_instance))
    return (
        repr(spec.flavor.document),
        repr(spec.image.document) if spec.image else None,
        spec.project_id,
        spec.availability_zone,
        spec.is_bfv,
        spec.pool,
        GuestNeeds.of(spec.document),
        spec.data_gb,
        NetworksAndPool(spec).wanted if spec.networks else None,
        here,
        repr((spec.network_metadata, spec.ignore_hosts, spec.force_hosts, spec.force_nodes, spec.requested_destination))
        if spec.network_metadata
        or spec.ignore_hosts
        or spec.force_hosts
        or spec.force_nodes
        or spec.requested_destination
        else None,
        repr(spec.scheduler_hints) if spec.scheduler_hints else None,
        repr(spec.document["retry"]) if "retry" in spec.document else None,
        repr(spec.topology.to_document()) if spec.topology else None,
        repr(spec.pci_requests) if spec.pci_requests else None,
    )


class Kind:
    """``terms`` are the columns that are weighed: [(weigher, multipliers, values)]."""

    def __init__(self, spec, hosts, options, filters, aggregates, terms):
        self.spec = spec
        self.hosts = hosts
        self.terms = terms
        self.query, _limit = prefilters.query_for(spec, options, aggregates, _Named(hosts, spec))
        self.amounts = self.query.ask.amounts
        self.filters = () if skips_filters(spec) else filters
        self.limiting = [filter_ for filter_ in self.filters if filter_.sets_limits]
        self.each_time = [filter_ for filter_ in self.filters if not filter_.run_filter_once_per_request]
        # Hosts that the request names: those of its destination, and those that are kept or refused.
        self.among = self._destination(spec)
        self.drops = self._drops(spec)
        self.ignored = {index for _rule, kept, named, _reason in self.drops for index in named if not kept}
        # The only hosts that can pass, if the request or an affinity group names them.
        asked = [set(named) for _rule, kept, named, _reason in self.drops if kept]
        asked += [set(self.among)] if self.among is not None else []
        self.asked = sorted(set.intersection(*asked)) if asked else None
        self.narrow = self.asked
        self.passes = {}  # {index: whether it passes}
        self.seen = len(hosts.changes)
        self.extremes = {}  # {(term, +1 or -1): (value, index)}

    def _destination(self, spec):
        destination = spec.requested_destination or {}
        if not destination.get("host"):
            return None
        node = destination.get("node")
        found = self.hosts.named.get(destination["host"], ())
        return [index for index in found if not node or self.hosts.state(index).nodename == node]

    def _drops(self, spec):
        """[(rule, whether the named hosts are the ones kept, their indexes, reason)]."""
        found, hosts = [], self.hosts
        for rule, kept, reason in NAMED_HOSTS:
            names = getattr(spec, rule)
            if not names:
                continue
            if rule == "force_nodes":
                named = {index for index, host_state in enumerate(hosts.all_states()) if host_state.nodename in names}
            else:
                named = {index for name in names for index in hosts.spelled(name)}
            found.append((rule, kept, named, reason))
        return found

    # -- who passes
    def ok(self, index):
        """Whether the host passes everything for this kind of request; checked once, until the host changes."""
        known = self.passes.get(index)
        if known is None:
            state, spec = self.hosts.state(index), self.spec
            known = self.passes[index] = (
                index not in self.ignored
                and self.query.passes(state)
                and self.query.same_cell(state)
                and all(judge(filter_, state, spec).passed for filter_ in self.filters)
            )
        return known

    def amounts_on(self, index):
        """Return what to claim on a candidate: pinned CPUs if it has them, else the fallback."""
        return self.query.amounts(self.hosts.states[index])

    def candidates(self):
        """Whether any host is a candidate, before ignored and forced hosts and filters; checks all hosts."""
        return any(
            self.query.passes(host_state) and self.query.same_cell(host_state) for host_state in self.hosts.all_states()
        )

    def refresh(self):
        """Forget what is known about hosts that changed since the kind was last used."""
        changed = self.hosts.changes[self.seen :]
        self.seen = len(self.hosts.changes)
        for index in changed:
            self.passes.pop(index, None)
        for index in changed:
            self.follow(index)

    def after(self, index):
        """Run the filters that run for every instance again on the host that has just taken one."""
        state, spec = self.hosts.states[index], self.spec
        self.passes[index] = self.passes.get(index) is not False and all(
            judge(filter_, state, spec).passed for filter_ in self.each_time
        )
        self.follow(index)

    def set_limits(self, index):
        """Give the state the limits that the filters set for this request, and only those."""
        state = self.hosts.states[index]
        state.limits = {}
        for filter_ in self.limiting:
            judge(filter_, state, self.spec)

    def narrow_to(self, group):
        """Judge hosts again for an affinity group: once the group has hosts, only those can pass."""
        self.passes.clear()
        self.extremes.clear()
        self.narrow = self.asked
        if group.hosts and any(filter_.name == "ServerGroupAffinityFilter" for filter_ in self.filters):
            found = {index for name in group.hosts for index in self.hosts.named.get(name, ())}
            self.narrow = sorted(found if self.asked is None else found.intersection(self.asked))

    # -- extremes
    def follow(self, index):
        """Update the extremes after one host has changed."""
        for number, (_weigher, _multipliers, values) in enumerate(self.terms):
            for sign in (1, -1):
                extreme = self.extremes.get((number, sign))
                if extreme is None:
                    continue
                value, holder = extreme
                weight = sign * values[index]
                if holder == index and (weight < value or not self.ok(index)):
                    del self.extremes[(number, sign)]
                elif weight > value and self.ok(index):
                    self.extremes[(number, sign)] = (weight, index)

    def _extreme(self, number, sign):
        """Return the largest of sign * column over the hosts that pass, or None if no host does."""
        values = self.terms[number][2]
        if self.narrow is not None:
            return max((sign * values[index] for index in self.narrow if self.ok(index)), default=None)
        known = self.extremes.get((number, sign))
        if known is not None:
            return known[0]
        best = max(values) if sign > 0 else min(values)
        index = values.index(best)
        if not self.ok(index):
            index = self._walk(values, sign)
            if index is None:
                return None
        self.extremes[(number, sign)] = (sign * values[index], index)
        return sign * values[index]

    def _walk(self, values, sign):
        """Return the index of the first passing host in descending order of sign * value."""
        size, total = FIRST, len(values)
        done = 0
        while done < total:
            size = min(size, total)
            if size < total:
                best = (heapq.nlargest if sign > 0 else heapq.nsmallest)(size, range(total), key=values.__getitem__)
            else:
                best = sorted(range(total), key=values.__getitem__, reverse=sign > 0)
            for index in best[done:]:
                if self.ok(index):
                    return index
            done, size = size, size * 8
        return None

    def ranges(self):
        """Return [(low, high)] per term over the passing hosts; None if no host passes."""
        found = []
        for number, (weigher, _multipliers, _values) in enumerate(self.terms):
            high = self._extreme(number, 1)
            if high is None:
                return None
            low = weigher.minval if weigher.minval is not None else -self._extreme(number, -1)
            found.append((float(low), float(high)))
        return found


class _Named:
    """The host states that a request's target may be, for prefilters.query_for: read only if a target is named."""

    def __init__(self, hosts, spec):
        self.hosts, self.spec = hosts, spec

    def __iter__(self):
        host = (self.spec.requested_destination or {}).get("host") or (self.spec.force_hosts or (None,))[0]
        indexes = self.hosts.named.get(host, ()) if host else range(len(self.hosts))
        return (self.hosts.state(index) for index in indexes)
