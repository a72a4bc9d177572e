# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers that built-in weighers weigh, as one list per weigher, read straight from the host documents.

Every column has the values that the weigher's raw() gives, clamped as the weigher clamps them; a test compares them.
"""

from __future__ import annotations

from ...model.host_state import HostState, free_disk_mb, free_ram_mb

# Keys that make the short forms below wrong.
_UNUSUAL = (
    "pcpus",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "reserved_host_cpus",
    "reserved_host_disk_gb",
    "pcpus_used",
)


def usual(docs):
    """Whether no document has one of the keys in _UNUSUAL."""
    a, b, c, d, e, f, g = _UNUSUAL
    return not [1 for x in docs if a in x or b in x or c in x or d in x or e in x or f in x or g in x]


def _cpu(docs, plain):
    if plain:
        return [x["vcpus"] * x["cpu_allocation_ratio"] - x["vcpus_used"] for x in docs]
    return [
        (x.get("vcpus", 0) + x.get("pcpus", 0)) * float(x.get("cpu_allocation_ratio", 4.0))
        - (x.get("vcpus_used", 0) + x.get("pcpus_used", 0) + x.get("reserved_host_cpus", 0))
        for x in docs
    ]


def _disk(docs, plain):
    if plain:
        return [(x["local_gb"] - x["local_gb_used"]) * 1024 for x in docs]
    return [free_disk_mb(x) for x in docs]


def _ram(docs, plain):
    if plain:
        return [x["memory_mb"] - x["memory_mb_used"] - x["reserved_host_memory_mb"] for x in docs]
    return [free_ram_mb(x) for x in docs]


def _io_ops(docs, plain):
    return [x["num_io_ops"] for x in docs] if plain else [int(x.get("num_io_ops", 0)) for x in docs]


def _num_instances(docs, plain):
    if plain:
        return [x["num_instances"] for x in docs]
    return [int(x["num_instances"] if "num_instances" in x else len(x.get("instances") or ())) for x in docs]


def _failed_builds(docs, plain):
    return [x["failed_builds"] for x in docs] if plain else [int(x.get("failed_builds", 0)) for x in docs]


def _version(docs, plain):
    return (
        [x["hypervisor_version"] or 0 for x in docs]
        if plain
        else [x.get("hypervisor_version", 8000000) or 0 for x in docs]
    )


def _pci(docs, plain):
    return [
        100 - min(sum(p["count"] for p in x["pci_pools"]), 99) if "pci_pools" in x and x["pci_pools"] else 100
        for x in docs
    ]


READERS = {
    "BuildFailureWeigher": _failed_builds,
    "CPUWeigher": _cpu,
    "DiskWeigher": _disk,
    "HypervisorVersionWeigher": _version,
    "IoOpsWeigher": _io_ops,
    "NumInstancesWeigher": _num_instances,
    "PCIWeigher": _pci,
    "RAMWeigher": _ram,
}


def column(weigher, hosts, plain):
    """Return the clamped raw weights of all hosts: ``hosts`` are documents (``plain`` from usual()) or HostStates."""
    if hosts and isinstance(hosts[0], HostState):
        return weigher.weigh(hosts, None)
    try:
        values = READERS[weigher.name](hosts, plain)
    except KeyError:
        values = READERS[weigher.name](hosts, False)
    if weigher.minval is not None and min(values) < weigher.minval:
        values = [value if value > weigher.minval else weigher.minval for value in values]
    return values


def never_changes(weigher, values):
    """Whether no decision changes these values: nothing that is consumed counts, or no host has any of it."""
    if weigher.name == "PCIWeigher":
        # 100: without devices
        return values.count(100) == len(values)
    return weigher.name in ("BuildFailureWeigher", "HypervisorVersionWeigher")
