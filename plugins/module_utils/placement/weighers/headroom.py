# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HeadroomWeigher."""

from __future__ import annotations

from collections import Counter

from ...model.errors import InvalidInput
from ...model.flavor import Flavor
from ...model.resources import InstanceTopology
from .. import numa
from ..base import Weigher
from ..capacity import limit_of
from ..packing import HostCapacity, Packing, Size
from ..requested import disk_gb

FIELDS = ("vcpus", "memory_mb", "disk_gb", "numa_nodes", "share")


class HeadroomWeigher(Weigher):
    """Packs densely: prefers the host where the instance leaves most room for instances like those that run.

    Not part of all_weighers; name it in weight_classes, without the RAM, CPU and disk weighers, which spread.
    The raw weight is minus the cost of the placement: the room lost for a mix of typical instances (how many of each
    still fit, large ones counting more), plus the growth of the imbalance between free vCPUs and free memory, plus a
    little for what stays free. Pinned instances are counted NUMA cell by cell. CPUs are free VCPU and PCPU together.
    The mix is ``headroom_flavor_mix``, or else the instances that the hosts report and those of this run.
    Normalised from the smallest to the largest.
    Options: headroom_weight_multiplier (1.0), headroom_flavor_mix ([]; items {vcpus, memory_mb, disk_gb: 0,
    numa_nodes: 0 (not pinned), share: 1}). Aggregate metadata: headroom_weight_multiplier.

    Source: none in Nova.
    """

    default = False
    multiplier_option = "headroom_weight_multiplier"
    options = {"headroom_weight_multiplier": 1.0, "headroom_flavor_mix": []}

    def __init__(self, options):
        super().__init__(options)
        self.given = read_mix(options["headroom_flavor_mix"])
        self._packing_of = (None, None)
        self._hosts = {}
        self._counted, self._tally, self._mix = set(), Counter(), []

    def expect(self, specs):
        for spec in specs:
            self._tally[_amounts(spec), tuple(sorted(spec.flavor.extra_specs.items()))] += spec.num_instances

    def weigh(self, host_states, spec):
        packing = self._packing(self.given or self._running(host_states) or [_size(spec)])
        amounts, span = _amounts(spec), _span(spec)
        return [-packing.cost(self._host(host_state), amounts, span) for host_state in host_states]

    def raw(self, host_state, spec):
        return self.weigh([host_state], spec)[0]

    def _running(self, host_states):
        """What this run asks for, and the instances of all hosts weighed in it; each host counts as it was first seen."""
        new = [host_state for host_state in host_states if host_state.uuid not in self._counted]
        if new:
            self._counted.update(host_state.uuid for host_state in new)
            self._tally.update(tally(new))
            self._mix = sizes_of(self._tally)
        return self._mix

    def _host(self, host_state):
        """The HostCapacity of a host state, worked out anew only where an instance was placed there since."""
        known = self._hosts.get(host_state.uuid)
        if known is None or known[0] is not host_state.used or known[1] is not host_state.numa_topology:
            known = (host_state.used, host_state.numa_topology, host_of(host_state))
            self._hosts[host_state.uuid] = known
        return known[2]

    def _packing(self, mix):
        if self._packing_of[0] != mix:
            self._packing_of = (mix, Packing(mix))
        return self._packing_of[1]


def read_mix(documents, field="berth_placement.headroom_flavor_mix"):
    """[Size] of the option; InvalidInput where an item is not what it must be."""
    mix = []
    for at, item in enumerate(documents):
        path = "%s[%d]" % (field, at)
        if not isinstance(item, dict) or not set(item) <= set(FIELDS):
            raise InvalidInput(path, item, "an object with some of " + ", ".join(FIELDS))
        numbers = [item.get(name, 1 if name == "share" else 0) for name in FIELDS]
        for name, number in zip(FIELDS, numbers):
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < 2**53:
                raise InvalidInput("%s.%s" % (path, name), number, "a number that is not negative")
        if not numbers[4] or not (numbers[0] or numbers[1]):
            raise InvalidInput(path, item, "vcpus or memory_mb and share above 0")
        mix.append(Size(tuple(numbers[:3]), int(numbers[3]), numbers[4]))
    return mix


def tally(host_states):
    """{(amounts, extra specs): number} of the instances on the hosts."""
    seen = Counter()
    for host_state in host_states:
        for instance in host_state.instances.values():
            flavor = instance.get("flavor")
            extra_specs = flavor.get("extra_specs") if isinstance(flavor, dict) else None
            amounts = (instance.get("vcpus") or 0, instance.get("memory_mb") or 0, instance.get("disk_gb") or 0)
            if amounts[0] or amounts[1]:
                seen[amounts, tuple(sorted(extra_specs.items())) if extra_specs else ()] += 1
    return seen


def sizes_of(seen):
    """[Size] of a tally, each kind once with its number as share."""
    return [
        Size(amounts, _pinned_nodes(amounts, dict(extra_specs)), share)
        for (amounts, extra_specs), share in sorted(seen.items())
    ]


def _pinned_nodes(amounts, extra_specs):
    """The NUMA cells an instance of this size asks for; 0 where it asks for none or for nonsense."""
    if not extra_specs:
        return 0
    try:
        flavor = Flavor({"vcpus": amounts[0], "memory_mb": amounts[1], "extra_specs": extra_specs})
        topology = numa.constraints(flavor, {})
    except InvalidInput:
        return 0
    return len(topology.cells) if topology else 0


def _amounts(spec):
    return (spec.vcpus, spec.memory_mb, disk_gb(spec))


def _span(spec):
    topology = InstanceTopology.from_document(spec.numa_topology) or numa.constraints(spec.flavor, spec.image_props)
    return len(topology.cells) if topology else 0


def _size(spec):
    return Size(_amounts(spec), _span(spec))


def host_of(host_state):
    """The HostCapacity of a host state: vCPUs, MiB, GiB, by Placement's capacity rule; disk by what the pool has free too."""
    cpus = [_free_of(host_state, name) for name in ("VCPU", "PCPU")]
    memory, disk = _free_of(host_state, "MEMORY_MB"), _free_of(host_state, "DISK_GB")
    free = (cpus[0][0] + cpus[1][0], memory[0], min(disk[0], host_state.free_disk_mb / 1024))
    return HostCapacity(free, (cpus[0][1] + cpus[1][1], memory[1], disk[1]), _cells(host_state))


def _free_of(host_state, name):
    inventory = host_state.inventories.get(name)
    if inventory is None:
        return 0, 0
    capacity = limit_of(inventory["total"], inventory["reserved"], inventory["allocation_ratio"])
    return capacity - host_state.used.get(name, 0), capacity


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
