# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The domains that libvirt knows, read without asking any QEMU: a stopped one would block the caller for ever.

States come from one bulk call that needs no monitor, all else from the inactive XML.
"""

from __future__ import annotations

import dataclasses
import os
from typing import FrozenSet, Optional, Tuple
from xml.etree import ElementTree

from ...model.cpu_list import parse_cpu_spec
from ...model.errors import InvalidInput
from .. import paths
from ..connection import require_libvirt
from ..disk import virtual_size
from ..host.pci import read_address
from .terms import NAMESPACE, mark_of

# What Linux says of a guest's QEMU process, without asking it: whether it is stopped, and which files it has open.
RUN_DIR = "/run/libvirt/qemu"


def is_process_stopped(name, run_dir):
    """Whether the QEMU of the domain of that name is stopped, as by SIGSTOP."""
    try:
        with open("/proc/%d/stat" % _pid(name, run_dir), encoding="utf-8", errors="replace") as file:
            return file.read(4096).rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, ValueError, IndexError):
        return False


def has_another_file_open(name, path, run_dir):
    """Whether the QEMU of the domain of that name, which has the disk ``path``, has another file open than the one that is
    there now. Neither its inode nor its path may be open: some network file systems change the inode."""
    try:
        there, files = os.stat(path), "/proc/%d/fd" % _pid(name, run_dir)
        opened = [os.path.join(files, number) for number in os.listdir(files)]
        return bool(opened) and not any(_is(each, there, os.path.realpath(path)) for each in opened)
    except (OSError, ValueError):
        return False


def _is(opened, there, path):
    try:
        return os.path.samestat(os.stat(opened), there) or os.readlink(opened) == path
    except OSError:
        return False  # closed meanwhile


def _pid(name, run_dir):
    with open(os.path.join(run_dir, name + ".pid"), encoding="ascii") as file:
        return int(file.read(20))


MIB_IN_KIB = 1024

# libvirt's virDomainState -> Nova's power state; a guest that is shutting down still runs
POWER_STATES = {
    0: "nostate",
    1: "running",
    2: "running",
    3: "paused",
    4: "running",
    5: "shutdown",
    6: "crashed",
    7: "suspended",
}
INACTIVE = ("shutdown", "crashed")


@dataclasses.dataclass(frozen=True)
class Disk:
    """A disk of a domain that is a local file or block device. ``format`` is what the domain declares."""

    path: str
    format: str


@dataclasses.dataclass(frozen=True)
class Domain:
    """A domain as its inactive XML defines it: the most it may use, in MiB. huge_page_kb: KiB, 0 for the default;
    ``record``: the text of the copy of its record."""

    uuid: str
    name: str
    vcpus: int
    memory_mb: int
    disks: Tuple[Disk, ...]
    pci_addresses: Tuple[str, ...]
    macs: Tuple[str, ...]
    vcpu_pins: Tuple[FrozenSet[int], ...]
    huge_page_kb: Optional[int]
    memory_nodes: FrozenSet[int]
    managed: bool = False
    record: Optional[str] = None

    @property
    def pinned_cpus(self):
        return frozenset().union(*self.vcpu_pins)


def states(connection):
    """Return {uuid: (libvirt's domain, power state)} of all domains, by one call."""
    library = require_libvirt()
    return {
        domain.UUIDString(): (domain, POWER_STATES.get(stats.get("state.state"), "nostate"))
        for domain, stats in connection.getAllDomainStats(library.VIR_DOMAIN_STATS_STATE, 0)
    }


def undefined(connection):
    """Return the uuids of the running guests that no longer have a definition, by one call."""
    library = require_libvirt()
    return {domain.UUIDString() for domain in connection.listAllDomains(library.VIR_CONNECT_LIST_DOMAINS_TRANSIENT)}


def read(domain):
    """Return the Domain, or None if it was removed since it was listed."""
    library = require_libvirt()
    try:
        return parse(domain.XMLDesc(library.VIR_DOMAIN_XML_INACTIVE))
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return None
        raise


def parse(text) -> Domain:
    definition = ElementTree.fromstring(text)
    parts = {part.tag: part for part in definition}  # searching for each of them takes longer
    backing, tune, placement = parts.get("memoryBacking"), parts.get("numatune"), parts.get("cputune")
    huge = None if backing is None else backing.find("hugepages")
    mark = _own_mark(definition)
    page = None if huge is None else huge.find("page")
    memory = None if tune is None else tune.find("memory")
    devices = parts.get("devices", ())
    return Domain(
        uuid=parts["uuid"].text,
        managed=mark is not None or _has_own_files(definition),
        record=None if mark is None else mark.findtext("{%s}record" % NAMESPACE),
        name=parts["name"].text,
        vcpus=int(parts["vcpu"].text),
        memory_mb=-(-int(parts["memory"].text) // MIB_IN_KIB),
        disks=tuple(disk for disk in map(_disk, devices) if disk),
        pci_addresses=tuple(address for address in map(_pci_address, devices) if address),
        macs=tuple(address for address in map(_mac, devices) if address),
        vcpu_pins=() if placement is None else tuple(_cpus(pin.get("cpuset")) for pin in placement.findall("vcpupin")),
        huge_page_kb=None if huge is None else int(page.get("size")) if page is not None else 0,
        memory_nodes=frozenset() if memory is None else _cpus(memory.get("nodeset") or ""),
    )


def is_managed(definition) -> bool:
    """Whether the domain has berth's mark, or the files of berth's guest with its uuid, since anybody can remove the
    mark. ``definition`` is its root."""
    return _own_mark(definition) is not None or _has_own_files(definition)


def _own_mark(definition):
    """Return berth's mark of the domain, or None. One that names another uuid came with a copy that somebody made by hand."""
    mark = mark_of(definition)
    whose = None if mark is None else mark.findtext("{%s}uuid" % NAMESPACE)
    return mark if whose in (None, definition.findtext("uuid")) else None


def _has_own_files(definition) -> bool:
    uuid = definition.findtext("uuid")
    files = [part.get("file") or "" for part in definition.iterfind("devices/*/*")]
    return any("/instances/%s/" % uuid in file or file == paths.console_log(uuid) for file in files)


def _cpus(text):
    try:
        return frozenset(parse_cpu_spec(text))
    except InvalidInput:
        return frozenset()  # a newer notation than this code knows


def _disk(device):
    if device.tag != "disk" or device.get("device", "disk") not in ("disk", "lun"):
        return None
    source, driver = device.find("source"), device.find("driver")
    path = None if source is None else source.get("file") or source.get("dev")
    return Disk(path, "raw" if driver is None else driver.get("type", "raw")) if path else None


def _mac(device):
    address = device.find("mac") if device.tag == "interface" else None
    return None if address is None else address.get("address")


def _pci_address(device):
    """Return the host's PCI device behind a <hostdev type='pci'> or <interface type='hostdev'>, else None."""
    if (device.tag, device.get("type")) not in (("hostdev", "pci"), ("interface", "hostdev")):
        return None
    address = device.find("source/address")
    return None if address is None or address.get("type", "pci") != "pci" else read_address(address)


def disk_use(domain, warnings):
    """Return {st_dev: [virtual, allocated]}: bytes of the domain's disks by the file system they lie on."""
    use = {}
    for disk in domain.disks:
        try:
            virtual, allocated, device = virtual_size.read(disk.path, disk.format)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            warnings.append("the size of disk %s of domain %s is unknown: %s" % (disk.path, domain.name, reason))
            continue
        on_device = use.setdefault(device, [0, 0])
        on_device[0] += virtual
        on_device[1] += allocated
    return use


def hung(found, run_dir=RUN_DIR):
    """Return {uuid: reason} of the running guests that do not answer: libvirt waits for QEMU, or QEMU is stopped.

    ``found`` is the result of states(). A QEMU that hangs otherwise is only noticed once somebody asks it something.
    """
    library = require_libvirt()
    reasons = {}
    for uuid, (domain, power_state) in found.items():
        if power_state in INACTIVE:
            continue
        try:
            state, _details, waited = domain.controlInfo()
        except library.libvirtError:
            continue  # stopped since it was listed, or a driver without this call
        if state == library.VIR_DOMAIN_CONTROL_OCCUPIED and waited >= 1000:
            reasons[uuid] = "QEMU has not answered for %d s" % (waited // 1000)
        elif is_process_stopped(domain.name(), run_dir):
            reasons[uuid] = "its QEMU process is stopped"
    return reasons
