# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of the parts of a record that its host works with, where a person could have edited them to something else.

Every version wrote these types. Whether the values make sense is for the code that made them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

from .identity import is_uuid

COUNT, TEXT, MAYBE_TEXT, OBJECT, MAYBE_OBJECT, OBJECTS, TEXTS, OBJECT_OF_TEXTS, VGPUS, FLAVOR, CELLS = (
    "a whole number from 0", "text", "text or null", "an object", "an object or null", "a list of objects", "a list of texts",
    "an object of texts", "a list of vGPUs", "a flavor", "an object with a list of cells",
)  # fmt: skip
# The path of a part -> its type. A part may be null or missing, except those in REQUIRED. A number may be missing, but
# not null: no version wrote that.
TYPES: Dict[Tuple[str, ...], str] = {
    **{(name,): TEXT for name in ("uuid", "name", "project_id", "token", "phase", "power_state")},
    **{(name,): MAYBE_TEXT for name in ("op", "vm_state", "task_state")},
    ("faults",): OBJECTS,
    ("history",): OBJECTS,
    ("lost_moves",): TEXTS,
    ("spec",): OBJECT,
    ("spec", "flavor"): FLAVOR,
    **{("spec", "flavor", name): COUNT for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")},
    ("spec", "flavor", "extra_specs"): OBJECT,
    ("spec", "image"): OBJECT,
    ("spec", "image", "name"): TEXT,
    ("spec", "image", "properties"): OBJECT,
    ("spec", "group"): OBJECT,
    ("spec", "networks"): OBJECTS,
    **{("spec", name): TEXT for name in ("pool", "availability_zone", "host_zone", "access_ip_v4", "access_ip_v6")},
    ("spec", "volumes"): OBJECTS,
    ("spec", "instance"): MAYBE_OBJECT,
    ("spec", "grows_from_gb"): COUNT,
    ("spec", "hardware"): MAYBE_OBJECT,
    ("spec", "hardware", "machine"): TEXT,
    ("spec", "hardware", "devices"): OBJECT_OF_TEXTS,
    ("resources",): OBJECT,
    **{("resources", name): COUNT for name in ("vcpus", "pcpus", "memory_mb", "disk_gb")},
    ("resources", "resources"): OBJECT,
    ("resources", "resources", "MEM_ENCRYPTION_CONTEXT"): COUNT,
    ("resources", "numa_topology"): CELLS,
    ("resources", "pci_devices"): OBJECTS,
    ("resources", "vgpus"): VGPUS,
    ("lock",): MAYBE_OBJECT,
    ("migration",): MAYBE_OBJECT,
    **{("migration", name): TEXT for name in ("id", "type", "vm_state_before")},
    ("migration", "attempt"): COUNT,
    ("migration", "confirm_window"): COUNT,
    **{("migration", side): OBJECT for side in ("source", "destination")},
    **{("migration", side, name): TEXT for side in ("source", "destination") for name in ("uuid", "name")},
    **{("migration", spec): OBJECT for spec in ("old_spec", "new_spec", "old_resources")},
}
REQUIRED: Tuple[Tuple[str, ...], ...] = (
    ("spec", "flavor"),
    ("spec", "hardware", "machine"),
    ("spec", "hardware", "devices"),
    *(("migration", name) for name in ("type", "attempt", "source", "destination", "vm_state_before")),
)


def faults(record: Any) -> Iterator[Tuple[str, str]]:
    """Yield (part, what it has to be) for each part of another type; ``record`` is a dict."""
    for path, parts in HOLDERS.items():
        holder = record
        for name in path:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            for name, kind, may_lack in parts:
                value = holder.get(name)
                missing = value is None and (kind != COUNT or name not in holder)
                if not (may_lack if missing else CHECKS[kind](value)):
                    yield ".".join((*path, name)), kind


def _is_vgpu(value: Any) -> bool:
    texts = isinstance(value, dict) and all(isinstance(value.get(part), str) for part in ("parent", "type"))
    return texts and is_uuid(value.get("uuid"))


def is_count(value: Any) -> bool:
    """Whether ``value`` is a whole number from 0; True is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _holders() -> Dict[Tuple[str, ...], List[Tuple[str, str, bool]]]:
    found: Dict[Tuple[str, ...], List[Tuple[str, str, bool]]] = {}
    for path, kind in TYPES.items():
        may_lack = kind.endswith("or null") or len(path) > 1 and path not in REQUIRED
        found.setdefault(path[:-1], []).append((path[-1], kind, may_lack))
    return found


CHECKS: Dict[str, Callable[[Any], bool]] = {
    COUNT: is_count,
    TEXT: lambda part: isinstance(part, str),
    MAYBE_TEXT: lambda part: isinstance(part, str),
    OBJECT: lambda part: isinstance(part, dict),
    MAYBE_OBJECT: lambda part: isinstance(part, dict),
    OBJECTS: lambda part: isinstance(part, list) and all(isinstance(item, dict) for item in part),
    TEXTS: lambda part: isinstance(part, list) and all(isinstance(item, str) for item in part),
    OBJECT_OF_TEXTS: lambda part: isinstance(part, dict) and all(isinstance(item, str) for item in part.values()),
    FLAVOR: lambda part: isinstance(part, dict) and isinstance(part.get("name", ""), str),
    CELLS: lambda part: isinstance(part, dict) and isinstance(part.get("cells"), list),
    VGPUS: lambda part: isinstance(part, list) and all(map(_is_vgpu, part)),
}
# The path of an object -> [(part, type, whether it may be null)]. Every run checks every record: find each object once.
HOLDERS = _holders()
