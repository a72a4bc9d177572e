# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pipeline of Nova's filter scheduler, one request after the other, in its plain form.

Per request: candidates (prefilters), then for every instance: filter, weigh, choose, claim, consume. The list of hosts
shrinks from instance to instance; capacity is tested by the claim, so a host that is full stays in the list.
"""

from __future__ import annotations

import copy
import math

from ..model.resources import InstanceTopology
from . import capacity, numa, pci, prefilters
from .base import PASS, Verdict, Weigher, normalize
from .errors import NoValidHost
from .result import RequestResult, Selection


def prepare(spec, aliases, known=None):
    """Derive from flavor and image what the document does not give: NUMA topology and PCI requests.

    ``known`` keeps what was derived for the next request of the same flavor and image.
    """
    known = {} if known is None else known
    has_requests = spec.pci_requests is not None  # which may be of aliases that only that instance has
    key = (repr(spec.flavor.document), repr(spec.image.document) if spec.image else None, has_requests)
    if key not in known:
        known[key] = (
            numa.constraints(spec.flavor, spec.image_props),
            None if has_requests else pci.requests_from(spec.flavor, spec.image_props, aliases),
        )
    topology, requests = known[key]
    spec.topology = InstanceTopology.from_document(spec.numa_topology) or (topology.copy() if topology else None)
    if not has_requests:
        spec.pci_requests = requests
    return spec


class Pipeline:
    """Runs requests against host states, which it changes."""

    def __init__(self, host_states, options, filters, weighers, aggregates, rng):
        self.host_states = host_states
        self.options = options
        self.filters = filters
        self.weighers = weighers
        self.aggregates = aggregates
        self.rng = rng
        self.by_key = {(one.host, one.nodename): one for one in host_states}
        self.position = {id(one): number for number, one in enumerate(host_states)}
        # Keys in the metadata of any host's aggregates.
        self.overriding = {key for state in host_states for one in state.aggregates for key in one.metadata}
        self.chosen_at = {}
        self.round = 0
        self.saved = {}
        self.journal = {}

    def begin(self):
        """From here on rollback() leads back to here."""
        self.journal = {}

    def rollback(self):
        for host_state, before in self.journal.items():
            host_state.__dict__.clear()
            host_state.__dict__.update(before)
        self.journal = {}

    def run(self, spec, explain=False):
        """The RequestResult of one request; on failure nothing is changed and the result explains itself."""
        self.saved = {}
        for one in self.host_states:
            # Limits are those that the filters of this request set.
            one.limits = {}
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
            error.explanation = trace
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
        for one in selections:
            settle(self.by_key[(one.host, one.nodename)], spec, one)

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
                raise NoValidHost(no_host(spec, index, True, bool(hosts)))
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
        """(host states, {id(host state): amounts to claim}) that Placement would return."""
        if spec.is_rebuild:
            return list(self.host_states), {}
        query, limit = prefilters.query_for(spec, self.options, self.aggregates, self.host_states)
        if trace is not None:
            trace["candidates"] = {one.key: query.verdicts(one) for one in self.host_states}
        found = [one for one in self.host_states if query.passes(one)]
        if limit is not None and len(found) > limit:
            found = self._limit(query, found, limit)
        asks = {id(one): query.amounts(one) for one in found}
        found = [one for one in found if query.same_cell(one)]
        if not found:
            raise NoValidHost(no_host(spec, 0, False, False))
        return found, asks

    @staticmethod
    def _limit(query, found, limit):
        """Nova's limit counts each of its two queries by itself."""
        kept, counts = [], [0, 0]
        for one in found:
            answers = [
                query._answers(one, query.ask),
                query.fallback is not None and query._answers(one, query.fallback),
            ]
            keep = False
            for number, answer in enumerate(answers):
                if answer and counts[number] < limit:
                    counts[number] += 1
                    keep = True
            if keep:
                kept.append(one)
        return kept

    # -- filters
    def _sorted(self, spec, hosts, index, record):
        survivors = self._filtered(spec, hosts, index, record)
        if not survivors:
            return []
        weights = self._weighed(spec, survivors, record)
        return self._ordered(survivors, weights, record)

    def _filtered(self, spec, hosts, index, record):
        destination = spec.requested_destination or {}
        if destination.get("host"):
            host, node = destination["host"], destination.get("node")
            hosts = [one for one in hosts if one.host == host and (not node or one.nodename == node)]
        if spec.ignore_hosts:
            ignored = {name.lower() for name in spec.ignore_hosts}
            hosts = self._drop(
                hosts, record, "ignore_hosts", lambda one: one.host.lower() not in ignored, "excluded by ignore_hosts"
            )
        if spec.force_hosts:
            forced = {name.lower() for name in spec.force_hosts}
            hosts = self._drop(
                hosts, record, "force_hosts", lambda one: one.host.lower() in forced, "another host is forced"
            )
        if spec.force_nodes:
            hosts = self._drop(
                hosts, record, "force_nodes", lambda one: one.nodename in spec.force_nodes, "another node is forced"
            )
        if record is not None:
            record["hosts"] = [one.key for one in hosts]
        if (spec.force_hosts or spec.force_nodes) and not spec.scheduler_hints.get("_nova_check_type"):
            return hosts
        for one in self.filters:
            hosts = self._filter(one, spec, hosts, index, record)
            if not hosts:
                break
        return hosts

    @staticmethod
    def _drop(hosts, record, rule, keeps, reason):
        if record is not None:
            verdicts = {one.key: PASS if keeps(one) else Verdict(False, reason) for one in hosts}
            record["filters"].append({"filter": rule, "skipped": False, "verdicts": verdicts})
        return [one for one in hosts if keeps(one)]

    @staticmethod
    def _filter(one, spec, hosts, index, record):
        if one.run_filter_once_per_request and index > 0:
            if record is not None:
                record["filters"].append({"filter": one.name, "skipped": True, "verdicts": {}})
            return hosts
        if spec.is_rebuild and not one.run_on_rebuild:
            return hosts
        passed, verdicts = [], {}
        for host_state in hosts:
            verdict = judge(one, host_state, spec)
            if verdict.passed:
                passed.append(host_state)
            if record is not None:
                verdicts[host_state.key] = verdict
        if record is not None:
            record["filters"].append({"filter": one.name, "skipped": False, "verdicts": verdicts})
        return passed

    # -- weights
    def _weighed(self, spec, hosts, record):
        """{id(host state): weight}; a host that a weigher cannot weigh is left out, with a verdict."""
        if len(hosts) > 1:
            hosts, columns = self._columns(spec, hosts, record)
        if len(hosts) <= 1:
            if record is not None:
                record["weights"] = {one.key: 0.0 for one in hosts}
            return {id(one): 0.0 for one in hosts}
        sums = [0.0] * len(hosts)
        for one, raw, multipliers in columns:
            normalised = normalize(raw, one.minval, one.maxval)
            sums = [total + multiplier * part for total, multiplier, part in zip(sums, multipliers, normalised)]
            if record is not None:
                keys = [host_state.key for host_state in hosts]
                record["weighers"].append(
                    {
                        "weigher": one.name,
                        "raw": dict(zip(keys, raw)),
                        "normalised": dict(zip(keys, normalised)),
                        "multiplier": dict(zip(keys, multipliers)),
                    }
                )
        if record is not None:
            record["weights"] = {host_state.key: total for host_state, total in zip(hosts, sums)}
        return {id(host_state): total for host_state, total in zip(hosts, sums)}

    def _multipliers(self, one, hosts):
        """The weigher's multiplier on each host; asked once where no aggregate of any host may override it."""
        key = one.multiplier_key or one.multiplier_option
        if key in self.overriding or type(one).multiplier is not Weigher.multiplier:
            return [one.multiplier(host_state) for host_state in hosts]
        return [one.multiplier(hosts[0])] * len(hosts)

    def _columns(self, spec, hosts, record):
        """(hosts that every weigher can weigh, [(weigher, their raw weights, their multipliers)])."""
        try:
            return hosts, [column(one, hosts, spec) for one in self.weighers]
        except Exception:
            columns = []
            for one in self.weighers:
                verdicts = self._cannot_weigh(one, hosts, spec)
                if verdicts and record is not None:
                    told = {host_state.key: verdicts.get(id(host_state), PASS) for host_state in hosts}
                    record["filters"].append({"filter": one.name, "skipped": False, "verdicts": told})
                hosts = [host_state for host_state in hosts if id(host_state) not in verdicts]
            if len(hosts) > 1:
                columns = [column(one, hosts, spec) for one in self.weighers]
            return hosts, columns

    @staticmethod
    def _cannot_weigh(one, hosts, spec):
        """{id(host state): Verdict} of the hosts on which a weigher fails, or of all where it only fails on all."""
        verdicts = {}
        for host_state in hosts:
            try:
                column(one, [host_state], spec)
            except Exception as error:
                verdicts[id(host_state)] = raised(one, host_state, error)
        good = [host_state for host_state in hosts if id(host_state) not in verdicts]
        try:
            column(one, good, spec)
        except Exception as error:
            verdicts.update((id(host_state), raised(one, host_state, error)) for host_state in good)
        return verdicts

    def _ordered(self, hosts, weights, record):
        """Best first; among equals the one chosen last in this request, then the order of the host documents."""
        chosen_at, position = self.chosen_at, self.position
        order = sorted(
            (one for one in hosts if id(one) in weights),
            key=lambda one: (-weights[id(one)], -chosen_at.get(id(one), 0), position[id(one)]),
        )
        if self.options["shuffle_best_same_weighed_hosts"] and order:
            best = [one for one in order if weights[id(one)] == weights[id(order[0])]]
            if len(best) > 1:
                rest = order[len(best) :]
                self.rng.shuffle(best)
                order = best + rest
        size = min(self.options["host_subset_size"], len(order))
        if size > 1:
            first = order.pop(self.rng.randrange(size))
            order.insert(0, first)
        if record is not None:
            record["order"] = [one.key for one in order]
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
            return None, "; ".join(one["reason"] for one in capacity.shortfalls(host_state, amounts))
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
        taken = {id(one) for one in chosen}
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


def column(one, hosts, spec):
    """(weigher, raw weights, multipliers) of hosts; ValueError or TypeError for what is no finite number per host."""
    raw = one.weigh(hosts, spec)
    multipliers = [one.multiplier(host_state) for host_state in hosts]
    for what, numbers in (("weights", raw), ("multipliers", multipliers)):
        if len(numbers) != len(hosts):
            raise ValueError("gave %d %s for %d hosts" % (len(numbers), what, len(hosts)))
        # One sum finds text, None, infinities and NaN.
        if not -math.inf < sum(numbers) < math.inf:
            raise ValueError("gave %s that are not finite: %s" % (what, numbers[:3]))
    return one, raw, multipliers


def raised(plugin, host_state, error):
    """The verdict of a plugin that raised: it names class and host."""
    reason = "%s raised %s on %s: %s" % (plugin.name, type(error).__name__, host_state.key, error)
    return Verdict(False, reason, {"plugin": plugin.name, "host": host_state.key, "error": type(error).__name__})


def judge(one, host_state, spec):
    """The verdict of a filter on a host, whatever the filter does."""
    try:
        verdict = one.check(host_state, spec)
        if isinstance(verdict, Verdict):
            return verdict
        if isinstance(verdict, bool):
            return PASS if verdict else Verdict(False, "does not pass")
        raise TypeError("check() gave %s, not a Verdict" % type(verdict).__name__)
    except Exception as error:
        return raised(one, host_state, error)


def no_host(spec, index, candidates, passing):
    """Why instance ``index`` of a request has no valid host: were there candidates, and did any pass the filters?"""
    if not candidates:
        return "no valid host was found for %s: no host has what it asks for" % spec.name
    if passing:
        return "no host can take instance %d of %d of %s: every claim failed" % (
            index + 1,
            spec.num_instances,
            spec.name,
        )
    return "no valid host was found for %s (instance %d of %d)" % (spec.name, index + 1, spec.num_instances)


def consume(spec, host_state, amounts, packing):
    """Take the instance out of the host: (allocation, what did not fit).

    What no enabled filter has tested (NUMA cells, PCI devices) may turn out not to fit here. As Nova does, the host
    stays chosen and its claim will tell; the rest of its state, from the PCI devices on, is then not counted.
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
    except numa.PinningInvalid as error:
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
