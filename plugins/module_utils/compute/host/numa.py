# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NUMA cells of this host and what its instances use of them (Nova: NUMATopology of a compute node)."""

from __future__ import annotations

from ...model.cpu_list import parse_cpu_spec
from ...model.resources import HostCell, HostTopology, InstanceTopology, Pages
from ...placement.numa_usage import PinningInvalid, add_usage


def cpu_pools(online, dedicated, shared):
    """Return (CPUs for shared use, CPUs for pinned use). Without any setting all are shared, as in Nova.

    ``online``: the CPUs that are on; ``dedicated`` and ``shared``: the sets from the settings.
    """
    if not shared:
        return (frozenset() if dedicated else online), dedicated & online
    return shared & online, dedicated & online


def read_topology(element, shared, dedicated):
    """Return (HostTopology without usage, {cell id: {cell id: distance}}) from <topology> of libvirt's capabilities.

    CPUs in neither set are not used. Return (None, {}) if the host reports no cells.
    """
    cells, distances = [], {}
    for cell in () if element is None else element.iterfind("cells/cell"):
        cpus = [cpu for cpu in cell.iterfind("cpus/cpu") if cpu.get("siblings")]
        ids = {int(cpu.get("id")) for cpu in cpus}
        usable = ids & (shared | dedicated)
        siblings = {frozenset(parse_cpu_spec(cpu.get("siblings")) & usable) for cpu in cpus}
        sockets = {int(cpu.get("socket_id")) for cpu in cpus}
        cells.append(
            HostCell(
                {
                    "id": int(cell.get("id")),
                    "cpuset": ids & shared,
                    "pcpuset": ids & dedicated,
                    "memory_mb": int(cell.findtext("memory") or 0) // 1024,
                    "siblings": sorted((core for core in siblings if core), key=min),
                    "socket": min(sockets) if sockets else None,
                    "mempages": [
                        {"size_kb": int(pages.get("size")), "total": int(pages.text)} for pages in cell.findall("pages")
                    ],
                }
            )
        )
        distances[cells[-1].id] = {
            sibling.get("id"): int(sibling.get("value")) for sibling in cell.iterfind("distances/sibling")
        }
    return (HostTopology(cells) if cells else None), distances


def add_records(topology, records, warnings):
    """Return the topology with what the records have set aside. Warn of records that contradict another."""
    for record in records:
        instance = InstanceTopology.from_document(record.resources.get("numa_topology"))
        if instance is None or topology is None:
            continue
        try:
            topology = add_usage(topology, instance)
        except PinningInvalid as error:
            warnings.append("instance %s: %s; its CPUs count as pinned" % (record.uuid, error))
            pinned = {cpu for cell in instance.cells for cpu in [*cell.cpu_pinning.values(), *cell.cpuset_reserved]}
            topology = add_pins(topology, pinned)
    return topology


def add_pins(topology, pinned):
    """Return the topology with those of these CPUs pinned that are for pinned use."""
    cells = []
    for cell in topology.cells:
        cell = cell.copy()
        cell.pinned_cpus |= cell.pcpuset.intersection(pinned)
        cells.append(cell)
    return HostTopology(cells)


def add_foreign(topology, domain):
    """Return the topology with the pins and huge pages of a domain that berth did not make.

    A domain that names several cells for its huge pages, or none, may take them from any: they count evenly on each.
    """
    if domain.pinned_cpus:
        topology = add_pins(topology, domain.pinned_cpus)
    if domain.huge_page_kb is None:
        return topology
    topology = add_pins(topology, ())  # a copy
    cells = [cell for cell in topology.cells if not domain.memory_nodes or cell.id in domain.memory_nodes]
    for cell in cells:
        sizes = sorted(pages.size_kb for pages in cell.mempages)[1:]
        size = domain.huge_page_kb or (sizes[0] if sizes else 0)
        share = -(-domain.memory_mb // len(cells))
        cell.memory_usage += share
        cell.mempages = tuple(
            Pages(pages.size_kb, pages.total, pages.used + -(-share * 1024 // size), pages.reserved)
            if pages.size_kb == size
            else pages
            for pages in cell.mempages
        )
    return topology


def to_document(topology, distances):
    """Return the document's ``numa_topology``: Nova's cells, each with ``distances`` {cell id: distance}."""
    if topology is None:
        return None
    document = topology.to_document()
    for cell in document["cells"]:
        cell["distances"] = distances.get(cell["id"], {})
    return document
