# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What placement knows about a host: Nova's HostState, read from the document that host_facts returns."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Set, Tuple, TypeVar

from . import vgpus
from .errors import InvalidInput
from .image import canonical_architecture, canonical_hv_type, canonical_vm_mode, known_properties
from .lifecycle import CLAIM, OWN
from .messages import Document
from .pools import DISK, other_disks
from .resources import HostTopology, pci_pools

# A host aggregate: a named set of hosts with metadata, Nova's way of saying something about many hosts at once.
Number = TypeVar("Number", int, float)


class Aggregate:
    """{name, hosts [host name], metadata {text: text}}; ``uuid`` is the name where there is none."""

    __slots__ = ("uuid", "name", "hosts", "metadata")

    def __init__(self, document: Document) -> None:
        self.name = document["name"]
        self.uuid = document.get("uuid") or self.name
        self.hosts = frozenset(document.get("hosts") or ())
        self.metadata = {key: str(value) for key, value in (document.get("metadata") or {}).items()}

    def to_dict(self) -> Document:
        return {"name": self.name, "uuid": self.uuid, "hosts": sorted(self.hosts), "metadata": dict(self.metadata)}


def zones(aggregates: Iterable[Document]) -> Dict[str, str]:
    """Return {host: availability zone} for the hosts that are in one."""
    named = [(aggregate["hosts"], aggregate["metadata"].get("availability_zone")) for aggregate in aggregates]
    return {host: zone for hosts, zone in named if zone for host in hosts}


def values_of(aggregates: Iterable[Aggregate], key: str) -> Set[str]:
    """The different values that the aggregates of one host have for a metadata key."""
    return {aggregate.metadata[key] for aggregate in aggregates if key in aggregate.metadata}


def merged_metadata(aggregates: Iterable[Aggregate]) -> Dict[str, Set[str]]:
    """{key: set of values} over the aggregates of one host; a value is a comma list."""
    merged: Dict[str, Set[str]] = {}
    for aggregate in aggregates:
        for key, value in aggregate.metadata.items():
            merged.setdefault(key, set()).update(part.strip() for part in value.split(","))
    return merged


def lowest(aggregates: Iterable[Aggregate], key: str, default: Number, read: Callable[[str], Number]) -> Number:
    """The lowest value of ``key`` over the aggregates; ``default`` where there is none, or a value cannot be read."""
    values = values_of(aggregates, key)
    if not values:
        return default
    try:
        return min(read(value) for value in values)
    except ValueError:
        return default


BIG = 2147483647

# Nova keeps these fractions as whole percentages, and every other metric that it knows as a whole number.
PERCENT_METRICS = frozenset(
    ("cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent")
)
WHOLE_METRICS = frozenset(
    (
        "cpu.frequency",
        "cpu.user.time",
        "cpu.kernel.time",
        "cpu.idle.time",
        "cpu.iowait.time",
        "numa.membw.max",
        "numa.membw.current",
    )
)


class Metric:
    """One number that a host reports about itself."""

    __slots__ = ("name", "value")

    def __init__(self, document: Document) -> None:
        self.name = document["name"]
        value = document.get("value", 0)
        if self.name in PERCENT_METRICS:
            value = int(value * 100)
        elif self.name in WHOLE_METRICS:
            value = int(value)
        self.value = value


def inventories(doc: Document) -> Dict[str, Document]:
    """Placement's inventory of a host: {resource class: {total, reserved, min_unit, max_unit, step_size, allocation_ratio}}.

    VCPU, PCPU, MEMORY_MB (MiB) and DISK_GB (GiB) follow from the totals; ``inventory`` in the document overrides them,
    null removes a class, other classes are added.
    """
    get = doc.get
    custom = get("custom_resources") or {}
    found: Dict[str, Document] = {}
    for name, total, reserved, ratio in (
        ("VCPU", get("vcpus", 0), get("reserved_host_cpus", 0), get("cpu_allocation_ratio", 4.0)),
        ("PCPU", get("pcpus", 0), 0, 1.0),
        ("MEMORY_MB", get("memory_mb", 0), get("reserved_host_memory_mb", 512), get("ram_allocation_ratio", 1.0)),
        (DISK, get("local_gb", 0), get("reserved_host_disk_gb", 0), get("disk_allocation_ratio", 1.0)),
        ("MEM_ENCRYPTION_CONTEXT", (get("encrypted_guests") or {}).get("total"), 0, 1.0),
        *((name, pool["capacity_gb"], 0, get("disk_allocation_ratio", 1.0)) for name, pool in other_disks(doc).items()),
        *((name, total, 0, 1.0) for name, total in vgpus.totals(doc).items()),
        *((name, each["total"], 0, 1.0) for name, each in custom.items()),
    ):
        if total:
            found[name] = {
                "total": total,
                "reserved": reserved,
                "min_unit": 1,
                "max_unit": min(total, vgpus.MOST) if name.startswith(vgpus.VGPU) else total,
                "step_size": 1,
                "allocation_ratio": ratio,
            }
    for name, change in (get("inventory") or {}).items():
        if change is None:
            found.pop(name, None)
            continue
        base = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": BIG, "step_size": 1, "allocation_ratio": 1.0}
        found[name] = dict(found.get(name, base), **change)
    return found


def usages(doc: Document) -> Dict[str, int]:
    """{resource class: used by instances}, without what is reserved."""
    get = doc.get
    used = {
        "VCPU": get("vcpus_used", 0),
        "PCPU": get("pcpus_used", 0),
        "MEMORY_MB": get("memory_mb_used", 0),
        DISK: get("local_gb_used", 0),
        **({"MEM_ENCRYPTION_CONTEXT": doc["encrypted_guests"]["used"]} if doc.get("encrypted_guests") else {}),
        **{name: pool["promised_gb"] for name, pool in other_disks(doc).items()},
        **vgpus.used(doc),
        **{name: each["used"] for name, each in (get("custom_resources") or {}).items()},
    }
    used.update(get("placement_used") or {})
    return used


def free_disk_mb(doc: Document) -> int:
    """Return the free MiB: what the instances' full sizes leave, or what is really free in the pool if that is less."""
    get = doc.get
    free = get("free_disk_gb")
    if free is None:
        free = get("local_gb", 0) - get("local_gb_used", 0) - get("reserved_host_disk_gb", 0)
    least = get("disk_available_least")
    return (free if least is None else min(least, free)) * 1024


def free_ram_mb(doc: Document) -> int:
    """MiB; may be negative on an overcommitted host."""
    free = doc.get("free_ram_mb")
    if free is None:
        free = doc.get("memory_mb", 0) - doc.get("memory_mb_used", 0) - doc.get("reserved_host_memory_mb", 512)
    return free


class HostState:
    """One host as the filters and weighers see it; sizes in MiB, total_usable_disk_gb in GiB.

    ``inventories`` and ``used`` hold what Nova keeps in Placement. ``document`` is never changed. In a large fleet most
    attributes of most hosts are never needed, so each is read from the document when it is first used.
    """

    num_io_ops: int

    def __init__(self, document: Document) -> None:
        self.document = document
        self.host = document["host"]
        self.nodename = document.get("node") or self.host
        self.limits: Document = {}
        self.aggregates: List[Aggregate] = []

    @classmethod
    def from_document(cls, doc: Document) -> HostState:
        """Read a host state document of schema 1, complete or not: only ``host`` is required."""
        return cls(doc)

    def __getattr__(self, name: str) -> Any:
        """Read an attribute from the document at its first use."""
        read = _READERS.get(name)
        if read is None:
            raise AttributeError(name)
        value = self.__dict__[name] = read(self.document)
        return value

    @property
    def key(self) -> str:
        """The host's name in results: HOST, or HOST|NODE where the node has another name."""
        return self.host if self.host == self.nodename else "%s|%s" % (self.host, self.nodename)

    def copy(self) -> HostState:
        """Return an independent copy: taking from one does not change the other."""
        new = HostState.__new__(type(self))
        new.__dict__.update(self.__dict__, limits=dict(self.limits), instances=dict(self.instances))
        return new

    @property
    def service_up(self) -> bool:
        return bool(self.service.get("up", True)) and not self.service.get("forced_down")

    def image_props_of(self, uuid: str) -> Document:
        """The known image properties of an instance on this host."""
        instance = self.instances[uuid]
        if "known_props" not in instance:
            instance = dict(instance)
            instance["known_props"] = known_properties(instance.get("image_props") or {}, strict=False)
            self.instances[uuid] = instance
        return instance["known_props"]

    @property
    def capabilities(self) -> Document:
        """cpu_info as an object, also where it is JSON text or missing."""
        if isinstance(self.cpu_info, str):
            try:
                return json.loads(self.cpu_info)
            except ValueError:
                return {}
        return self.cpu_info or {}

    def __repr__(self) -> str:
        return "(%s, %s) ram: %sMB disk: %sMB io_ops: %s instances: %s" % (
            self.host,
            self.nodename,
            self.free_ram_mb,
            self.free_disk_mb,
            self.num_io_ops,
            self.num_instances,
        )


_supported: Dict[Tuple[str, ...], List[Optional[str]]] = {}


def supported(triple: Sequence[str]) -> List[Optional[str]]:
    """[architecture, hypervisor type, vm mode] in canonical form; unknown words stay as they are."""
    known = _supported.get(tuple(triple))
    if known is not None:
        return known
    names: List[Optional[str]] = []
    for read, name in zip((canonical_architecture, canonical_hv_type, canonical_vm_mode), triple):
        try:
            names.append(read(name))
        except InvalidInput:
            names.append(name)
    if len(_supported) < 1000:
        _supported[tuple(triple)] = names
    return names


def _uuid(doc: Document) -> str:
    host, node = doc["host"], doc.get("node")
    return doc.get("uuid") or (host if not node or node == host else "%s|%s" % (host, node))


def _num_instances(doc: Document) -> int:
    return int(doc["num_instances"] if "num_instances" in doc else len(doc.get("instances") or ()))


def _stats(doc: Document) -> Dict[str, str]:
    """What the host is said to be by its settings, and Nova's counts of the instances that are there."""
    stats = {key: str(value) for key, value in (doc.get("stats") or {}).items()}
    counted: Counter[str] = Counter()
    for instance in doc.get("instances") or ():
        if instance.get("role") in (OWN, CLAIM):
            counted["num_vm_%s" % instance.get("vm_state")] += 1
            counted["num_task_%s" % instance.get("task_state")] += 1
            counted["num_proj_%s" % instance.get("project_id")] += 1
            counted["num_os_type_%s" % (instance.get("image_props") or {}).get("os_type")] += 1
    stats.update({name: str(count) for name, count in counted.items()})
    stats["num_instances"] = str(_num_instances(doc))
    stats["io_workload"] = str(int(doc.get("num_io_ops", 0)))
    stats["failed_builds"] = str(int(doc.get("failed_builds", 0)))
    return stats


def _service(doc: Document) -> Document:
    return dict({"disabled": False, "disabled_reason": None, "forced_down": False}, **(doc.get("service") or {}))


def _traits(doc: Document) -> FrozenSet[str]:
    traits = frozenset(doc.get("traits") or ())
    return traits | {"COMPUTE_STATUS_DISABLED"} if (doc.get("service") or {}).get("disabled") else traits


_READERS: Dict[str, Callable[[Document], Any]] = {
    "uuid": _uuid,
    "cell_uuid": lambda doc: doc.get("cell", "cell1"),
    "inventories": inventories,
    "used": usages,
    "total_usable_ram_mb": lambda doc: doc.get("memory_mb", 0),
    "total_usable_disk_gb": lambda doc: doc.get("local_gb", 0),
    "disk_mb_used": lambda doc: (doc.get("local_gb_used", 0) + doc.get("reserved_host_disk_gb", 0)) * 1024,
    "free_ram_mb": free_ram_mb,
    "free_disk_mb": free_disk_mb,
    "vcpus_total": lambda doc: doc.get("vcpus", 0) + doc.get("pcpus", 0),
    "vcpus_used": lambda doc: doc.get("vcpus_used", 0) + doc.get("pcpus_used", 0) + doc.get("reserved_host_cpus", 0),
    "cpu_allocation_ratio": lambda doc: float(doc.get("cpu_allocation_ratio", 4.0)),
    "ram_allocation_ratio": lambda doc: float(doc.get("ram_allocation_ratio", 1.0)),
    "disk_allocation_ratio": lambda doc: float(doc.get("disk_allocation_ratio", 1.0)),
    "instances": lambda doc: {instance["uuid"]: instance for instance in doc.get("instances") or ()},
    "num_instances": _num_instances,
    "num_io_ops": lambda doc: int(doc.get("num_io_ops", 0)),
    "failed_builds": lambda doc: int(doc.get("failed_builds", 0)),
    "host_ip": lambda doc: doc.get("host_ip", "192.0.2.1"),
    "hypervisor_type": lambda doc: doc.get("hypervisor_type", "QEMU"),
    "hypervisor_version": lambda doc: doc.get("hypervisor_version", 8000000),
    "hypervisor_hostname": lambda doc: doc.get("node") or doc["host"],
    "cpu_info": lambda doc: doc.get("cpu_info"),
    "supported_instances": lambda doc: [supported(triple) for triple in doc.get("supported_instances") or ()],
    "metrics": lambda doc: [Metric(metric) for metric in doc.get("metrics") or ()],
    "stats": _stats,
    "service": _service,
    "traits": _traits,
    "numa_topology": lambda doc: HostTopology.from_document(doc.get("numa_topology")),
    "pci_stats": lambda doc: pci_pools(doc.get("pci_pools")),
    "pci_devices": lambda doc: [dict(device) for device in doc.get("pci_devices") or ()],
    "updated": lambda doc: doc.get("generation"),
}
