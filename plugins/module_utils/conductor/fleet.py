# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts reported, checked: the documents that placement may use, and for each other host why it has none. A host
that was never prepared counts with what it holds, and gets nothing new.

A host is known here by its inventory name, never by a name that it sends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
from typing import Any, Callable, Collection, Dict, Iterator, List, Mapping, Optional, Set, Tuple, TypedDict, cast

from ..model import host_hints, state_hints
from ..model.errors import BerthError
from ..model.identity import DEFAULT_PROJECT
from ..model.messages import Document, Note
from . import duplicate_hosts, miscounting, silence
from .notes import Answers, Notes, called, put_together

# The fields of an instance in the host's document that a place copies.
PLACE = (
    "role",
    "generation",
    "phase",
    "vm_state",
    "task_state",
    "power_state",
    "group",
    "project_id",
    "name",
    "locked",
    "nics",
    "pool",
    "disks",
    "request_digests",
    "unfiltered",
    "domain_differs",
    "moved_to",
    "image_props",
    "adopted",
    "own_name",
)


STATE_FAULT = "StateDirectoryChanged"  # the code of the verdict on a host whose state directory is not what it was


class Place(TypedDict):
    """An instance on a host that has a record of it; ``flavor`` is the flavor's name."""

    host: str
    role: str
    generation: Optional[List[int]]
    phase: Optional[str]
    vm_state: Optional[str]
    task_state: Optional[str]
    power_state: str
    group: Optional[str]
    project_id: Optional[str]
    name: str
    locked: Optional[str]  # by whom, and why
    nics: Optional[List[str]]  # its addresses, in the form of model/nics.py
    pool: Optional[str]  # of its disks and volumes; None is the host's default
    disks: Optional[Dict[str, int]]  # its data disks: name -> GiB
    request_digests: Optional[Dict[str, str]]  # digests of its request, see model/request_digest.py
    unfiltered: Optional[List[str]]  # the MAC addresses of its NICs without a packet filter
    domain_differs: Optional[Document]  # what somebody changed in libvirt, see compute/guest/live_differences.py
    moved_to: Optional[Document]  # {op, host_uuid} of the move for which this host let go of it
    image_props: Optional[Document]  # the properties of its image
    adopted: Optional[str]  # the name of an instance that was a guest before
    own_name: Optional[str]  # the name of an instance whose uuid does not follow from it
    flavor: Optional[str]
    content: Document  # the flavor as it was when the instance got it


class Places(Mapping[str, List[Place]]):
    """Instance uuid -> where it is: a place for each host that has a record of it. It is made when somebody asks for it: a run over
    a large fleet asks for few."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._made: Dict[str, List[Place]] = {}
        self._records: Dict[str, List[Tuple[str, Document]]] = {}
        for host, document in documents.items():
            for instance in document["instances"]:
                if not instance.get("foreign"):
                    self._records.setdefault(instance["uuid"], []).append((host, instance))

    def __getitem__(self, uuid: str) -> List[Place]:
        if uuid not in self._made:
            self._made[uuid] = [_place(*record) for record in self._records[uuid]]
        return self._made[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def records(self, role: str) -> Iterator[Tuple[str, Document]]:
        """(uuid, what its host says) of each record of this role. No place is made for it."""
        for uuid, records in self._records.items():
            for _host, instance in records:
                if instance.get("role") == role:
                    yield uuid, instance

    def own_names(self) -> Dict[Tuple[str, str], str]:
        """(project, name) -> uuid of each instance whose uuid does not follow from its name, if each host that has it says so."""
        found: Dict[Tuple[str, str], str] = {}
        for uuid, records in self._records.items():
            told = {(each.get("project_id") or DEFAULT_PROJECT, own_name(each)) for _host, each in records}
            project, name = told.pop()
            if name and not told:
                found.setdefault((project, name), uuid)
        return found


def _place(host: str, instance: Document) -> Place:
    flavor = instance.get("flavor") or {}
    found = {key: instance.get(key) for key in PLACE}
    return cast(Place, {"host": host, **found, "flavor": flavor.get("name"), "content": flavor})


def own_name(place: Mapping[str, Any]) -> Optional[str]:
    """The name of an instance whose uuid does not follow from it, as its host tells it; None of any other."""
    return place.get("adopted") or place.get("own_name")


class Stray(TypedDict):
    """A domain on a host that has no record of it, or a record that is ``damaged``: why it cannot be read."""

    host: str
    name: str
    managed: Optional[bool]
    damaged: Optional[str]
    power_state: str


class Report(TypedDict, total=False):
    """What a host reported: {document, notes, members} or {reason}. ``cell`` is the cell that the inventory gives the host."""

    document: Document
    notes: Dict[str, Note]
    members: Dict[str, Document]
    cell: Optional[str]
    reason: str


@dataclasses.dataclass
class Fleet:
    """``documents``: inventory name -> host state document; ``verdicts``: inventory name -> why the host is left out;
    ``notes``: host uuid -> {instance uuid: what that host remembers}; ``strays``: instance uuid -> the domains with
    that uuid on hosts without a record of it, including hosts whose records are not trusted; ``faults``: host uuid ->
    why its records do not count; ``doubles``: host uuid -> the host that claims to be that silent host; ``member_lists``:
    host uuid -> which hosts belong to the fleet, as that host remembers, see majority.py."""

    documents: Dict[str, Document]
    verdicts: Dict[str, str]
    notes: Dict[str, Dict[str, Note]] = dataclasses.field(default_factory=dict)
    strays: Dict[str, List[Stray]] = dataclasses.field(default_factory=dict)
    faults: Dict[str, str] = dataclasses.field(default_factory=dict)
    doubles: Dict[str, str] = dataclasses.field(default_factory=dict)
    member_lists: Dict[str, Dict[str, Document]] = dataclasses.field(default_factory=dict)

    def answers(self, lost_hosts: Collection[str] = ()) -> Answers:
        """Raise HostNotLost if a lost host answers, HostNameAmbiguous if its name could mean several hosts."""
        names = {uuid: name for name, uuid in self.uuids().items()}
        silence.check_lost(set(lost_hosts) - set(names), self.verdicts, self.known_as)
        answers = Answers(names, lost_hosts, self.faults, self.verdicts, self.doubles, self.known_as)
        answers.check_lost()
        return answers

    @functools.cached_property
    def known_as(self) -> Dict[str, Set[str]]:
        """Host name -> the uuids of the hosts that any host remembers by that name."""
        return called(self.notes.values())

    def told_of(self, uuid: str) -> Dict[str, Note]:
        """Host uuid -> what that host remembers of the instance."""
        return {holder: notes[uuid] for holder, notes in self.notes.items() if uuid in notes}

    def place_on(self, uuid: str, host: Optional[str]) -> Optional[Place]:
        """What the host says of the instance, or None."""
        return next((place for place in self.places.get(uuid, ()) if place["host"] == host), None)

    def notes_on(self, uuid: str) -> Notes:
        return put_together(self.told_of(uuid))

    def uuids(self) -> Dict[str, str]:
        """Inventory name -> the pinned uuid of every host that answered."""
        return {name: document["uuid"] for name, document in self.documents.items()}

    def volumes(self) -> List[Tuple[str, Document]]:
        """(host, volume) of all volumes that the hosts report."""
        return [(host, found) for host, document in self.documents.items() for found in document.get("volumes") or ()]

    def damaged_volumes(self) -> Dict[str, Tuple[str, str]]:
        """Volume uuid -> (host, why it cannot read its record)."""
        told = ((host, document.get("damaged_volumes") or {}) for host, document in self.documents.items())
        return {uuid: (host, why) for host, found in told for uuid, why in found.items()}

    @functools.cached_property
    def places(self) -> Places:
        return Places(self.documents)

    @functools.cached_property
    def own_names(self) -> Dict[Tuple[str, str], str]:
        """See Places."""
        return self.places.own_names()

    def unprepared(self) -> Dict[str, str]:
        """The hosts that answer but were never prepared, and what to do about it."""
        return {host: not_prepared(host) for host, found in self.documents.items() if not found.get("prepared", True)}

    def failed_on(self, uuid: str) -> List[str]:
        """The hosts that remember the instance as failed (vm_state error)."""
        return [host for host, failure in self.failures() if failure["uuid"] == uuid]

    def failures(self) -> Iterator[Tuple[str, Document]]:
        """(host, {uuid, name, project_id, code, message}) of each instance that a host remembers as failed."""
        for host, document in self.documents.items():
            for failure in document.get("failed_instances", ()):
                yield host, failure

    def members(self, group: Document, project: str) -> List[str]:
        """The uuids of all instances of a server group {name, uuid}, as the hosts report them."""
        names = (group["name"], group["uuid"])
        return sorted(
            uuid
            for uuid, places in self.places.items()
            if any(place["group"] in names and place["project_id"] == project for place in places)
        )


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Put Python's collector of cycles off while the documents of a fleet are made: they have none, and it would look through
    all of them again and again, which takes twice as long as to read them. Nor does it look through them afterwards. Also of a
    function, as a decorator."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


@without_collector()
def read_fleet(reports: Dict[str, Report], check: Callable[[Any], Document]) -> Fleet:
    """``reports`` are by inventory name. A document that breaks the schema becomes a verdict, not an error; so does a
    state directory whose host itself says that its records do not count."""
    fleet = Fleet({}, {})
    for name, report in reports.items():
        if "document" in report:
            _read_document(fleet, name, report, check)
        else:
            fleet.verdicts[name] = report.get("reason") or "gave no facts"
    _leave_out_doubles(fleet)
    for name, why in miscounting.verdicts(fleet.documents, fleet.notes).items():
        uuid = fleet.documents.pop(name)["uuid"]
        del fleet.notes[uuid], fleet.member_lists[uuid]
        fleet.verdicts[name] = why
    return fleet


def _read_document(fleet: Fleet, name: str, report: Report, check: Callable[[Any], Document]) -> None:
    try:
        document = check(report["document"])
    except BerthError as error:
        fleet.verdicts[name] = "%s: %s" % (error.code, error)
        return
    document["host"] = document["node"] = name
    if report.get("cell"):
        document["cell"] = report["cell"]
    for uuid, stray in _strays(name, document):
        fleet.strays.setdefault(uuid, []).append(stray)
    fault = (document.get("state") or {}).get("fault")
    if fault:
        fleet.verdicts[name] = "%s: %s. %s" % (STATE_FAULT, fault, state_hints.mount_state_directory("it"))
        fleet.faults[document["uuid"]] = fault
        return
    if not document.get("prepared", True):
        document["service"] = {**document["service"], "disabled": True, "disabled_reason": not_prepared(name)}
    fleet.documents[name] = document
    fleet.notes[document["uuid"]] = report.get("notes") or {}
    fleet.member_lists[document["uuid"]] = report.get("members") or {}


def _leave_out_doubles(fleet: Fleet) -> None:
    """Hosts that answer with one uuid, and one that answers with that of a silent host, do not count."""
    for uuid, names in list(duplicate_hosts.twice(fleet.documents)):
        del fleet.notes[uuid], fleet.member_lists[uuid]
        for name in names:
            del fleet.documents[name]
            fleet.verdicts[name] = duplicate_hosts.verdict(uuid, names)
    alone = duplicate_hosts.of_silent(fleet.documents, fleet.verdicts, fleet.notes)
    for uuid, (name, silent) in alone.items():
        del fleet.notes[uuid], fleet.member_lists[uuid]
        del fleet.documents[name]
        fleet.verdicts[name] = duplicate_hosts.verdict_alone(name, silent)
        fleet.doubles[uuid] = name


def not_prepared(host: str) -> str:
    """Why a host that answers gets no new instances. Those that it holds count as before."""
    return "not prepared. %s" % host_hints.prepare_host(host)


def _strays(host: str, document: Document) -> Iterator[Tuple[str, Stray]]:
    """The domains without a record, by their uuids."""
    for domain in document["instances"]:
        if domain.get("foreign"):
            stray = {"host": host, **{key: domain.get(key) for key in ("name", "managed", "damaged", "power_state")}}
            yield domain["uuid"], cast(Stray, stray)
