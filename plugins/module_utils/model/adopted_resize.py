# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a flavor can be written into the definition that an adopted guest was found with: CPUs, memory and the size of the
first disk, unless another part of the definition says the same."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional
from xml.etree import ElementTree

from . import adopted
from .errors import InvalidInput, joined
from .messages import Document

# Extra specs that are built into a guest, or give it something of its host.
BUILT = ("hw:", "quota:", "pci_passthrough:", "resources", "accel:", "os:", "berth:root_disk", "berth:max_")
OF_CPUS = ("cpu/numa", "vcpus")
OF_MEMORY = ("cpu/numa", "maxMemory", "devices/memory", "memtune")


def check(spec: Mapping[str, Any], flavor: Document) -> None:
    """Raise InvalidInput, with all that is wrong, if an adopted instance cannot get this flavor."""
    found = adopted.of(spec)
    if not found or "definition" not in found:
        return
    field, faults = "berth_flavor (%s)" % flavor["name"], _faults(spec, flavor, adopted.root_of(found))
    errors = [InvalidInput(field, value, rule) for value, rule in faults]
    if errors:
        raise joined(errors)


def _faults(spec: Mapping[str, Any], flavor: Document, root: ElementTree.Element) -> "Iterator[tuple[Any, str]]":
    old = spec["flavor"]
    for part in ("ephemeral_gb", "swap"):
        if flavor.get(part):
            yield flavor[part], "no %s: an adopted guest has only the disks that it was found with" % part
    before = old.get("extra_specs") or {}
    for name, value in (flavor.get("extra_specs") or {}).items():
        if name.startswith(BUILT) and before.get(name) != value:
            yield name, "no extra spec that is built into a guest: an adopted one keeps its own definition"
    if flavor["vcpus"] != old["vcpus"]:
        yield from ((flavor["vcpus"], "%d vCPUs: %s" % (old["vcpus"], why)) for why in _tied(root, OF_CPUS))
        cpus = _of_topology(root)
        if cpus not in (None, flavor["vcpus"]):
            yield flavor["vcpus"], "%d vCPUs, which its definition spreads over sockets and cores (cpu/topology)" % cpus
    if flavor["memory_mb"] != old["memory_mb"]:
        yield from ((flavor["memory_mb"], "%d MiB: %s" % (old["memory_mb"], why)) for why in _tied(root, OF_MEMORY))


def _tied(root: ElementTree.Element, parts: "tuple[str, ...]") -> Iterator[str]:
    return ("its definition says the same in %s" % part for part in parts if root.find(part) is not None)


def _of_topology(root: ElementTree.Element) -> Optional[int]:
    topology, count = root.find("cpu/topology"), 1
    if topology is None:
        return None
    for part in ("sockets", "dies", "clusters", "cores", "threads"):
        number = topology.get(part, "1")
        count *= int(number) if number.isdigit() else 0
    return count
