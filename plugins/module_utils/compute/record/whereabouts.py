# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host remembers of the whereabouts of instances: of those on other hosts, and of its own former ones.

There is no database: only its own host knows an instance. While that host is down, nobody could tell an instance there
from one that never existed, and another create would make a second one. So runs tell all hosts what they read, and
later runs ask. There are six kinds of notes, and none overwrites another:

- known: that host was the owner, at this generation, as it said itself. A higher generation replaces it. It is removed
  if the owner, or an owner of a later epoch, says that the instance is gone. A person who says that a host is lost says
  it for one run: what it had stays known until another host has it.
- planned: a run meant to make the instance there, or to keep its copy. It is removed if that host owns the instance or
  answers without it, or if a run was told that the host is lost and made the instance elsewhere.
- after: the epoch of the last owner that was known when a plan was made: an owner of that epoch may have a successor on
  a planned host, and the next one begins after it. A later owner removes it.
- ended: the epoch in which another host, which this one knew as the owner, or an owner before it, removed the instance.
  The next owner begins after it: if the host that removed it comes back as a whole from a backup, its record is the older.
- gone: this host itself removed the instance it owned, at this generation.
- left: a move took the instance away from this host, at this generation: who says that it was here before is outdated.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List

from ...model import hints, host_hints, state_hints, whereabouts_digest
from ...model.errors import BerthError
from ...model.safe_text import clean
from .. import durable
from . import state_file
from .state_file import NONSENSE, text, whole

FILE = "whereabouts.json"
# Beside it: how often FILE was written. A FILE that is missing or older was removed or put back: it is not all that was known.
WRITTEN = "whereabouts.written"
SCHEMA = 3  # who knows only 2, which is read as well, would drop the count
GONE_LIMIT = 20000  # the last instances that were deleted here, and elsewhere
JUST_GONE = 1000  # of those deleted here, which the doctor hears of
RULE = "at most %d MiB" % (durable.LIMIT >> 20)


class WhereaboutsDamaged(BerthError):
    """The host's notes about instances of other hosts cannot be read, so its answers are not used."""


class WhereaboutsFull(BerthError):
    """The host's notes about instances of other hosts are full. Existing notes were not changed."""


class Notes:
    """The content of the file, to work on. ``known``: {uuid: (host uuid, epoch, n)}; ``planned``: {uuid: {(host uuid,
    run)}}; ``after``: {uuid: epoch}; ``ended``: the same, and ``gone`` and ``left``: {uuid: (epoch, n)}, in the order in
    which they went; ``floor``: the highest epoch of those no longer kept in ``ended`` and ``gone``, so maybe that of any
    instance; ``names``: {host uuid: its inventory name}; ``written``: how often the file was written."""

    written, floor = 0, 0

    def __init__(self):
        self.names, self.known, self.planned, self.after = {}, {}, {}, {}
        self.ended, self.gone, self.left = {}, {}, {}

    def learn(self, uuid, host_uuid, generation):
        """Note an owner. Only a higher generation is news."""
        before = self.known.get(uuid)
        if before is None or tuple(generation) > before[1:]:
            self.known[uuid] = (host_uuid, *generation)
            if generation[0] > self.ended.get(uuid, 0):
                self.ended.pop(uuid, None)
            if generation[0] > self.after.get(uuid, 0):
                self.after.pop(uuid, None)
                for plan in list(self.planned.get(uuid, ())):
                    if plan[0] == host_uuid:
                        self.drop_plan(uuid, *plan)

    def forget(self, uuid, host_uuid, generation):
        """The owner says that the instance is gone: of that note, or one of an earlier owner, only the epoch stays. A note
        of another owner, or of a later time, stays."""
        before = self.known.get(uuid)
        if before and (before[1] < generation[0] or (before[0] == host_uuid and before[1:] <= tuple(generation))):
            del self.known[uuid]
            self.ended[uuid] = max(generation[0], self.ended.pop(uuid, 0))

    def drop_plan(self, uuid, host_uuid, run):
        plans = self.planned.get(uuid, set())
        plans.discard((host_uuid, run))
        if not plans:
            self.planned.pop(uuid, None)

    def begin_after(self, uuid, epoch_before):
        if epoch_before > self.next_after(uuid):
            self.after[uuid] = epoch_before

    def next_after(self, uuid) -> int:
        """The epoch after which the next owner begins, of what this host does not know an owner of, or 0."""
        if not any(uuid in noted for noted in (self.known, self.planned, self.after, self.ended, self.gone)):
            return self.floor
        return max(self.after.get(uuid, 0), self.ended.get(uuid, 0))

    def new_floor(self) -> int:
        removed = (epoch for epoch, _n in _too_many(self.gone))
        return max([self.floor, *_too_many(self.ended), *removed])

    def take_in(self, told: Dict[str, Any]) -> None:
        """Take in what a run tells, see ``remember``."""
        self.names.update(told.get("hosts") or {})
        for host_uuid, owned in (told.get("known") or {}).items():
            for uuid, generation in owned.items():
                self.learn(uuid, host_uuid, generation)
        for host_uuid, removed in (told.get("gone") or {}).items():
            for uuid, generation in removed.items():
                self.forget(uuid, host_uuid, generation)
        for plan in told.get("planned") or ():
            self.planned.setdefault(plan["uuid"], set()).add((plan["host_uuid"], plan["run"]))
        for uuid, epoch_before in (told.get("after") or {}).items():
            self.begin_after(uuid, epoch_before)
        for plan in told.get("ended") or ():
            self.drop_plan(plan["uuid"], plan["host_uuid"], plan["run"])

    def digests(self, but: Iterable[str] = ()) -> Dict[str, str]:
        """Return digests of who owns what, but those instances, and whether there are plans."""
        left_out = set(but)
        known = {uuid: owner for uuid, owner in self.known.items() if uuid not in left_out}
        plans = {whereabouts_digest.PLANS: "some"} if self.planned else {}
        return {**whereabouts_digest.digests(known, self.names), **plans}

    def to_dict(self) -> Dict[str, Any]:
        """Return the content for JSON. Hosts are numbered, since each is named many times."""
        used = {note[0] for note in self.known.values()} | {
            host_uuid for plans in self.planned.values() for host_uuid, _run in plans
        }
        order = sorted(used)
        number = {host_uuid: at for at, host_uuid in enumerate(order)}
        return {
            "schema": SCHEMA,
            "written": self.written,
            "hosts": [[host_uuid, self.names.get(host_uuid, host_uuid)] for host_uuid in order],
            "known": {uuid: [number[note[0]], *note[1:]] for uuid, note in sorted(self.known.items())},
            "planned": {
                uuid: sorted([number[host_uuid], run] for host_uuid, run in plans)
                for uuid, plans in sorted(self.planned.items())
            },
            "after": dict(sorted(self.after.items())),
            "floor": self.new_floor(),
            "ended": _last(self.ended),
            "gone": _last(self.gone),
            "left": _last(self.left),
        }

    @classmethod
    def from_dict(cls, data):
        notes = cls()
        if "schema" not in data:
            return notes._read_first(data)
        if data["schema"] not in (2, SCHEMA):
            raise ValueError("schema %r" % (data["schema"],))
        notes.written, notes.floor = whole(data.get("written", 0)), whole(data.get("floor", 0))
        hosts = [text(host_uuid) for host_uuid, _name in data["hosts"]]
        notes.names = {host_uuid: text(name) for host_uuid, name in data["hosts"]}
        notes.known = {
            uuid: (hosts[whole(at)], whole(epoch), whole(n)) for uuid, (at, epoch, n) in data["known"].items()
        }
        notes.planned = {
            uuid: {(hosts[whole(at)], text(run)) for at, run in plans} for uuid, plans in data["planned"].items()
        }
        notes.after = {uuid: whole(epoch) for uuid, epoch in data.get("after", {}).items()}
        notes.ended = {uuid: whole(epoch) for uuid, epoch in data.get("ended", {}).items()}
        notes.gone = {uuid: (whole(epoch), whole(n)) for uuid, (epoch, n) in data["gone"].items()}
        notes.left = {uuid: (whole(epoch), whole(n)) for uuid, (epoch, n) in data.get("left", {}).items()}
        return notes

    def _read_first(self, data):
        """Read the first schema, {uuid: {host, host_uuid, run}}. It did not tell known from planned: use the weaker."""
        for uuid, note in data.items():
            self.names[text(note["host_uuid"])] = text(note["host"])
            self.planned[uuid] = {(note["host_uuid"], text(note["run"]))}
        return self


def _last(noted):
    return dict(list(noted.items())[-GONE_LIMIT:])


def _too_many(noted):
    return list(noted.values())[:-GONE_LIMIT]


def recall(store, uuids: Iterable[str]) -> Dict[str, Dict[str, Any]]:
    """Return what is remembered of these instances, {uuid: {known, planned, after, gone, left}}, without those that
    have no note.

    ``known`` {host, host_uuid, generation} or null, ``planned`` [{host, host_uuid, run}], ``after`` the epoch after which
    the next owner begins, ``gone`` and ``left`` [epoch, n] or null.
    """
    notes, found = _read(store), {}
    for uuid in uuids:
        known, plans = notes.known.get(uuid), notes.planned.get(uuid, ())
        gone, left = notes.gone.get(uuid), notes.left.get(uuid)
        after = notes.next_after(uuid)
        if known or plans or gone or left or after:
            found[uuid] = {
                "known": known and {**_named(notes, known[0]), "generation": list(known[1:])},
                "planned": [{**_named(notes, host_uuid), "run": run} for host_uuid, run in sorted(plans)],
                "after": after,
                "gone": gone and list(gone),
                "left": left and list(left),
            }
    return found


def recall_all(store) -> Dict[str, Dict[str, Any]]:
    """Return the same for every instance that is known or planned elsewhere, and for the last ones that this host removed:
    a host that was down then still knows them here."""
    notes = _read(store)
    return recall(store, sorted({*notes.known, *notes.planned, *list(notes.gone)[-JUST_GONE:]}))


def heard_of(store) -> List[str]:
    """Return the uuids of all instances with a note, including those that are gone."""
    notes = _read(store)
    return sorted({*notes.known, *notes.planned, *notes.after, *notes.ended, *notes.gone, *notes.left})


def digests(store, but: Iterable[str] = ()) -> Dict[str, str]:
    """Return the digests of all notes but those, see model/whereabouts_digest.py."""
    return _read(store).digests(but)


def _named(notes, host_uuid):
    return {"host": notes.names.get(host_uuid, host_uuid), "host_uuid": host_uuid}


def remember(store, told: Dict[str, Any]) -> bool:
    """Take in what a run tells. Return whether it was news. All parts are optional:

    ``hosts`` {host uuid: inventory name}; ``known`` {host uuid: {uuid: [epoch, n]}}, what each owns; ``gone`` the same
    for what each has removed; ``planned`` and ``ended`` [{uuid, host_uuid, run}]; ``after`` {uuid: epoch} of what is
    planned.
    """
    return _change(store, lambda notes: notes.take_in(told))


def removed(store, uuid, generation) -> bool:
    """Note that this host has removed the instance, whatever was known of it up to this generation."""

    def take_in(notes):
        latest = max(tuple(generation), notes.gone.pop(uuid, (0, 0)))
        notes.gone[uuid] = latest

    return _change(store, take_in)


def handed_over(store, record, other) -> bool:
    """Note ``other`` {uuid, name}, the present owner, before the record of a move is removed for good."""

    def take_in(notes):
        notes.names.setdefault(other["uuid"], other["name"])
        # both sides share the epoch, and each counts its own writes in it
        if notes.known.get(record.uuid, ("", 0, 0))[1:] <= (record.generation[0], 0):
            # also if a run told this host as the last owner, when neither side was one
            notes.known.pop(record.uuid, None)
        notes.learn(record.uuid, other["uuid"], (record.generation[0], 0))
        notes.left[record.uuid] = max(tuple(record.generation), notes.left.pop(record.uuid, (0, 0)))

    return _change(store, take_in)


def epoch(store, uuid) -> int:
    """Return the latest epoch of the instance that this host knows of; a new owner begins after it."""
    notes = _read(store)
    return max(notes.known.get(uuid, ("", 0))[1], notes.gone.get(uuid, (0,))[0], notes.next_after(uuid))


def _change(store, take_in) -> bool:
    with store.host_lock():
        notes = _read(store)
        before = notes.to_dict()
        take_in(notes)
        now = notes.to_dict()
        if now == before:
            return False
        now["written"] += 1
        after = json.dumps(now, separators=(",", ":")).encode()
        if len(after) > durable.LIMIT:
            raise WhereaboutsFull(
                "%s would have %d bytes" % (_path(store), len(after)), rule=RULE, hint=hints.split_the_fleet()
            )
        # In this order, wherever the host stops: the file is never older than the count beside it.
        durable.write_in(store.state_dir, FILE, after, create=True)
        durable.write_in(store.state_dir, WRITTEN, b"%d" % now["written"])
        return True


def _read(store) -> Notes:
    try:
        # The count first: another process may write both meanwhile.
        written = durable.read_in(store.state_dir, WRITTEN)
        data = durable.read_in(store.state_dir, FILE)
        if data is None and written is not None:
            raise WhereaboutsDamaged("%s is gone" % _path(store), hint=state_hints.restore_whereabouts(WRITTEN))
        document = {} if data is None else json.loads(data)
        if isinstance(document.get("schema"), int) and document["schema"] > SCHEMA:
            what = "%s has schema %d, this version knows %d" % (_path(store), document["schema"], SCHEMA)
            raise WhereaboutsDamaged(what, hint=host_hints.newer_version())
        if "schema" not in document and written is not None:
            raise ValueError("it has no schema any more")
        notes = Notes.from_dict(document)
        if notes.written < int(written or 0):
            raise ValueError("it is older than what was last written")
        return notes
    except NONSENSE as error:
        raise WhereaboutsDamaged(
            "%s is damaged: %s" % (_path(store), error), hint=state_hints.restore_whereabouts(WRITTEN)
        )
    except durable.TooLarge as error:
        raise WhereaboutsDamaged(
            "%s: %s" % (_path(store), error), rule=RULE, hint=state_hints.restore_whereabouts(WRITTEN)
        )


def _path(store) -> str:
    return "%s/%s" % (store.state_dir, FILE)


# Which hosts belong to the fleet, as this host was told last: {host uuid: {name, changes, closed}}. The name is that in the
# inventory, null of a host that was removed; ``closed``, which may lack, says why one is drained for maintenance. The changes
# of an entry are counted: only a higher count replaces it.
MEMBERS_FILE = "members.json"


def read_members(state_dir: str) -> Dict[str, Dict[str, Any]]:
    """Return the list; {} if this host was never told one."""
    return state_file.read(state_dir, MEMBERS_FILE, lambda data: state_file.dict_of(data, _entry), {})


def take_in_members(store, told: Dict[str, Dict[str, Any]]) -> None:
    with store.host_lock():
        known = read_members(store.state_dir)
        news = {uuid: entry for uuid, entry in told.items() if entry["changes"] > _changes(known, uuid)}
        if news:
            durable.write_in(store.state_dir, MEMBERS_FILE, json.dumps({**known, **news}, sort_keys=True).encode())


def _changes(known, uuid) -> int:
    return known[uuid]["changes"] if uuid in known else 0


def _entry(value):
    name = value["name"]
    closed = {"closed": clean(state_file.text(value["closed"]))} if value.get("closed") else {}
    changes = state_file.whole(value["changes"])
    return {"name": None if name is None else state_file.text(name), "changes": changes, **closed}
