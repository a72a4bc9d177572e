# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proposes where instances should be, by CP-SAT of OR-tools: the best final places in linear terms (terms.py).

Placement has the last word: what it refuses comes back as a cut, a set of moves of which at least one must not be.
"""

from __future__ import annotations

import bisect
import dataclasses
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from ..model import fleet_hints
from ..model.errors import BerthError
from ..model.request_spec import ServerGroup
from .goals import BALANCE, CONSOLIDATE, DRAIN, REPAIR, STEPS, Goal
from .state import AFFINITY, ANTI_AFFINITY, State
from .terms import Terms
from .waves import Move

try:
    from ortools.sat.python import cp_model
except ImportError:
    cp_model = None

Cut = FrozenSet[Move]


class SolverMissing(BerthError):
    """A plan of this goal needs OR-tools on the controller. Install it there as the message says. Nothing was changed."""


def is_there() -> bool:
    return cp_model is not None


def check_there(goal: str) -> None:
    if cp_model is None:
        raise SolverMissing(
            "a plan for %s needs OR-tools, which this controller does not have" % goal,
            hint=fleet_hints.install_solver(),
        )


@dataclasses.dataclass(frozen=True)
class Proposal:
    """``waves``: of moves uuid -> host, in their order, if the solver was asked for it; ``proven``: no better final places
    exist in these terms; ``value`` and ``bound`` are of what the solver could not prove: what was found, and what nothing can
    be below; ``reached``: of each aim."""

    waves: List[Dict[str, str]]
    proven: bool
    value: float
    bound: float
    reached: Tuple[int, ...] = ()


def propose(
    state: State,
    terms: Terms,
    goal: Optional[Goal],
    cuts: Sequence[Cut],
    effort: float,
    waves: int = 0,
    known: Sequence[Sequence[Move]] = (),
) -> Optional[Proposal]:
    """The best final places, or None if there are none. Without a goal any will do, and each instance of the terms gets a new one.
    ``effort``: of the solver for each of the goal's aims, about seconds; the same effort gives the same answer on every machine.
    ``waves``: only places that so many waves of moves reach, with an order in which they do; it takes the solver longer.
    ``known``: waves that are possible, from which it begins."""
    model = _Model(state, terms, goal, cuts, waves)
    model.hint(known)
    return model.solve(effort)


class _Model:
    def __init__(self, state: State, terms: Terms, goal: Optional[Goal], cuts: Sequence[Cut], waves: int) -> None:
        self.cp = cp_model.CpModel()
        self.state, self.terms, self.goal = state, terms, goal
        self.waves = range(waves)
        self.begins: Dict[Tuple[str, str, int], Any] = {}  # whether a move is made in that wave
        self.x: Dict[Move, Any] = {}
        self.stays: Dict[str, Any] = {}
        self.excess: List[Any] = []  # by how much rules stay broken, if that is to be as little as possible
        self.on: Dict[str, List[Move]] = {host: [] for host in state.hosts}
        for uuid, hosts in terms.may.items():
            self._place(uuid, hosts)
        broken = state.broken()
        for host in state.hosts:
            self._capacity(host, broken)
        for group in state.members:
            self._group(group, broken)
        for cut in cuts:
            self._cut(cut)
        self.aims = self._aims()

    # -- places

    def _place(self, uuid: str, hosts: Sequence[str]) -> None:
        own = self.state.where.get(uuid)
        for host in [*([own] if own else []), *hosts]:
            self.x[uuid, host] = self.cp.NewBoolVar("")
            self.on[host].append((uuid, host))
        if own:
            self.stays[uuid] = self.x[uuid, own]
            if self.goal is None:
                self.cp.Add(self.x[uuid, own] == 0)
        self.cp.AddExactlyOne(self.x[uuid, host] for host in [*([own] if own else []), *hosts])
        for host in hosts if self.waves else ():
            for wave in self.waves:
                self.begins[uuid, host, wave] = self.cp.NewBoolVar("")
            self.cp.Add(sum(self.begins[uuid, host, wave] for wave in self.waves) == self.x[uuid, host])

    def _during(self, wave: int, move: Move) -> Any:
        """Whether the instance counts on the host in that wave: it has come, or has not left before."""
        uuid, host = move
        if self.state.where.get(uuid) != host:
            return sum(self.begins[uuid, host, each] for each in range(wave + 1))
        return 1 - sum(self.begins[uuid, to, each] for to in self.terms.may[uuid] for each in range(wave))

    def _broken_by(self, over: int) -> Any:
        """What is broken may stay so, and must not become worse; a repair counts what stays."""
        if not over or self.goal is None or self.goal.name != REPAIR:
            return over
        self.excess.append(self.cp.NewIntVar(0, over, ""))
        return self.excess[-1]

    def _capacity(self, host: str, broken: Dict[Tuple[str, ...], int]) -> None:
        moves = self.on[host]
        for name in sorted({name for move in moves for name in self.terms.takes[move]}):
            taken = [(self.terms.takes[move].get(name, 0), self.x[move]) for move in moves]
            free = self.terms.limit[host].get(name, 0) - self.terms.fixed[host].get(name, 0)
            if sum(amount for amount, _x in taken) > free:
                over = broken.get(("over", host, name), 0)
                self.cp.Add(sum(amount * x for amount, x in taken if amount) <= free + self._broken_by(over))
                for wave in self.waves:
                    taken = [(self.terms.takes[move].get(name, 0), self._during(wave, move)) for move in moves]
                    self.cp.Add(sum(amount * x for amount, x in taken if amount) <= free + over)

    def _group(self, group: str, broken: Dict[Tuple[str, ...], int]) -> None:
        policy, members = self.state.policies[group], self.state.members[group]
        here: Dict[str, List[Move]] = {}
        held: Dict[str, int] = {}
        for uuid in sorted(members):
            own = self.state.where.get(uuid)
            if uuid not in self.terms.may and own:
                end = self.state.ends_on(uuid) if policy["policy"] == AFFINITY else own
                held[end] = held.get(end, 0) + 1
            for host in [own, *self.terms.may.get(uuid, ())]:
                if host and (uuid, host) in self.x:
                    here.setdefault(host, []).append((uuid, host))
        if policy["policy"] == ANTI_AFFINITY:
            for host, moves in here.items():
                over = broken.get(("group", group, host), 0)
                most = ServerGroup(policy).max_server_per_host - held.get(host, 0)
                self.cp.Add(sum(self.x[move] for move in moves) <= most + self._broken_by(over))
                for wave in self.waves:
                    self.cp.Add(sum(self._during(wave, move) for move in moves) <= most + over)
        elif policy["policy"] == AFFINITY and here:
            used = []
            for host in sorted({*here, *held}):
                used.append(self.cp.NewBoolVar(""))
                for move in here.get(host, ()):
                    self.cp.AddImplication(self.x[move], used[-1])
                if host in held:
                    self.cp.Add(used[-1] == 1)
                self._side_by_side(here.get(host, ()))
            self.cp.Add(sum(used) <= 1 + self._broken_by(broken.get(("group", group), 0)))

    def _side_by_side(self, moves: Sequence[Move]) -> None:
        """What goes to a host from another one goes in one wave."""
        first: Dict[Optional[str], Move] = {}
        for uuid, host in moves:
            own = self.state.where.get(uuid)
            one, _host = first.setdefault(own, (uuid, host))
            for wave in self.waves if own != host else ():
                self.cp.Add(self.begins[one, host, wave] == self.begins[uuid, host, wave])

    def _cut(self, cut: Cut) -> None:
        known = [self.x[move] for move in cut if move in self.x]
        if len(known) == len(cut):
            self.cp.AddBoolOr([variable.Not() for variable in known])

    # -- what is to be as little as possible
    def _aims(self) -> List[Any]:
        """The first before all others: the solver proves two small numbers far sooner than their weighted sum."""
        if self.goal is None:
            return []
        moved = sum(1 - stay for stay in self.stays.values())
        if self.goal.max_moves is not None:
            self.cp.Add(moved <= self.goal.max_moves)
        if self.goal.name == DRAIN:
            first = sum(stay for uuid, stay in self.stays.items() if self.state.where[uuid] in self.goal.hosts)
        elif self.goal.name == REPAIR:
            first = sum(self.excess) + sum(self.stays[uuid] for uuid in self.terms.misplaced)
        elif self.goal.name == BALANCE:
            # In one sum: fullness alone tells the solver nothing of a move that empties one of several full hosts.
            weight = len(self.stays) + 1
            aim = weight * self._fullest(self.goal.resource) + moved
            top, moves = self._least_full(
                self.goal.resource, len(self.stays) if self.goal.max_moves is None else self.goal.max_moves
            )
            self.cp.Add(aim >= weight * top + moves)
            return [aim]
        else:  # CONSOLIDATE
            first = sum(self._used(moved))
        return [first, moved]

    def _fullest(self, resource: str) -> Any:
        top = self.cp.NewIntVar(0, 100 * STEPS, "")
        for host, moves in self.on.items():
            limit = self.terms.limit[host].get(resource, 0)
            if limit > 0:
                taken = sum(self.terms.takes[move].get(resource, 0) * STEPS * self.x[move] for move in moves)
                self.cp.Add(taken + self.terms.fixed[host].get(resource, 0) * STEPS <= top * limit)
        return top

    def _least_full(self, resource: str, most: int) -> Tuple[int, int]:
        """(how full the fullest host stays at least, how many moves that takes at least), if each host gave away its largest
        instances and none took any: what reaches it is proven at once."""
        steps: List[List[int]] = []  # of each host: how full it is after so many moves
        for host, moves in self.on.items():
            limit = self.terms.limit[host].get(resource, 0)
            here = [move for move in moves if self.state.where.get(move[0]) == host]
            sizes = sorted((self.terms.takes[move].get(resource, 0) for move in here), reverse=True)
            used = self.terms.fixed[host].get(resource, 0) + sum(sizes)
            after = [used, *(used - sum(sizes[: number + 1]) for number in range(len(sizes)))]
            steps += [[-(-each * STEPS // limit) for each in after]] if limit > 0 else []

        def needed(top: int) -> int:
            return sum(next((number for number, each in enumerate(of) if each <= top), most + 1) for of in steps)

        tops = sorted({0, *(each for of in steps for each in of)})
        least = bisect.bisect_left(tops, -most, key=lambda top: -needed(top))
        return tops[least], needed(tops[least])

    def _used(self, moved: Any) -> List[Any]:
        """Whether each host is in use, if it can be empty. That all instances of those that are not have to move follows; in one
        sum it shows the solver at once how many hosts the moves can empty at most."""
        used, leaving = [], 0
        kept = {host for uuid, host in self.state.where.items() if uuid not in self.terms.may}
        for host, moves in self.on.items():
            if host not in kept and moves:
                used.append(self.cp.NewBoolVar(""))
                for move in moves:
                    self.cp.AddImplication(self.x[move], used[-1])
                leaving += sum(self.state.where.get(uuid) == host for uuid, _host in moves) * (1 - used[-1])
        self.cp.Add(leaving <= moved)
        return used

    def hint(self, waves: Sequence[Sequence[Move]]) -> None:
        made = {move: number for number, wave in enumerate(waves) for move in wave}
        moved = {uuid for uuid, _host in made}
        for (uuid, host), x in self.x.items():
            here = host == self.state.where.get(uuid) and uuid not in moved
            self.cp.AddHint(x, int(here or (uuid, host) in made))
        for (uuid, host, wave), begins in self.begins.items():
            self.cp.AddHint(begins, int(made.get((uuid, host)) == wave))

    def solve(self, effort: float) -> Optional[Proposal]:
        """Each aim in turn, and what it reached stays so while the next is sought."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1  # several would race, and the answer would not be the same each time
        # One takes turns at all ways to search: better for orders alone.
        solver.parameters.interleave_search = bool(self.waves)
        # Both come before the search: of these goals they take half of all time and more, and save nothing.
        if self.goal and self.goal.name in (BALANCE, CONSOLIDATE):
            solver.parameters.cp_model_probing_level = solver.parameters.symmetry_level = 0
        solver.parameters.random_seed = self.state.fleet.seed % (1 << 31)
        solver.parameters.max_deterministic_time = effort
        best: Optional[Proposal] = None
        for aim in self.aims or [None]:
            if aim is not None:
                self.cp.Minimize(aim)
            status = solver.Solve(self.cp)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                break
            optimal = status == cp_model.OPTIMAL
            if best is None or best.proven:
                reached = best.reached if best else ()
                best = Proposal([], optimal, solver.ObjectiveValue(), solver.BestObjectiveBound(), reached)
            reached = (*best.reached, int(solver.ObjectiveValue()))
            best = dataclasses.replace(best, waves=self._made(solver), reached=reached)
            if aim is not None:
                self._keep(solver, aim)
        return best

    def _made(self, solver: Any) -> List[Dict[str, str]]:
        made = [move for move, x in self.x.items() if solver.Value(x) and self.state.where.get(move[0]) != move[1]]
        waves: List[Dict[str, str]] = [{} for _wave in self.waves] or [{}]
        for uuid, host in made:
            wave = next((each for each in self.waves if solver.Value(self.begins[uuid, host, each])), 0)
            waves[wave][uuid] = host
        return waves

    def _keep(self, solver: Any, aim: Any) -> None:
        """What comes next may not be worse in this, and begins from here."""
        self.cp.Add(aim <= int(solver.ObjectiveValue()))
        self.cp.ClearHints()
        for variable in (*self.x.values(), *self.begins.values()):
            self.cp.AddHint(variable, solver.Value(variable))
