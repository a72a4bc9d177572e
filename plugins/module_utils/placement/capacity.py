# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity arithmetic of the collection: placement plans with it, and the claim repeats it. All vGPUs of an
instance come from one GPU. On an overfull host a resize may reduce usage.

    used + asked <= (total - reserved) * allocation_ratio,  min_unit <= asked <= max_unit,  asked % step_size == 0

The rule is that of openstack-placement. MEMORY_MB is MiB, DISK_GB is GiB.
"""

from __future__ import annotations

from ..model import vgpus
from ..model.lifecycle import OWN
from ..model.pools import DISK, disk_class
from ..model.resources import InstanceTopology
from . import networks_and_pools, numa, numa_usage, pci
from .errors import ClaimFailed
from .requested import requested
from .text import number

# Nova's limits: name -> (the resource class that it limits, the host's usage that counts against it).
LIMITS = {
    "vcpu": ("VCPU", "vcpus_used"),
    "memory_mb": ("MEMORY_MB", "memory_mb_used"),
    "disk_gb": ("DISK_GB", "disk_gb_used"),
}


def limit_of(total, reserved, ratio):
    """Return how much of a resource class may be used in all."""
    return (total - reserved) * ratio


def broken_rule(amount, inventory, used):
    """Return the name of the rule above that ``amount`` of a resource class breaks, or None if it fits."""
    if inventory is None:
        return "inventory"
    if used + amount > limit_of(inventory["total"], inventory["reserved"], inventory["allocation_ratio"]):
        return "limit"
    if not inventory["min_unit"] <= amount <= inventory["max_unit"]:
        return "unit"
    if amount % inventory["step_size"]:
        return "step_size"
    return None


def shortfall(name, amount, inventory, used):
    """Return None if ``amount`` of a resource class fits, else {resource, asked, used, ..., reason}."""
    rule = broken_rule(amount, inventory, used)
    if rule is None:
        return None
    if rule == "inventory":
        return {"resource": name, "asked": amount, "reason": "has no %s" % name}
    total, reserved, ratio = inventory["total"], inventory["reserved"], inventory["allocation_ratio"]
    limit = limit_of(total, reserved, ratio)
    numbers = {
        "resource": name,
        "asked": amount,
        "used": used,
        "total": total,
        "reserved": reserved,
        "ratio": ratio,
        "limit": limit,
    }
    if rule == "limit":
        numbers["short"] = used + amount - limit
        values = (name, amount, number(limit - used), total, reserved, number(ratio), used)
        numbers["reason"] = "%s: needs %d, %s free of (%d - %d reserved) x %s, %d used" % values
    elif rule == "unit":
        smallest, largest = inventory["min_unit"], inventory["max_unit"]
        numbers.update(min_unit=smallest, max_unit=largest)
        numbers["reason"] = "%s: %d is not between min_unit %d and max_unit %d" % (name, amount, smallest, largest)
    else:
        numbers.update(step_size=inventory["step_size"])
        numbers["reason"] = "%s: %d is not a multiple of step_size %d" % (name, amount, inventory["step_size"])
    return numbers


def lowered(host_state, spec):
    """Return the resource classes that are over their limit on the host, if the instance is there and asks for no more
    than it has: its resize there brings the host closer to the limit, so the limit does not refuse it."""
    instance = host_state.instances.get(spec.instance_uuid) or {}
    if instance.get("role") != OWN or host_state.host in spec.ignore_hosts:
        return ()
    return [
        name
        for name, asked, held in (
            ("VCPU", spec.vcpus, instance.get("vcpus", 0)),
            ("MEMORY_MB", spec.memory_mb, instance.get("memory_mb", 0)),
        )
        if asked <= held and broken_rule(0, host_state.inventories.get(name), host_state.used.get(name, 0)) == "limit"
    ]


def shortfalls(host_state, amounts, lowers=()):
    """Return a shortfall for each resource class of ``amounts`` that does not fit; ``lowers``: see lowered()."""
    found = []
    for name, amount in amounts.items():
        lack = shortfall(name, amount, host_state.inventories.get(name), host_state.used.get(name, 0))
        if lack and not ("short" in lack and name in lowers):
            found.append(lack)
    return found


def fits(host_state, amounts):
    """Whether all amounts fit; the quick form of not shortfalls()."""
    inventories, used = host_state.inventories, host_state.used
    for name, amount in amounts.items():
        if broken_rule(amount, inventories.get(name), used.get(name, 0)) is not None:
            return False
    return True


def doubtful(documents, amounts):
    """Return the indexes of the host documents that may not fit ``amounts`` or be disabled: all such, and some more.

    For large fleets: it reads numbers from the documents without making a HostState of each.
    """
    if not set(amounts) <= {"VCPU", "MEMORY_MB", "DISK_GB"}:
        return range(len(documents))
    cpu, memory, disk = (amounts.get(name, 0) for name in ("VCPU", "MEMORY_MB", "DISK_GB"))
    surely_fits = [
        x.get("vcpus_used", 0) + cpu
        <= limit_of(x.get("vcpus", 0), x.get("reserved_host_cpus", 0), x.get("cpu_allocation_ratio", 4.0))
        and x.get("memory_mb_used", 0) + memory
        <= limit_of(x.get("memory_mb", 0), x.get("reserved_host_memory_mb", 512), x.get("ram_allocation_ratio", 1.0))
        and x.get("local_gb_used", 0) + disk
        <= limit_of(x.get("local_gb", 0), x.get("reserved_host_disk_gb", 0), x.get("disk_allocation_ratio", 1.0))
        and cpu <= x.get("vcpus", 0)
        and memory <= x.get("memory_mb", 0)
        and disk <= x.get("local_gb", 0)
        and not ("inventory" in x or "placement_used" in x or ("service" in x and x["service"].get("disabled")))
        and "COMPUTE_STATUS_DISABLED" not in x.get("traits", ())
        for x in documents
    ]
    return [index for index, surely in enumerate(surely_fits) if not surely]


def ask_of(host_state, ask, spec):
    """Return a Requested as it applies to one host: disks in a pool other than the host's own count on that pool's file
    system, and all vGPUs are of one GPU."""
    ask = ask.with_disks_as(disk_class(host_state.document, spec.pool)) if spec.pool else ask
    return _of_one_parent(host_state, ask) if vgpus.VGPU in ask.amounts else ask


def _of_one_parent(host_state, ask):
    """Request the vGPUs from the host's first GPU with the traits and room, else from the one with most room. Return
    ``ask`` unchanged if no GPU has the traits."""
    suffix, group = ask.vgpu_group()
    parents = {
        name: traits
        for name, traits in vgpus.traits(host_state.document).items()
        if group.required <= (traits if suffix else traits | host_state.traits) and not group.forbidden & traits
    }
    if not parents:
        return ask
    amount, inventories, used = group.resources[vgpus.VGPU], host_state.inventories, host_state.used
    roomy = (name for name in parents if broken_rule(amount, inventories.get(name), used.get(name, 0)) is None)
    totals = vgpus.totals(host_state.document)
    name = next(roomy, None) or max(parents, key=lambda each: totals[each] - used.get(each, 0))
    return ask.with_vgpus_as(name, parents[name])


def request_shortfalls(host_state, ask, lowers=()):
    """Return the shortfalls of a Requested: of each group alone, then of all together."""
    found = []
    if ask.unanswerable:
        found.append({"resource": "groups", "reason": ask.unanswerable})
    for group in ask.groups.values():
        found += shortfalls(host_state, group.resources, lowers)
    if not found and len(ask.groups) > 1:
        # Only capacity and max_unit limit the sum, as in Placement.
        for lack in shortfalls(host_state, ask.amounts, lowers):
            if "short" in lack or "max_unit" in lack and lack["asked"] > lack["max_unit"]:
                found.append(lack)
    return found


def _limit_shortfalls(host_state, ask, limits):
    counted = {
        "vcpus_used": host_state.vcpus_used,
        "memory_mb_used": host_state.total_usable_ram_mb - host_state.free_ram_mb,
        "disk_gb_used": host_state.disk_mb_used / 1024.0,
    }
    found = []
    for name, (resource, used_name) in LIMITS.items():
        limit, amount, used = limits.get(name), ask.amounts.get(resource, 0), counted[used_name]
        if limit is not None and used + amount > limit:
            reason = "%s: needs %d, %s used, limit %s of the decision" % (resource, amount, number(used), number(limit))
            found.append({"resource": resource, "asked": amount, "used": used, "limit": limit, "reason": reason})
    return found


def numa_limits(host_state, spec):
    """Return the limits to which shared CPUs and memory of NUMA cells may be overcommitted."""
    limits = {
        "cpu_allocation_ratio": host_state.cpu_allocation_ratio,
        "ram_allocation_ratio": host_state.ram_allocation_ratio,
    }
    if spec.network_metadata:
        limits["network_metadata"] = spec.network_metadata
    return limits


def fit_numa(host_state, topology, limits, pci_requests, packing=False, why=None):
    """Fit an InstanceTopology (changed in place) on the host, near its PCI devices."""
    return numa.fit(
        host_state.numa_topology,
        topology,
        limits,
        pci_requests,
        host_state.pci_stats,
        lambda cells: pci.supports(host_state.pci_stats, pci_requests, cells, host_state.numa_topology),
        packing,
        why,
    )


def amounts_on(host_state, spec):
    """Return (Requested, [shortfall]) of the form that fits: pinned CPUs as PCPU, else Nova's fallback to VCPU."""
    ask, lowers = ask_of(host_state, requested(spec), spec), lowered(host_state, spec)
    found = request_shortfalls(host_state, ask, lowers)
    if found and ask.pinned:
        fallback = ask_of(host_state, requested(spec, pin=False), spec)
        if not request_shortfalls(host_state, fallback, lowers):
            return fallback, []
    return ask, found


def allocate(host_state, spec, limits=None, packing=False):
    """Return what the host would set aside for one instance of ``spec``; raise ClaimFailed with every shortfall.

    The result is {vcpus, pcpus, memory_mb, disk_gb, resources, numa_topology, pci_devices}, and vgpus if any. Nothing
    is changed. ``limits`` are those of the decision (a Selection's), tested again here.
    """
    ask, lacks = amounts_on(host_state, spec)
    limits = limits or {}
    lacks = [
        {"resource": rule, "reason": why}
        for rule, why in networks_and_pools.NetworksAndPool(spec).lacks(host_state.document).items()
    ] + lacks
    lacks = lacks + _limit_shortfalls(host_state, ask, limits)
    topology = InstanceTopology.from_document(spec.numa_topology) or numa.constraints(spec.flavor, spec.image_props)
    pci_requests = spec.pci_requests or []
    fitted, why = None, []
    if topology and not host_state.numa_topology:
        lacks.append({"resource": "numa_topology", "reason": "has no NUMA cells to fit on"})
    elif topology:
        ratios = limits.get("numa_topology") or numa_limits(host_state, spec)
        fitted = fit_numa(host_state, topology.copy(), ratios, pci_requests, packing, why)
        if fitted is None:
            lacks.append({"resource": "numa_topology", "reason": "; ".join(dict.fromkeys(why)) or "does not fit"})
    taken = pci.take(
        pci.copy_pools(host_state.pci_stats), pci_requests, fitted.cells if fitted else None, host_state.numa_topology
    )
    if taken is None:
        wanted = ", ".join("%s:%d" % (request["alias_name"], request["count"]) for request in pci_requests)
        lacks.append({"resource": "pci_devices", "asked": wanted, "reason": "has no free PCI devices for %s" % wanted})
    if lacks:
        raise ClaimFailed(host_state.host, lacks)
    allocation = allocation_of(ask.amounts, fitted, pci.give_addresses(host_state.pci_devices, taken))
    bound = vgpus.bound(host_state.document, ask.amounts, spec.instance_uuid)
    return {**allocation, "vgpus": bound} if bound else allocation


def allocation_of(amounts, topology=None, pci_devices=()):
    return {
        "vcpus": amounts.get("VCPU", 0),
        "pcpus": amounts.get("PCPU", 0),
        "memory_mb": amounts.get("MEMORY_MB", 0),
        "disk_gb": sum(amount for name, amount in amounts.items() if name.split(":")[0] == DISK),
        "resources": dict(amounts),
        "numa_topology": topology.to_document() if topology else None,
        "pci_devices": list(pci_devices),
    }


def consume(host_state, spec, allocation):
    """Subtract an allocation from the host state, in Nova's order; raises numa_usage.PinningInvalid."""
    used = dict(host_state.used)
    for name, amount in allocation["resources"].items():
        used[name] = used.get(name, 0) + amount
    host_state.used = used
    host_state.free_ram_mb -= spec.memory_mb
    if not networks_and_pools.counts_elsewhere(host_state.document, spec):
        host_state.free_disk_mb -= spec.local_gb * 1024
    host_state.vcpus_used += spec.vcpus
    host_state.num_instances += 1
    topology = InstanceTopology.from_document(allocation.get("numa_topology"))
    if topology and host_state.numa_topology:
        host_state.numa_topology = numa_usage.add_usage(host_state.numa_topology, topology)
    _take_devices(host_state, allocation.get("pci_devices") or ())
    host_state.num_io_ops += 1


def _take_devices(host_state, devices):
    if not devices:
        return
    pools = pci.copy_pools(host_state.pci_stats)
    for device in devices:
        for pool in pools:
            # two pools may be alike: if the first is used up, the next one serves
            if pool["count"] > 0 and {key: value for key, value in pool.items() if key != "count"} == device["pool"]:
                pool["count"] -= 1
                break
    addresses = {device["address"] for device in devices if device.get("address")}
    host_state.pci_devices = [
        dict(device, used_by="claimed") if device["address"] in addresses else device
        for device in host_state.pci_devices
    ]
    host_state.pci_stats = [pool for pool in pools if pool["count"] > 0 or not _was_taken(pool, devices)]


def _was_taken(pool, devices):
    return any({key: value for key, value in pool.items() if key != "count"} == device["pool"] for device in devices)
