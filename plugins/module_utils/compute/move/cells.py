# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Binds a running guest with NUMA cells or pinned CPUs to those that its claim set aside on another host."""

from __future__ import annotations

from xml.etree import ElementTree

from ...model.guest_settings import GuestSettings
from ..guest import tuning

REPLACED = ("vcpupin", "emulatorpin", "vcpusched")


def of(resources):
    """Return the host's cells that a claim set aside, in the order of the guest's."""
    return ((resources or {}).get("numa_topology") or {}).get("cells") or []


def problems(here, there):
    """Yield differences between the source's and the destination's claim that a guest cannot change while it runs."""
    old, new = of(here), of(there)
    if len(old) != len(new):
        yield "the guest has %d NUMA cells, and the destination set %d aside" % (len(old), len(new))
    elif [cell.get("pagesize") for cell in old] != [cell.get("pagesize") for cell in new]:
        yield "the guest's memory is in pages of %s KiB, and the destination set pages of %s KiB aside" % (
            _sizes(old),
            _sizes(new),
        )


def _sizes(cells):
    return ", ".join(str(cell.get("pagesize")) for cell in cells)


def bound(text, spec, cells):
    """Return the running guest's definition, bound to other cells and CPUs. Other people's tuning stays."""
    root = ElementTree.fromstring(text)
    others = [part for part in root.iterfind("cputune/*") if part.tag not in REPLACED]
    for part in root.findall("cputune") + root.findall("numatune"):
        root.remove(part)
    tuning.pinning(root, cells, GuestSettings.of(spec).realtime_cpus(spec["flavor"]["vcpus"]) or set())
    if others:
        tune = root.find("cputune")
        (ElementTree.SubElement(root, "cputune") if tune is None else tune).extend(others)
    return ElementTree.tostring(root, encoding="unicode")
