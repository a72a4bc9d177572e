# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a plan: searches the moves that reach a goal best, in waves, and says why what stays does.

CP-SAT proposes final places, placement carries them out on a copy of the fleet. What it refuses goes back as a cut. A drain
is first placed one after the other, as every other instance is: where all find a place, no plan has fewer moves.
"""

from __future__ import annotations

import dataclasses
from typing import Collection, Dict, List, NamedTuple, Tuple

from . import goals, one_by_one, propose
from .check import PlanNotLegal, check
from .goals import BALANCE, CONSOLIDATE, DRAIN, OF_HOSTS, REPAIR, RETURN, Goal
from .state import Fleet, State
from .terms import Empty, Terms, terms
from .waves import Move, Ordered, after, ordered

FIRST_ROUNDS = 3  # in which the solver looks at the places alone, and an order is found afterwards if there is one
MOST_ROUNDS = 12  # how often the solver is asked again after placement has refused what it proposed
MOST_PAIRS = 30000  # of an instance and a host that it may go to: what the solver is given of a large fleet
MOST_WAVES = 4  # in which places are searched that have an order, if the first ones that were found have none
MOST_WAVES_TO = 8  # in which an order is searched to places that were found, or of the few that move to them
EFFORT = 10.0  # of the solver for each aim of one plan, about seconds

_NOT_PROVEN = "not proven: placement refused %d of the solver's proposals"

Score = Tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Plan:
    """``waves``: [[(uuid, host)]]; ``stays``: uuid -> why it does not leave, of what was to leave; ``proven``: no plan is
    better; ``proof``: in words; ``before``, ``after``: the score of the goal."""

    goal: Goal
    waves: List[List[Move]]
    stays: Dict[str, str]
    proven: bool
    proof: str
    before: Score
    after: Score

    @property
    def moves(self) -> List[Move]:
        return [move for wave in self.waves for move in wave]


class _Found(NamedTuple):
    ordered: Ordered
    score: Score


class _Reach(NamedTuple):
    """What the solver is given: ``complete`` if that is all that may move."""

    movers: List[str]
    targets: List[str]
    complete: bool


def make(fleet: Fleet, goal: Goal, effort: float = EFFORT) -> Plan:
    """Raises SolverMissing for a goal other than drain and return where OR-tools is not there."""
    if goal.name not in OF_HOSTS:
        propose.check_there(goal.name)
    empty = Empty(fleet)
    begin = goals.score(goal, State(fleet), 0, empty)
    nothing = _Found(Ordered([], {}), begin)
    if goal.name == REPAIR and not begin[0]:
        return _plan(fleet, goal, empty, begin, nothing, True, "no rule is broken")
    if goal.name == RETURN:
        state = State(fleet)
        done = ordered(state, [_may_return(goal, state)])
        found = _Found(done, goals.score(goal, state, len(done.moves), empty))
        return _plan(fleet, goal, empty, begin, found, not done.refused, "each goes where it was")
    if goal.name == DRAIN:
        found = _drained(fleet, goal, empty)
        leaving = len(goals.left(goal, State(fleet)))
        if found.score == (0, leaving):
            return _plan(
                fleet,
                goal,
                empty,
                begin,
                found,
                True,
                "no plan has fewer moves" if leaving else "there is nothing to move",
            )
        if not propose.is_there():
            why = "placed one after the other: OR-tools, which would search further, is not on this controller"
            return _plan(fleet, goal, empty, begin, found, False, why)
        nothing = min(nothing, found, key=lambda each: each.score)
    found, proven, proof = _searched(fleet, goal, empty, nothing, effort)
    gain = begin[0] - found.score[0]
    if not goal.is_worth(gain):
        found = nothing
        proof = "nothing to gain: the fullest host would be less full by %.1f %% of what it can hold (%s)" % (
            100 * gain,
            proof,
        )
    return _plan(fleet, goal, empty, begin, found, proven, proof)


def _plan(fleet: Fleet, goal: Goal, empty: Empty, begin: Score, found: _Found, proven: bool, proof: str) -> Plan:
    stays = _stays(fleet, goal, found.ordered) if goal.name in OF_HOSTS else {}
    return Plan(goal, found.ordered.waves, stays, proven, proof, begin, found.score)


def _may_return(goal: Goal, state: State) -> Dict[str, str]:
    away = goals.away(goal, state.fleet, state.where)
    return {uuid: home for uuid, home in away.items() if state.fleet.instances[uuid].fixed is None}


def _drained(fleet: Fleet, goal: Goal, empty: Empty) -> _Found:
    state = State(fleet)
    targets = [host for host in state.hosts if host not in goal.closed]
    done = one_by_one.placed(state, empty, list(goals.left(goal, state)), targets)
    return _Found(done, goals.score(goal, state, len(done.moves), empty))


def _searched(fleet: Fleet, goal: Goal, empty: Empty, best: _Found, effort: float) -> Tuple[_Found, bool, str]:
    """(the best that was found, whether it is proven, the proof in words)."""
    reach = _reach(fleet, goal, empty)
    state = State(fleet)
    if reach.complete and not _one_moves(state, reach):
        return best, True, "proven: no instance can move first, as no host takes any of those that may move"
    known = terms(fleet, empty, reach.movers, reach.targets, goal.closed)
    cuts: List[propose.Cut] = []
    few = set(goals.left(goal, state))  # what leaves, and what moves in the best places
    waves, reached = 0, None
    for number in range(MOST_ROUNDS):
        known_waves = best.ordered.waves if len(best.ordered.waves) <= waves else []
        proposal = propose.propose(state, known, goal, cuts, effort / (2 if waves else 3), waves, known_waves)
        if proposal is None:
            break
        reached = reached or proposal.reached
        few.update(*proposal.waves)
        tried = State(fleet)
        done = ordered(tried, proposal.waves)
        if done.refused and not waves:
            tried, done = _in_another_order(fleet, known, proposal, tried, done, effort / 10)
        if not done.refused or _is_legal(fleet, goal, done):
            found = _Found(done, goals.score(goal, tried, len(done.moves), empty))
            best = min(best, found, key=lambda each: each.score)
        if not done.refused and (waves or proposal.reached == reached):
            proven = proposal.proven and reach.complete and not (waves and cuts)
            return best, proven, _proof(proposal, reach, waves, len(cuts))
        if not waves and (number + 1 == FIRST_ROUNDS or not done.refused):
            waves, cuts = MOST_WAVES, []  # those were about an order, which the solver looks at from now on
            best = _of_few(fleet, goal, empty, known, few, best, effort / 4)
            continue
        moves = {uuid: host for wave in proposal.waves for uuid, host in wave.items()}
        cuts.append(frozenset((uuid, moves[uuid]) for uuid in done.refused))
    return best, False, _NOT_PROVEN % len(cuts)


def _of_few(
    fleet: Fleet, goal: Goal, empty: Empty, known: Terms, few: Collection[str], best: _Found, effort: float
) -> _Found:
    """The best if none but ``few`` move: the solver finds far more waves of these than of all."""
    begin, tried = State(fleet), State(fleet)
    only = known.only({uuid: known.may[uuid] for uuid in sorted(few) if uuid in known.may}, begin.where)
    proposal = propose.propose(begin, only, goal, (), effort, MOST_WAVES_TO, best.ordered.waves)
    if proposal is None:
        return best
    done = ordered(tried, proposal.waves)
    if done.refused and not _is_legal(fleet, goal, done):
        return best
    return min(best, _Found(done, goals.score(goal, tried, len(done.moves), empty)), key=lambda each: each.score)


def _is_legal(fleet: Fleet, goal: Goal, done: Ordered) -> bool:
    """Whether what was carried out may be without what was refused: a part of a broken affinity group may wait for the rest."""
    try:
        check(fleet, done.waves, goal.closed)
    except PlanNotLegal:
        return False
    return True


def _one_moves(state: State, reach: _Reach) -> bool:
    """Whether a plan has anything to begin with: the first instance to enter a host counts on both, whatever comes after it."""
    for uuid in reach.movers:
        group = state.fleet.instances[uuid].goes_with
        host, _why = state.enter(uuid, reach.targets, state.members[group] if group else ())
        if host is not None:
            state.withdraw([uuid])
            return True
    return False


def _in_another_order(
    fleet: Fleet, known: Terms, proposal: propose.Proposal, tried: State, done: Ordered, effort: float
) -> Tuple[State, Ordered]:
    """The largest first was not possible: ask the solver for an order to the same places."""
    begin = State(fleet)
    to = {uuid: [host] for uuid, host in proposal.waves[0].items()}
    found = propose.propose(begin, known.only(to, begin.where), None, (), effort, MOST_WAVES_TO)
    if found is None:
        return tried, done
    state = State(fleet)
    return state, ordered(state, found.waves)


def _proof(proposal: propose.Proposal, reach: _Reach, waves: int, cuts: int) -> str:
    if waves and cuts:
        return _NOT_PROVEN % cuts
    if proposal.proven and reach.complete:
        return "proven optimal" + (
            " of all plans with at most %d waves and one move of each instance" % waves if waves else ""
        )
    if proposal.proven:
        return "the best of %d instances and %d hosts, which are not all" % (len(reach.movers), len(reach.targets))
    gap = 100 * (proposal.value - proposal.bound) / max(abs(proposal.value), 1)
    return "not proven: the best may be up to %.1f %% better" % gap


# -- what the solver is given
def _reach(fleet: Fleet, goal: Goal, empty: Empty) -> _Reach:
    state = State(fleet)
    movers = [uuid for uuid in state.where if fleet.instances[uuid].fixed is None]
    targets = [host for host in state.hosts if host not in goal.closed]
    if len(movers) * len(targets) <= MOST_PAIRS:
        return _Reach(movers, targets, True)
    source_hosts = _sources(state, goal, empty)
    sources = [uuid for host in source_hosts for uuid in movers if state.where[uuid] == host]
    roomy = sorted(targets, key=lambda host: -state.hosts[host].free_ram_mb)
    movers = sources[: MOST_PAIRS // 20]
    return _Reach(movers, roomy[: max(20, MOST_PAIRS // max(1, len(movers)))], False)


def _sources(state: State, goal: Goal, empty: Empty) -> List[str]:
    """The hosts whose instances matter most, in this order."""
    most = goal.max_moves or len(state.hosts)
    if goal.name == DRAIN:
        return sorted(goal.hosts)
    if goal.name == BALANCE:
        full = goals.fullness(state, goal.resource)
        return sorted(full, key=lambda host: -full[host])[:most]
    if goal.name == CONSOLIDATE:
        count = {host: 0 for host in state.hosts}
        for host in state.where.values():
            count[host] += 1
        return sorted((host for host in count if count[host]), key=lambda host: count[host])[:most]
    hosts = {state.where[uuid] for uuid in goals.misplaced(state, empty)}
    for kind, of, *where in state.broken():
        if kind == "over":
            hosts.add(of)
        else:
            hosts.update(where, (state.where[uuid] for uuid in state.members[of] if uuid in state.where))
    return sorted(hosts)


# -- why what stays does
def _stays(fleet: Fleet, goal: Goal, done: Ordered) -> Dict[str, str]:
    state, moved = after(fleet, done.waves), {uuid for uuid, _host in done.moves}
    moved |= set(goals.begun(goal, fleet))
    away = goals.away(goal, fleet, state.where) if goal.name == RETURN else {}
    found = {}
    for uuid, host in sorted(state.where.items()):
        if uuid not in moved and (host in goal.closed or uuid in away):
            targets = [away[uuid]] if away else [host for host in state.hosts if host not in goal.closed]
            fixed = fleet.instances[uuid].fixed if targets else "no host is left for it"
            found[uuid] = fixed or state.enter(uuid, targets)[1] or "its place is needed by what leaves with it"
            if uuid in state.going:
                state.withdraw([uuid])
    return found
