# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as a document that people read, review and carry out later, and what has changed since it was made.

{berth_plan: 1, goal, proof, waves: [[{instance, uuid, from, to, how, memory_mb (MiB), disk_gb (GiB), seconds, why}]], stays, hosts, state:
{hash, hosts: {host: {open, room: {resource class: limit}, instances: {uuid: name}}}}}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from typing import Any, Dict, List, Mapping, Set

from ..model import fleet_hints, shape
from ..model.errors import BerthError, InvalidInput
from ..model.messages import Document
from . import goals
from .goals import GOALS, Goal
from .make_plan import Plan
from .state import Fleet, State, limits
from .waves import Move, after

SCHEMA = 1
RULE = "the file that berth.kvm.plan has written"
MOST = 100000
SHOWN = 10


class PlanStale(BerthError):
    """The fleet is no longer as it was when the plan was made, so nothing of the plan runs. Make a new plan."""


@dataclasses.dataclass(frozen=True)
class Written:
    """A plan that was read again. ``state``: host -> {open, room, instances} when it was made."""

    goal: Goal
    waves: List[List[Move]]
    moves: Dict[str, Document]
    state: Dict[str, Document]


def to_document(fleet: Fleet, plan: Plan) -> Document:
    begin, end = State(fleet), after(fleet, plan.waves)
    state = state_of(fleet)
    why = _Why(plan.goal, begin, end)
    goes_on = list(goals.begun(plan.goal, fleet).items())
    return {
        "berth_plan": SCHEMA,
        "goal": _goal(plan.goal),
        "proof": plan.proof,
        "waves": [[_move(fleet, begin, why, *move) for move in wave] for wave in [goes_on, *plan.waves] if wave],
        "stays": {fleet.instances[uuid].name: reason for uuid, reason in plan.stays.items()},
        "hosts": _table(begin, end),
        "state": {"hash": digest(state), "hosts": state},
    }


def _goal(goal: Goal) -> Document:
    of_goal: Dict[str, Document] = {
        **dict.fromkeys(goals.OF_HOSTS, {"hosts": sorted(goal.hosts)}),
        goals.BALANCE: {"resource": goal.resource, "max_moves": goal.max_moves, "least_gain": goal.least_gain},
        goals.CONSOLIDATE: {"max_moves": goal.max_moves},
    }
    return {"name": goal.name, **of_goal.get(goal.name, {})}


def _move(fleet: Fleet, state: State, why: "_Why", uuid: str, host: str) -> Document:
    instance = fleet.instances[uuid]
    amounts = state.amounts(uuid, host)
    return {
        "instance": instance.name,
        "uuid": uuid,
        "from": state.where[uuid],
        "to": host,
        "how": instance.how,
        "memory_mb": instance.request["flavor"]["memory_mb"],
        "disk_gb": sum(amount for name, amount in amounts.items() if name.split(":")[0] == "DISK_GB"),
        "why": why.of(uuid),
    }


class _Why:
    """Why an instance moves, in a few words."""

    def __init__(self, goal: Goal, begin: State, end: State) -> None:
        self.goal, self.begin = goal, begin
        self.broken, self.used = begin.broken(), set(end.where.values())

    def of(self, uuid: str) -> str:
        host, group = self.begin.where[uuid], self.begin.fleet.instances[uuid].group
        if host in self.goal.closed:
            return "leaves %s" % host
        if self.goal.name == goals.RETURN:
            return "comes home"
        if self.goal.name == goals.BALANCE:
            return "makes %s less full" % host
        if self.goal.name == goals.CONSOLIDATE and host not in self.used:
            return "leaves %s empty" % host
        if self.goal.name == goals.REPAIR:
            if group and any(what[:2] == ("group", group) for what in self.broken):
                return "its server group is broken"
            if any(what[:2] == ("over", host) for what in self.broken):
                return "%s is over its limit" % host
        return "makes room on %s" % host


def _table(begin: State, end: State) -> Dict[str, str]:
    """host -> how full it is before and after, of the hosts that change."""
    words: Dict[str, List[str]] = {}
    for name, resource in (("memory", "MEMORY_MB"), ("vCPUs", "VCPU")):
        was, becomes = (goals.fullness(state, resource) for state in (begin, end))
        for host in begin.hosts:
            if was[host] != becomes[host]:
                text = "%s %.0f %% -> %.0f %%" % (name, 100 * was[host], 100 * becomes[host])
                words.setdefault(host, []).append(text)
    return {host: ", ".join(words[host]) for host in begin.hosts if host in words}


# -- the state that a plan was made for
def state_of(fleet: Fleet) -> Dict[str, Document]:
    state = State(fleet)
    found: Dict[str, Document] = {
        host: {"open": not each.service.get("disabled"), "room": dict(sorted(limits(each).items())), "instances": {}}
        for host, each in sorted(state.hosts.items())
    }
    for uuid, host in sorted(state.where.items()):
        found[host]["instances"][uuid] = fleet.instances[uuid].name
    return found


def digest(state: Mapping[str, Document]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]


def changes(written: Written, fleet: Fleet) -> List[str]:
    """What is no longer as it was, a line each; not what the plan has moved already, and not that a host was closed that
    it empties."""
    now, said = state_of(fleet), []
    for host in sorted({*written.state, *now}):
        if host not in now or host not in written.state:
            said.append("%s %s" % (host, "does not answer" if host not in now else "is new"))
            continue
        was, its = written.state[host], now[host]
        if was["open"] != its["open"] and host not in written.goal.hosts:
            said.append("%s is %s now" % (host, "open" if its["open"] else "closed"))
        said += [
            "%s has %g %s now, not %g" % (host, its["room"].get(name, 0), name, was["room"].get(name, 0))
            for name in sorted({*was["room"], *its["room"]})
            if was["room"].get(name, 0) != its["room"].get(name, 0)
        ]
    return said + _moved(written, now)


def _moved(written: Written, now: Mapping[str, Document]) -> List[str]:
    was = {uuid: (host, name) for host, its in written.state.items() for uuid, name in its["instances"].items()}
    here = {uuid: (host, name) for host, its in now.items() for uuid, name in its["instances"].items()}
    said = []
    for uuid in sorted({*was, *here}, key=lambda each: (here.get(each) or was[each])[1]):
        (old, name), (new, called) = was.get(uuid, ("", "")), here.get(uuid, ("", ""))
        if not old or not new:
            said.append("%s is new on %s" % (here[uuid][1], new) if new else "%s is gone" % name)
        elif old != new and written.moves.get(uuid, {}).get("to") != new:
            said.append("%s is on %s now, not on %s" % (name, new, old))
        elif name != called:
            said.append("%s is called %s now" % (name, called))
    return said


def begun(written: Written, fleet: Fleet) -> List[Move]:
    """The moves that an earlier run has begun and not ended."""
    return [
        (uuid, host)
        for wave in written.waves
        for uuid, host in wave
        if uuid in fleet.instances and fleet.instances[uuid].going == host
    ]


def left(written: Written, fleet: Fleet) -> List[List[Move]]:
    """The waves without what has moved already, or has begun to. Raises PlanStale."""
    changed = changes(written, fleet)
    if changed:
        more = ["and %d more" % (len(changed) - SHOWN)] if len(changed) > SHOWN else []
        raise PlanStale(
            "since the plan was made: %s" % "; ".join(changed[:SHOWN] + more),
            hint=fleet_hints.plan_again(),
        )
    rest = [
        [(uuid, host) for uuid, host in wave if host not in (fleet.instances[uuid].host, fleet.instances[uuid].going)]
        for wave in written.waves
    ]
    return [wave for wave in rest if wave]


# -- reading
_NAME = shape.text(255)
_MOVE = shape.object_of(
    {
        "instance": _NAME, "uuid": _NAME, "from": _NAME, "to": _NAME, "how": shape.choice("live", "cold"),
        "memory_mb": shape.whole(0), "disk_gb": shape.whole(0), "seconds": shape.or_null(shape.whole(0)), "why": shape.cleaned(),
    },
    optional=("seconds",),
)  # fmt: skip
_HOST = shape.object_of(
    {
        "open": shape.flag,
        "room": shape.map_of(_NAME, shape.number(-1e15, 1e15), 1000),
        "instances": shape.map_of(_NAME, _NAME, MOST),
    }
)
_GOAL = shape.object_of(
    {
        "name": shape.choice(*GOALS), "hosts": shape.list_of(_NAME, MOST), "resource": _NAME,
        "max_moves": shape.or_null(shape.whole(0, MOST)), "least_gain": shape.number(0, 1),
    },
    optional=("hosts", "resource", "max_moves", "least_gain"),
)  # fmt: skip
_PLAN = shape.object_of(
    {
        "berth_plan": shape.whole(SCHEMA, SCHEMA),
        "goal": _GOAL,
        "proof": shape.cleaned(),
        "waves": shape.list_of(shape.list_of(_MOVE, MOST), MOST),
        "stays": shape.map_of(_NAME, shape.cleaned(), MOST),
        "hosts": shape.map_of(_NAME, shape.cleaned(), MOST),
        "state": shape.object_of({"hash": _NAME, "hosts": shape.map_of(_NAME, _HOST, MOST)}),
    }
)


def read(document: Any, path: str) -> Written:
    """Raises InvalidInput about the field of the file that is wrong."""
    if not isinstance(document, dict) or "berth_plan" not in document:
        raise InvalidInput("berth_plan", path, RULE)
    try:
        plan = _PLAN(document)
    except shape.Fault as fault:
        value = None if fault.value is None else shape.show(fault.value)
        raise InvalidInput("berth_plan %s: %s" % (path, fault.field()), value, fault.rule) from None
    if plan["state"]["hash"] != digest(plan["state"]["hosts"]):
        raise InvalidInput(
            "berth_plan %s: state.hash" % path, plan["state"]["hash"], "that of the state below it: make a new plan"
        )
    goal = plan["goal"]
    moves = [move for wave in plan["waves"] for move in wave]
    twice = _twice([move["uuid"] for move in moves])
    if twice:
        raise InvalidInput("berth_plan %s: waves" % path, sorted(twice), "each instance once")
    _check_shown(moves, plan["state"]["hosts"], path)
    return Written(
        Goal(goal["name"], frozenset(goal.get("hosts", ())), goal.get("max_moves")),
        [[(move["uuid"], move["to"]) for move in wave] for wave in plan["waves"]],
        {move["uuid"]: move for move in moves},
        plan["state"]["hosts"],
    )


def _check_shown(moves: List[Document], state: Mapping[str, Document], path: str) -> None:
    """What people review is the name and the host of each instance; what moves has that uuid."""
    for move in moves:
        name = state.get(move["from"], {"instances": {}})["instances"].get(move["uuid"])
        if name != move["instance"]:
            said = "%s (%s) on %s" % (move["instance"], move["uuid"], move["from"])
            raise InvalidInput(
                "berth_plan %s: waves" % path, said, "an instance as state.hosts has it: make a new plan"
            )


def _twice(uuids: List[str]) -> Set[str]:
    return {uuid for uuid, times in Counter(uuids).items() if times > 1}
