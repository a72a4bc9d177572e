# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of what hosts, controller and plays exchange. reply_shapes.py checks what hosts send."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict, Union

Document = Dict[str, Any]  # an object of JSON

# What a host is asked beside its facts.
BESIDE_FACTS = ("digests", "looks", "moves", "addresses", "checkup", "fix", "domains", "attached")


class Side(TypedDict):
    """A host of a move."""

    uuid: str
    name: str


class Uptime(TypedDict):
    """Seconds since a boot of one host. Only values of the same host can be compared."""

    boot_id: str
    uptime: float


class FencingToken(TypedDict, total=False):
    """Who may work on a move: its operation, and how often the move was taken up. A step with an older token is refused."""

    op: Optional[str]
    attempt: int


class Migration(TypedDict, total=False):
    """The part of a record about its current move, see migration.new_migration."""

    id: str
    type: str
    status: Optional[str]
    source: Side
    destination: Side
    attempt: int
    arriving: int
    frozen: Optional[int]
    grown: bool
    verified: Optional[int]
    shared: bool
    started: bool
    vm_state_before: Optional[str]
    old_spec: Document
    new_spec: Document
    old_resources: Document
    new_resources: Optional[Document]
    confirm_window: int
    waits_since: Optional[Uptime]
    created_at: int


class View(TypedDict, total=False):
    """A host's view of its record of an instance in a move; role None if it has no record.

    The conductor adds ``lost`` where a person gave the host up, and ``left`` where the owner ended the move alone.
    """

    uuid: str
    name: str
    project_id: str
    host: Side
    role: Optional[str]
    phase: str
    op: Optional[str]
    generation: List[int]
    attempt: int
    vm_state: Optional[str]
    task_state: Optional[str]
    power_state: Optional[str]
    spec: Document
    resources: Document
    migration: Optional[Migration]
    confirm_in: Optional[int]
    last_move: Optional[str]
    lost_moves: List[str]
    running: bool
    executing: bool
    has_left: bool
    halted: bool
    lost: bool
    left: bool


class ErrorReply(TypedDict, total=False):
    """A BerthError as plain data."""

    code: str
    message: str
    retryable: bool
    hint: Optional[str]


class Claim(TypedDict, total=False):
    """A claim as it is sent to a host. ``after``: the generation that a new owner has to exceed; ``host_uuid``: the machine that is
    meant, where it was chosen without having been asked."""

    spec: Document
    token: str
    limits: Document
    after: List[int]
    host_uuid: str


class ClaimResult(TypedDict):
    """What a host answers to a claim."""

    uuid: Optional[str]
    name: Optional[str]
    claimed: bool
    token: Optional[str]
    allocation: Optional[Document]
    error: Optional[ErrorReply]


class _ScannedMore(TypedDict, total=False):
    own_name: str  # the name of an instance whose uuid does not follow from it
    lets_in: Dict[
        str, List[str]
    ]  # uuid of a member -> its addresses, which packet filters let in: see admitted_members.py


class ScannedRecord(_ScannedMore):
    """A record as the module rescan reports it after a claim."""

    uuid: str
    name: str
    project_id: str
    role: str
    generation: List[int]
    phase: Optional[str]
    token: str
    power_state: Optional[str]
    group: Optional[str]
    vcpus: int
    pcpus: int
    memory_mb: int
    nics: List[str]


class ScannedVolume(TypedDict):
    """A volume's record as the module rescan reports it."""

    uuid: str
    project_id: str
    size_gb: int


class KnownOwner(TypedDict):
    """The last owner of an instance, as a host remembers it."""

    host: str
    host_uuid: str
    generation: List[int]


class PlannedHost(TypedDict):
    """The host where a run planned to create an instance, as a host remembers it."""

    host: str
    host_uuid: str
    run: str


class Note(TypedDict):
    """What a host remembers about an instance that is elsewhere, see compute/record/whereabouts.py."""

    known: Optional[KnownOwner]
    planned: List[PlannedHost]
    after: int  # the epoch after which the next owner begins
    gone: Optional[List[int]]
    left: Optional[List[int]]


def hosts_named(note: Note) -> List[Union[KnownOwner, PlannedHost]]:
    """The hosts that the note says have the instance, or were to get it."""
    known = note.get("known")
    return [*([known] if known else ()), *(note.get("planned") or ())]
