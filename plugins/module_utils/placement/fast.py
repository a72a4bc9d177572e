# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pipeline for large fleets: the same decisions as pipeline.Pipeline, without looking at every host each time.

What makes it fast: weights are kept as columns of numbers and computed anew only where an extreme of the normalisation
moves; the best host comes from a heap; filters judge a host only when it is about to be chosen or defines an extreme.
Every verdict and every consumption is that of the plain pipeline's own code. A request that needs more (NUMA, PCI, forced
hosts, hints, soft groups, overridden multipliers ...) goes through the plain pipeline on the same host states.
"""

from __future__ import annotations

import contextlib
import copy
import heapq
from itertools import repeat

from ..model.host_state import HostState
from . import capacity, columns, prefilters
from .errors import NoValidHost
from .pipeline import Pipeline, judge
from .result import RequestResult, Selection

SOFT = {"soft-affinity": "ServerGroupSoftAffinityWeigher", "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher"}
# How many of the best hosts are looked at before all are put in order.
FIRST = 64
# How many sets of weights are kept for requests whose extremes differ.
VIEWS = 8
ALWAYS_ZERO = ("CrossCellWeigher", "ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher")
HINTS = ("query", "build_near_host_ip", "same_host", "different_host", "_nova_check_type")


def serves(options, filters, weighers, aggregates):
    """Whether these plugins and options have a fast form (single requests may still need the plain one)."""
    if (
        options["shuffle_best_same_weighed_hosts"]
        or options["host_subset_size"] > 1
        or options["driver"] not in ("filter", "caching")
    ):
        return False
    if any(type(one).__module__.rpartition(".")[0] != __package__ + ".filters" for one in filters):
        return False
    keys = set()
    for one in weighers:
        if one.name in columns.READERS or one.name in ALWAYS_ZERO:
            keys.add(one.multiplier_key or one.multiplier_option)
        elif one.name == "MetricsWeigher" and not one.setting:
            continue
        elif not (one.name == "ImagePropertiesWeigher" and one.configured() == 0.0):
            return False
    return not any(key in aggregate.metadata for aggregate in aggregates for key in keys)


def instance_hosts(hosts):
    """{instance uuid: host name} of documents or states."""
    return {
        uuid: one.host if isinstance(one, HostState) else one["host"]
        for one in hosts
        for uuid in (
            one.instances if isinstance(one, HostState) else [each["uuid"] for each in one.get("instances") or ()]
        )
    }


class View:
    """Weights of all hosts under one normalisation: a heap of (-weight, -chosen_at, index), and each host's valid entry."""

    def __init__(self, weights):
        self.weights = weights
        self.current = {}
        self.aside = []
        self.full = False
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
        """The best valid entry, or None."""
        heap, current = self.heap, self.current
        while True:
            while heap and current.get(heap[0][2]) is not heap[0]:
                heapq.heappop(heap)
            if self.full or (heap and heap[0] <= self.floor):
                return heap[0] if heap else None
            self.fill()
            heap, current = self.heap, self.current

    def fill(self):
        """Put every host in the heap, those that changed with their present entry; not those set aside."""
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


class Kind:
    """Requests that are alike: who passes the filters (asked lazily), and the extremes over those who do."""

    def __init__(self, spec, query, amounts):
        self.spec = spec
        self.query = query
        self.amounts = amounts
        self.ok = {}
        self.seen = 0
        # The indexes of the only hosts that can pass, where an affine group already has hosts.
        self.narrow = None
        self.extremes = {}  # (column, +1 or -1): (value, index)


class FastPipeline:
    """Runs requests against host documents or states; has the attributes of Pipeline that the scheduler uses."""

    def __init__(self, hosts, options, filters, weighers, aggregates, rng):
        self.hosts = hosts
        self.options = options
        self.filters = filters
        self.weighers = weighers
        self.aggregates = aggregates
        self.rng = rng
        self.states = [one.copy() if isinstance(one, HostState) else None for one in hosts]
        self.of_host = {}
        for aggregate in aggregates:
            for host in aggregate.hosts:
                self.of_host.setdefault(host, []).append(aggregate)
        self.plain = None
        self.each_time = [one for one in filters if not one.run_filter_once_per_request]
        self.kinds, self.views = {}, {}
        self.changes = []  # indexes of hosts whose state changed, in order
        self.log = []  # (spec, [(index, allocation)]) of what was placed
        self.round = 0
        self.chosen_at = {}
        self._columns = None
        self._instance_indexes = None
        self._named = None
        self.journal = {}
        self.begun = 0

    # -- states and columns
    def state(self, index):
        found = self.states[index]
        if found is None:
            found = self.states[index] = HostState.from_document(self.hosts[index])
            if self.of_host:
                found.aggregates = self.of_host.get(found.host, [])
        return found

    @property
    def host_states(self):
        for index, one in enumerate(self.states):
            if one is None:
                self.state(index)
        return self.states

    def _load(self):
        """[(weigher, multiplier, column)] of the columns that can tell hosts apart."""
        hosts = self.host_states if any(self.states) else self.hosts
        usual = not isinstance(hosts[0], HostState) and columns.usual(hosts)
        self._columns = []
        for one in self.weighers:
            multiplier = one.sign * one.configured()
            if one.name not in columns.READERS or multiplier == 0:
                continue
            values = columns.column(one, hosts, usual)
            # Consumption never changes these three, so a column of equal values stays one.
            fixed = one.name in ("BuildFailureWeigher", "HypervisorVersionWeigher", "PCIWeigher")
            if not (fixed and min(values) == max(values)):
                self._columns.append((one, multiplier, values))

    # -- one request
    def fits_fast(self, spec):
        group = spec.instance_group
        return (
            spec.topology is None
            and not spec.pci_requests
            and not (spec.force_hosts or spec.force_nodes or spec.ignore_hosts or spec.requested_destination)
            and not any(hint in spec.scheduler_hints for hint in HINTS)
            and (
                self.options["max_placement_results"] is None
                or len(self.hosts) <= self.options["max_placement_results"]
            )
            and "retry" not in spec.document
            and (group is None or not any(uuid in self.instance_indexes() for uuid in spec.instance_uuids))
        )

    def instance_indexes(self):
        """{instance uuid: [indexes of the hosts that have it]}."""
        if self._instance_indexes is None:
            self._instance_indexes = {}
            for index, one in enumerate(self.hosts):
                made = self.states[index]
                for uuid in (
                    made.instances if made is not None else [each["uuid"] for each in one.get("instances") or ()]
                ):
                    self._instance_indexes.setdefault(uuid, []).append(index)
        return self._instance_indexes

    def _note(self, uuid, index):
        if self._instance_indexes is not None:
            self._instance_indexes[uuid] = [index]

    def _forget(self, uuids):
        for uuid in uuids if self._instance_indexes is not None else ():
            self._instance_indexes.pop(uuid, None)

    def run(self, spec, explain=False):
        if not self.hosts or not self.fits_fast(spec):
            return self._run_plain(spec, explain)
        position = len(self.log)
        group = spec.instance_group
        hosts_before = set(group.hosts) if group else None
        saved = {}
        try:
            selections, placed = self._place(spec, saved)
        except NoValidHost as error:
            for index, before in saved.items():
                self.states[index].__dict__.clear()
                self.states[index].__dict__.update(before)
                self._changed(index, 0)
            self._forget(spec.instance_uuids)
            if group:
                group.hosts = hosts_before
            again = self._explainer(spec, position, hosts_before)
            error.explanation = again
            return RequestResult(spec, (), error, again)
        for index, before in saved.items():
            self.journal.setdefault(index, before)
        self.log.append((spec, placed))
        self._settle(spec, selections, placed)
        return RequestResult(spec, selections, None, self._explainer(spec, position, hosts_before) if explain else None)

    def _settle(self, spec, selections, placed):
        props = spec.image.properties if spec.image else {}
        for one, (index, _allocation) in zip(selections, placed):
            instance = {"uuid": one.uuid, "name": one.name, "flavor": {"name": spec.flavor.name}, "image_props": props}
            self.states[index].instances[one.uuid] = instance
            self._note(one.uuid, index)

    def _run_plain(self, spec, explain):
        """The plain pipeline on the same states; what it changed is taken over."""
        if self.plain is None:
            self.plain = Pipeline(
                self.host_states, self.options, self.filters, self.weighers, self.aggregates, self.rng
            )
            self.plain.journal = {}
        result = self.plain.run(spec, explain)
        position = {(one.host, one.nodename): index for index, one in enumerate(self.states)}
        placed = []
        for one in result.selections:
            index = position[(one.host, one.nodename)]
            placed.append((index, one.allocation))
            self._changed(index, 0)
            self._note(one.uuid, index)
        if placed:
            self.log.append((spec, placed))
        return result

    def _explainer(self, spec, position, group_hosts):
        """A function that runs the request again in the plain pipeline, on the states it met, and tells every verdict."""
        log = self.log
        uuids = list(spec.instance_uuids)

        def explain():
            again = FastPipeline(self.hosts, self.options, self.filters, self.weighers, self.aggregates, self.rng)
            for earlier, placed in log[:position]:
                again._replay(earlier, placed)
            group = spec.instance_group
            kept = (set(group.hosts), set(group.members)) if group else None
            if group:
                group.hosts = set(group_hosts)
            try:
                trace_result = again._run_plain(spec, True)
            finally:
                if group:
                    group.hosts, group.members = kept
                spec.instance_uuid = uuids[-1]
            return trace_result.explanation

        return explain

    def _replay(self, spec, placed):
        props = spec.image.properties if spec.image else {}
        for uuid, (index, allocation) in zip(spec.instance_uuids, placed):
            state = self.state(index)
            capacity.consume(state, spec, allocation)
            state.instances[uuid] = {
                "uuid": uuid,
                "name": spec.name,
                "flavor": {"name": spec.flavor.name},
                "image_props": props,
            }

    # -- kinds
    def _kind(self, spec):
        group = spec.instance_group
        key = (
            repr(spec.flavor.document),
            repr(spec.image.document) if spec.image else None,
            spec.project_id,
            spec.availability_zone,
            spec.is_bfv,
            group.uuid if group and group.policy not in SOFT else None,
            repr(spec.network_metadata),
        )
        kind = self.kinds.get(key)
        if kind is None:
            query, _limit = prefilters.query_for(spec, self.options, self.aggregates, ())
            kind = self.kinds[key] = Kind(spec, query, query.ask.amounts)
        return kind

    def _refresh(self, kind):
        """Forget what hosts that changed since the kind was last used have made untrue."""
        changed = self.changes[kind.seen :]
        kind.seen = len(self.changes)
        for index in changed:
            kind.ok.pop(index, None)
        for index in changed:
            self._follow(kind, index)

    def _follow(self, kind, index):
        """Keep the extremes right after one host has changed."""
        for number, (_weigher, _multiplier, values) in enumerate(self._columns):
            for sign in (1, -1):
                extreme = kind.extremes.get((number, sign))
                if extreme is None:
                    continue
                value, holder = extreme
                mine = sign * values[index]
                if holder == index and mine < value or (holder == index and not self._ok(kind, index)):
                    del kind.extremes[(number, sign)]
                elif mine > value and self._ok(kind, index):
                    kind.extremes[(number, sign)] = (mine, index)

    def _ok(self, kind, index):
        """Whether the host passes all filters for this kind of request; asked once, until the host changes."""
        known = kind.ok.get(index)
        if known is None:
            state, spec = self.state(index), kind.spec
            known = kind.query.passes(state) and all(judge(one, state, spec).passed for one in self.filters)
            kind.ok[index] = known
        return known

    def _extreme(self, kind, number, sign):
        """The largest of sign * column over the hosts that pass, or None where no host does."""
        values = self._columns[number][2]
        if kind.narrow is not None:
            return max((sign * values[index] for index in kind.narrow if self._ok(kind, index)), default=None)
        known = kind.extremes.get((number, sign))
        if known is not None:
            return known[0]
        best = max(values) if sign > 0 else min(values)
        index = values.index(best)
        if not self._ok(kind, index):
            index = self._walk(kind, values, sign)
            if index is None:
                return None
        kind.extremes[(number, sign)] = (sign * values[index], index)
        return sign * values[index]

    def _walk(self, kind, values, sign):
        """The index of the first passing host in descending order of sign * value."""
        size, total = FIRST, len(values)
        done = 0
        while done < total:
            size = min(size, total)
            if size < total:
                some = (heapq.nlargest if sign > 0 else heapq.nsmallest)(size, range(total), key=values.__getitem__)
            else:
                some = sorted(range(total), key=values.__getitem__, reverse=sign > 0)
            for index in some[done:]:
                if self._ok(kind, index):
                    return index
            done, size = size, size * 8
        return None

    def _normalisation(self, kind):
        """((column, multiplier, low, spread), ...) of the columns that tell the passing hosts apart; None without hosts."""
        found = []
        for number, (weigher, multiplier, _values) in enumerate(self._columns):
            high = self._extreme(kind, number, 1)
            if high is None:
                return None
            low = weigher.minval if weigher.minval is not None else -self._extreme(kind, number, -1)
            high, low = float(high), float(low)
            if high != low:
                found.append((number, multiplier, low, high - low))
        return tuple(found)

    def _view(self, terms):
        view = self.views.get(terms)
        if view is None:
            while len(self.views) >= VIEWS:
                del self.views[next(iter(self.views))]
            view = self.views[terms] = View(self._weights(terms))
            for index, chosen_at in self.chosen_at.items():
                view.update(index, view.weights[index], chosen_at)
        return view

    def _weights(self, terms):
        """The weights of all hosts, summed in the order of the weighers' names as in the plain pipeline."""
        if not terms:
            return [0.0] * len(self.hosts)
        total = None
        for number, multiplier, low, spread in terms:
            values = self._columns[number][2]
            if low == 0.0 and multiplier in (1.0, -1.0):
                if total is None:
                    total = [x / spread for x in values] if multiplier > 0 else [-(x / spread) for x in values]
                elif multiplier > 0:
                    total = [w + x / spread for w, x in zip(total, values)]
                else:
                    total = [w - x / spread for w, x in zip(total, values)]
            elif total is None:
                total = [0.0 + multiplier * ((x - low) / spread) for x in values]
            else:
                total = [w + multiplier * ((x - low) / spread) for w, x in zip(total, values)]
        return total

    def _weight(self, terms, index):
        total = 0.0
        for number, multiplier, low, spread in terms:
            total += multiplier * ((self._columns[number][2][index] - low) / spread)
        return total

    def _changed(self, index, chosen_at):
        """The state of a host has changed: its numbers and its place in every view follow."""
        self.changes.append(index)
        if self._columns is None:
            return
        state = self.states[index]
        for weigher, _multiplier, values in self._columns:
            raw = weigher.raw(state, None)
            values[index] = raw if weigher.minval is None or raw > weigher.minval else weigher.minval
        for terms, view in self.views.items():
            view.update(index, self._weight(terms, index), chosen_at)

    # -- undo
    def begin(self):
        """From here on rollback() leads back to here."""
        self.journal = {}
        self.begun = len(self.log)
        if self.plain is not None:
            self.plain.begin()

    def rollback(self):
        before = dict(self.journal)
        if self.plain is not None:
            position = {id(one): index for index, one in enumerate(self.states)}
            for host_state, saved in self.plain.journal.items():
                before.setdefault(position[id(host_state)], saved)
        for index, saved in before.items():
            self.states[index].__dict__.clear()
            self.states[index].__dict__.update(saved)
            self._changed(index, 0)
        for spec, _placed in self.log[self.begun :]:
            self._forget(spec.instance_uuids)
        del self.log[self.begun :]

    # -- placing
    def _place(self, spec, saved):
        if self._columns is None:
            self._load()
        self._new_request()
        kind = self._kind(spec)
        kind.spec = spec
        self._refresh(kind)
        group = spec.instance_group
        if group is not None and group.policy == "affinity":
            self._narrow(kind, group)
        alternates = self.options["max_attempts"] - 1
        several = spec.num_instances > 1
        full, selections, placed, others = set(), [], [], []
        for number, uuid in enumerate(spec.instance_uuids):
            spec.instance_uuid = uuid
            if placed:
                self._after(kind, spec, placed[-1][0])
            index, others = self._choose(kind, full, 0 if several else alternates)
            if index is None:
                raise NoValidHost(
                    "no valid host was found for %s (instance %d of %d)" % (spec.name, number + 1, spec.num_instances)
                )
            state = self.states[index]
            if index not in saved:
                saved[index] = state.copy().__dict__
            allocation = capacity.allocation_of(kind.amounts)
            capacity.consume(state, spec, allocation)
            if group is not None:
                first = not group.hosts
                group.hosts.add(state.host)
                state.instances.setdefault(uuid, {"uuid": uuid, "flavor": {"name": spec.flavor.name}})
                self._note(uuid, index)
                if first and group.policy == "affinity":
                    self._narrow(kind, group)
            self.round += 1
            self.chosen_at[index] = self.round
            self._changed(index, self.round)
            selections.append(
                Selection(uuid, spec.name, state, allocation, copy.deepcopy(state.limits) if state.limits else {})
            )
            placed.append((index, allocation))
        if alternates:
            self._add_alternates(kind, spec, several, selections, placed, others)
        return selections, placed

    def _narrow(self, kind, group):
        """Whoever has judged hosts for an affine group judges them anew; with hosts of its own only those can pass."""
        kind.ok.clear()
        kind.extremes.clear()
        kind.narrow = None
        if group.hosts and any(one.name == "ServerGroupAffinityFilter" for one in self.filters):
            if self._named is None:
                self._named = {}
                for index, one in enumerate(self.hosts):
                    self._named.setdefault(one.host if isinstance(one, HostState) else one["host"], []).append(index)
            kind.narrow = sorted(index for name in group.hosts for index in self._named.get(name, ()))

    def _new_request(self):
        """Among equals, who was chosen in an earlier request comes in its place by index again."""
        if self.round:
            for view in self.views.values():
                for index in self.chosen_at:
                    view.update(index, view.weights[index], 0)
            self.chosen_at, self.round = {}, 0

    def _after(self, kind, spec, index):
        """Ask the filters that run for every instance about the host that has just taken one."""
        state = self.states[index]
        kind.ok[index] = kind.ok.get(index) is not False and all(
            judge(one, state, spec).passed for one in self.each_time
        )
        self._follow(kind, index)

    def _in_order(self, kind):
        """The indexes of the passing hosts, best first; only one such generator at a time."""
        soft = self._soft(kind.spec)
        return self._in_soft_order(kind, soft) if soft else self._in_base_order(kind)

    def _soft(self, spec):
        """(weigher, multiplier) of the request's soft group policy, or None."""
        group = spec.instance_group
        name = group and SOFT.get(group.policy)
        for one in self.weighers if name else ():
            if one.name == name and one.configured() != 0:
                return one, one.sign * one.configured()
        return None

    def _in_soft_order(self, kind, soft):
        """As _in_base_order, with the weight of a soft group added: few hosts have members, all others are alike in it.

        The soft weighers come last by name, so their part is added last, as in the plain pipeline.
        """
        weigher, multiplier = soft
        spec = kind.spec
        terms = self._normalisation(kind)
        if terms is None:
            return
        where = {index for uuid in spec.instance_group.members for index in self.instance_indexes().get(uuid, ())}
        raws = {index: weigher.raw(self.state(index), spec) for index in where if self._ok(kind, index)}
        with contextlib.closing(self._in_base_order(kind)) as base:
            base = (index for index in base if index not in raws)
            first = next(base, None)
            values = list(raws.values()) + ([0] if first is not None else [])
            low, high = float(min(values)), float(max(values))

            def part(raw):
                return multiplier * ((raw - low) / (high - low)) if high != low else 0.0

            weights = self._view(terms).weights
            members = sorted(
                (-(weights[index] + part(raw)), -self.chosen_at.get(index, 0), index) for index, raw in raws.items()
            )
            others = self._by_sum(base, first, weights, part(0) if first is not None else 0.0)
            for entry in heapq.merge(members, others):
                yield entry[2]

    def _by_sum(self, base, first, weights, part):
        """Entries of the hosts of ``base`` by weight + part; equal sums (rounding may make them) in the order of ties."""
        equal, index = [], first
        while index is not None:
            entry = (-(weights[index] + part), -self.chosen_at.get(index, 0), index)
            if equal and entry[0] != equal[0][0]:
                yield from sorted(equal)
                equal = []
            equal.append(entry)
            index = next(base, None)
        yield from sorted(equal)

    def _in_base_order(self, kind):
        terms = self._normalisation(kind)
        if terms is None:
            return
        if kind.narrow is not None:
            passing = [index for index in kind.narrow if self._ok(kind, index)]
            yield from sorted(
                passing, key=lambda index: (-self._weight(terms, index), -self.chosen_at.get(index, 0), index)
            )
            return
        view = self._view(terms)
        try:
            while True:
                entry = view.top()
                if entry is None:
                    return
                view.set_aside()
                if self._ok(kind, entry[2]):
                    yield entry[2]
        finally:
            view.restore()

    def _choose(self, kind, full, alternates):
        """(index of the best host whose claim holds, [indexes of its alternates]), or (None, [])."""
        best, others = None, []
        with contextlib.closing(self._in_order(kind)) as order:
            for index in order:
                if best is not None:
                    self._offer(kind, index, best, others)
                elif index in full or not capacity.fits(self.states[index], kind.amounts):
                    full.add(index)
                else:
                    best = index
                if best is not None and len(others) >= alternates:
                    break
        return best, others

    def _offer(self, kind, index, best, others):
        state = self.states[index]
        if state.cell_uuid == self.states[best].cell_uuid and self._alternate(kind, state):
            others.append(index)

    def _alternate(self, kind, state):
        """The alternate that a host makes, or None."""
        limits = copy.deepcopy(state.limits) if state.limits else {}
        if limits:
            try:
                allocation = capacity.allocate(state, kind.spec, limits)
            except capacity.ClaimFailed:
                return None
        elif capacity.fits(state, kind.amounts):
            allocation = capacity.allocation_of(kind.amounts)
        else:
            return None
        return {"host": state.host, "host_uuid": state.uuid, "allocation": allocation, "limits": limits}

    def _add_alternates(self, kind, spec, several, selections, placed, others):
        if not several:
            selections[0].alternates = [self._alternate(kind, self.states[index]) for index in others]
            return
        self._after(kind, spec, placed[-1][0])
        number = self.options["max_attempts"] - 1
        chosen = {index for index, _allocation in placed}
        missing = {self.states[index].cell_uuid: [] for index in chosen}
        with contextlib.closing(self._in_order(kind)) as order:
            for index in order:
                found = missing.get(self.states[index].cell_uuid)
                if found is not None and len(found) < number and index not in chosen:
                    one = self._alternate(kind, self.states[index])
                    if one:
                        found.append(one)
                        if all(len(each) >= number for each in missing.values()):
                            break
        for selection, (index, _allocation) in zip(selections, placed):
            selection.alternates = list(missing[self.states[index].cell_uuid])
