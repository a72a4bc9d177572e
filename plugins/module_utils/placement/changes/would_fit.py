# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest changes with which a request would fit ("It would fit if ..."), where placement found no valid host.

Three kinds of change are tried: a limit on one host (capacity, NUMA cells, PCI devices, operations, instances,
disabled), one field of the request (its group's policy, its hints, ignore_hosts, the zone), or one instance moved from
one host to another. A change is shown only after placement, run again on all hosts with that change, found a host.

The work is bounded by counts, not by a clock, so that the answer is the same on every machine: in a large fleet only
the hosts that lack least are tried.
"""

from __future__ import annotations

from ...model.pools import DISK, disk_class
from ...model.request_spec import RequestSpec
from ...model.resources import InstanceTopology
from .. import capacity, numa_usage, pci
from .limits import (
    COST_OF_MOVE,
    COST_OF_REQUEST,
    COST_OF_SERVICE,
    HOSTS_TRIED,
    Change,
    Trial,
    free_up,
    limit_changes,
    refusals,
    share,
)

# The fields of the request that name hosts, and the text for leaving them out.
_TARGETS = (
    ("availability_zone", "ask for no availability zone"),
    ("requested_destination", "ask for no particular host"),
    ("force_hosts", "force no host"),
)
# Hints because of which a filter may refuse every host.
_HINTS = {
    "SameHostFilter": "same_host",
    "JsonFilter": "query",
    "QueryFilter": "query",
    "SimpleCIDRAffinityFilter": "build_near_host_ip",
}
_MOST_SHOWN = 4


def request_changes(trial, refused, answer):
    name = answer.spec.document.get("name")
    at = next((number for number, candidate in enumerate(trial.requests) if candidate.get("name") == name), 0)
    request = trial.requests[at]
    offers = [*_group(request, refused), *_hints(request, refused), *_hosts(request, refused)]
    return [
        Change("request", None, text, COST_OF_REQUEST, lambda states, requests, change=change: change(requests[at]))
        for text, change in offers
    ]


def _numbers(refused, rule):
    """Return {host: the numbers of its verdict} of the hosts that this rule refused."""
    return {
        host: verdict.numbers or {}
        for host, verdicts in refused.items()
        for rule_name, verdict in verdicts
        if rule_name == rule
    }


def _group(request, refused):
    group = request.get("group")
    if not isinstance(group, dict):
        return
    name = group.get("name") or group.get("uuid")
    counts = [
        numbers["members"]
        for numbers in _numbers(refused, "ServerGroupAntiAffinityFilter").values()
        if "members" in numbers
    ]
    if counts:
        limit = min(counts) + 1
        yield (
            "let server group %s have %d members on a host (max_server_per_host)" % (name, limit),
            lambda changed: changed["group"].update(
                rules={**(changed["group"].get("rules") or {}), "max_server_per_host": limit}
            ),
        )
    elsewhere = sorted(
        {host for numbers in _numbers(refused, "ServerGroupAffinityFilter").values() for host in numbers["hosts"]}
    )
    if elsewhere:
        yield (
            "let server group %s be soft-affinity (its members are on %s)" % (name, ", ".join(elsewhere[:_MOST_SHOWN])),
            lambda changed: changed["group"].update(policy="soft-affinity"),
        )


def _hints(request, refused):
    here = _numbers(refused, "DifferentHostFilter")
    if here:
        # The host to share is the one with the fewest of the instances named.
        host = min(here, key=lambda name: len(here[name]["instances"]))
        shared = here[host]["instances"]
        yield (
            "share %s with %s (hint different_host)" % (host, ", ".join(shared[:_MOST_SHOWN])),
            lambda changed: _keep(changed["scheduler_hints"], "different_host", shared),
        )
    for rule, hint in _HINTS.items():
        value = (request.get("scheduler_hints") or {}).get(hint)
        if value and _numbers(refused, rule):
            yield (
                "leave out the hint %s (now %s)" % (hint, _shortened(value)),
                lambda changed, hint=hint: changed["scheduler_hints"].pop(hint),
            )


def _keep(hints, name, without):
    named = [hints[name]] if isinstance(hints[name], str) else hints[name]
    hints[name] = [value for value in named if value not in without]


def _hosts(request, refused):
    ignored = [host for host, verdicts in refused.items() if verdicts[0][0] == "ignore_hosts"]
    if ignored:
        yield "do not ignore %s" % ", ".join(ignored[:_MOST_SHOWN]), lambda changed: changed.update(ignore_hosts=[])
    for name, what in _TARGETS:
        bound = isinstance(request.get(name), dict) and request[name].get("why")  # nobody asked for this
        if request.get(name) and not bound:
            fields = {name: None, **({"force_nodes": None} if "force" in name else {})}
            yield (
                "%s (now %s)" % (what, _shortened(request[name])),
                lambda changed, fields=fields: changed.update(fields),
            )


def _shortened(value):
    if isinstance(value, dict):
        return value.get("host")
    return ", ".join(str(item) for item in value[:_MOST_SHOWN]) if isinstance(value, list) else value


# Changes by which one instance moves to another host, with its CPUs, memory, pages and devices.
LEAVES_TRIED = 64
MOVES_TRIED = 16
TARGETS_TRIED = 50
ENOUGH = 2

# The rules that a host may pass after an instance has left it.
_FREED = ("capacity", "NUMATopologyFilter", "PciPassthroughFilter", "RamFilter", "CoreFilter", "DiskFilter")


def move_changes(trial, refused, answer):
    """Return [Change] of moves that let the request fit where the instance was."""
    hosts = [host for host, verdicts in refused.items() if all(rule in _FREED for rule, _verdict in verdicts)]
    hosts.sort(key=lambda host: sum(_lack(verdict) for _rule, verdict in refused[host]))
    found, left, tried = [], 0, 0
    for host in hosts[:HOSTS_TRIED]:
        for instance in _movable(trial.by_key[host], refused[host]):
            if left == LEAVES_TRIED or tried == MOVES_TRIED:
                return found
            left += 1
            without = trial.by_key[host].copy()
            leave(without, instance)
            if trial.alone(without, answer).error:
                continue
            tried += 1
            change = _move(trial, host, instance)
            if change:
                found.append(change)
                break
        if len(found) == ENOUGH:
            break
    return found


def _lack(verdict):
    shortfalls = (verdict.numbers or {}).get("shortfalls")
    return sum(share(shortfall) for shortfall in shortfalls) if shortfalls else COST_OF_SERVICE


def _movable(state, verdicts):
    """Return the instances whose departure may be enough, smallest first; no foreign ones and no group members."""
    shortfalls = [
        shortfall for _rule, verdict in verdicts for shortfall in (verdict.numbers or {}).get("shortfalls", ())
    ]
    found = []
    for instance in state.instances.values():
        if instance.get("foreign") or instance.get("group") or not _is_known(state, instance):
            continue
        gives = _gives(instance)
        if all(
            "short" in shortfall and gives.get(shortfall["resource"], 0) >= shortfall["short"]
            for shortfall in shortfalls
        ):
            found.append(instance)
    return sorted(found, key=lambda instance: (instance["memory_mb"], _gives(instance)["VCPU"], instance["uuid"]))


def _is_known(state, instance):
    """Whether the host reports all that the instance would take along."""
    if not instance.get("memory_mb") or not (instance.get("vcpus") or instance.get("pcpus")):
        return False
    extra_specs = (instance.get("flavor") or {}).get("extra_specs") or {}
    pinned = any(key.startswith("hw:") for key in extra_specs)
    devices = "pci_passthrough:alias" in extra_specs
    return not (pinned and not instance.get("numa_topology")) and not (devices and not _devices(state, instance))


def _gives(instance):
    return {
        "VCPU": instance.get("vcpus") or 0,
        "PCPU": instance.get("pcpus") or 0,
        "MEMORY_MB": instance["memory_mb"],
        "DISK_GB": instance.get("disk_gb") or 0,
    }


def _devices(state, instance):
    return [device for device in state.pci_devices if device.get("used_by") == instance["uuid"]]


def held(state, instance):
    """Return {resource class: amount} that an instance counts on its host, as far as the host tells that of each."""
    gives = _gives(instance)
    gives[disk_class(state.document, instance.get("pool"))] = gives.pop(DISK)
    return gives


def leave(state, instance):
    """Remove an instance from a host state, in place."""
    free_up(state, held(state, instance))
    state.instances.pop(instance["uuid"], None)
    state.num_instances -= 1
    topology = InstanceTopology.from_document(instance.get("numa_topology"))
    if topology and state.numa_topology:
        state.numa_topology = numa_usage.remove_usage(state.numa_topology, topology)
    devices = _devices(state, instance)
    if devices:
        state.pci_stats = pci.give_back(state.pci_stats, devices)
        state.pci_devices = [
            dict(device, used_by=None) if device in devices else device for device in state.pci_devices
        ]


def _move(trial, host, instance):
    gives, flavor = _gives(instance), instance.get("flavor") or {}
    sizes = {"vcpus": gives["VCPU"] + gives["PCPU"], "memory_mb": gives["MEMORY_MB"], "root_gb": gives["DISK_GB"]}
    request = {
        "uuid": instance["uuid"],
        "name": instance.get("name") or instance["uuid"],
        "project_id": instance.get("project_id"),
        "flavor": {**sizes, "name": flavor.get("name", ""), "extra_specs": flavor.get("extra_specs") or {}},
        "image": {"properties": instance.get("image_props") or {}},
    }
    others = sorted((state for state in trial.states if state.key != host), key=lambda state: -state.free_ram_mb)[
        :TARGETS_TRIED
    ]
    answer = trial.run(others, [request]).requests[0] if others else None
    if answer is None or answer.error:
        return None
    selection = answer.selections[0]

    def apply(states, requests):
        leave(states[host], instance)
        target = states[selection.key]
        capacity.consume(target, RequestSpec(request), selection.allocation)
        target.instances[instance["uuid"]] = instance

    text = "move %s (%d vCPUs, %d MiB) from %s to %s" % (
        request["name"],
        sizes["vcpus"],
        sizes["memory_mb"],
        host,
        selection.key,
    )
    size = trial.by_key[host].total_usable_ram_mb or 1
    return Change("move", host, text, COST_OF_MOVE + gives["MEMORY_MB"] / size, apply)


# This many of the cheapest changes of each kind are tried with a full run of placement.
FULL_RUNS = 2


def smallest_changes(host_documents, requests, options=None, aggregates=(), seed=0, failed=None):
    """Return [Change]: the smallest of each kind with which all ``requests`` get a host, smallest first; may be empty.

    The arguments are those of select_destinations; the ``requests`` are placed together. Host states, such as those of
    a Result, may be given instead of documents and are left unchanged. ``failed`` is the Result without a valid host,
    if there is one already.
    """
    trial = Trial(host_documents, requests, options, aggregates, seed)
    failed = failed or trial.run(trial.states, trial.requests)
    answer = next((answer for answer in failed.requests if answer.error is not None and answer.explanation), None)
    if answer is None:
        return []
    refused = refusals(answer.explanation)
    held = []
    for offers in (request_changes, limit_changes, move_changes):
        held += _cheapest_that_holds(trial, offers(trial, refused, answer))
    return sorted(held, key=lambda change: change.cost)


def fits_unignored(host_documents, request, host, options=None, aggregates=(), seed=0):
    """Whether the request would get a host if it did not ignore ``host``."""
    others = [name for name in request["ignore_hosts"] if name != host]
    trial = Trial(host_documents, [request], options, aggregates, seed)
    return trial.holds(Change("request", None, "", 0, lambda states, requests: requests[0].update(ignore_hosts=others)))


def _cheapest_that_holds(trial, changes):
    """[the first of the cheapest changes that works], or []: placement is run again with a change before it is shown."""
    # sorted() is stable: among equals the order of the hosts decides.
    offered = sorted(changes, key=lambda change: change.cost)
    return next(([change] for change in offered[:FULL_RUNS] if trial.holds(change)), [])
