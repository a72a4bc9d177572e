# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of one host: every limit that refuses the request there, and by how much."""

from __future__ import annotations

import copy
import itertools
import math

from ...model import vgpus
from ...model.host_state import Aggregate
from ...model.request_spec import RequestSpec
from ...model.resources import PAGES_ANY, PAGES_LARGE, PAGES_SMALL, HostTopology, InstanceTopology, Pages
from .. import capacity, numa, pci
from ..errors import UnsupportedPolicy
from ..scheduler import host_states, select_destinations
from ..text import number


def fix_devices(state, spec, cells=None):
    """[(text, cost, step)] for the first alias that the host cannot serve, or None.

    ``cells``: the cells of the host near which the devices must be, if the NUMA policy asks for it.
    """
    pools = pci.copy_pools(state.pci_stats)
    for request in spec.pci_requests:
        if pci.take(pools, [request], cells, state.numa_topology) is None:
            return [_more(state, request, pools, cells)]
    return None


def _more(state, request, pools, cells):
    free = sum(pool["count"] for pool in pci.matching(pools, request))
    node = cells[0].id if cells else None
    device = {**request["spec"][0], "numa_node": node}
    short = request["count"] - (0 if cells else free)
    for more in range(max(1, short), request["count"] + 1):
        if pci.take([*pci.copy_pools(pools), {**device, "count": more}], [request], cells, state.numa_topology):
            short = more
            break

    def step(state):
        state.pci_stats = [*pci.copy_pools(state.pci_stats), {**device, "count": short}]

    near = " near NUMA cell %d (%s)" % (node, request["numa_policy"]) if cells else ""
    text = "%d more free devices of %s%s (%d free, %d needed)" % (
        short,
        request["alias_name"],
        near,
        free,
        request["count"],
    )
    return text, COST_OF_SERVICE * short / request["count"], step


ASSIGNMENTS_TRIED = 60


def fix_cells(state, spec):
    """[(text, cost, step)] for the cells that lack least, or None; a step alters a host state."""
    host, wanted = state.numa_topology, spec.topology
    if host is None or wanted is None or len(host.cells) < len(wanted.cells):
        return None
    limits = capacity.numa_limits(state, spec)
    tries = itertools.permutations(host.cells, len(wanted.cells))
    plans = [_plan(cells, wanted, limits) for cells in itertools.islice(tries, ASSIGNMENTS_TRIED)]
    plans = [plan for plan in plans if plan is not None]
    if not plans:
        return None
    fixes, cells = min(plans, key=lambda plan: sum(cost for _text, cost, _step in plan[0]))
    return fixes or fix_devices(state, spec, cells)


def _plan(host_cells, wanted, limits):
    """([(text, cost, step)], host cells) of the instance's cells on these cells of the host in this order, or None."""
    fixes = []
    for at, (host_cell, cell) in enumerate(zip(host_cells, wanted.cells)):
        emulator = wanted.emulator_threads_policy if at == 0 else None
        lacks = _lacks(host_cell, cell, limits, emulator)
        if lacks is None:
            return None
        fixes += lacks
    return fixes, host_cells


def _lacks(host_cell, cell, limits, emulator):
    pins = cell.cpu_policy in ("dedicated", "mixed")
    shares = cell.cpu_policy != "dedicated"
    lacks = [_memory(host_cell, cell, pins)]
    if pins:
        lacks.append(_pins(host_cell, cell, emulator))
    if shares:
        lacks.append(_shared(host_cell, cell, limits))
    if None in lacks:
        return None
    return [fix for fixes in lacks for fix in fixes]


def _step(cell_id, change):
    """A step that gives a host state a topology in which ``change`` was made to a copy of one cell."""

    def step(state):
        cells = []
        for cell in state.numa_topology.cells:
            if cell.id == cell_id:
                cell = cell.copy()
                change(cell)
            cells.append(cell)
        state.numa_topology = HostTopology(cells)

    return step


def _memory(host_cell, cell, pins):
    if cell.pagesize or host_cell.mempages:
        return _pages(host_cell, cell, pins)
    have = host_cell.avail_memory if pins else host_cell.memory_mb
    short = cell.memory_mb - have
    if short <= 0:
        return []

    def change(changed_cell):
        changed_cell.memory_mb += short

    text = "%d more MiB in NUMA cell %d (%d free, %d needed)" % (short, host_cell.id, have, cell.memory_mb)
    return [(text, short / max(host_cell.memory_mb, 1), _step(host_cell.id, change))]


def _pages(host_cell, cell, pins):
    """The pages of the size that lacks least; None if no size of the host divides the cell's memory."""
    asked_kb, found = cell.memory_mb * 1024, []
    for pages in _choices(host_cell, cell.pagesize):
        if asked_kb % pages.size_kb == 0:
            free_kb = pages.free_kb if pins or cell.pagesize else pages.total_kb
            found.append((max(0, math.ceil((asked_kb - free_kb) / pages.size_kb)), free_kb, pages))
    if not found:
        return None
    short, free_kb, pages = min(found, key=lambda choice: choice[0] * choice[2].size_kb)
    if not short:
        return []
    size = pages.size_kb

    def change(changed_cell):
        have = [each for each in changed_cell.mempages if each.size_kb == size] or [Pages(size, 0)]
        more = Pages(size, have[0].total + short, have[0].used, have[0].reserved)
        changed_cell.mempages = (*(each for each in changed_cell.mempages if each.size_kb != size), more)

    text = "%d more pages of %d KiB in NUMA cell %d (%d free, %d needed)" % (
        short,
        size,
        host_cell.id,
        max(0, free_kb) // size,
        asked_kb // size,
    )
    return [(text, short * size / 1024 / max(host_cell.memory_mb, 1), _step(host_cell.id, change))]


def _choices(host_cell, pagesize):
    """Return the Pages that may serve; an empty one for a size that the cell does not have."""
    pages = sorted(host_cell.mempages, key=lambda page: page.size_kb)
    if pagesize in (None, PAGES_SMALL):
        return pages[:1]
    if pagesize == PAGES_LARGE:
        return pages[1:]
    if pagesize == PAGES_ANY:
        return pages
    return [page for page in pages if page.size_kb == pagesize] or [Pages(pagesize, 0)]


def _pins(host_cell, cell, emulator):
    """Pinned CPUs to be freed, whole cores first; None if the cell would be too small with all of them free."""
    cores = sorted(
        (sorted(core & host_cell.pinned_cpus & host_cell.pcpuset) for core in host_cell.siblings),
        key=lambda core: (len(core), core),
    )
    order = [cpu for core in cores for cpu in core]
    needed = len(cell.pcpuset) + (1 if emulator == "isolate" else 0)
    for count in range(max(0, needed - len(host_cell.free_pcpus)), len(order) + 1):
        freed = host_cell.copy()
        freed.pinned_cpus -= set(order[:count])
        if _can_pin(freed, cell, emulator):
            break
    else:
        return None
    if not count:
        return []

    def change(changed_cell):
        changed_cell.pinned_cpus -= set(order[:count])

    text = "%d more free CPUs to pin in NUMA cell %d (%d free, %d needed%s)" % (
        count,
        host_cell.id,
        len(host_cell.free_pcpus),
        needed,
        ", thread policy %s" % cell.cpu_thread_policy if cell.cpu_thread_policy else "",
    )
    return [(text, count / max(len(host_cell.pcpuset), 1), _step(host_cell.id, change))]


def _can_pin(host_cell, cell, emulator):
    """Whether the CPUs alone fit, by the rules of placement itself."""
    asked, offered = cell.copy(), host_cell.copy()
    asked.memory_mb, asked.pagesize, asked.cpuset, offered.mempages = 0, None, frozenset(), ()
    return numa.fit(HostTopology([offered]), InstanceTopology([asked], emulator)) is not None


def _shared(host_cell, cell, limits):
    """Shared CPUs and memory of the cell to be freed; None if the cell has too few CPUs in all."""
    if len(cell.cpuset) > len(host_cell.cpuset):
        return None
    found = []
    for attribute, asked, size, ratio, what in (
        ("cpu_usage", len(cell.cpuset), len(host_cell.cpuset), "cpu_allocation_ratio", "shared CPUs"),
        ("memory_usage", cell.memory_mb, host_cell.memory_mb, "ram_allocation_ratio", "MiB"),
    ):
        used, limit = getattr(host_cell, attribute), size * limits[ratio]
        short = math.ceil(used + asked - limit)
        if short > 0:

            def change(changed_cell, attribute=attribute, short=short):
                setattr(changed_cell, attribute, getattr(changed_cell, attribute) - short)

            numbers = (short, what, host_cell.id, limit - used, asked, ratio, limits[ratio])
            text = "%d fewer %s in use in NUMA cell %d (%d free, %d needed at %s %g)" % numbers
            found.append((text, short / max(limit, 1), _step(host_cell.id, change)))
    return found


STEPS_PER_HOST = 6


def limit_changes(trial, refused, answer):
    """Return [Change] of the hosts that lack least."""
    hosts = sorted(refused, key=lambda host: sum(_estimate(*refusal) for refusal in refused[host]))
    found = [_limits_of(trial, host, answer) for host in hosts[:HOSTS_TRIED]]
    return [change for change in found if change]


def _limits_of(trial, host, answer):
    """Return the changes of one host with which the request passes every rule there, as one Change, or None."""
    state = trial.by_key[host].copy()
    texts, steps, cost = [], [], 0.0
    for _step in range(STEPS_PER_HOST):
        again = trial.alone(state, answer)
        if again.error is None:
            break
        verdicts = refusals(again.explanation).get(host)
        fixed = _fix(state, again.spec, *verdicts[0]) if verdicts else None
        if not fixed:
            return None
        for text, price, step in fixed:
            step(state)
            texts.append(text)
            steps.append(step)
            cost += price
    else:
        return None
    if not steps:
        return None

    def apply(states, requests):
        for step in steps:
            step(states[host])

    return Change("limit", host, "on %s: %s" % (host, "; ".join(texts)), cost, apply)


def _estimate(rule, verdict):
    """Estimate how much a host lacks by one rule, before anything is tried; what cannot be changed comes last."""
    numbers = verdict.numbers or {}
    if rule == "capacity":
        return sum(share(shortfall) for shortfall in numbers.get("shortfalls", ())) or 100.0
    return COST_OF_SERVICE if rule in _FIXES else 100.0


def _fix(state, spec, rule, verdict):
    """Return [(text, cost, step)] that remove one refusal, or None. A step alters a host state."""
    make = _FIXES.get(rule)
    return make(state, spec, verdict.numbers or {}) if make else None


_UNITS = {
    "VCPU": "vCPUs",
    "PCPU": "pinned CPUs",
    "MEMORY_MB": "MiB of memory",
    "DISK_GB": "GiB of disk",
    "VGPU": "vGPUs",
}
_PARTS = {"DISK_GB": " in the storage of pool %s", "VGPU": " of the GPU %s"}


def _unit(name):
    """Return what an amount of a resource class is called."""
    kind, _colon, part = name.partition(":")
    return _UNITS.get(kind, name) + (_PARTS[kind] % part if part else "")


_RATIOS = {"VCPU": "cpu_allocation_ratio", "MEMORY_MB": "ram_allocation_ratio", "DISK_GB": "disk_allocation_ratio"}


def _fix_capacity(state, spec, numbers):
    fixes = []
    for shortfall in numbers.get("shortfalls", ()):
        inventory = state.inventories.get(shortfall["resource"])
        if inventory and _is_too_large(shortfall, inventory):
            fixes.append(_more_in_all(state, shortfall))
        elif inventory and "short" in shortfall and shortfall["asked"] <= inventory["max_unit"]:
            fixes.append(_more_free(shortfall))
        else:
            return None
    return fixes


def _is_too_large(shortfall, inventory):
    """Whether the host is too small in all; False if one instance gets no more of the resource on any host."""
    asked, kind = shortfall["asked"], shortfall["resource"].partition(":")[0]
    bounded = inventory["max_unit"] < inventory["total"] or (kind == vgpus.VGPU and asked > vgpus.MOST)
    return asked > inventory["max_unit"] and not bounded


def _more_free(shortfall):
    name, short, size = shortfall["resource"], shortfall["short"], shortfall["total"] - shortfall["reserved"]
    text = "%s more %s (%s free, %s needed" % (
        number(short),
        _unit(name),
        number(shortfall["limit"] - shortfall["used"]),
        number(shortfall["asked"]),
    )
    if name in _RATIOS and size > 0:
        needed = -(-100 * (shortfall["used"] + shortfall["asked"]) // size) / 100
        text += "; or %s %.2f instead of %s" % (_RATIOS[name], needed, number(shortfall["ratio"]))
    return text + ")", share(shortfall), lambda state: free_up(state, {name: short})


def _more_in_all(state, shortfall):
    """An instance that is larger than the whole host: no ratio helps, only a larger host."""
    name, inventory = shortfall["resource"], state.inventories[shortfall["resource"]]
    total = -(-(shortfall["used"] + shortfall["asked"]) // inventory["allocation_ratio"]) + inventory["reserved"]
    total = max(int(total), shortfall["asked"])
    more = total - inventory["total"]

    def grow(state):
        state.inventories = {**state.inventories, name: {**inventory, "total": total, "max_unit": total}}
        if name == "MEMORY_MB":
            state.total_usable_ram_mb += more
            state.free_ram_mb += more
        elif name == "DISK_GB":
            state.total_usable_disk_gb += more
            state.free_disk_mb += more * 1024
        elif name in ("VCPU", "PCPU"):
            state.vcpus_total += more

    text = "%d %s in all instead of %s" % (total, _unit(name), number(inventory["total"]))
    return text, COST_OF_SERVICE + more / max(inventory["total"], 1), grow


def _fix_filter_of(resource, unit):
    def fix(state, spec, numbers):
        if not {"asked", "limit", "used", "total"} <= set(numbers) or numbers["asked"] > numbers["total"]:
            return None
        short = numbers["asked"] - (numbers["limit"] - numbers["used"])
        text = "%s more %s" % (number(short / unit), _UNITS[resource])
        return [(text, short / max(numbers["limit"], 1), lambda state: free_up(state, {resource: short / unit}))]

    return fix


def _fix_disabled(state, spec, numbers):
    def enable(state):
        state.service = {**state.service, "disabled": False}
        state.traits = state.traits - {"COMPUTE_STATUS_DISABLED"}

    return [("enable it (%s)" % (state.service.get("disabled_reason") or "disabled"), COST_OF_SERVICE, enable)]


def _fix_count(attribute, option, what):
    def fix(state, spec, numbers):
        limit = numbers.get(option)
        if not limit:
            return None
        over = getattr(state, attribute) - limit + 1

        def lower(state):
            setattr(state, attribute, limit - 1)

        return [("%d %s fewer, or %s %d" % (over, what, option, limit + over), over / limit, lower)]

    return fix


_FIXES = {
    "capacity": _fix_capacity,
    "compute_status_filter": _fix_disabled,
    "NUMATopologyFilter": lambda state, spec, numbers: fix_cells(state, spec),
    "PciPassthroughFilter": lambda state, spec, numbers: fix_devices(state, spec),
    "RamFilter": _fix_filter_of("MEMORY_MB", 1),
    "AggregateRamFilter": _fix_filter_of("MEMORY_MB", 1),
    "CoreFilter": _fix_filter_of("VCPU", 1),
    "AggregateCoreFilter": _fix_filter_of("VCPU", 1),
    "DiskFilter": _fix_filter_of("DISK_GB", 1024),
    "AggregateDiskFilter": _fix_filter_of("DISK_GB", 1024),
    "IoOpsFilter": _fix_count("num_io_ops", "max_io_ops_per_host", "running operations"),
    "AggregateIoOpsFilter": _fix_count("num_io_ops", "max_io_ops_per_host", "running operations"),
    "NumInstancesFilter": _fix_count("num_instances", "max_instances_per_host", "instances"),
    "AggregateNumInstancesFilter": _fix_count("num_instances", "max_instances_per_host", "instances"),
}


# A change that might help, and placement run with it on a copy of the fleet.

# The cost of changes that cannot be measured: a field of the request, a host out of service, a move.
COST_OF_REQUEST, COST_OF_SERVICE, COST_OF_MOVE = 0.5, 1.0, 0.25
HOSTS_TRIED = 8
NEIGHBOURS = 6


class Change:
    """One change: ``kind`` (limit, request, move), ``host`` or None, ``text`` for people, ``cost`` to compare by.

    ``apply(states by key, requests)`` makes it, in place.
    """

    def __init__(self, kind, host, text, cost, apply):
        self.kind, self.host, self.text, self.cost, self.apply = kind, host, text, cost, apply

    def to_dict(self):
        return {"kind": self.kind, "host": self.host, "text": self.text}


class Trial:
    """The fleet and the requests, and placement run on altered copies of them."""

    def __init__(self, host_documents, requests, options, aggregates, seed):
        self.aggregates = [
            aggregate if isinstance(aggregate, Aggregate) else Aggregate(aggregate) for aggregate in aggregates or ()
        ]
        self.states = host_states(host_documents, self.aggregates)
        self.requests = [
            copy.deepcopy(request.document if isinstance(request, RequestSpec) else request) for request in requests
        ]
        self.options, self.seed = options, seed
        self.by_key = {state.key: state for state in self.states}

    def run(self, states, requests, explain=False):
        return select_destinations(states, requests, self.options, self.aggregates, self.seed, explain=explain)

    def holds(self, change):
        """Whether every request gets a host with only this change made."""
        states = {state.key: state.copy() for state in self.states}
        requests = copy.deepcopy(self.requests)
        change.apply(states, requests)
        try:
            return not self.run(list(states.values()), requests).errors
        except UnsupportedPolicy:
            return False

    def alone(self, state, answer):
        """Return the result of the failed request with only this host and those of its group to choose from."""
        others = [other for other in self._group_hosts(answer) if other.key != state.key]
        return self.run([state] + others, [dict(answer.spec.document)], explain=True).requests[0]

    def _group_hosts(self, answer):
        """Return hosts with members of its group; they have refused it already."""
        group = answer.spec.instance_group
        members = set(group.members) if group else set()
        return [state for state in self.states if members.intersection(state.instances)][:NEIGHBOURS] if members else []


def refusals(explanation):
    """Return {host: [(rule, Verdict)]}: what refused each host, the rules of one host in their order."""
    refused = {}
    for host, rules in explanation["candidates"].items():
        bad = [(rule, verdict) for rule, verdict in rules if not verdict.passed]
        if bad:
            refused[host] = bad
    for instance in explanation["instances"][-1:]:
        for step in instance["filters"]:
            for host, verdict in step["verdicts"].items():
                if not verdict.passed:
                    refused.setdefault(host, []).append((step["filter"], verdict))
    return refused


def share(shortfall):
    """Return how much of a resource class a host lacks, as a share of what it has."""
    limit = shortfall.get("limit") or 0
    return shortfall["short"] / limit if "short" in shortfall and limit > 0 else 10.0


def free_up(state, amounts):
    """Give back to a host state what ``amounts`` {resource class: amount} take."""
    state.used = {name: used - amounts.get(name, 0) for name, used in state.used.items()}
    state.free_ram_mb += amounts.get("MEMORY_MB", 0)
    state.free_disk_mb += amounts.get("DISK_GB", 0) * 1024
    state.vcpus_used -= amounts.get("VCPU", 0) + amounts.get("PCPU", 0)
