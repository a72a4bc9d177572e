# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a guest in libvirt is not as its record says, since somebody changed it by hand: by parts that have a name for people.

The record is rendered and both definitions are read in the same way, so what libvirt adds is no difference. Only parts are looked at
that every version renders alike. A record that keeps no hardware is of a version that did not look: nothing is said of it.
"""

from __future__ import annotations

import collections
from typing import Dict, List, Optional
from xml.etree import ElementTree

from ...model.lifecycle import ACTIVE, OWN
from ...model.safe_text import clean
from . import domain_xml, hardware

LONGEST = 120
MOST = 20
# Devices that a person may have added; libvirt by itself adds none of them to what is rendered.
COUNTED = ("filesystem", "graphics", "hostdev", "memory", "redirdev", "shmem", "tpm", "vsock", "watchdog")
# What a record that somebody damaged may raise when it is rendered.
DAMAGED = (AttributeError, LookupError, TypeError, ValueError)
Parts = Dict[str, str]
Difference = List[str]  # the part, what the record says, what the guest has; "" is nothing


def is_looked_at(record) -> bool:
    """Whether the record is of an instance at rest here that says what its definition is to be."""
    return (record.role, record.phase, record.op) == (OWN, ACTIVE, None) and hardware.of(record.spec) is not None


def between(record, host, live: Optional[str], lasting: Optional[str]) -> Dict[str, List[Difference]]:
    """{now: of the running guest, next_start: of its definition} as far as something differs from the record; the texts are libvirt's,
    None where there is none."""
    wanted = parts(domain_xml.tree(record, host))
    texts = {"now": live, "next_start": lasting}
    found = {when: compared(wanted, parts(ElementTree.fromstring(text))) for when, text in texts.items() if text}
    return {when: differences for when, differences in found.items() if differences}


def compared(wanted: Parts, found: Parts) -> List[Difference]:
    names = list(dict.fromkeys([*wanted, *found]))
    differing = [
        (name, wanted.get(name, ""), found.get(name, "")) for name in names if wanted.get(name) != found.get(name)
    ]
    return [[clean(text, LONGEST) for text in difference] for difference in differing[:MOST]]


def parts(root) -> Parts:
    """What is compared of a definition (an element): its name for people -> its value as text."""
    vcpu, devices = root.find("vcpu"), root.find("devices")
    found = {
        "vcpus": vcpu.get("current") or vcpu.text,
        "memory_mb": _mib(root.find("memory")),
        "memory_mb in use": _mib(root.find("currentMemory")),
        "machine type": root.find("os/type").get("machine", ""),
        "CPU pinning": " ".join(
            sorted("%s:%s" % (pin.get("vcpu"), pin.get("cpuset")) for pin in root.iterfind("cputune/vcpupin"))
        ),
    }
    for device in devices:
        if device.tag == "interface":
            found["network interface %s" % _attribute(device, "mac", "address")] = _nic(device)
        elif device.tag == "disk" and device.get("device", "disk") != "cdrom":
            source = device.find("source")
            path = "" if source is None else source.get("file") or source.get("dev") or source.get("name")
            found["disk %s" % _attribute(device, "target", "dev")] = path or "something else"
    counts = collections.Counter(device.tag for device in devices if device.tag in COUNTED)
    return {**found, **{tag: "there" if count == 1 else "%d times" % count for tag, count in counts.items()}}


def _mib(element):
    """libvirt gives KiB, and a balloon that is not quite empty is no difference."""
    return "" if element is None else str(-(-int(element.text) // domain_xml.MIB))


def _nic(device):
    kind = device.get("type")
    said = [
        kind,
        "" if kind == "hostdev" else _attribute(device, "source", kind) or _attribute(device, "source", "dev"),
    ]
    said += [_attribute(device, "model", "type")] if kind != "hostdev" else []
    behind = _attribute(device, "filterref", "filter")
    return " ".join(part for part in [*said, behind and "filter %s" % behind] if part)


def _attribute(device, tag, name):
    element = device.find(tag)
    return "" if element is None else element.get(name) or ""
