# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The notes of all hosts about an instance, combined, and what they forbid if its owner answers, or nobody has a record of it.

Theory of operation: who owns an instance
=========================================

There is no database. The host that holds an instance has its record, and nobody else can say what it is. That host is
the owner. The record has a generation [epoch, n]: the epoch counts the owners that the instance has had, n the writes of
one owner. So of any two records of an instance the one with the higher generation is the later, whatever any clock says.

    create        move, as the source           move, as the destination
    CLAIM  ----->  OWN [e, n]  -- lets go -->  OUT [e+1, 0]       the receipt of the source
                                                 |
                                                 v
                                  IN  ------->  OWN [e+1, n]      takes over with that receipt
                                                 |
                                              deletes            tombstone: gone [e+1, n]

An owner never shares the instance. It lets go first, in its own record, and only then may the next one take over. A
crash in between leaves an instance that nobody runs, never one that two hosts run.

Silence is the danger. A host that does not answer may still run the guest, so "no record anywhere" must not mean "make
it". Hosts therefore gossip: each run reads what every host owns and remembers, and sends each host what it lacks
(gossip.py). A host keeps that in whereabouts.json, so that any one host that answers can name the owner of an instance
that it has never held. It also keeps tombstones: of an instance that it removed (gone) or gave away (left). A note of an
earlier owner ends with that owner's tombstone, or with that of a later one. Without a tombstone the last known owner
stays the owner, for as long as it takes, unless a person says that its host is lost.

A create announces itself before it builds: each host is told which run plans the instance where (planned), and after
which epoch the next owner begins (after). If that run dies, the next one knows where to look.

Three things follow. A record restored from an old backup has a lower generation than the gossip, and is refused. Of two
owners with different generations neither is believed alone while both answer: a person chooses (keep_one.py). And a host
that lies can only add notes: it can stop runs about an instance, and its name is in the message (``told_by``).

The rules
=========

A missing answer, a missing record or a host missing in the inventory never proves that the instance is gone:

- the last known owner, by the highest generation, stays the owner until that host itself says that it is gone or was
  moved away, one that had the instance in a later epoch says that it is gone, an owner with a higher generation
  answers, or a person says that the host is lost;
- where a run planned to create it, it may exist while that host is silent; if the host answers, its records count.

A known owner of a higher generation stops an owner that answers: that record is old then. So does a plan that was made
after the epoch of this record, as for a host that a person gave up as lost and that is back. No other plan does.

That an instance is gone is the word of one host. It ends what others remember of another owner only if they, too, know
that the host had the instance or was to get it. The next owner counts on from the highest epoch that any host says.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ..model import fleet_hints, messages, state_hints
from ..model.errors import shortened
from . import silence
from .errors import HostNameAmbiguous, InstanceUnknown, RecordMissing, RecordOutdated

Generation = Tuple[int, int]
NEVER: Generation = (0, 0)


@dataclasses.dataclass(frozen=True)
class Note:
    """A host under the name that it had then. ``generation``: of an owner, or that after which ``run`` planned;
    ``told_by``: the uuids of the hosts that remember this."""

    host: str
    host_uuid: str
    generation: Generation = NEVER
    run: str = ""
    told_by: Tuple[str, ...] = dataclasses.field(default=(), compare=False)


@dataclasses.dataclass(frozen=True)
class Notes:
    """About one instance. ``known``: its last owner, None if nobody knows one or it said that the instance is gone.
    ``planned``: on which hosts which runs planned to create it. ``latest``: the highest generation that any host knows;
    ``gone``: {host uuid: the generation at which it removed the instance}, of the hosts whose word for that counts."""

    known: Optional[Note] = None
    planned: Tuple[Note, ...] = ()
    latest: Generation = NEVER
    gone: Mapping[str, Generation] = dataclasses.field(default_factory=dict)

    def apart_from(self, host: str, answers: Answers) -> Notes:
        """Without the owner, if it was this host, by its inventory name."""
        was_here = self.known is not None and answers.names.get(self.known.host_uuid) == host
        return dataclasses.replace(self, known=None) if was_here else self


@dataclasses.dataclass(frozen=True)
class Answers:
    """``names``: host uuid -> inventory name, of the hosts whose records count; ``lost``: names or uuids that are gone
    for good; ``faults``: host uuid -> why the records of a host that answers do not count; ``silent``: names of the
    hosts that did not report their records -> why; ``doubles``: host uuid -> the host that claims to be that silent
    one, see duplicate_hosts.py; ``called``: host name -> the uuids of the hosts that any host remembers by that name."""

    names: Mapping[str, str]
    lost: Collection[str] = ()
    faults: Mapping[str, str] = dataclasses.field(default_factory=dict)
    silent: Mapping[str, str] = dataclasses.field(default_factory=dict)
    doubles: Mapping[str, str] = dataclasses.field(default_factory=dict)
    called: Mapping[str, Set[str]] = dataclasses.field(default_factory=dict)

    def counts(self, note: Note) -> bool:
        return note.host_uuid in self.doubles or not self.gives_up(note.host, note.host_uuid)

    def gives_up(self, host: str, uuid: str) -> bool:
        """A machine that answers is not lost, whatever it is called. A name gives up one silent machine at most."""
        if uuid in self.names or uuid in self.faults:
            return False
        return uuid in self.lost or (host in self.lost and self.silent_called(host) <= {uuid})

    def silent_called(self, name: str) -> Set[str]:
        return self.called.get(name, set()) - set(self.names) - set(self.doubles)

    def check_lost(self) -> None:
        """Raise HostNameAmbiguous if a lost name means several silent machines and none of their uuids is given."""
        for name in sorted(self.lost):
            uuids = self.silent_called(name)
            if len(uuids) > 1 and not uuids & set(self.lost):
                raise HostNameAmbiguous(
                    "%s is the name of several hosts that do not answer: %s" % (name, ", ".join(sorted(uuids))),
                    hint=fleet_hints.lost_by_uuid(name, sorted(uuids)),
                )

    def has(self, note: Note) -> bool:
        return note.host_uuid in self.names

    def is_replaced(self, note: Note) -> bool:
        """Whether another machine answers under the name that the host had then."""
        return note.host_uuid not in self.names and note.host in self.names.values()

    def is_unlisted(self, note: Note) -> bool:
        """Whether no host of the inventory has that name: it was taken out, or was renamed and does not answer."""
        return note.host not in self.silent and note.host not in self.names.values()

    def hint(self, note: Note) -> str:
        if note.host_uuid in self.doubles:
            return fleet_hints.renamed_or_copied(self.doubles[note.host_uuid], note.host)
        if note.host_uuid in self.faults:
            return state_hints.mount_state_directory("the state directory of %s" % note.host)
        if self.is_replaced(note):
            return fleet_hints.replaced(note.host, note.host_uuid, sorted(self.silent))
        if self.is_unlisted(note):
            return fleet_hints.unlisted(note.host, sorted(self.silent))
        return silence.hint([note.host], self.silent, self.lost)

    def describe(self, note: Note) -> str:
        if note.host_uuid in self.doubles:
            return "%s, which does not answer, while %s says that it is that host" % (
                note.host,
                self.doubles[note.host_uuid],
            )
        if note.host_uuid in self.faults:
            return "%s, whose records are not trusted: %s" % (note.host, self.faults[note.host_uuid])
        if self.is_replaced(note):
            return "%s, where another machine answers now (it was host %s)" % (note.host, note.host_uuid)
        if self.is_unlisted(note):
            return "%s, which is not in this inventory" % note.host
        return silence.describe(note.host, self.silent)

    def by_notes(self, note: Note) -> str:
        """Who says so: a host may lie, and people have to know where to look."""
        return ", by the notes of %s" % shortened(sorted(self.names.get(uuid, uuid) for uuid in note.told_by))


def called(remembered: Iterable[Mapping[str, messages.Note]]) -> Dict[str, Set[str]]:
    """Host name -> uuids of the hosts that are remembered by it. ``remembered``: what each host remembers, by instance."""
    found: Dict[str, Set[str]] = {}
    for notes in remembered:
        for note in notes.values():
            for host in messages.hosts_named(note):
                found.setdefault(host["host"], set()).add(host["host_uuid"])
    return found


def put_together(remembered: Mapping[str, messages.Note]) -> Notes:
    """``remembered``: uuid of the host that remembers -> {known, planned, after, gone, left}, see compute/record/whereabouts.py."""
    owners: List[Tuple[str, Note]] = []
    gone: Dict[str, Generation] = {}
    left: Dict[str, Generation] = {}
    for holder, note in remembered.items():
        known, removed, moved = note.get("known"), note.get("gone"), note.get("left")
        if known:
            owners.append((holder, Note(known["host"], known["host_uuid"], generation(known["generation"]))))
        if removed:
            gone[holder] = generation(removed)
        if moved:
            left[holder] = generation(moved)
    vouched = _vouched_for(remembered)
    owning = [note for holder, note in owners if not _has_gone(holder, note, gone, left, vouched)]
    last = max(owning, key=lambda note: note.generation, default=None)
    if last:
        uuid, reached = last.host_uuid, last.generation  # under whatever name
        told_by = [holder for holder, note in owners if note.generation == reached and note.host_uuid == uuid]
        last = dataclasses.replace(last, told_by=tuple(told_by))
    given_up = [(note.get("after", 0), 0) for note in remembered.values()]
    # a host's own writes after it let go do not count: the next owner counts its own
    let_go = [(moved_away[0], 0) for moved_away in left.values()]
    latest = max((*(note.generation for _holder, note in owners), *gone.values(), *let_go, *given_up), default=NEVER)
    counts = {holder: removed for holder, removed in gone.items() if holder in vouched}
    return Notes(last, _plans(remembered), latest, counts)


def _plans(remembered: Mapping[str, messages.Note]) -> Tuple[Note, ...]:
    """In order."""
    plans: Dict[Note, List[str]] = {}
    for holder, note in sorted(remembered.items()):
        after = note.get("after", 0), 0
        for plan in note.get("planned") or ():
            plans.setdefault(Note(plan["host"], plan["host_uuid"], after, plan["run"]), []).append(holder)
    told = (dataclasses.replace(plan, told_by=tuple(holders)) for plan, holders in plans.items())
    return tuple(sorted(told, key=lambda note: (note.host, note.run, note.generation)))


def _vouched_for(remembered: Mapping[str, messages.Note]) -> Set[str]:
    """The uuids of the hosts of which another host remembers that they had the instance, or were to get it."""
    return {
        host["host_uuid"]
        for holder, note in remembered.items()
        for host in messages.hosts_named(note)
        if host["host_uuid"] != holder
    }


def _has_gone(
    holder: str, noted: Note, gone: Mapping[str, Generation], left: Mapping[str, Generation], vouched: Set[str]
) -> bool:
    """Whether the owner that ``holder`` remembers says that it is gone or was moved away, or a host that had it in a later
    epoch says that it is gone: that covers earlier owners."""
    later = {host for host, removed in gone.items() if removed[0] > noted.generation[0]}
    own_word = max(gone.get(noted.host_uuid, NEVER), left.get(noted.host_uuid, NEVER))
    return own_word >= noted.generation or bool(later & {holder, *vouched})


def generation(numbers: Sequence[int]) -> Generation:
    epoch, n = numbers
    return epoch, n


def made_by(plan: Note) -> Generation:
    """The generation of what a run made, if it made what it had planned."""
    return plan.generation[0] + 1, 0


def given_up(notes: Notes, answers: Answers) -> List[Note]:
    """The plans on hosts that were given up as lost: what they may have made, nobody has heard of."""
    return [plan for plan in notes.planned if not answers.counts(plan)]


def latest_with_lost(notes: Notes, answers: Answers) -> Generation:
    """Also after what the plans that were given up may have made."""
    return max([notes.latest, *map(made_by, given_up(notes, answers))])


def later_lost(generation: Generation, notes: Notes, answers: Answers) -> Optional[Note]:
    """The record of a host that was given up as lost that is, or may be, later than this one."""
    owner = [notes.known] if notes.known and not answers.counts(notes.known) else []
    plans = [plan for plan in given_up(notes, answers) if plan.generation[0] >= generation[0]]
    found = [*owner, *(dataclasses.replace(plan, generation=made_by(plan)) for plan in plans)]
    last = max(found, key=lambda note: note.generation, default=None)
    return last if last and last.generation > generation else None


def check_owner(name: str, host: str, generation: Generation, notes: Notes, answers: Answers) -> None:
    """Raise RecordOutdated if the owner that answers is known to have had a successor or a higher generation,
    InstanceUnknown if it may have a successor on a silent host. No two owners have the same generation, unless one got a
    copy of the other's records."""
    for plan in notes.planned:
        if plan.generation[0] >= generation[0] and answers.counts(plan) and not answers.has(plan):
            raise InstanceUnknown(
                "%s has a record of %s, but a run that gave this record up may have made it anew on %s%s"
                % (host, name, answers.describe(plan), answers.by_notes(plan)),
                hint=answers.hint(plan),
                host=host,
            )
    known = notes.known
    if not known or not answers.counts(known):
        return
    owner = answers.names.get(known.host_uuid)
    if known.generation < tuple(generation) or (known.generation == tuple(generation) and owner == host):
        return
    raise RecordOutdated(
        "%s has a record of %s of generation %d.%d, but %d.%d was seen on %s%s"
        % (host, name, *generation, *known.generation, owner or answers.describe(known), answers.by_notes(known)),
        hint=state_hints.restore_record(name, owner) if owner else answers.hint(known),
        host=host,
    )


def check_absent(
    name: str,
    notes: Notes,
    answers: Answers,
    run: str = "",
    hint: Callable[[str, str], str] = state_hints.restore_record_or_delete,
) -> None:
    """Raise InstanceUnknown or RecordMissing if the instance may exist although no record of it was found: on a silent host that
    was the last known owner, or on which a run once planned to create it.

    Plans of the run itself do not count. ``hint``: of the instance's name and the host that held it, if a record is missing.
    """
    known = notes.known
    if known and answers.counts(known):
        if answers.has(known):
            host = answers.names[known.host_uuid]
            raise RecordMissing(
                "%s held %s, but has a record neither of it nor of its removal" % (host, name),
                hint=hint(name, host),
            )
        raise InstanceUnknown(
            "%s was last seen on %s; it may still run there" % (name, answers.describe(known)),
            hint=answers.hint(known),
        )
    for plan in notes.planned:
        if plan.run != run and answers.counts(plan) and not answers.has(plan):
            raise InstanceUnknown(
                "%s may have been made on %s" % (name, answers.describe(plan)),
                hint=answers.hint(plan),
            )
