# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes by which one instance moves to another host, with its CPUs, memory, pages and devices."""

from __future__ import annotations

from ...model.request_spec import RequestSpec
from ...model.resources import InstanceTopology
from .. import capacity, numa_usage, pci
from .trial import COST_OF_MOVE, COST_OF_SERVICE, HOSTS_TRIED, Change, free_up, share

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


def leave(state, instance):
    """Remove an instance from a host state, in place."""
    free_up(state, _gives(instance))
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
