# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of an instance on a host: what is true about it there, and the only database. A record of a newer schema
is refused; one of an older schema keeps the meaning that it had.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import hints, host_hints, state_hints
from .errors import BerthError, InstanceIsLocked
from .identity import is_uuid
from .lifecycle import MOVING, ROLES, State

# The types of the parts of a record that its host works with, where a person could have edited them to something else.
#
# Every version wrote these types. Whether the values make sense is for the code that made them.
(
    COUNT, MAYBE_COUNT, FLAG, TEXT, MAYBE_TEXT, OBJECT, MAYBE_OBJECT, OBJECTS, TEXTS, OBJECT_OF_TEXTS, VGPUS, FLAVOR,
    CELLS, MAYBE_UPTIME,
) = (
    "a whole number from 0", "a whole number from 0 or null", "true or false", "text", "text or null", "an object",
    "an object or null", "a list of objects", "a list of texts", "an object of texts", "a list of vGPUs", "a flavor",
    "an object with a list of cells", "an object with boot_id and uptime, or null",
)  # fmt: skip
Path = Tuple[str, ...]
# The types within a request, and within what is set aside for it.
SPEC: Dict[Path, str] = {
    ("flavor",): FLAVOR,
    **{("flavor", name): COUNT for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")},
    ("flavor", "extra_specs"): OBJECT,
    ("image",): OBJECT,
    ("image", "name"): TEXT,
    ("image", "properties"): OBJECT,
    ("group",): OBJECT,
    ("networks",): OBJECTS,
    **{(name,): TEXT for name in ("pool", "availability_zone", "host_zone", "access_ip_v4", "access_ip_v6")},
    ("volumes",): OBJECTS,
    ("snapshots",): OBJECTS,
    ("rescue",): MAYBE_OBJECT,
    ("rescue", "image"): OBJECT,
    ("rescue", "size_gb"): COUNT,
    ("rescue", "hardware"): MAYBE_OBJECT,
    ("shelved",): MAYBE_OBJECT,
    ("shelved", "backup"): TEXT,
    ("shelved", "to"): TEXT,
    ("shelved", "host"): MAYBE_TEXT,
    ("evacuated_from",): TEXT,
    ("clone_of",): TEXT,
    ("instance",): MAYBE_OBJECT,
    ("grows_from_gb",): COUNT,
    ("adopted",): MAYBE_OBJECT,
    ("adopted", "definition"): TEXT,
    ("adopted", "disks"): OBJECTS,
    ("adopted", "variables"): MAYBE_TEXT,
    ("hardware",): MAYBE_OBJECT,
    ("hardware", "machine"): TEXT,
    ("hardware", "variables"): TEXT,
    ("hardware", "devices"): OBJECT_OF_TEXTS,
}
RESOURCES: Dict[Path, str] = {
    **{(name,): COUNT for name in ("vcpus", "pcpus", "memory_mb", "disk_gb")},
    ("resources",): OBJECT,
    ("resources", "MEM_ENCRYPTION_CONTEXT"): COUNT,
    ("numa_topology",): CELLS,
    ("pci_devices",): OBJECTS,
    ("vgpus",): VGPUS,
}
# Where a record has requests, and what is set aside for them.
SPECS: Tuple[Path, ...] = (("spec",), ("migration", "old_spec"), ("migration", "new_spec"))
ALLOCATIONS: Tuple[Path, ...] = (("resources",), ("migration", "old_resources"), ("migration", "new_resources"))
# The path of a part -> its type. A part may be null or missing, except those in REQUIRED. A number may be missing, but
# not null: no version wrote that.
TYPES: Dict[Path, str] = {
    **{(name,): TEXT for name in ("uuid", "name", "project_id", "token", "phase", "power_state")},
    **{(name,): MAYBE_TEXT for name in ("op", "vm_state", "task_state")},
    ("faults",): OBJECTS,
    ("history",): OBJECTS,
    ("lost_moves",): TEXTS,
    **{path: OBJECT for path in SPECS + ALLOCATIONS},
    **{(*path, *part): kind for path in SPECS for part, kind in SPEC.items()},
    **{(*path, *part): kind for path in ALLOCATIONS for part, kind in RESOURCES.items()},
    ("lock",): MAYBE_OBJECT,
    ("migration",): MAYBE_OBJECT,
    **{("migration", name): TEXT for name in ("id", "type", "vm_state_before")},
    **{("migration", name): COUNT for name in ("attempt", "confirm_window")},
    **{("migration", name): MAYBE_COUNT for name in ("frozen", "verified")},
    **{("migration", name): FLAG for name in ("grown", "shared", "started")},
    ("migration", "arriving"): COUNT,
    ("migration", "status"): MAYBE_TEXT,
    ("migration", "waits_since"): MAYBE_UPTIME,
    **{("migration", side): OBJECT for side in ("source", "destination")},
    **{("migration", side, name): TEXT for side in ("source", "destination") for name in ("uuid", "name")},
}
# Parts of a move that the first version wrote without, and what that meant: it moved nothing on shared storage, and no guest grew.
LATER = {"grown": False, "shared": False}
# What older versions wrote without, or what only some moves have.
OPTIONAL = frozenset(("migration", name) for name in ("arriving", "new_resources", "waits_since"))
REQUIRED = frozenset(
    path
    for path in TYPES
    if path[-1] in ("flavor", "machine", "devices", "definition")
    or path[:-1] in (("migration",), ("migration", "source"), ("migration", "destination"))
    and path not in OPTIONAL
)


def faults(record: Any) -> Iterator[Tuple[str, str]]:
    """Yield (part, what it has to be) for each part of another type; ``record`` is a dict."""
    for path, parts in HOLDERS.items():
        holder = record
        for name in path:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            for name, kind, may_lack, may_be_null in parts:
                value = holder.get(name)
                absent = may_be_null if name in holder else may_lack
                if not (absent if value is None else CHECKS[kind](value)):
                    yield ".".join((*path, name)), kind


def _is_vgpu(value: Any) -> bool:
    texts = isinstance(value, dict) and all(isinstance(value.get(part), str) for part in ("parent", "type"))
    return texts and is_uuid(value.get("uuid"))


def _is_uptime(value: Any) -> bool:
    whole = isinstance(value, dict) and isinstance(value.get("boot_id"), str)
    uptime = value.get("uptime") if whole else None
    return isinstance(uptime, (int, float)) and not isinstance(uptime, bool)


def is_count(value: Any) -> bool:
    """Whether ``value`` is a whole number from 0; True is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _holders() -> Dict[Path, List[Tuple[str, str, bool, bool]]]:
    found: Dict[Path, List[Tuple[str, str, bool, bool]]] = {}
    for path, kind in TYPES.items():
        nullable = kind.endswith("or null")
        may_lack = path not in REQUIRED and (nullable or len(path) > 1)
        found.setdefault(path[:-1], []).append((path[-1], kind, may_lack, nullable or may_lack and kind != COUNT))
    return found


CHECKS: Dict[str, Callable[[Any], bool]] = {
    COUNT: is_count,
    MAYBE_COUNT: is_count,
    FLAG: lambda part: isinstance(part, bool),
    TEXT: lambda part: isinstance(part, str),
    MAYBE_TEXT: lambda part: isinstance(part, str),
    OBJECT: lambda part: isinstance(part, dict),
    MAYBE_OBJECT: lambda part: isinstance(part, dict),
    OBJECTS: lambda part: isinstance(part, list) and all(isinstance(item, dict) for item in part),
    TEXTS: lambda part: isinstance(part, list) and all(isinstance(item, str) for item in part),
    OBJECT_OF_TEXTS: lambda part: isinstance(part, dict) and all(isinstance(item, str) for item in part.values()),
    FLAVOR: lambda part: isinstance(part, dict) and isinstance(part.get("name", ""), str),
    MAYBE_UPTIME: _is_uptime,
    CELLS: lambda part: isinstance(part, dict) and isinstance(part.get("cells"), list),
    VGPUS: lambda part: isinstance(part, list) and all(map(_is_vgpu, part)),
}
# The path of an object -> [(part, type, whether it may be missing, whether it may be null)]. Every run checks every record:
# find each object once.
HOLDERS = _holders()

SCHEMA = 1
HISTORY_LIMIT = 100
MOST = 1 << 40  # owners, writes or attempts, as in the schemas of replies: shape.generation


class RecordInvalid(BerthError):
    """The record does not have the documented format, or a newer version of the collection wrote it."""


class EpochImplausible(BerthError):
    """A host reports far more owners of an instance than all other hosts have heard of, and was left out of the run; or a
    record would count further than a reply may say, and was not written."""


def fits(*counts: Any) -> bool:
    return all(is_count(count) and count <= MOST for count in counts)


def bounded(history: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Keep the first event, which says who made the instance, and the last ones."""
    return history if len(history) <= HISTORY_LIMIT else history[:1] + history[1 - HISTORY_LIMIT :]


@dataclasses.dataclass(frozen=True)
class Record:
    """One instance on one host.

    ``generation`` is [epoch, n] and only grows; ``token`` is the nonce of whoever works on the record now; ``op`` the
    id of the operation under way; ``resources`` what the host has set aside for it (vcpus, pcpus, memory_mb in MiB,
    disk_gb in GiB, numa_topology, pci_devices, vgpus); ``lost_moves`` the ids of moves that continued without their
    other host, which was lost for good: what turns up of them elsewhere is left over and owns nothing; ``lock`` who
    locked it, {by, reason, at}: nobody changes it until it is unlocked; ``unknown`` the parts that a later version
    added without a new schema: they are kept unchanged.
    """

    uuid: str
    name: str
    project_id: str
    role: str
    generation: List[int]
    token: str
    phase: str
    spec: Dict[str, Any]
    resources: Dict[str, Any]
    op: Optional[str] = None
    vm_state: Optional[str] = None
    task_state: Optional[str] = None
    power_state: str = "running"
    migration: Optional[Dict[str, Any]] = None
    faults: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    history: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    lost_moves: List[str] = dataclasses.field(default_factory=list)
    lock: Optional[Dict[str, Any]] = None
    schema: int = SCHEMA
    unknown: Dict[str, Any] = dataclasses.field(default_factory=dict)

    def version(self) -> Tuple[str, Tuple[int, ...], str]:
        """What a compare-and-swap compares."""
        return (self.role, tuple(self.generation), self.token)

    def state(self) -> State:
        """(role, phase): see lifecycle.py."""
        return (self.role, self.phase)

    def replace(self, **changes: Any) -> Record:
        return dataclasses.replace(self, **changes)

    def next(self, **changes: Any) -> Record:
        """Return the next record: the same epoch, n + 1. A hand-over to another host increases the epoch instead."""
        epoch, n = self.generation
        return self.replace(**{"generation": [epoch, n + 1], **changes})

    def noted(self, event: str, at: str, **details: Any) -> Record:
        """Return a copy with one more line in its bounded history; ``at`` is for people, no decision reads it."""
        history = list(self.history) + [{"event": event, "at": at, **details}]
        return self.replace(history=bounded(history))

    def locked_by(self) -> Optional[str]:
        """Who locked it since when, and why, in a line for people; None where it is not locked."""
        if self.lock is None:
            return None
        line = "%s since %s" % (self.lock.get("by"), self.lock.get("at"))
        return "%s: %s" % (line, self.lock["reason"]) if self.lock.get("reason") else line

    def check_unlocked(self) -> None:
        who = self.locked_by()
        if who:
            raise InstanceIsLocked(
                "Instance %s is locked by %s" % (self.name, who), hint=hints.unlock(self.name), locked_by=who
            )

    def check_counts(self) -> None:
        """Raise EpochImplausible if no reply may have what it counts: the controller would refuse all that this host says."""
        counts = (*self.generation, (self.migration or {}).get("attempt", 0))
        if not fits(*counts):
            raise EpochImplausible(
                "The record of %s would count to %d, more than there can be" % (self.name, max(counts)),
                hint=state_hints.take_out_miscounting(),
                uuid=self.uuid,
            )

    def to_dict(self) -> Dict[str, Any]:
        """Return plain data, without ``lock`` if there is none: earlier versions of the collection do not know it."""
        data = dataclasses.asdict(self)
        if self.lock is None:
            del data["lock"]
        return {**data.pop("unknown"), **data}

    @classmethod
    def from_dict(cls, data: Any) -> Record:
        """Read a record back; a newer schema or a missing part is refused."""
        if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
            raise RecordInvalid("the record is not an object with a schema number")
        if data["schema"] > SCHEMA:
            raise RecordInvalid(
                "the record has schema %d, this version knows %d" % (data["schema"], SCHEMA),
                hint=host_hints.newer_version(),
            )
        known = {name: data[name] for name in FIELDS if name in data}
        if isinstance(known.get("migration"), dict):
            known["migration"] = {**LATER, **known["migration"]}
        try:
            record = cls(**known, unknown={name: data[name] for name in data if name not in known})
        except TypeError as error:
            raise RecordInvalid("the record has missing parts: %s" % error)
        if record.role not in ROLES:
            raise RecordInvalid("the record has the unknown role %r" % (record.role,))
        record._check_types()
        record._check_move()
        return record

    def _check_types(self) -> None:
        numbers = self.generation
        if not (isinstance(numbers, list) and len(numbers) == 2 and all(is_count(n) for n in numbers)):
            raise RecordInvalid("the record's generation is not [epoch, n]: %r" % (numbers,))
        for part, kind in faults(vars(self)):
            raise RecordInvalid("the record's %s is not %s" % (part, kind))

    def _check_move(self) -> None:
        """A phase of a move needs the move. The volumes of an instance that moves have none of their own."""
        for part in ("op", "migration"):
            if self.phase in MOVING and getattr(self, part) is None and "instance" not in self.spec:
                raise RecordInvalid(
                    "the record of %s has the phase %s, of a move, but its %s is null" % (self.name, self.phase, part)
                )


# The parts of a record that this version knows.
FIELDS = tuple(field.name for field in dataclasses.fields(Record) if field.name != "unknown")
