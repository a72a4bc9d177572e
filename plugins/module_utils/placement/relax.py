# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest changes that would make a request fit, where placement found no valid host.

Three kinds of change are tried: a limit on one host (capacity, operations, instances, disabled), one word of the
request or its group (max_server_per_host, ignore_hosts, the zone), or one instance moved from one host to another. A
change is told only after placement, run again on all hosts with that change, found a host.

The work is bounded by the counts below, not by a clock, so that the answer is the same on every machine: of a large
fleet only the hosts that lack least are looked at.
"""

from __future__ import annotations

import copy

from ..model.aggregate import Aggregate
from ..model.request_spec import RequestSpec
from . import capacity
from .scheduler import host_states as states_of
from .scheduler import select_destinations

HOSTS_TRIED = 8
STEPS_PER_HOST = 6
MOVES_TRIED = 16
TARGETS_TRIED = 50
FULL_RUNS = 2

# What counts as how small where nothing can be measured: a word of the request, a host that is out of service.
COST_OF_REQUEST, COST_OF_SERVICE, COST_OF_MOVE = 0.5, 1.0, 0.25


class Change:
    """One change: ``kind`` (limit, request, move), ``host`` or None, ``text`` for people, ``cost`` to compare by.

    ``apply(states by key, requests)`` makes it, in place.
    """

    def __init__(self, kind, host, text, cost, apply):
        self.kind, self.host, self.text, self.cost, self.apply = kind, host, text, cost, apply

    def to_dict(self):
        return {"kind": self.kind, "host": self.host, "text": self.text}


def smallest_changes(host_documents, requests, options=None, aggregates=(), seed=0, failed=None):
    """[Change]: of each kind the smallest found with which all ``requests`` get a host, smallest first; may be empty.

    The arguments are those of select_destinations, ``requests`` being what is placed together; host states, such as
    those of a Result, may stand for documents and are left unchanged. ``failed`` is the Result without a valid host
    where there is one already.
    """
    trial = _Trial(host_documents, requests, options, aggregates, seed)
    failed = failed or trial.run(trial.states, trial.requests)
    answer = next((one for one in failed.requests if one.error is not None and one.explanation), None)
    if answer is None:
        return []
    refused = _refusals(answer.explanation)
    held = []
    for offers in (_request_changes, _limit_changes, _moves):
        # sorted() is stable: among equals the order of the hosts decides.
        offered = sorted(offers(trial, refused, answer), key=lambda one: one.cost)
        held += next(([one] for one in offered[:FULL_RUNS] if trial.holds(one)), [])
    return sorted(held, key=lambda one: one.cost)


class _Trial:
    """The fleet and the requests, and placement run on altered copies of them."""

    def __init__(self, host_documents, requests, options, aggregates, seed):
        self.aggregates = [one if isinstance(one, Aggregate) else Aggregate(one) for one in aggregates or ()]
        self.states = states_of(host_documents, self.aggregates)
        self.requests = [copy.deepcopy(one.document if isinstance(one, RequestSpec) else one) for one in requests]
        self.options, self.seed = options, seed
        self.by_key = {one.key: one for one in self.states}

    def run(self, states, requests, explain=False):
        return select_destinations(states, requests, self.options, self.aggregates, self.seed, explain=explain)

    def holds(self, change):
        """Whether every request gets a host, with the change made and nothing else."""
        states = {one.key: one.copy() for one in self.states}
        requests = copy.deepcopy(self.requests)
        change.apply(states, requests)
        return not self.run(list(states.values()), requests).errors

    def alone(self, state, request, neighbours):
        """The answer to one request with only this host to choose, and those that hold its group."""
        return self.run([state] + neighbours, [request], explain=True).requests[0]


def _refusals(explanation):
    """{host: [(rule, Verdict)]}: what refused each host, the rules of one host in their order."""
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


# -- the request
def _request_changes(trial, refused, answer):
    rules = {rule for found in refused.values() for rule, _verdict in found}
    at = next(
        (number for number, one in enumerate(trial.requests) if one.get("name") == answer.spec.document.get("name")), 0
    )
    request = trial.requests[at]
    found = []

    def offer(text, change, cost=COST_OF_REQUEST):
        found.append(Change("request", None, text, cost, lambda states, requests: change(requests[at])))

    counts = [
        verdict.numbers["members"]
        for verdicts in refused.values()
        for rule, verdict in verdicts
        if rule == "ServerGroupAntiAffinityFilter" and verdict.numbers and "members" in verdict.numbers
    ]
    if counts:
        limit = min(counts) + 1
        name = request["group"].get("name") or request["group"].get("uuid")
        offer(
            "let server group %s have %d members on a host (max_server_per_host)" % (name, limit),
            lambda one: one["group"].update(rules={**(one["group"].get("rules") or {}), "max_server_per_host": limit}),
        )
    if "ignore_hosts" in rules:
        hosts = [host for host, verdicts in refused.items() if verdicts[0][0] == "ignore_hosts"]
        offer("do not ignore %s" % ", ".join(hosts[:4]), lambda one: one.update(ignore_hosts=[]))
    for name, what in (
        ("availability_zone", "ask for no availability zone"),
        ("requested_destination", "ask for no particular host"),
        ("force_hosts", "force no host"),
    ):
        if request.get(name):
            told = "%s (now %s)" % (what, _told(request[name]))
            offer(
                told,
                lambda one, name=name: one.update({name: None, **({"force_nodes": None} if "force" in name else {})}),
            )
    return found


def _told(value):
    if isinstance(value, dict):
        return value.get("host")
    return ", ".join(value) if isinstance(value, list) else value


# -- limits of one host
def _limit_changes(trial, refused, answer):
    hosts = sorted(refused, key=lambda host: sum(_estimate(*one) for one in refused[host]))
    neighbours = _group_hosts(trial, answer)
    found = []
    for host in hosts[:HOSTS_TRIED]:
        change = _limits_of(trial, host, answer, neighbours)
        if change:
            found.append(change)
    return found


def _group_hosts(trial, answer):
    group = answer.spec.instance_group
    members = set(group.members) if group else set()
    return [one for one in trial.states if members.intersection(one.instances)][:STEPS_PER_HOST] if members else []


def _limits_of(trial, host, answer, neighbours):
    """The changes of one host that let the request pass every rule there, as one Change; None where a rule has none."""
    state = trial.by_key[host].copy()
    request = dict(answer.spec.document)
    # Others have said no already; this host is asked alone.
    others = [one for one in neighbours if one.key != host]
    texts, steps, cost = [], [], 0.0
    for _step in range(STEPS_PER_HOST):
        again = trial.alone(state, request, others)
        if again.error is None:
            break
        verdicts = _refusals(again.explanation).get(host)
        fixed = _fix(state, *verdicts[0]) if verdicts else None
        if fixed is None:
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
    """How much a host lacks by one rule, roughly, before anything is tried; what cannot be changed comes last."""
    numbers = verdict.numbers or {}
    if rule == "capacity":
        return sum(_share(one) for one in numbers.get("shortfalls", ())) or 100.0
    if rule in _FIXES:
        return COST_OF_SERVICE
    return 100.0


def _share(shortfall):
    limit = shortfall.get("limit") or 0
    return shortfall["short"] / limit if "short" in shortfall and limit > 0 else 10.0


def _fix(state, rule, verdict):
    """[(text, cost, step)] that take away one refusal, or None. A step alters a host state."""
    make = _FIXES.get(rule)
    return make(state, verdict.numbers or {}) if make else None


_UNITS = {"VCPU": "vCPUs", "PCPU": "pinned CPUs", "MEMORY_MB": "MiB of memory", "DISK_GB": "GiB of disk"}
_RATIOS = {"VCPU": "cpu_allocation_ratio", "MEMORY_MB": "ram_allocation_ratio", "DISK_GB": "disk_allocation_ratio"}


def _fix_capacity(state, numbers):
    fixes = []
    for one in numbers.get("shortfalls", ()):
        if one["resource"] not in state.inventories or not ("short" in one or "max_unit" in one):
            return None
        too_large = one["asked"] > state.inventories[one["resource"]]["max_unit"]
        fixes.append(_more_in_all(state, one) if too_large else _more_free(one))
    return fixes or None


def _more_free(one):
    name, short, size = one["resource"], one["short"], one["total"] - one["reserved"]
    text = "%g more %s (%g free, %g needed" % (short, _UNITS.get(name, name), one["limit"] - one["used"], one["asked"])
    if name in _RATIOS and size > 0:
        needed = -(-100 * (one["used"] + one["asked"]) // size) / 100
        text += "; or %s %.2f instead of %g" % (_RATIOS[name], needed, one["ratio"])
    return text + ")", _share(one), lambda state: free_up(state, {name: short})


def _more_in_all(state, one):
    """An instance that is larger than the whole host: no ratio helps, only a larger host."""
    name, inventory = one["resource"], state.inventories[one["resource"]]
    total = -(-(one["used"] + one["asked"]) // inventory["allocation_ratio"]) + inventory["reserved"]
    total = max(int(total), one["asked"])
    more = total - inventory["total"]

    def grow(state):
        state.inventories = {**state.inventories, name: {**inventory, "total": total, "max_unit": total}}
        if name == "MEMORY_MB":
            state.total_usable_ram_mb += more
            state.free_ram_mb += more
        elif name == "DISK_GB":
            state.total_usable_disk_gb += more
            state.free_disk_mb += more * 1024
        else:
            state.vcpus_total += more

    text = "%g %s in all instead of %g" % (total, _UNITS.get(name, name), inventory["total"])
    return text, COST_OF_SERVICE + more / max(inventory["total"], 1), grow


def _fix_filter_of(resource, unit):
    def fix(state, numbers):
        if not {"asked", "limit", "used", "total"} <= set(numbers) or numbers["asked"] > numbers["total"]:
            return None
        short = numbers["asked"] - (numbers["limit"] - numbers["used"])
        text = "%g more %s" % (short / unit, _UNITS[resource])
        return [(text, short / max(numbers["limit"], 1), lambda state: free_up(state, {resource: short / unit}))]

    return fix


def _fix_disabled(state, numbers):
    def enable(state):
        state.service = {**state.service, "disabled": False}
        state.traits = state.traits - {"COMPUTE_STATUS_DISABLED"}

    return [("enable it (%s)" % (state.service.get("disabled_reason") or "disabled"), COST_OF_SERVICE, enable)]


def _fix_count(attribute, option, what):
    def fix(state, numbers):
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


def free_up(state, amounts):
    """Give back to a host state what ``amounts`` {resource class: amount} take."""
    state.used = {name: used - amounts.get(name, 0) for name, used in state.used.items()}
    state.free_ram_mb += amounts.get("MEMORY_MB", 0)
    state.free_disk_mb += amounts.get("DISK_GB", 0) * 1024
    state.vcpus_used -= amounts.get("VCPU", 0) + amounts.get("PCPU", 0)


# -- one instance moved
def _moves(trial, refused, answer):
    """Moves of one instance that may let the request fit where it stood."""
    short = {host: _only_capacity(verdicts) for host, verdicts in refused.items()}
    hosts = sorted((host for host in short if short[host]), key=lambda host: sum(_share(one) for one in short[host]))
    found, tried = [], 0
    for host in hosts[:HOSTS_TRIED]:
        for instance in _movable(trial.by_key[host], short[host]):
            if tried == MOVES_TRIED:
                return found
            tried += 1
            change = _move(trial, host, instance)
            if change:
                found.append(change)
                break
        if len(found) == FULL_RUNS:
            break
    return found


def _only_capacity(verdicts):
    """The shortfalls of a host that nothing but capacity refuses, else []."""
    if any(rule != "capacity" for rule, _verdict in verdicts):
        return []
    shortfalls = verdicts[0][1].numbers["shortfalls"]
    return shortfalls if all("short" in one for one in shortfalls) else []


def _movable(state, shortfalls):
    """The instances whose leaving would be enough, smallest first; no foreign ones, pinned ones or group members."""
    found = []
    for instance in state.instances.values():
        gives = _gives(instance)
        if instance.get("foreign") or instance.get("group") or not gives:
            continue
        if all(gives.get(one["resource"], 0) >= one["short"] for one in shortfalls):
            found.append(instance)
    return sorted(found, key=lambda one: (one["memory_mb"], one["vcpus"], one["uuid"]))


def _gives(instance):
    flavor = instance.get("flavor") or {}
    pinned = any(key.startswith(("hw:", "pci_passthrough:")) for key in flavor.get("extra_specs") or {})
    if pinned or not instance.get("vcpus") or not instance.get("memory_mb"):
        return None
    return {"VCPU": instance["vcpus"], "MEMORY_MB": instance["memory_mb"], "DISK_GB": instance.get("disk_gb") or 0}


def _move(trial, host, instance):
    gives = _gives(instance)
    flavor = {"vcpus": gives["VCPU"], "memory_mb": gives["MEMORY_MB"], "root_gb": gives["DISK_GB"]}
    extra_specs = (instance.get("flavor") or {}).get("extra_specs") or {}
    request = {
        "uuid": instance["uuid"],
        "name": instance.get("name") or instance["uuid"],
        "project_id": instance.get("project_id"),
        "flavor": {**flavor, "name": (instance.get("flavor") or {}).get("name", ""), "extra_specs": extra_specs},
        "image": {"properties": instance.get("image_props") or {}},
    }
    others = sorted((one for one in trial.states if one.key != host), key=lambda one: -one.free_ram_mb)[:TARGETS_TRIED]
    answer = trial.run(others, [request]).requests[0] if others else None
    if answer is None or answer.error:
        return None
    selection = answer.selections[0]

    def apply(states, requests):
        source, target = states[host], states[selection.key]
        free_up(source, gives)
        source.instances.pop(instance["uuid"], None)
        source.num_instances -= 1
        capacity.consume(target, RequestSpec(request), selection.allocation)
        target.instances[instance["uuid"]] = instance

    text = "move %s (%d vCPUs, %d MiB) from %s to %s" % (
        request["name"],
        gives["VCPU"],
        gives["MEMORY_MB"],
        host,
        selection.key,
    )
    size = trial.by_key[host].total_usable_ram_mb or 1
    return Change("move", host, text, COST_OF_MOVE + gives["MEMORY_MB"] / size, apply)
