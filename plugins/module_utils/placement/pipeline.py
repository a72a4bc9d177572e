# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pipeline of Nova's filter scheduler, one request after the other, in its plain form.

Theory of operation: placement
==============================

Placement answers one question: on which host. It gets documents of hosts, request specs, options and a seed, and returns
selections with alternates and the reasons. It reads no file, no clock and no host: the same input gives the same answer,
which is why a receipt can be replayed.

    host documents --> host states --+
                                     v
    request --> prefilters --> filters, in order --> weighers --> the best ones ----> claim   --> selection
                candidates     a verdict per host    one number    drawn with the seed     |        + alternates
                                     ^                                                     |
                                     +----------- the chosen host, with less room ---------+
                                                  for the next instance of the run

A prefilter says which hosts are candidates at all, as Placement does for Nova. A filter says yes or no for one host, with
the reason and the numbers. A weigher gives a host a number; the numbers of one weigher are stretched to 0..1 over the
hosts that are left, multiplied and added. The best host is taken, or one of the best ``host_subset_size`` is drawn. The
claim is arithmetic on the host state (capacity.py); a host on which it fails is passed over. What was placed is
subtracted, so that all instances of a run see one another.

The answer is advice. The host repeats the arithmetic of capacity.py under its own lock when it is asked for the room
(compute/record/ledger.py), since others may have been there first. Whoever loses goes on to an alternate.

fast/pipeline.py takes the same decisions without looking at each host each time; this file says what they have to be.

The code
========

Per request: candidates (prefilters), then for every instance: filter, weigh, choose, claim, consume. The list of hosts
shrinks from instance to instance; capacity is tested by the claim, so a host that is full stays in the list.
"""

from __future__ import annotations

import copy

from . import capacity, numa_usage, pci, prefilters
from .errors import NoValidHost
from .explain import no_valid_host
from .filtering import filtered
from .filters.state import ComputeFilter
from .result import RequestResult, Selection
from .weighing import best_first, drawn, weighed

# Subtracts a placed instance from its host, so that the next instance sees what is left.


def consume(spec, host_state, amounts, packing):
    """Subtract the instance from the host; return (allocation, what did not fit).

    NUMA cells and PCI devices that no enabled filter has tested may turn out not to fit here. As in Nova, the host
    stays chosen and its claim will decide; the rest of its state, from the PCI devices on, is then not counted.
    """
    topology, fitted, reason = spec.topology, None, ""
    if topology and host_state.numa_topology:
        limits = host_state.limits.get("numa_topology")
        fitted = capacity.fit_numa(host_state, topology, limits, spec.pci_requests, packing)
        reason = "" if fitted else "the NUMA topology does not fit"
        # The next instance of the request asks for what this one got.
        spec.topology = fitted
    cells = spec.topology.cells if spec.topology else None
    devices, missing = [], False
    pools = pci.copy_pools(host_state.pci_stats)
    for request in spec.pci_requests:
        taken = pci.take(pools, [request], cells, host_state.numa_topology)
        if taken is None:
            missing, reason = True, "has no free PCI devices for %s" % request["alias_name"]
            break
        devices += taken
    allocation = capacity.allocation_of(amounts, fitted, pci.give_addresses(host_state.pci_devices, devices))
    try:
        capacity.consume(host_state, spec, allocation)
        if missing:
            host_state.num_io_ops -= 1
    except numa_usage.PinningInvalid as error:
        reason = str(error)
    return allocation, reason


def settle(host_state, spec, selection):
    """Let later requests see the instance that was placed on the host."""
    host_state.instances[selection.uuid] = {
        "uuid": selection.uuid,
        "name": selection.name,
        "flavor": {"name": spec.flavor.name},
        "image_props": spec.image.properties if spec.image else {},
    }


class Pipeline:
    """Runs requests against host states, which it changes."""

    def __init__(self, host_states, options, filters, weighers, aggregates, rng):
        self.host_states = host_states
        self.options = options
        self.filters = filters
        self.weighers = weighers
        self.aggregates = aggregates
        self.rng = rng
        self.by_key = {(host_state.host, host_state.nodename): host_state for host_state in host_states}
        self.position = {id(host_state): number for number, host_state in enumerate(host_states)}
        self.chosen_at = {}
        self.round = 0
        self.saved = {}
        self.journal = {}

    def begin(self):
        """Mark the state to which rollback() returns."""
        self.journal = {}

    def rollback(self):
        for host_state, before in self.journal.items():
            host_state.__dict__.clear()
            host_state.__dict__.update(before)
        self.journal = {}

    def run(self, spec, explain=False):
        """Return the RequestResult of one request; on failure nothing is changed and the result has its explanation."""
        self.saved = {}
        for host_state in self.host_states:
            # Limits are those that the filters of this request set.
            host_state.limits = {}
        group = spec.instance_group
        hosts_before = set(group.hosts) if group else None
        trace = {"candidates": {}, "instances": []} if explain else None
        state = self.rng.getstate()
        topology = spec.topology.copy() if spec.topology else None
        try:
            selections = self._place(spec, trace)
        except NoValidHost as error:
            self._restore(spec, topology, hosts_before)
            if not explain:
                self.rng.setstate(state)
                return self.run(spec, True)
            return RequestResult(spec, (), error, trace)
        if spec.is_rebuild:
            self._restore(spec, topology, hosts_before)
        else:
            for host_state, before in self.saved.items():
                self.journal.setdefault(host_state, before)
            self._settle(spec, selections)
        return RequestResult(spec, selections, None, trace)

    def _restore(self, spec, topology, group_hosts):
        for host_state, before in self.saved.items():
            host_state.__dict__.clear()
            host_state.__dict__.update(before)
        self.saved = {}
        spec.topology = topology
        if spec.instance_group is not None:
            spec.instance_group.hosts = group_hosts

    def _settle(self, spec, selections):
        for selection in selections:
            settle(self.by_key[(selection.host, selection.nodename)], spec, selection)

    def _place(self, spec, trace):
        hosts, asks = self._candidates(spec, trace)
        self.chosen_at = {}
        self.round = 0
        chosen, selections = [], []
        for index, uuid in enumerate(spec.instance_uuids):
            spec.instance_uuid = uuid
            record = self._new_record(trace, uuid)
            hosts = self._sorted(spec, hosts, index, record)
            got = self._claim(spec, hosts, asks, record)
            if got is None:
                raise NoValidHost(no_valid_host(spec, index, True, bool(hosts)))
            host_state, allocation = got
            chosen.append(host_state)
            selections.append(Selection(uuid, spec.name, host_state, allocation, copy.deepcopy(host_state.limits)))
        if not spec.is_rebuild:
            self._alternates(spec, hosts, chosen, selections)
        return selections

    @staticmethod
    def _new_record(trace, uuid):
        if trace is None:
            return None
        record = {
            "uuid": uuid,
            "hosts": [],
            "filters": [],
            "weighers": [],
            "weights": {},
            "order": [],
            "claims": [],
            "host": None,
        }
        trace["instances"].append(record)
        return record

    # -- candidates
    def _candidates(self, spec, trace):
        """Return (host states, {id(host state): amounts to claim}) as Placement would."""
        if spec.is_rebuild:
            return list(self.host_states), {}
        query, limit = prefilters.query_for(spec, self.options, self.aggregates, self.host_states)
        if trace is not None:
            trace["candidates"] = {host_state.key: query.verdicts(host_state) for host_state in self.host_states}
        candidates = [host_state for host_state in self.host_states if query.passes(host_state)]
        if limit is not None and len(candidates) > limit:
            candidates = self._limit(query, candidates, limit)
        asks = {id(host_state): query.amounts(host_state) for host_state in candidates}
        candidates = [host_state for host_state in candidates if query.same_cell(host_state)]
        if not candidates:
            raise NoValidHost(no_valid_host(spec, 0, False, False))
        return candidates, asks

    @staticmethod
    def _limit(query, found, limit):
        """Apply Nova's limit, which counts each of its two queries separately."""
        candidates, counts = [], [0, 0]
        for host_state in found:
            answers = [
                query._answers(host_state, query.ask),
                query.fallback is not None and query._answers(host_state, query.fallback),
            ]
            keep = False
            for number, answer in enumerate(answers):
                if answer and counts[number] < limit:
                    counts[number] += 1
                    keep = True
            if keep:
                candidates.append(host_state)
        return candidates

    # -- filters and weights
    def _sorted(self, spec, hosts, index, record):
        survivors = filtered(self.filters, spec, hosts, index, record)
        if not survivors:
            return []
        weights = weighed(self.weighers, spec, survivors, record)
        return self._ordered(survivors, weights, record)

    def _ordered(self, hosts, weights, record):
        order = best_first(hosts, weights, self.chosen_at, self.position)
        order, among = drawn(order, weights, self.options, self.rng)
        if record is not None:
            record["order"] = [host_state.key for host_state in order]
            if among > 1:
                record["drawn_among"] = among
        return order

    # -- claims
    def _claim(self, spec, hosts, asks, record):
        """(host state, allocation) of the first host in order whose claim holds, or None."""
        for host_state in hosts:
            allocation, reason = self._try(spec, host_state, asks)
            if record is not None:
                record["claims"].append({"host": host_state.key, "passed": allocation is not None, "reason": reason})
            if allocation is not None:
                if record is not None:
                    record["host"] = host_state.key
                return host_state, allocation
        return None

    def _try(self, spec, host_state, asks):
        amounts = asks.get(id(host_state), {})
        if not capacity.fits(host_state, amounts):
            short = capacity.shortfalls(host_state, amounts, capacity.lowered(host_state, spec))
            if short:
                return None, "; ".join(shortfall["reason"] for shortfall in short)
        if host_state not in self.saved:
            self.saved[host_state] = host_state.copy().__dict__
        allocation, reason = consume(
            spec, host_state, amounts, self.options["packing_host_numa_cells_allocation_strategy"]
        )
        self.round += 1
        self.chosen_at[id(host_state)] = self.round
        group = spec.instance_group
        if group is not None:
            group.hosts.add(host_state.host)
            host_state.instances.setdefault(
                spec.instance_uuid, {"uuid": spec.instance_uuid, "flavor": {"name": spec.flavor.name}}
            )
        return allocation, reason

    def _alternates(self, spec, hosts, chosen, selections):
        number = self.options["max_attempts"] - 1
        if number < 1:
            return
        if len(selections) > 1:
            hosts = self._sorted(spec, hosts, len(selections) - 1, None)
        taken = {id(host_state) for host_state in chosen}
        usable = {}
        for host_state, selection in zip(chosen, selections):
            for other in hosts:
                if len(selection.alternates) >= number:
                    break
                if id(other) in taken or other.cell_uuid != host_state.cell_uuid:
                    continue
                if id(other) not in usable:
                    usable[id(other)] = self._alternate(spec, other)
                if usable[id(other)]:
                    selection.alternates.append(usable[id(other)])

    def _alternate(self, spec, host_state):
        limits = copy.deepcopy(host_state.limits)
        try:
            allocation = capacity.allocate(host_state, spec, limits)
        except capacity.ClaimFailed:
            return None
        return {"host": host_state.host, "host_uuid": host_state.uuid, "allocation": allocation, "limits": limits}


def run_simple(pipeline, spec, explain):
    """Run one request with the driver chance (a random host that is up) or fake (the first one): no filter but ComputeFilter, no
    weigher. Both still claim. Which host comes first: see drawn()."""
    before = pipeline.filters, pipeline.weighers
    pipeline.filters, pipeline.weighers = [ComputeFilter(pipeline.options)], []
    try:
        return pipeline.run(spec, explain)
    finally:
        pipeline.filters, pipeline.weighers = before
