# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of an instance on a host: what is true about it there, and the only database. A record of a newer schema
is refused; one of an older schema keeps the meaning that it had.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from . import hints, host_hints, record_parts
from .errors import BerthError, InstanceIsLocked
from .lifecycle import MOVING, ROLES, State
from .record_parts import is_count

SCHEMA = 1
HISTORY_LIMIT = 100


class RecordInvalid(BerthError):
    """The record does not have the documented format, or a newer version of the collection wrote it."""


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
            known["migration"] = {**record_parts.LATER, **known["migration"]}
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
        for part, kind in record_parts.faults(vars(self)):
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
