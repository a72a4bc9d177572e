# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move over an engine. Before its first leg one transaction writes the intent, and takes room on the destination, the growth of
the quota and a seat in the group there. After its legs the engine follows the hosts: it says what their records say.

What a run could not tell, a later one does: the intent names the destination, which that run asks, too.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, Iterable, List, Mapping, Set, cast

from ...model import hints, migration
from ...model.lifecycle import OWN
from ...model.messages import Document, View
from ...model.quota import Amounts
from .. import groups
from ..commit_move import CLAIMING, claimed_spec, old_flavor
from ..errors import ClaimConflict
from ..moving import PlannedMove
from ..plan import Instance
from ..planned_move import Walk
from ..procedures.steps import Procedure
from ..quotas import of_flavors
from ..sequences import DESTINATION, SOURCE
from . import holdings, hosts, keys, owners
from .engine import removed_from
from .transactions import Draft, heard, transacted


@dataclasses.dataclass(frozen=True)
class MovesOnEngine:
    """``run``: its id; ``quotas``: by project; ``dry``: in check mode, where the engine writes nothing."""

    run: str
    quotas: Mapping[str, Amounts]
    dry: bool = False

    def judges(self, walk: Walk) -> bool:
        return walk.sequence in CLAIMING and not self.dry

    def begin_move(self, walk: Walk) -> Procedure[None]:
        if walk.sequence in CLAIMING:
            yield from transacted(functools.partial(self._begun, walk=walk))

    def _begun(self, draft: Draft, walk: Walk) -> Procedure[None]:
        """The host decides by its lock whether there is room: so many moves at once may have chosen it."""
        instance, source = _instance(walk), str(walk.machine(SOURCE))
        key, destination = keys.instance(instance["uuid"]), instance["host_uuid"]
        group = instance["spec"].get("group")
        of_group = [keys.group(group["uuid"])] if group else []
        yield from draft.read(key, keys.host(destination), keys.quota(instance["project"]), *of_group)
        entry = draft.get(key)
        if not (entry and draft.get(keys.host(destination))):
            raise _other_run(walk)
        if _intent(walk, entry):
            return  # an earlier run began it, or the answer was lost
        found = draft.found[key]
        _check_owner(walk, entry, source, bool(found and found.revision == walk.move.version))
        if walk.move.kind == migration.RESIZE:
            holdings.check_growth(draft, entry, instance, self.quotas)
        if group and groups.spans_hosts(instance["spec"]):
            others = holdings.others(draft, group["uuid"], instance["uuid"])
            names = yield from hosts.names(sorted({each for at in others.values() for each in at}))
            follow = walk.move.goes_with  # only while they are where the plan has them
            stay = {
                uuid: [each for each in at if names.get(each, each) != follow.get(uuid)] for uuid, at in others.items()
            }
            holdings.check_seat(instance["spec"], stay, destination, names)
        intent = keys.intent(self.run, keys.MOVE, destination, walk.token.op)
        epoch = max(keys.epoch_of(walk.move.views["source"]), entry["epoch"])
        now = {**entry, "owner": source, "epoch": epoch, "pending": [intent]}
        yield from holdings.count(draft, now, instance["old_flavor"], instance["spec"]["flavor"])
        yield from holdings.follow(draft, instance["uuid"], entry, now)
        holdings.take_room(draft, instance, epoch)

    def stands(self, walk: Walk) -> Procedure[None]:
        """Another run may have taken this one for dead, and given back what it holds."""

        def change(draft: Draft) -> Procedure[None]:
            key = keys.instance(walk.move.uuid)
            yield from draft.read(key)
            if not _intent(walk, draft.get(key)):
                raise _other_run(walk)

        yield from transacted(change)

    def follow(self, walk: Walk) -> Procedure[None]:
        if not self.dry:
            yield from heard(functools.partial(_followed, walk=walk))


def named(views: Iterable[View]) -> Set[str]:
    """The names of the hosts that are a side of one of the moves."""
    moves = [view["migration"] for view in views if view.get("migration")]
    return {side["name"] for move in moves if move for side in (move["source"], move["destination"])}


def _instance(walk: Walk) -> Instance:
    move = cast(PlannedMove, vars(walk.move))
    spec = claimed_spec(move)
    found = {"uuid": walk.move.uuid, "name": walk.move.name, "project": spec["project_id"], "spec": spec}
    return cast(Instance, {**found, "host_uuid": str(walk.machine(DESTINATION)), "old_flavor": old_flavor(move)})


def _check_owner(walk: Walk, entry: Document, source: str, unchanged: bool) -> None:
    """Raise ClaimConflict if the source is not the owner any more, or another run has begun to move it since the plan. What was begun
    before it never came to the hosts, or has ended there: the source is at rest."""
    epoch = keys.epoch_of(walk.move.views["source"])
    owned = entry["owner"] in (None, source) if epoch == entry["epoch"] else epoch > entry["epoch"]
    if not owned or entry["pending"] and not unchanged:
        raise _other_run(walk)


def _other_run(walk: Walk) -> ClaimConflict:
    return ClaimConflict("another run has begun or ended with %s" % walk.move.name, hint=hints.another_run())


def _intent(walk: Walk, entry: Any) -> bool:
    its = (walk.machine(DESTINATION), walk.token.op)
    return any((each["host"], each["op"]) == its for each in (entry or {"pending": ()})["pending"])


def _followed(draft: Draft, walk: Walk) -> Procedure[None]:
    """By what the sides have said for certain. An older word than what the engine has changes nothing."""
    uuid, key = walk.move.uuid, keys.instance(walk.move.uuid)
    yield from draft.read(key)
    entry, sure = draft.get(key), _sure(walk)
    if not entry:
        return
    owner = next((host for host, view in sure.items() if view["role"] == OWN), None)
    if owner is None:
        gone = {host for host, view in sure.items() if view["role"] is None}
        if walk.sequence.startswith("delete") and not walk.failure and gone.issuperset(keys.hosts_of(entry)):
            keys.give_up(entry, [host for host in gone if sure[host].get("lost")])
            yield from removed_from(draft, uuid, entry, _latest(walk), built=True)
        return
    epoch = keys.epoch_of(sure[owner])
    if epoch < entry["epoch"] or epoch == entry["epoch"] and entry["owner"] not in (None, owner):
        return
    now = {**entry, "owner": owner, "epoch": epoch, "pending": _left(walk, entry, owner, sure)}
    gone = set(keys.hosts_of(entry)) - set(keys.hosts_of(now))
    keys.give_up(now, [host for host in gone if sure.get(host, {}).get("lost")])
    flavor = sure[owner]["spec"]["flavor"]
    if not now["pending"] and of_flavors(flavor).items() - entry["amounts"].items():
        yield from holdings.count(draft, now, flavor)
    if now != entry:
        yield from holdings.follow(draft, uuid, entry, now)


def _left(walk: Walk, entry: Document, owner: str, sure: Mapping[str, View]) -> List[Document]:
    """What is still pending: the other side has something of it, or may have."""
    ended = not sure[owner].get("migration")
    op = walk.token.op
    before = keys.intent(owners.RUN, keys.MOVE, entry["owner"], op)
    pending = [*entry["pending"], *([before] if entry["owner"] not in (None, owner) else [])]

    def has_ended(intent: Document) -> bool:
        host = intent["host"]
        nothing = host == owner or host in sure and sure[host]["role"] is None
        return ended and nothing and intent["op"] in (op, owners.RUN)

    def is_here(intent: Document) -> bool:
        """What was begun there is now what it owns."""
        return intent["host"] == owner and (intent["kind"] == keys.CREATE or entry["owner"] != owner)

    return [each for each in pending if not (has_ended(each) or is_here(each))]


def _sure(walk: Walk) -> Dict[str, View]:
    """Host uuid -> what it said last, of the sides that have done no more since."""
    source, destination = walk.machine(SOURCE), walk.machine(DESTINATION)
    sides = (SOURCE,) if source == destination else (DESTINATION, SOURCE)
    sure = {
        str(walk.machine(side)): walk.said[side] for side in sides if side not in walk.unsure and walk.machine(side)
    }
    if walk.last.get("ended") and destination and source != destination:
        # by the source, which has let go for good: the two hosts have ended a live migration between them
        before = walk.move.views["source"]
        sure[destination] = {**before, "role": OWN, "generation": [keys.epoch_of(before) + 1, 0], "migration": None}
    return sure


def _latest(walk: Walk) -> int:
    return max(map(keys.epoch_of, (*walk.move.views.values(), *walk.said.values())))
