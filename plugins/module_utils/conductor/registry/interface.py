# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a create, a delete, a move and a change have to decide over several hosts, and who decides it: the hosts themselves
(embedded.py), or an engine beside them (engine.py, moves.py, changes.py, adopts.py). The record and the lock of a host stay what
lets a guest run there.

Its methods are procedures, so that whatever carries one out, a playbook or a test, carries out all of them.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, Iterable, Mapping, Optional, Protocol, Tuple

from ...model.errors import BerthError
from ...model.messages import Document
from ..plan import Plan
from ..planned_move import Walk
from ..procedures.steps import Ask, Procedure


class Registry(Protocol):
    """What two runs both want, one of them gets. What spans hosts is taken as a whole or not at all: name, quota, addresses,
    seats of groups, volumes, room."""

    def reserve(self, plan: Plan, new_token: Callable[[], str]) -> Procedure[None]:
        """Claim for the instances of plan["claims"], and say in plan["build"] whose claims stand. Another host is chosen for, or
        an error given to, each of the others."""

    def owned(self, plan: Plan) -> Procedure[None]:
        """After the builds: who owns what was built."""

    def release(self, plan: Plan) -> Procedure[None]:
        """At the end: what this run claimed and did not use goes, and failures are recorded."""


class Removes(Protocol):
    """What a delete tells of the instances that are gone."""

    def removed(self, gone: Iterable[Mapping[str, Any]], hosts: Iterable[str]) -> Procedure[None]:
        """``gone``: what was to be done with each, see what_to_operate.where(), nothing if it was gone; ``hosts``: all that the run
        has asked."""


class Moves(Protocol):
    """What a move decides and tells beside its two hosts, whose records say how far it is."""

    def begin_move(self, walk: Walk) -> Procedure[None]:
        """Before the first leg: take what the move needs. Raises a BerthError if it may not begin; no host was asked then."""

    def judges(self, walk: Walk) -> bool:
        """Whether the claim on the destination is to be judged."""

    def stands(self, walk: Walk) -> Procedure[None]:
        """After that claim: raise a BerthError if it does not stand."""

    def follow(self, walk: Walk) -> Procedure[None]:
        """After the legs, whatever came of them: who owns the instance, and what it holds."""


class Takes(Protocol):
    """What an operation at the host of an instance takes that others may want, too: a name, addresses, volumes, a seat in a group, a
    share of the quota. ``tasks``: by name, as procedures/locate.py finds them."""

    def begin(self, tasks: Mapping[str, Any]) -> Procedure[Dict[str, BerthError]]:
        """Before any host is asked: take it beside what they have. Return why some do not get it, of whom no host is asked. An
        address of a pool that is taken is chosen again, also in the task."""

    def end(self, tasks: Mapping[str, Any]) -> Procedure[None]:
        """Keep what the hosts show by now; all else that they held goes."""


class Changes(Takes, Protocol):
    """The same of an instance that another run may change, too."""

    def stand(self, tasks: Mapping[str, Any]) -> Procedure[Dict[str, BerthError]]:
        """Once the hosts have claimed it, before it is used. Return why some do not have it any more."""


class Leaves(Protocol):
    """What a host that leaves the fleet leaves."""

    def leave(self, host: str, machine: Optional[str], answering: Collection[str]) -> Procedure[bool]:
        """Return whether it was there. Nothing is placed there from now on, and it can come back as a new host. ``machine``: its
        uuid; None where it is lost, and all leave that have its name and are not ``answering``. Raises HostInUse while an instance
        is there, or may come."""


def claim(plan: Plan, hosts: Iterable[str], *parts: str) -> Procedure[Mapping[str, Any]]:
    """Ask those of the hosts that have a part in the claims, withdrawals or faults of the plan. ``parts``: which of these."""
    asked = [host for host in hosts if any(host in _part(plan, part) for part in parts)]
    return (yield Ask("claim", {host: _of_host(plan, host, parts) for host in asked}))


def _of_host(plan: Plan, host: str, parts: Tuple[str, ...]) -> Document:
    names = {"faults": "failed"}
    return {names.get(part, part): _part(plan, part)[host] for part in parts if host in _part(plan, part)}


def _part(plan: Plan, part: str) -> Dict[str, Any]:
    found: Dict[str, Any] = plan[part]  # type: ignore[literal-required]
    return found
