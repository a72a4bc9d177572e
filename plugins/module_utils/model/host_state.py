# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What placement knows of a host: Nova's HostState, read from the document that host_facts returns."""

from __future__ import annotations

import json

from .errors import InvalidInput
from .image import canonical_architecture, canonical_hv_type, canonical_vm_mode, known_properties
from .resources import HostTopology, pci_pools

BIG = 2147483647

# Nova keeps these as whole numbers of hundredths, and every other metric that it knows as a whole number.
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
    """One number that a host reports of itself."""

    __slots__ = ("name", "value")

    def __init__(self, document):
        self.name = document["name"]
        value = document.get("value", 0)
        if self.name in PERCENT_METRICS:
            value = int(value * 100)
        elif self.name in WHOLE_METRICS:
            value = int(value)
        self.value = value


def inventories(doc):
    """Placement's inventory of a host: {resource class: {total, reserved, min_unit, max_unit, step_size, allocation_ratio}}.

    VCPU, PCPU, MEMORY_MB (MiB) and DISK_GB (GiB) follow from the totals; ``inventory`` in the document overrides them,
    null takes a class away, other classes are added.
    """
    get = doc.get
    found = {}
    for name, total, reserved, ratio in (
        ("VCPU", get("vcpus", 0), get("reserved_host_cpus", 0), get("cpu_allocation_ratio", 4.0)),
        ("PCPU", get("pcpus", 0), 0, 1.0),
        ("MEMORY_MB", get("memory_mb", 0), get("reserved_host_memory_mb", 512), get("ram_allocation_ratio", 1.0)),
        ("DISK_GB", get("local_gb", 0), get("reserved_host_disk_gb", 0), get("disk_allocation_ratio", 1.0)),
    ):
        if total:
            found[name] = {
                "total": total,
                "reserved": reserved,
                "min_unit": 1,
                "max_unit": total,
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


def usages(doc):
    """{resource class: used by instances}, without what is reserved."""
    get = doc.get
    used = {
        "VCPU": get("vcpus_used", 0),
        "PCPU": get("pcpus_used", 0),
        "MEMORY_MB": get("memory_mb_used", 0),
        "DISK_GB": get("local_gb_used", 0),
    }
    used.update(get("placement_used") or {})
    return used


def free_disk_mb(doc):
    """MiB: the lower of what the sizes of the instances leave and what the pool really has (S14)."""
    get = doc.get
    free = get("free_disk_gb")
    if free is None:
        free = get("local_gb", 0) - get("local_gb_used", 0) - get("reserved_host_disk_gb", 0)
    least = get("disk_available_least")
    return (free if least is None else min(least, free)) * 1024


def free_ram_mb(doc):
    """MiB; may be negative on an overcommitted host (S15)."""
    free = doc.get("free_ram_mb")
    if free is None:
        free = doc.get("memory_mb", 0) - doc.get("memory_mb_used", 0) - doc.get("reserved_host_memory_mb", 512)
    return free


class HostState:
    """One host as the filters and weighers see it; sizes in MiB, total_usable_disk_gb in GiB.

    ``inventories`` and ``used`` hold what Nova keeps in Placement. Everything that consume() changes is the state's
    own; ``document`` stays as it was given.
    """

    def __init__(self, host, nodename=None):
        self.host = host
        self.nodename = nodename or host
        self.uuid = host
        self.cell_uuid = "cell1"
        self.total_usable_ram_mb = 0
        self.total_usable_disk_gb = 0
        self.disk_mb_used = 0
        self.free_ram_mb = 0
        self.free_disk_mb = 0
        self.vcpus_total = 0
        self.vcpus_used = 0
        self.pci_stats = []
        self.numa_topology = None
        self.num_instances = 0
        self.num_io_ops = 0
        self.failed_builds = 0
        self.host_ip = None
        self.hypervisor_type = None
        self.hypervisor_version = None
        self.hypervisor_hostname = None
        self.cpu_info = None
        self.supported_instances = []
        self.limits = {}
        self.metrics = []
        self.aggregates = []
        self.instances = {}
        self.ram_allocation_ratio = None
        self.cpu_allocation_ratio = None
        self.disk_allocation_ratio = None
        self.updated = None
        self.stats = {}
        self.service = {}
        self.traits = frozenset()
        self.inventories = {}
        self.used = {}
        self.pci_devices = []
        self.document = {}

    @classmethod
    def from_document(cls, doc):
        """Read a host state document (schema 1, or the bare numbers of it: only ``host`` is required)."""
        get = doc.get
        self = cls(doc["host"], get("node"))
        self.document = doc
        self.uuid = get("uuid") or (self.host if self.nodename == self.host else "%s|%s" % (self.host, self.nodename))
        self.cell_uuid = get("cell", "cell1")
        self.inventories = inventories(doc)
        self.used = usages(doc)
        self.total_usable_ram_mb = get("memory_mb", 0)
        self.total_usable_disk_gb = get("local_gb", 0)
        self.disk_mb_used = (get("local_gb_used", 0) + get("reserved_host_disk_gb", 0)) * 1024
        self.free_ram_mb = free_ram_mb(doc)
        self.free_disk_mb = free_disk_mb(doc)
        self.vcpus_total = get("vcpus", 0) + get("pcpus", 0)
        self.vcpus_used = get("vcpus_used", 0) + get("pcpus_used", 0) + get("reserved_host_cpus", 0)
        self.cpu_allocation_ratio = float(get("cpu_allocation_ratio", 4.0))
        self.ram_allocation_ratio = float(get("ram_allocation_ratio", 1.0))
        self.disk_allocation_ratio = float(get("disk_allocation_ratio", 1.0))
        self.instances = {one["uuid"]: one for one in get("instances") or ()}
        self.num_instances = int(get("num_instances", len(self.instances)))
        self.num_io_ops = int(get("num_io_ops", 0))
        self.failed_builds = int(get("failed_builds", 0))
        self.host_ip = get("host_ip", "192.0.2.1")
        self.hypervisor_type = get("hypervisor_type", "QEMU")
        self.hypervisor_version = get("hypervisor_version", 8000000)
        self.hypervisor_hostname = self.nodename
        self.cpu_info = get("cpu_info")
        self.supported_instances = [supported(one) for one in get("supported_instances") or ()]
        self.metrics = [Metric(one) for one in get("metrics") or ()]
        self.stats = {key: str(value) for key, value in (get("stats") or {}).items()}
        self.stats["num_instances"] = str(self.num_instances)
        self.stats["io_workload"] = str(self.num_io_ops)
        self.stats["failed_builds"] = str(self.failed_builds)
        self.service = dict(
            {"disabled": False, "disabled_reason": None, "forced_down": False}, **(get("service") or {})
        )
        self.traits = frozenset(get("traits") or ())
        if self.service.get("disabled"):
            self.traits |= {"COMPUTE_STATUS_DISABLED"}
        self.numa_topology = HostTopology.from_document(get("numa_topology"))
        self.pci_stats = pci_pools(get("pci_pools"))
        self.pci_devices = [dict(one) for one in get("pci_devices") or ()]
        self.updated = get("generation")
        return self

    @property
    def key(self):
        """What the host is called in results: its name, with the node behind a bar where that is another."""
        return self.host if self.host == self.nodename else "%s|%s" % (self.host, self.nodename)

    def copy(self):
        """A state of its own: consuming one leaves the other as it is."""
        new = HostState.__new__(type(self))
        new.__dict__.update(self.__dict__, limits=dict(self.limits), instances=dict(self.instances))
        return new

    @property
    def service_up(self):
        return bool(self.service.get("up", True)) and not self.service.get("forced_down")

    def image_props_of(self, uuid):
        """The known image properties of an instance on this host."""
        instance = self.instances[uuid]
        if "known_props" not in instance:
            instance = dict(instance)
            instance["known_props"] = known_properties(instance.get("image_props") or {}, strict=False)
            self.instances[uuid] = instance
        return instance["known_props"]

    @property
    def capabilities(self):
        """cpu_info as an object, where it is text or missing."""
        if isinstance(self.cpu_info, str):
            try:
                return json.loads(self.cpu_info)
            except ValueError:
                return {}
        return self.cpu_info or {}

    def __repr__(self):
        return "(%s, %s) ram: %sMB disk: %sMB io_ops: %s instances: %s" % (
            self.host,
            self.nodename,
            self.free_ram_mb,
            self.free_disk_mb,
            self.num_io_ops,
            self.num_instances,
        )


_supported = {}


def supported(triple):
    """[architecture, hypervisor type, vm mode] in the canonical words; a word nobody knows stays as it is."""
    known = _supported.get(tuple(triple))
    if known is not None:
        return known
    words = []
    for read, word in zip((canonical_architecture, canonical_hv_type, canonical_vm_mode), triple):
        try:
            words.append(read(word))
        except InvalidInput:
            words.append(word)
    if len(_supported) < 1000:
        _supported[tuple(triple)] = words
    return words
