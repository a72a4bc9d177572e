# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA cells of hosts and of instances, and pools of PCI devices, as plain values. Memory is MiB, pages are KiB."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Optional

from .messages import Document

# What hw:mem_page_size may ask for instead of a size.
PAGES_SMALL, PAGES_LARGE, PAGES_ANY = -1, -2, -3


class Pages:
    """The pages of one size in a cell: {size_kb, total, used, reserved} in pages."""

    __slots__ = ("size_kb", "total", "used", "reserved")

    def __init__(self, size_kb: int, total: int, used: int = 0, reserved: int = 0) -> None:
        self.size_kb, self.total, self.used, self.reserved = size_kb, total, used, reserved

    @property
    def free_kb(self) -> int:
        return (self.total - self.used - self.reserved) * self.size_kb

    @property
    def total_kb(self) -> int:
        return self.total * self.size_kb

    def to_document(self) -> Document:
        return {"size_kb": self.size_kb, "total": self.total, "used": self.used, "reserved": self.reserved}


class HostCell:
    """A NUMA cell of a host. ``cpuset`` are the CPUs for shared use, ``pcpuset`` those for pinned use."""

    __slots__ = (
        "id",
        "cpuset",
        "pcpuset",
        "memory_mb",
        "cpu_usage",
        "memory_usage",
        "pinned_cpus",
        "siblings",
        "socket",
        "mempages",
        "network_metadata",
    )

    def __init__(self, document: Document) -> None:
        get = document.get
        self.id = document["id"]
        self.cpuset = frozenset(get("cpuset") or ())
        self.pcpuset = frozenset(get("pcpuset") or ())
        self.memory_mb = document["memory_mb"]
        self.cpu_usage = get("cpu_usage", 0)
        self.memory_usage = get("memory_usage", 0)
        self.pinned_cpus = frozenset(get("pinned_cpus") or ())
        siblings = get("siblings") or [[cpu] for cpu in sorted(self.cpuset | self.pcpuset)]
        self.siblings = tuple(frozenset(core) for core in siblings)
        self.socket = get("socket")
        self.mempages = tuple(
            Pages(pages["size_kb"], pages["total"], pages.get("used", 0), pages.get("reserved", 0))
            for pages in get("mempages") or ()
        )
        self.network_metadata = get("network_metadata") or None

    def copy(self) -> HostCell:
        new = HostCell.__new__(HostCell)
        for name in HostCell.__slots__:
            setattr(new, name, getattr(self, name))
        return new

    @property
    def free_pcpus(self) -> FrozenSet[int]:
        return self.pcpuset - self.pinned_cpus

    @property
    def avail_memory(self) -> int:
        return self.memory_mb - self.memory_usage

    def to_document(self) -> Document:
        return {
            "id": self.id,
            "cpuset": sorted(self.cpuset),
            "pcpuset": sorted(self.pcpuset),
            "memory_mb": self.memory_mb,
            "cpu_usage": self.cpu_usage,
            "memory_usage": self.memory_usage,
            "pinned_cpus": sorted(self.pinned_cpus),
            "siblings": [sorted(core) for core in self.siblings],
            "socket": self.socket,
            "mempages": [pages.to_document() for pages in self.mempages],
            "network_metadata": self.network_metadata,
        }


class HostTopology:
    """The NUMA cells of a host."""

    __slots__ = ("cells",)

    def __init__(self, cells: Iterable[HostCell]) -> None:
        self.cells = list(cells)

    @classmethod
    def from_document(cls, document: Optional[Document]) -> Optional[HostTopology]:
        """None if the host has no NUMA cells."""
        if not document or not document.get("cells"):
            return None
        return cls(HostCell(cell) for cell in document["cells"])

    @property
    def has_threads(self) -> bool:
        return any(len(core) > 1 for cell in self.cells for core in cell.siblings)

    def to_document(self) -> Document:
        return {"cells": [cell.to_document() for cell in self.cells]}


class InstanceCell:
    """A NUMA cell of an instance; ``id`` is the guest's cell until it is fitted to a host, then the host's."""

    __slots__ = (
        "id",
        "cpuset",
        "pcpuset",
        "memory_mb",
        "pagesize",
        "cpu_policy",
        "cpu_thread_policy",
        "cpu_pinning",
        "cpuset_reserved",
    )

    def __init__(self, document: Document) -> None:
        get = document.get
        self.id = document["id"]
        self.cpuset = frozenset(get("cpuset") or ())
        self.pcpuset = frozenset(get("pcpuset") or ())
        self.memory_mb = document["memory_mb"]
        self.pagesize = get("pagesize")
        self.cpu_policy = get("cpu_policy")
        self.cpu_thread_policy = get("cpu_thread_policy")
        self.cpu_pinning: Dict[int, int] = {int(vcpu): pcpu for vcpu, pcpu in (get("cpu_pinning") or {}).items()}
        self.cpuset_reserved = frozenset(get("cpuset_reserved") or ())

    def copy(self) -> InstanceCell:
        new = InstanceCell.__new__(InstanceCell)
        for name in InstanceCell.__slots__:
            setattr(new, name, getattr(self, name))
        new.cpu_pinning = dict(self.cpu_pinning)
        return new

    def to_document(self) -> Document:
        return {
            "id": self.id,
            "cpuset": sorted(self.cpuset),
            "pcpuset": sorted(self.pcpuset),
            "memory_mb": self.memory_mb,
            "pagesize": self.pagesize,
            "cpu_policy": self.cpu_policy,
            "cpu_thread_policy": self.cpu_thread_policy,
            "cpu_pinning": {str(vcpu): pcpu for vcpu, pcpu in sorted(self.cpu_pinning.items())},
            "cpuset_reserved": sorted(self.cpuset_reserved),
        }


class InstanceTopology:
    """The NUMA cells of an instance, and where its emulator threads may run."""

    __slots__ = ("cells", "emulator_threads_policy")

    def __init__(self, cells: Iterable[InstanceCell], emulator_threads_policy: Optional[str] = None) -> None:
        self.cells = list(cells)
        self.emulator_threads_policy = emulator_threads_policy

    @classmethod
    def from_document(cls, document: Optional[Document]) -> Optional[InstanceTopology]:
        if not document or not document.get("cells"):
            return None
        return cls([InstanceCell(cell) for cell in document["cells"]], document.get("emulator_threads_policy"))

    def copy(self) -> InstanceTopology:
        return InstanceTopology([cell.copy() for cell in self.cells], self.emulator_threads_policy)

    def to_document(self) -> Document:
        return {
            "cells": [cell.to_document() for cell in self.cells],
            "emulator_threads_policy": self.emulator_threads_policy,
        }


def pci_pools(documents: Optional[Iterable[Document]]) -> List[Document]:
    """Pools of like devices [{vendor_id, product_id, numa_node, count, tag: text}], in the order Nova searches them."""
    pools = []
    for document in documents or ():
        pool = {
            name: value if value is None else str(value)
            for name, value in document.items()
            if name not in ("numa_node", "count")
        }
        pool["numa_node"] = document.get("numa_node")
        pool["count"] = document["count"]
        pools.append(pool)
    return sorted(pools, key=len)
