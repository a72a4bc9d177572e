# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions about a fleet that need no plan: how much more fits, whether it survives hosts that fail, which
instance may go where, and how it would be with more hosts."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from ..model.errors import BerthError
from ..model.host_state import HostState
from ..model.messages import Document
from ..placement.changes.would_fit import leave
from ..placement.request import flavor_snapshot
from . import one_by_one, propose
from .state import AFFINITY, Fleet, State, refusal
from .terms import Empty, Terms, terms
from .waves import enter_together, ordered

NEW = "one more"


@dataclasses.dataclass(frozen=True)
class Capacity:
    """``count``: how many more of the request fit; ``of_host``: host -> how many of them, were they the only ones there;
    ``limited``: host -> why not one more."""

    count: int
    of_host: Dict[str, int]
    limited: Dict[str, str]


def one_more(flavor: Document) -> Document:
    """The request of an instance of which nothing but its flavor matters."""
    name = "%s %s" % (NEW, flavor["name"])
    return {"uuid": name, "name": name, "flavor": flavor_snapshot(flavor), "image": {}, "group": None}


def of_flavors(
    fleet: Fleet, flavors: Iterable[Document], kept_free: int = 0, gone: Sequence[str] = (), most: float = math.inf
) -> Dict[str, Capacity]:
    """flavor -> how many more of it fit, were they the only ones."""
    found = {}
    for flavor in flavors:
        try:
            found[flavor["name"]] = capacity(fleet, one_more(flavor), kept_free, gone, most)
        except BerthError as error:  # of a flavor that no instance can have
            found[flavor["name"]] = Capacity(0, dict.fromkeys(fleet.documents, 0), {"every host": str(error)})
    return found


def capacity(
    fleet: Fleet, request: Document, kept_free: int = 0, gone: Sequence[str] = (), most: float = math.inf
) -> Capacity:
    """How many more instances of ``request`` fit. ``kept_free``: so many hosts, those that could take most, stay free. ``gone``:
    hosts that are not there any more, whose instances the others have taken first. ``most``: of each host no more are counted."""
    state, found = State(fleet, gone), Capacity(0, {}, {})
    if gone:
        one_by_one.placed(state, Empty(fleet), _of(fleet, gone), list(state.hosts))
    group = request.get("group")
    key = (group.get("uuid") or group["name"]) if group else ""
    where = {state.where[uuid] for uuid in state.members.get(key, ()) if uuid in state.where}
    if group and group["policy"] == AFFINITY and len(where) > 1:
        why = "server group %s has to be on one host, and is on %s" % (group["name"], ", ".join(sorted(where)))
        return Capacity(0, dict.fromkeys(state.hosts, 0), dict.fromkeys(state.hosts, why))
    members = set(state.members.get(key, ()))
    for host in state.hosts:
        number, why = _more_on(state, host, request, members, where, most)
        found.of_host[host], found.limited[host] = number, why
    counts = sorted(found.of_host.values())[: len(found.of_host) - kept_free]
    together = max(counts, default=0) if group and group["policy"] == AFFINITY else sum(counts)
    return dataclasses.replace(found, count=together)


def _more_on(
    state: State, host: str, request: Document, members: set[str], where: set[str], most: float
) -> Tuple[int, str]:
    """(how many more fit on the host, why not one more). The host counts them afterwards."""
    here, number, members, where = state.hosts[host], 0, set(members), set(where)
    while number < most:
        uuid = "%s %d" % (NEW, number)
        spec = state.scheduler.spec({**request, "uuid": uuid, "instance_uuids": [uuid]})
        if spec.instance_group:
            members.add(uuid)
            spec.instance_group.members, spec.instance_group.hosts = set(members), set(where)
        answer, _before = state.scheduler.choose([here], spec)
        if answer.error is not None:
            return number, refusal(answer)
        where.add(host)
        here.num_io_ops -= 1
        number += 1
    return number, ""


class Survival(NamedTuple):
    """``hosts``: hosts that may not fail together, () if the fleet survives; ``names``: their instances without a place;
    ``proven``: whether that is certain."""

    hosts: Sequence[str]
    names: Sequence[str]
    proven: bool


def _of(fleet: Fleet, hosts: Collection[str]) -> List[str]:
    return [uuid for uuid, instance in fleet.instances.items() if instance.host in hosts]


def survive(fleet: Fleet, failures: int, effort: float = 5.0, away: Sequence[str] = ()) -> Survival:
    """Whether the instances of any ``failures`` hosts that fail at once, and those of the hosts ``away``, find a place on the
    others, which keep theirs."""
    empty = Empty(fleet)
    left = sorted(set(fleet.documents) - set(away))
    for more in itertools.combinations(left, min(failures, len(left))):
        gone = (*away, *more)
        lost = _of(fleet, gone)
        if lost:
            without, proven = _without_place(fleet, empty, gone, lost, effort)
            if without:
                return Survival(gone, sorted(fleet.instances[uuid].name for uuid in without), proven)
    return Survival((), (), True)


def without_place(fleet: Fleet, gone: Sequence[str]) -> List[str]:
    """The names of the instances of hosts that are gone which find no place on the others."""
    found, _proven = _without_place(fleet, Empty(fleet), gone, _of(fleet, gone), 5.0)
    return sorted(fleet.instances[uuid].name for uuid in found)


def _without_place(
    fleet: Fleet, empty: Empty, gone: Sequence[str], lost: List[str], effort: float
) -> Tuple[List[str], bool]:
    """(the instances that find no place, whether that is certain)."""
    state = State(fleet, gone)
    placed = one_by_one.placed(state, empty, lost, list(state.hosts))
    if not placed.refused or not propose.is_there():
        return list(placed.refused), False
    known = _terms(fleet, empty, State(fleet, gone), lost)
    if not all(known.may.values()):
        return [uuid for uuid, hosts in known.may.items() if not hosts], True
    cuts: List[propose.Cut] = []
    for _round in range(25):
        proposal = propose.propose(State(fleet, gone), known, None, cuts, effort)
        if proposal is None:
            return list(placed.refused), True
        done = ordered(State(fleet, gone), proposal.waves)
        if not done.refused:
            return [], True
        cuts.append(frozenset((uuid, proposal.waves[0][uuid]) for uuid in done.refused))
    return list(placed.refused), False


def _terms(fleet: Fleet, empty: Empty, state: State, lost: Sequence[str]) -> Terms:
    found = terms(fleet, empty, (), ())
    for uuid in lost:
        found.allow(empty, uuid, state.hosts)
    return found


def with_more(fleet: Fleet, like: Sequence[str]) -> Fleet:
    """The fleet with one more host like each of ``like``, empty and open, in the same aggregates."""
    documents, aggregates = dict[str, Any](fleet.documents), [dict(each) for each in fleet.aggregates]
    for number, model in enumerate(like, 1):
        document, name = fleet.documents[model], "%s again, %d" % (model, number)
        service = {**(document.get("service") or {}), "disabled": False}
        made = HostState.from_document({**document, "host": name, "node": name, "uuid": name, "service": service})
        for instance in list(made.instances.values()):
            leave(made, instance)
        documents[name] = made
        for each in aggregates:
            each["hosts"] = [*each["hosts"], *([name] if model in each["hosts"] else [])]
    return dataclasses.replace(fleet, documents=documents, aggregates=aggregates)


class Movable(NamedTuple):
    """``how``: live, cold, or no; ``to``: the hosts that would take it; ``reasons``: why not -> the hosts of which that is so."""

    name: str
    host: str
    how: str
    to: List[str]
    reasons: Dict[str, List[str]]


def movability(live: Fleet, cold: Fleet) -> List[Movable]:
    """Which instance may go to which host now, how, and why not to the others. ``cold``: the same fleet with what runs
    stopped for its move. Members of an affinity group go with the others."""
    state, found = State(cold), []
    together: Dict[Tuple[str, str], List[str]] = {}
    for uuid, each in sorted(cold.instances.items()):
        if each.goes_with and not each.fixed:
            together.setdefault((each.goes_with, each.host), []).append(uuid)
    for uuid, instance in sorted(live.instances.items(), key=lambda entry: entry[1].name):
        others = together.get((instance.goes_with, instance.host), ()) if instance.goes_with else ()
        unit = [uuid, *(other for other in others if other != uuid)]
        lives = all(live.instances[each].fixed is None for each in unit)
        moves = (live if lives else cold).instances[uuid]
        to: List[str] = []
        reasons: Dict[str, List[str]] = {}
        for host in sorted(set(state.hosts) - {instance.host}):
            why = moves.fixed or enter_together(state, [(each, host) for each in unit])
            if why:
                reasons.setdefault(why, []).append(host)
            else:
                state.withdraw(unit)
                to.append(host)
        found.append(Movable(instance.name, instance.host, moves.how if to else "no", to, reasons))
    return found
