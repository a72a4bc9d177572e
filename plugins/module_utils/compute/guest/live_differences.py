# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a guest in libvirt differs from its record because somebody changed it by hand, by parts with names for people.

Only parts that every version writes alike are compared, and what libvirt adds does not count as a difference. A record without
hardware comes from a version that did not compare, so it has no differences. Only missing disks are reported:
disk/disk_chain.py compares those that the guest has.
"""

from __future__ import annotations

import collections
from typing import Dict, List, Optional
from xml.etree import ElementTree

from ...model import data_disks, flavor_limits, nics, rescues, volumes
from ...model.guest_settings import GuestSettings
from ...model.lifecycle import ACTIVE, OWN
from ...model.safe_text import clean
from . import hardware, packet_filter
from .terms import mark_of

# What agreed by other rules is compared again. A digest of this file without this line; a test tells it.
RULES = "26843cae3fd5"
MIB = 1024  # KiB
LONGEST = 120
MOST = 20
MARK = "berth's metadata"
VLAN = " VLAN "
THERE = "there"
LIMITS = "limits of "
CPU_LIMITS, DISK_LIMITS, NIC_LIMITS = LIMITS + "CPUs", LIMITS + "disks", LIMITS + "network interface %s"
DEFINITION = "libvirt's definition"  # without it, libvirt forgets a running guest once it is off
# Devices that a person may have added.
COUNTED = ("filesystem", "graphics", "hostdev", "memory", "redirdev", "shmem", "tpm", "vsock", "watchdog")
UNCOUNTED = (
    ("watchdog", "itco"),  # part of each q35 machine, listed by libvirt since 9.1
    ("memory", "dimm"),  # what was plugged in: part of memory_mb
)
# What a damaged record may raise when it is rendered.
DAMAGED = (AttributeError, LookupError, TypeError, ValueError)
Parts = Dict[str, str]
Difference = List[str]  # the part, the record's value, the guest's value; "" for none


def is_looked_at(record) -> bool:
    """Whether the record is of an instance at rest here, and says what its definition must be."""
    return (record.role, record.phase, record.op) == (OWN, ACTIVE, None) and hardware.of(record.spec) is not None


def between(record, live: Optional[str], lasting: Optional[str]) -> Dict[str, List[Difference]]:
    """Return the differences {now: of the running guest, next_start: of its definition} in libvirt's texts."""
    return differences(expected(record), live, lasting)


def differences(wanted: Parts, live: Optional[str], lasting: Optional[str]) -> Dict[str, List[Difference]]:
    """Return the same for what expected() returned."""
    found = {"now": compared(wanted, parts(ElementTree.fromstring(live)))} if live else {}
    if lasting:
        root = ElementTree.fromstring(lasting)
        found["next_start"] = compared({**wanted, MARK: THERE}, {**parts(root), **_mark(root)})
    else:
        found["next_start"] = [[DEFINITION, THERE, ""]]
    return {when: differences for when, differences in found.items() if differences}


def _mark(root) -> Parts:
    """Compared in the lasting definition only: the running guest gets it from there when it is started."""
    return {} if mark_of(root) is None else {MARK: THERE}


def expected(record) -> Parts:
    """Return what parts() would read from domain_xml.render, without rendering: that needs far more code to be sent."""
    spec, flavor, settings = record.spec, record.spec["flavor"], GuestSettings.of(record.spec)
    cells = (record.resources.get("numa_topology") or {}).get("cells") or []
    pins = ["%s:%d" % pin for cell in cells for pin in (cell.get("cpu_pinning") or {}).items()]
    memory, specs = str(flavor["memory_mb"]), flavor.get("extra_specs") or {}
    found = {
        "vcpus": str(flavor["vcpus"]),
        "memory_mb": memory,
        "memory_mb in use": memory,
        "machine type": hardware.machine(spec),
        "CPU pinning": " ".join(sorted(pins)),
        CPU_LIMITS: _limits(flavor_limits.of_cpu(specs)),
        DISK_LIMITS: _limits(flavor_limits.of_disk(specs)),
    }
    for at, nic in enumerate(spec.get("networks") or ()):
        kind = "hostdev" if nic["type"] == "direct" else nic["type"]
        model, behind = nic.get("model") or settings.get("vif_model", "virtio"), packet_filter.filter_of(record, at)
        found["network interface %s" % nic["mac"]] = _nic_text(kind, nic["source"], model, behind, nic.get("vlan"))
        if kind != "hostdev":
            found[NIC_LIMITS % nic["mac"]] = _nic_limits(flavor_limits.of_nic(specs))
    found.update((data_disks.PART + entry["name"], THERE) for entry in (*data_disks.of(spec), *volumes.of(spec)))
    found.update({data_disks.PART + rescues.SERIAL: THERE} if rescues.of(spec) else {})
    own = {
        "graphics": settings.get("video_model", "none") != "none",
        "watchdog": settings.get("watchdog_action", "disabled") != "disabled",
        "tpm": bool(settings.tpm_version()),
        "hostdev": sum(not nics.is_of_nic(device) for device in record.resources.get("pci_devices") or ())
        + len(record.resources.get("vgpus") or ()),
    }
    return {**found, **_counted(own)}


def _counted(counts) -> Parts:
    return {tag: THERE if count == 1 else "%d times" % count for tag, count in counts.items() if count}


def compared(wanted: Parts, found: Parts) -> List[Difference]:
    names = list(dict.fromkeys([*wanted, *found]))
    pairs = [(name, wanted.get(name, ""), found.get(name, "")) for name in names]
    differing = [
        (name, expected, has)
        for name, expected, has in pairs
        if expected != has and not _is_of_network(expected, has) and not (name.startswith(data_disks.PART) and has)
    ]
    return [[clean(text, LONGEST) for text in difference] for difference in differing[:MOST]]


def _is_of_network(expected_nic: str, nic: str) -> bool:
    """Whether it comes from a libvirt network: a VLAN, or a card from its pool, which names no network."""
    return expected_nic.startswith("network ") and nic.partition(VLAN)[0] in ("hostdev", expected_nic)


def parts(root) -> Parts:
    """Return the compared parts of a definition (an element): name for people -> value as text."""
    vcpu, devices = root.find("vcpu"), root.find("devices")
    found = {
        "vcpus": vcpu.get("current") or vcpu.text,
        "memory_mb": _mib(root.find("memory")),
        "memory_mb in use": _mib(root.find("currentMemory")),
        "machine type": root.find("os/type").get("machine", ""),
        "CPU pinning": " ".join(
            sorted("%s:%s" % (pin.get("vcpu"), pin.get("cpuset")) for pin in root.iterfind("cputune/vcpupin"))
        ),
        CPU_LIMITS: _limits(flavor_limits.of_cpu(_numbers(root.find("cputune"), "quota:cpu_"))),
        DISK_LIMITS: _of_own_disks(root),
    }
    for device in devices:
        if device.tag == "interface":
            mac = _attribute(device, "mac", "address")
            found["network interface %s" % mac] = _nic(device)
            found[NIC_LIMITS % mac] = _nic_limits(flavor_limits.of_nic(_of_bandwidth(device)))
        elif device.tag == "disk" and device.findtext("serial"):
            found[data_disks.PART + device.findtext("serial")] = THERE
    counts = collections.Counter(
        device.tag for device in devices if device.tag in COUNTED and (device.tag, device.get("model")) not in UNCOUNTED
    )
    return {**found, **_counted(counts)}


def _mib(element):
    """libvirt reports KiB; a balloon that is not quite empty does not count as a difference."""
    return "" if element is None else str(-(-int(element.text) // MIB))


def _nic(device):
    """While the guest runs, a NIC on a libvirt network has the type that the network stands for."""
    kind = "network" if _attribute(device, "source", "network") else device.get("type")
    source = _attribute(device, "source", kind) or _attribute(device, "source", "dev")
    vlans = " ".join(tag.get("id", "") for tag in device.iterfind("vlan/tag"))
    return _nic_text(
        kind, source, _attribute(device, "model", "type"), _attribute(device, "filterref", "filter"), vlans
    )


def _nic_text(kind, source, model, behind, vlan) -> str:
    said = [kind] if kind == "hostdev" else [kind, source, model, behind and "filter %s" % behind]
    return " ".join(part for part in said if part) + (VLAN + str(vlan) if vlan else "")


def _numbers(element, prefix):
    """The limits in an element's children, as extra specs: cputune has pins, too."""
    return {} if element is None else {prefix + part.tag: part.text for part in element if part.text}


def _of_bandwidth(device):
    ways = device.iterfind("bandwidth/*")
    return {"quota:vif_%s_%s" % (way.tag, part): number for way in ways for part, number in way.attrib.items()}


def own_disks(root):
    """Yield the disks in the instance's directory, without its seed."""
    own = "/%s/" % root.findtext("uuid")
    for disk in root.iterfind("devices/disk"):
        if own in _attribute(disk, "source", "file") and disk.find("readonly") is None:
            yield disk


def _of_own_disks(root):
    """What all of them have; more than one text, where they do not agree."""
    found = {_limits(flavor_limits.of_disk(_numbers(disk.find("iotune"), "quota:disk_"))) for disk in own_disks(root)}
    return "; ".join(sorted(text or "none" for text in found)) if len(found) > 1 else "".join(found)


def _limits(numbers):
    return ", ".join("%s %s" % entry for entry in sorted(numbers.items()))


def _nic_limits(ways):
    return "; ".join("%s %s" % (way, _limits(numbers)) for way, numbers in sorted(ways.items()))


def _attribute(device, tag, name):
    element = device.find(tag)
    return "" if element is None else element.get(name) or ""
