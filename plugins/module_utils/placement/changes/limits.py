# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of one host: every limit that refuses the request there, and by how much."""

from __future__ import annotations

from ...model import vgpus
from ..text import number
from .cells import fix_cells
from .devices import fix_devices
from .trial import COST_OF_SERVICE, HOSTS_TRIED, Change, free_up, refusals, share

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
