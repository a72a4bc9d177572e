# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pipeline for large fleets: the same decisions as pipeline.Pipeline, without looking at every host each time.

What makes it fast: weights are kept as columns of numbers and computed again only if an extreme of the normalisation
moves; the best host comes from a heap; filters judge a host only when it is about to be chosen or defines an extreme.
Verdicts and consumption come from the plain pipeline's own code. A request that needs more (see fits_fast) goes through
the plain pipeline on the same host states.
"""

from __future__ import annotations

import contextlib
import copy

from .. import capacity
from .. import filters as own_filters
from ..errors import NoValidHost
from ..explain import no_valid_host
from ..pipeline import Pipeline, consume, settle
from ..result import RequestResult, Selection
from . import columns
from .hosts import Hosts
from .kind import SOFT, Kind, kind_key
from .ranking import FullRanking, Ranking
from .recorder import Recorder

# These weigh 0 on every host, except for a soft group.
ALWAYS_ZERO = ("CrossCellWeigher", *SOFT.values())


def serves(options, filters):
    """Whether these filters and options have a fast form (single requests may still need the plain one)."""
    if options["driver"] != "filter":
        return False
    if any(type(filter_).__module__.rpartition(".")[0] != own_filters.__name__ for filter_ in filters):
        return False
    # DumpFilter reports the limits that the filters before it have set.
    return all(filter_.name != "DumpFilter" for filter_ in filters)


def have_columns(weighers, aggregates):
    """Whether the weighers' numbers are columns that change only where an instance is placed."""
    for weigher in weighers:
        if weigher.name in SOFT.values():
            key = weigher.multiplier_key or weigher.multiplier_option
            if any(key in aggregate.metadata for aggregate in aggregates):
                return False
        elif not (
            weigher.name in columns.READERS
            or weigher.name in ALWAYS_ZERO
            or (weigher.name == "MetricsWeigher" and not weigher.setting)
            or (weigher.name == "ImagePropertiesWeigher" and weigher.configured() == 0.0)
        ):
            return False
    return True


class FastPipeline:
    """Runs requests against host documents or states; has the methods of Pipeline that the scheduler uses."""

    def __init__(self, hosts, options, filters, weighers, aggregates, rng):
        self.hosts = Hosts(hosts, aggregates)
        self.options = options
        self.filters = filters
        self.weighers = weighers
        self.aggregates = aggregates
        self.rng = rng
        ranking = Ranking if have_columns(weighers, aggregates) else FullRanking
        self.ranking = ranking(self.hosts, options, weighers, rng)
        self.plain = None
        self.recorder = None
        self.kinds = {}
        self.journal = {}

    @property
    def host_states(self):
        return self.hosts.all_states()

    # -- one request
    def fits_fast(self, spec):
        destination = spec.requested_destination or {}
        limit = self.options["max_placement_results"]
        return (
            (spec.num_instances == 1 or (spec.topology is None and not spec.pci_requests))
            and "_nova_check_type" not in spec.scheduler_hints
            and not destination.get("allow_cross_cell_move")
            and (limit is None or len(self.hosts) <= limit)
            and not self._lowers(spec)
        )

    def _lowers(self, spec):
        """Whether it is a resize on a host that is over its limits, which only the plain pipeline judges."""
        places = self.hosts.of_instance.get(spec.instance_uuid, ())
        return any(capacity.lowered(self.hosts.state(index), spec) for index in places)

    def run(self, spec, explain=False):
        """Return the RequestResult of one request; on failure nothing is changed and the result has its explanation."""
        if not self.hosts.given or not self.fits_fast(spec) or (explain and not self.ranking.records):
            return self._run_plain(spec, explain)
        group, topology = spec.instance_group, spec.topology.copy() if spec.topology else None
        hosts_before = set(group.hosts) if group else None
        random = self.rng.getstate() if self.ranking.draws else None
        saved = {}
        record = self._recorder().request(spec) if explain else None
        try:
            selections, indexes = self._place(spec, saved, record)
        except NoValidHost as error:
            self._put_back(saved)
            spec.topology = topology
            if group:
                group.hosts = hosts_before
            if not explain:
                if random:
                    self.rng.setstate(random)
                return self.run(spec, True)
            return RequestResult(spec, (), error, record)
        for index, before in saved.items():
            self.journal.setdefault(index, before)
        for selection, index in zip(selections, indexes):
            settle(self.hosts.states[index], spec, selection)
            self.hosts.note(selection.uuid, index)
        return RequestResult(spec, selections, None, record)

    def _recorder(self):
        if self.recorder is None:
            self.recorder = Recorder(self.hosts, self.filters, self.weighers)
        return self.recorder

    def _run_plain(self, spec, explain):
        """Run the plain pipeline on the same states and take over its changes."""
        if self.plain is None:
            self.plain = Pipeline(
                self.host_states, self.options, self.filters, self.weighers, self.aggregates, self.rng
            )
        self.plain.journal = {}
        result = self.plain.run(spec, explain)
        for host_state, before in self.plain.journal.items():
            index = self.plain.position[id(host_state)]
            self.journal.setdefault(index, before)
            self.ranking.changed(index)
            for uuid in spec.instance_uuids:
                if uuid in host_state.instances:
                    self.hosts.note(uuid, index)
        return result

    # -- undo
    def begin(self):
        """Mark the state to which rollback() returns."""
        self.journal = {}

    def rollback(self):
        self._put_back(self.journal)
        self.journal = {}

    def _put_back(self, saved):
        self.hosts.put_back(saved)
        for index in saved:
            self.ranking.changed(index)

    # -- placing
    def _place(self, spec, saved, record):
        """Return ([Selection], [index of its host]); NoValidHost leaves the former states in ``saved``."""
        self.ranking.new_request()
        kind = self._kind(spec)
        group = spec.instance_group
        if group is not None and group.policy == "affinity":
            kind.narrow_to(group)
        alternates = self.options["max_attempts"] - 1
        several = spec.num_instances > 1
        if record:
            record.candidates(kind)
        full, selections, placed, others = set(), [], [], []
        for number, uuid in enumerate(spec.instance_uuids):
            spec.instance_uuid = uuid
            if placed:
                kind.after(placed[-1])
            note = record.instance(kind, number) if record else None
            index, others = self._choose(kind, full, 0 if several else alternates, note)
            if index is None:
                with contextlib.closing(self.ranking.in_order(kind)) as order:
                    passing = next(order, None) is not None
                raise NoValidHost(no_valid_host(spec, number, number > 0 or passing or kind.candidates(), passing))
            selections.append(self._take(kind, index, saved, note))
            placed.append(index)
        if alternates:
            self._add_alternates(kind, selections, placed, others)
        return selections, placed

    def _kind(self, spec):
        key = kind_key(spec, self.hosts)
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = Kind(
                spec, self.hosts, self.options, self.filters, self.aggregates, self.ranking.terms
            )
        kind.spec = spec
        kind.refresh()
        return kind

    def _take(self, kind, index, saved, note):
        """Subtract the instance being placed from the host; return its Selection."""
        spec, group = kind.spec, kind.spec.instance_group
        kind.set_limits(index)
        state = self.hosts.states[index]
        if index not in saved:
            saved[index] = state.copy().__dict__
        amounts, reason = kind.amounts_on(index), ""
        if spec.topology is None and not spec.pci_requests:
            allocation = capacity.allocation_of(amounts)
            capacity.consume(state, spec, allocation)
        else:
            packing = self.options["packing_host_numa_cells_allocation_strategy"]
            allocation, reason = consume(spec, state, amounts, packing)
        if note:
            note.chosen(index, reason)
        if group is not None:
            first = not group.hosts
            group.hosts.add(state.host)
            instance = {"uuid": spec.instance_uuid, "flavor": {"name": spec.flavor.name}}
            state.instances.setdefault(spec.instance_uuid, instance)
            self.hosts.note(spec.instance_uuid, index)
            if first and group.policy == "affinity":
                kind.narrow_to(group)
        self.ranking.choose(index)
        limits = copy.deepcopy(state.limits) if state.limits else {}
        return Selection(spec.instance_uuid, spec.name, state, allocation, limits)

    # -- choosing
    def _choose(self, kind, full, alternates, note):
        """Return (index of the best host whose claim holds, [its alternates]), or (None, [])."""
        best, others = None, []
        with contextlib.closing(self.ranking.in_order(kind)) as order:
            for _weight, _chosen_at, index in self.ranking.drawn(order, note):
                if best is not None:
                    if self.hosts.states[index].cell_uuid == self.hosts.states[best].cell_uuid:
                        alternate = self._alternate(kind, index)
                        others += [alternate] if alternate else []
                elif index in full or not capacity.fits(self.hosts.states[index], kind.amounts_on(index)):
                    full.add(index)
                    if note:
                        note.claim_failed(self.hosts.states[index], index, kind.amounts_on(index))
                else:
                    best = index
                if best is not None and len(others) >= alternates:
                    break
        return best, others

    def _alternate(self, kind, index):
        """Return the host as an alternate, or None if it has no room."""
        kind.set_limits(index)
        state, spec = self.hosts.states[index], kind.spec
        limits = copy.deepcopy(state.limits) if state.limits else {}
        if limits or spec.numa_topology or spec.topology or spec.pci_requests:
            try:
                allocation = capacity.allocate(state, spec, limits)
            except capacity.ClaimFailed:
                return None
        elif capacity.fits(state, kind.amounts_on(index)):
            allocation = capacity.allocation_of(kind.amounts_on(index))
        else:
            return None
        return {"host": state.host, "host_uuid": state.uuid, "allocation": allocation, "limits": limits}

    def _add_alternates(self, kind, selections, placed, others):
        if len(selections) == 1:
            selections[0].alternates = others
            return
        kind.after(placed[-1])
        states = self.hosts.states
        number = self.options["max_attempts"] - 1
        missing = {states[index].cell_uuid: [] for index in placed}
        with contextlib.closing(self.ranking.in_order(kind)) as order:
            for _weight, _chosen_at, index in self.ranking.drawn(order, None):
                found = missing.get(states[index].cell_uuid)
                if found is not None and len(found) < number and index not in placed:
                    alternate = self._alternate(kind, index)
                    if alternate:
                        found.append(alternate)
                        if all(len(each) >= number for each in missing.values()):
                            break
        for selection, index in zip(selections, placed):
            selection.alternates = list(missing[states[index].cell_uuid])
