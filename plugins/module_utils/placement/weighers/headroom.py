# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HeadroomWeigher."""

from __future__ import annotations

from collections import Counter

from ...model import vgpus
from ...model.resources import InstanceTopology
from .. import numa, pci
from ..base import Weigher
from ..capacity import limit_of
from ..packing import HostCapacity, Packing, counted_mix, further_resources, read_mix, tally
from ..requested import disk_gb


class HeadroomWeigher(Weigher):
    """Packs densely: prefers the host where the instance leaves most room for instances like those that run.

    Not part of all_weighers; name it in weight_classes, without the RAM, CPU and disk weighers, which spread.
    The raw weight is minus the cost of the placement: the room lost for a mix of typical instances (how many of each
    still fit, large ones counting more), plus the growth of the imbalance between free vCPUs and free memory (less if the
    hosts together have much more of one than the mix needs), plus what stays free (best fit), the more the likelier the
    next instance has a size that the mix does not know. An instance that asks for no device or other further resource
    also pays for the share of the host's CPUs or memory that it takes from those who do. Pinned instances are counted
    NUMA cell by cell. CPUs are free VCPU and PCPU together.
    The mix is ``headroom_flavor_mix``, or else the instances that the hosts report and those of this run.
    Normalised from the smallest to the largest.
    Options: headroom_weight_multiplier (1.0), headroom_flavor_mix ([]; items {vcpus, memory_mb, disk_gb: 0,
    numa_nodes: 0 (not pinned), resources: {} (CLASS or pci:ALIAS: amount), share: 1}).
    Aggregate metadata: headroom_weight_multiplier.

    Source: none in Nova.
    """

    default = False
    multiplier_option = "headroom_weight_multiplier"
    options = {"headroom_weight_multiplier": 1.0, "headroom_flavor_mix": []}

    def __init__(self, options):
        super().__init__(options)
        self.given = read_mix(options["headroom_flavor_mix"])
        self.aliases = pci.read_aliases(options.get("pci_alias"))
        self._mix, self._packing = None, None
        self._hosts = {}  # {host uuid: (the three parts its HostCapacity was made of, the HostCapacity)}
        self._counted, self._running, self._asked = set(), Counter(), Counter()
        self._fleet = (0, 0)  # vCPUs and MiB of the hosts that were counted

    def expect(self, specs):
        for spec in specs:
            self._asked[_kind(spec)] += spec.num_instances

    def weigh(self, host_states, spec):
        self._count(host_states, spec)
        further = further_resources(spec.flavor.extra_specs)
        amounts = (*_amounts(spec), *(further.get(name, 0) for name in self._mix.names))
        span = _span(spec)
        return [-self._packing.cost(self._host(host_state), amounts, span) for host_state in host_states]

    def raw(self, host_state, spec):
        return self.weigh([host_state], spec)[0]

    def _count(self, host_states, spec):
        """Count hosts not seen before in this run, and their instances; each host counts as it was first seen."""
        new = [host_state for host_state in host_states if host_state.uuid not in self._counted]
        if new or self._mix is None:
            self._counted.update(host_state.uuid for host_state in new)
            sizes = [capacity_of(host_state).capacity[:2] for host_state in new]
            self._fleet = tuple(map(sum, zip(self._fleet, *sizes)))
            self._use(self.given or self._counted_mix(new, spec))

    def _counted_mix(self, new, spec):
        self._running.update(tally(new))
        return counted_mix(self._running, self._asked if self._asked or self._running else Counter([_kind(spec)]))

    def _use(self, mix):
        if self._mix is None or self._mix.names != mix.names:
            self._hosts = {}
        self._mix, self._packing = mix, Packing(mix.sizes, mix.unseen, self._fleet)

    def _host(self, host_state):
        """The HostCapacity of a host state, computed again only if an instance was placed there since."""
        known = self._hosts.get(host_state.uuid)
        if (
            known is None
            or known[0] is not host_state.used
            or known[1] is not host_state.numa_topology
            or known[2] is not host_state.pci_stats
        ):
            parts = host_state.used, host_state.numa_topology, host_state.pci_stats
            known = self._hosts[host_state.uuid] = *parts, capacity_of(host_state, self._mix.names, self.aliases)
        return known[3]


def _kind(spec):
    return _amounts(spec), tuple(sorted(spec.flavor.extra_specs.items()))


def _amounts(spec):
    return (spec.vcpus, spec.memory_mb, disk_gb(spec))


def _span(spec):
    topology = InstanceTopology.from_document(spec.numa_topology) or numa.constraints(spec.flavor, spec.image_props)
    return len(topology.cells) if topology else 0


def capacity_of(host_state, names=(), aliases=None):
    """The HostCapacity of a host state: vCPUs, MiB, GiB and the further resources ``names``, by Placement's capacity
    rule; disk also by what the pool has free, PCI devices by the host's pools.
    """
    cpus = [_free_of(host_state, name) for name in ("VCPU", "PCPU")]
    memory, disk = _free_of(host_state, "MEMORY_MB"), _free_of(host_state, "DISK_GB")
    further = [
        _free_devices(host_state, (aliases or {}).get(name[4:]))
        if name.startswith("pci:")
        else _free_of(host_state, name, *(vgpus.totals(host_state.document) if name == vgpus.VGPU else ()))
        for name in names
    ]
    free = (cpus[0][0] + cpus[1][0], memory[0], min(disk[0], host_state.free_disk_mb / 1024))
    capacity = (cpus[0][1] + cpus[1][1], memory[1], disk[1])
    return HostCapacity(
        (*free, *(part[0] for part in further)), (*capacity, *(part[1] for part in further)), _cells(host_state)
    )


def _free_of(host_state, *names):
    """(free, capacity) of resource classes together."""
    free = total = 0
    for name in names:
        inventory = host_state.inventories.get(name)
        if inventory is not None:
            capacity = limit_of(inventory["total"], inventory["reserved"], inventory["allocation_ratio"])
            free, total = free + capacity - host_state.used.get(name, 0), total + capacity
    return free, total


def _free_devices(host_state, alias):
    """Return (free devices, devices in all) that a PCI alias may take; all are free if the host lists none."""
    if alias is None:
        return 0, 0
    request = {"spec": alias[1]}
    free = sum(pool["count"] for pool in pci.matching(host_state.pci_stats, request))
    return free, max(free, len(pci.matching(host_state.pci_devices, request)))


def _cells(host_state):
    if not host_state.numa_topology:
        return ()
    return tuple(
        [
            (
                len(cell.free_pcpus) or len(cell.cpuset) * host_state.cpu_allocation_ratio - cell.cpu_usage,
                cell.avail_memory,
            )
            for cell in host_state.numa_topology.cells
        ]
    )
