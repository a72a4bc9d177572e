# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet goes from the hosts alone to a registry, and back.

First the registry is closed and gets a new incarnation, then each host its mark: from then on no run acts on such a host,
over the registry or without it. So what the hosts say after that is how it stays until the change is over. To the registry:
what they say is written there, and it is opened. To the hosts alone: each is told what the registry knows, then they lose
the mark. A run that is cut off leaves the registry closed, and the next one goes on.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...model import hints, registry_hints
from ...model.errors import BerthError, joined, shortened
from ...model.lifecycle import ACTIVE, OWN
from ...model.messages import Document, Note
from .. import gossip, locate, majority, silence
from ..errors import HostUnknown, RegistryUnknown
from ..fleet import Fleet, Place
from ..procedures.steps import Answers, Ask, Compare, Procedure, Scan, Transact, Write
from . import contents, hosts, keys
from .owners import Difference, Seen
from .transactions import RegistryBusy, RegistryClosed

AT_ONCE = 40  # keys of one transaction
# What one step of a look takes into memory: hosts, and what they remember of instances.
HOSTS_AT_ONCE, NOTES_AT_ONCE = 200, 200000
ALONE = ""  # in place of an incarnation: the hosts without a registry


class RegistryOfOthers(BerthError):
    """Hosts belong to a registry, and the run names none, or another one, which does not know them. Nothing was changed."""


@dataclasses.dataclass(frozen=True)
class Run:
    """``kind``: what keeps the registry; ``hosts``: all of the inventory; ``about``: uuid -> (name, project) of its instances;
    ``read``: the fleet by what hosts answer to host_facts."""

    kind: str
    hosts: Sequence[str]
    about: Mapping[str, Tuple[str, str]]
    read: Callable[[Answers], Fleet]
    new_incarnation: Callable[[], str]
    now: Callable[[], float]
    lost: Collection[str] = ()
    dry: bool = False


class Meta(NamedTuple):
    """``document``: None if the registry is empty; ``revision``: of its key; ``latest``: of the registry; ``cluster``: its name for
    itself."""

    document: Any
    revision: int
    latest: int
    cluster: str


class Ended(NamedTuple):
    """``hosts`` and ``instances``: how many; ``differences``: what the registry was not told, and other things for people."""

    changed: bool
    hosts: int
    instances: int
    differences: List[Difference]


def use_registry(run: Run) -> Procedure[Ended]:
    """Have the hosts belong to the registry."""
    meta, fleet, known = yield from _looked(run)
    marks = _marks(fleet)
    new = {host for host in marks if fleet.documents[host]["uuid"] not in known}  # also those that had left
    if (
        meta.document
        and meta.document["open"]
        and not new
        and all(is_of(mark, meta.document) for mark in marks.values())
    ):
        return Ended(False, len(marks), len(fleet.places), [])
    if run.dry:
        return Ended(True, len(marks), len(fleet.places), [])
    meta, fleet = yield from _fenced(run, meta, fleet, known)
    wanted = yield from filled(run, meta, seen_by(run, fleet, known, still=True))
    yield from opened(meta)
    return Ended(True, len(fleet.documents), len(fleet.places), [each for each in wanted.differences if not each.mends])


def leave_registry(run: Run) -> Procedure[Ended]:
    """Have the hosts be alone again."""
    meta, fleet, known = yield from _looked(run)
    marks = _marks(fleet)
    if not any(marks.values()) and not (meta.document and meta.document["open"]):
        return Ended(False, len(marks), len(fleet.places), [])
    if run.dry:
        return Ended(True, len(marks), len(fleet.places), [])
    meta, fleet = yield from _fenced(run, meta, fleet, known)
    seen = seen_by(run, fleet, known, still=True)
    wanted = contents.wanted((yield from contents.kept()), seen)
    yield from _told(fleet, known_to_hosts(wanted.entries, seen), "was not told what the registry knows")
    # from here on there is no way back: the first host without a mark takes claims that no registry hears of
    meta = yield from _written(meta, {**meta.document, "before": ALONE})
    yield from _told(fleet, {"registry": None}, "still belongs to the registry")
    return Ended(True, len(fleet.documents), len(fleet.places), [each for each in wanted.differences if not each.mends])


def _looked(run: Run) -> Procedure[Any]:
    """What there is before anything is changed: the registry itself, the fleet, at rest, and the hosts that the registry knows."""
    meta = yield from read_meta()
    known = yield from known_hosts()
    fleet = yield from look(run)
    check_all_there(run, fleet, known)
    if meta.document or run.lost:  # an empty one may take over from one that is lost, if no host is
        check_marks(fleet, meta, known)
    check_at_rest(run, fleet)
    return meta, fleet, known


def _fenced(run: Run, meta: Meta, fleet: Fleet, known: Mapping[str, str]) -> Procedure[Any]:
    """Close the registry and mark the hosts. Return it, and the fleet as it is then; undo both where it is not at rest."""
    meta, before = (yield from closed(run, meta)), _marks(fleet)
    try:
        yield from marked(meta, fleet, "does not take its mark")
        fleet = yield from look(run)
        check_all_there(run, fleet, known)
        check_at_rest(run, fleet)
    except RegistryUnknown:
        raise
    except BerthError:
        yield from _undone(meta, before)
        raise
    return meta, fleet


def _undone(meta: Meta, marks: Mapping[str, Any]) -> Procedure[None]:
    """The hosts belong again to what they came from: by their ``marks`` before, or where a run that was cut off had marked them, by
    what that wrote. One that does not hear it stays closed until the next run."""
    before, own = meta.document["before"], meta.document["incarnation"]
    noted = {**_mark(meta), "incarnation": before} if before else None
    back = {host: noted if is_of(mark, meta.document) else mark for host, mark in marks.items()}
    yield Ask("rescan", {host: {"told": {"registry": mark}} for host, mark in back.items()})
    document = {**meta.document, "incarnation": before or own, "open": before not in (ALONE, own)}
    yield from _written(meta, document)


# --- the registry itself


def read_meta() -> Procedure[Meta]:
    answer = yield Transact(reads=(keys.META,))
    found = answer["found"].get(keys.META)
    revision = found.revision if found else 0
    return Meta(keys.document(keys.META, found), revision, answer["revision"], answer["cluster"])


def closed(run: Run, meta: Meta, comes_back: bool = False) -> Procedure[Meta]:
    """One that is closed is that of a run that was cut off, or of a restore: it goes on with that incarnation. ``comes_back``: there is
    no earlier one to go back to."""
    if meta.document and not meta.document["open"]:
        if "before" in meta.document:
            return meta
        return (yield from _written(meta, {**meta.document, "before": meta.document["incarnation"]}))
    new = run.new_incarnation()
    before = new if comes_back else meta.document["incarnation"] if meta.document else ALONE
    document = {"schema": keys.SCHEMA, "kind": run.kind, "incarnation": new, "open": False, "before": before}
    return (yield from _written(meta, document))


def opened(meta: Meta) -> Procedure[None]:
    document = {part: value for part, value in meta.document.items() if part != "before"}
    yield from _written(meta, {**document, "open": True})


def _written(meta: Meta, document: Document) -> Procedure[Meta]:
    document = {**document, "cluster": meta.cluster}
    written = keys.written(keys.META, document)
    answer = yield Transact((Compare(keys.META, meta.revision),), (written,))
    if not answer["succeeded"]:
        raise _changed_meanwhile()
    return Meta(document, answer["revision"], answer["revision"], answer["cluster"])


def _changed_meanwhile() -> RegistryBusy:
    return RegistryBusy("another run closes, opens or changes the registry", hint=hints.run_again())


def known_hosts() -> Procedure[Dict[str, str]]:
    """Host uuid -> name, of those in the registry."""
    found = (yield Scan(keys.HOSTS))["found"]
    return {key[len(keys.HOSTS) :]: keys.document(key, each)["name"] for key, each in found.items()}


def filled(run: Run, meta: Meta, seen: Seen) -> Procedure[contents.Wanted]:
    """Have the closed registry say what the hosts say."""
    for name, document in seen.fleet.documents.items():
        yield from hosts.report(name, document, run.now(), still=True)
    known = yield from contents.kept()
    wanted = contents.wanted(known, seen)
    yield from written(meta, known, wanted.documents)
    for document in seen.fleet.documents.values():
        yield from hosts.tidied(document["uuid"], still=True)
    held = {host for entry in wanted.entries.values() for host in keys.hosts_of(entry)}
    for uuid in sorted(set(seen.lost) - held):
        if seen.names[uuid] in seen.fleet.documents:  # another machine has its name, so no remove_host names it
            yield from hosts.forgotten(uuid)
    return wanted


def written(meta: Meta, known: contents.Kept, documents: Mapping[str, Any]) -> Procedure[None]:
    """All of them, or RegistryBusy: nobody else writes."""
    for some in _parts(sorted(documents), AT_ONCE):
        if not (yield Transact((Compare(keys.META, meta.revision), *compares(known, some)), writes(documents, some)))[
            "succeeded"
        ]:
            raise _changed_meanwhile()


def compares(known: contents.Kept, some: Iterable[str]) -> Tuple[Compare, ...]:
    return tuple(Compare(key, known.found[key].revision if key in known.found else 0) for key in some)


def writes(documents: Mapping[str, Any], some: Iterable[str]) -> Tuple[Write, ...]:
    return tuple(Write(key, None) if documents[key] is None else keys.written(key, documents[key]) for key in some)


def _parts(several: List[str], size: int) -> Iterable[List[str]]:
    return (several[at : at + size] for at in range(0, len(several), size))


# --- the hosts


def look(run: Run) -> Procedure[Fleet]:
    """All hosts, with what each remembers of any instance that its owner does not say itself."""
    first, heard = {}, set(run.about)
    for some in _parts(list(run.hosts), HOSTS_AT_ONCE):
        answers = yield Ask("host_facts", {host: {"heard_of": True} for host in some})
        for host, answer in answers.items():
            heard.update(answer.get("heard_of") or ())
            first[host] = {part: told for part, told in answer.items() if part != "heard_of"}
    owners = _owners(run.read(first))
    found = {}
    for some in _parts(list(run.hosts), max(1, min(HOSTS_AT_ONCE, NOTES_AT_ONCE // max(1, len(heard))))):
        answers = yield Ask("host_facts", {host: {"about": sorted(heard)} for host in some})
        for host, answer in answers.items():
            notes = (answer.get("notes") or {}).items()
            found[host] = {
                **answer,
                "notes": {uuid: note for uuid, note in notes if not _agrees(note, owners.get(uuid))},
            }
    return run.read(found)


def _owners(fleet: Fleet) -> Dict[str, Tuple[str, List[int]]]:
    """Uuid -> (host uuid, generation), of the instances at rest that one host alone has."""
    at = fleet.uuids()
    alone = {uuid: places[0] for uuid, places in fleet.places.items() if len(places) == 1}
    return {uuid: (at[place["host"]], place["generation"] or [0, 0]) for uuid, place in alone.items() if _rests(place)}


def _rests(place: Place) -> bool:
    return (place["role"], place["phase"]) == (OWN, ACTIVE)


def _agrees(note: Note, owner: Optional[Tuple[str, List[int]]]) -> bool:
    """Whether a host remembers no more than the owner says. There is such a note of each instance on each host."""
    known = note["known"]
    if not owner or not known or note["planned"] or note["gone"] or note["left"]:
        return False
    return known["host_uuid"] == owner[0] and list(known["generation"]) <= list(owner[1])


def prepared(fleet: Fleet) -> List[str]:
    """The hosts that can belong to a registry. One that was never prepared takes no claim, and has no place for a mark."""
    return sorted(set(fleet.documents) - set(fleet.unprepared()))


def marked(meta: Meta, fleet: Fleet, refused: str) -> Procedure[None]:
    yield from _told(fleet, {"registry": _mark(meta)}, refused)


def _mark(meta: Meta) -> Document:
    document = meta.document
    return {"kind": document["kind"], "incarnation": document["incarnation"], "revision": meta.latest}


def _told(fleet: Fleet, told: Document, refused: str) -> Procedure[None]:
    answers = yield Ask("rescan", {host: {"told": told} for host in prepared(fleet)})
    for host, answer in answers.items():
        if "host_uuid" not in answer:
            why = answer.get("reason") or (answer.get("error") or {}).get("message")
            raise HostUnknown("%s %s: %s" % (host, refused, why), hint=hints.run_again())


def _marks(fleet: Fleet) -> Dict[str, Any]:
    return {host: fleet.documents[host].get("registry") for host in prepared(fleet)}


def is_of(mark: Any, meta: Document) -> bool:
    return bool(mark) and (mark["kind"], mark["incarnation"]) == (meta["kind"], meta["incarnation"])


def check_marks(fleet: Fleet, meta: Meta, known: Mapping[str, str], restored: bool = False) -> None:
    """Raise RegistryOfOthers if a host belongs to a registry that this one is not, and never was. ``restored``: what the hosts that it
    knows belong to is what it was: others have come since the backup. A host that was removed from the fleet, which says so, may
    come back."""
    incarnations = {(meta.document or {}).get("incarnation"), (meta.document or {}).get("before")}
    marks = {host: mark["incarnation"] for host, mark in _marks(fleet).items() if mark}
    of_known = {host: mark for host, mark in marks.items() if fleet.documents[host]["uuid"] in known}
    left = {uuid for uuid, each in majority.agreed(fleet.member_lists).items() if each["name"] is None}
    was = {*incarnations, *(of_known.values() if restored else ())}
    others = {
        host: mark
        for host, mark in marks.items()
        if host not in of_known and mark not in was and fleet.documents[host]["uuid"] not in left
    }
    if others:
        named = shortened(["%s to %s" % pair for pair in sorted(others.items())])
        raise RegistryOfOthers(
            "they belong to another registry than this run uses: %s" % named,
            hint=registry_hints.name_its_registry(sorted(others)),
        )


def check_alone(fleet: Fleet) -> None:
    """Raise RegistryOfOthers if a host belongs to a registry, of a run that uses none."""
    check_marks(fleet, Meta(None, 0, 0, ""), {})


def check_all_there(run: Run, fleet: Fleet, known: Mapping[str, str]) -> None:
    """Raise HostUnknown if a host of the inventory, of the fleet or of the registry does not say what it has, and is not given up
    as lost."""
    silence.check_lost(run.lost, fleet.verdicts, fleet.known_as)
    silence.check_none_answers(run.lost, list(fleet.documents))
    there = set(fleet.uuids().values())
    members = {uuid: each["name"] for uuid, each in majority.agreed(fleet.member_lists).items() if each["name"]}
    # by its uuid where another machine has its name by now
    unlisted = {
        uuid if name in fleet.documents else name
        for uuid, name in {**members, **known}.items()
        if uuid not in there and uuid not in run.lost
    }
    reasons = {**dict.fromkeys(unlisted, silence.NO_ANSWER), **fleet.verdicts}
    silent = sorted(set(reasons) - set(run.lost))
    if silent:
        told = shortened([silence.describe(host, reasons) for host in silent])
        raise HostUnknown(
            "it is not known which instances are on %s" % told, hint=silence.hint(silent, reasons, run.lost)
        )


def check_at_rest(run: Run, fleet: Fleet) -> None:
    """Raise why it is not known of an instance who owns it: it moves, two hosts own it, or its record is missing or older."""
    errors: List[BerthError] = []
    rest, noted = _owners(fleet), {uuid for notes in fleet.notes.values() for uuid in notes}
    strays = {uuid for uuid, found in fleet.strays.items() if found[0]["managed"] or uuid in fleet.places}
    for uuid in sorted((fleet.places.keys() - (rest.keys() - noted)) | strays):
        try:
            locate.locate_to_run(fleet, _name_of(fleet, uuid), uuid, run.lost)
        except BerthError as error:
            errors.append(error)
    if errors:
        raise joined(errors)


def _name_of(fleet: Fleet, uuid: str) -> str:
    places = fleet.places.get(uuid)
    return places[0]["name"] if places else uuid


def seen_by(run: Run, fleet: Fleet, known: Mapping[str, str], still: bool) -> Seen:
    names = {**known, **{uuid: name for name, uuid in fleet.uuids().items()}}
    for name, uuids in fleet.known_as.items():
        names.update({uuid: name for uuid in uuids if uuid not in names})
    lost = {uuid for uuid, name in names.items() if {uuid, name} & set(run.lost)} - set(fleet.uuids().values())
    return Seen(fleet, names, lost, still, run.about)


def known_to_hosts(entries: Mapping[str, Document], seen: Seen) -> Document:
    """What the registry knows, as a run without one tells it: see compute/record/whereabouts.py."""
    told = gossip.whereabouts(seen.fleet)
    planned: List[Document] = []
    after: Dict[str, int] = {}
    for uuid, entry in entries.items():
        owner, epoch = entry["owner"], entry["epoch"]
        records = [each for host, each in seen.records.get(uuid, ()) if host == owner and each["role"] == OWN]
        if owner and max(map(keys.epoch_of, records), default=-1) < epoch:
            told["known"].setdefault(owner, {})[uuid] = [epoch, 0]
            told["hosts"][owner] = seen.name_of(owner)
        if not owner and epoch:
            after[uuid] = epoch
        planned += [{"uuid": uuid, "host_uuid": each["host"], "run": each["run"]} for each in entry["pending"]]
        told["hosts"].update({each["host"]: seen.name_of(each["host"]) for each in entry["pending"]})
    return {**told, "planned": planned, "after": after}


AT_A_TIME = 100  # hosts, so that a worker's memory does not grow with its cell


class Refreshed(NamedTuple):
    """``written`` and ``newer``: hosts, the latter with a later word of them in the registry; ``failed``: host -> why."""

    written: List[str]
    newer: List[str]
    failed: Dict[str, str]


def refresh(run: Run) -> Procedure[Refreshed]:
    """Read ``run.hosts`` into the registry, some at a time, so that many workers can each read their cell. What is older than
    what the registry has of a host replaces nothing there."""
    meta = yield from read_meta()
    if not meta.document:
        raise RegistryClosed("the registry is empty", hint=registry_hints.fill_registry())
    done = Refreshed([], [], {})
    for at in range(0, len(run.hosts), AT_A_TIME):
        read_at = run.now()
        fleet = run.read((yield Ask("host_facts", {host: {} for host in run.hosts[at : at + AT_A_TIME]})))
        done.failed.update(fleet.verdicts)
        known = yield from hosts.names([document["uuid"] for document in fleet.documents.values()])
        for host, document in fleet.documents.items():
            if document["uuid"] not in known or not is_of(document.get("registry"), meta.document):
                done.failed[host] = "it does not belong to this registry. %s" % registry_hints.enrol_host(host)
            elif run.dry or (yield from hosts.report(host, document, read_at)):
                done.written.append(host)
            else:
                done.newer.append(host)
    return done
