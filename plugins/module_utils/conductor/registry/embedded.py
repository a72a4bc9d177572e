# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry that needs nothing beside the hosts: each remembers what the others own (notes.py, gossip.py). All hosts are read
again after the claims, so that of two runs at least one sees the other; commit.py decides then. At the end every host hears
who owns what."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, cast

from ...model.lifecycle import CLAIM, CLAIMED, OWN
from ...model.messages import ScannedRecord
from ...model.quota import Amounts
from .. import commit_move
from ..commit import Scan, commit
from ..gossip import Gossip
from ..moving import PlannedMove
from ..plan import Instance, Plan, host_of, withdraw
from ..planned_move import Walk
from ..procedures.steps import Ask, Procedure
from ..quotas import OverQuota
from .interface import claim


@dataclasses.dataclass(frozen=True)
class Embedded:
    """``digests``: host -> the digests of what it remembers of the others; ``lost``: the hosts that are gone for good."""

    digests: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lost: Collection[str] = ()
    over_quota: Optional[OverQuota] = None

    def reserve(self, plan: Plan, _new_token: Callable[[], str]) -> Procedure[None]:
        claims = yield from claim(plan, plan["hosts"], "claims", "withdraw")
        about, gossip = plan["rescan"]["about"], Gossip(plan["rescan"]["told"])
        told = {host: {"about": about, "told": gossip.to(self.digests.get(host))} for host in plan["reachable"]}
        scans = yield Ask("rescan", told)
        commit(plan, claims, scans, self.lost, self.over_quota)

    def owned(self, plan: Plan) -> Procedure[None]:
        """The records say it; all hosts hear it at the end."""
        yield from ()

    def removed(self, gone: Iterable[Mapping[str, Any]], hosts: Iterable[str]) -> Procedure[None]:
        """All hosts forget who owned it."""
        known: Dict[str, Dict[str, List[int]]] = {}
        after: Dict[str, int] = {}
        for task in gone:
            if task.get("owner") and (task["hosts"] or task["given_up"]):
                known.setdefault(task["owner"], {})[task["uuid"]] = task["after"]
                if task["given_up"]:
                    # the lost host, if it is back, does not know that it is gone: the next owner counts on from there
                    after[task["uuid"]] = task["after"][0]
        if known:
            # nothing is lost if one does not take it: what it knows still counts, and can only have a later create refused
            told = {"gone": known, **({"after": after} if after else {})}
            yield Ask("rescan", {host: {"told": told} for host in hosts})

    def release(self, plan: Plan) -> Procedure[None]:
        left = sorted(set(hosts_of_stale_claims(plan)) & set(plan["reachable"]))
        scans = yield Ask("rescan", {host: {} for host in left})
        withdraw_outdated(plan, scans)
        yield from claim(plan, plan["reachable"], "withdraw", "faults")
        if plan["tell"]:
            # nothing is lost if one does not take it: it was told of the plan before the build, and that counts on
            yield Ask("rescan", {host: {"told": plan["tell"]} for host in plan["reachable"]})


@dataclasses.dataclass(frozen=True)
class EmbeddedMoves:
    """The records of both hosts say all of a move. ``quotas``: by project."""

    quotas: Mapping[str, Amounts] = dataclasses.field(default_factory=dict)

    def judges(self, walk: Walk) -> bool:
        return bool(walk.move.look)

    def begin_move(self, walk: Walk) -> Procedure[None]:
        yield from ()

    def stands(self, walk: Walk) -> Procedure[None]:
        """Read all hosts again with the claim in sight: of two runs that claim and then read, at least one sees the other."""
        scans = yield Ask("rescan", {host: {} for host in walk.move.look})
        commit_move.check_claim(cast(PlannedMove, vars(walk.move)), walk.destination(), scans, self.quotas)

    def follow(self, walk: Walk) -> Procedure[None]:
        yield from ()


def hosts_of_stale_claims(plan: Plan) -> List[str]:
    """The hosts to read again: those with claims that killed runs left on other hosts than the one that has the instance by
    now, and the owners of these instances."""
    return sorted({host for instance, claimed in _stale_claims(plan) for host in (host_of(instance), claimed)})


def withdraw_outdated(plan: Plan, scans: Mapping[str, Scan]) -> None:
    """Have the hosts drop these claims at their next request, by what they say now: ``scans`` is by host.

    A claim goes only if it is at rest and was not made after a later owner than the one that answers: the instance was made
    after the claim, or the claim was made to replace this owner, such as while its host was given up as lost. Its host
    withdraws it by its token, as any claim: one that a run has taken over stays. A run that has not ended, and finds its
    claim gone, builds nothing."""
    held = {(host, record["uuid"]): record for host, scan in scans.items() for record in scan.get("instances") or ()}
    for instance, host in _stale_claims(plan):
        uuid = instance["uuid"]
        claim, owner = held.get((host, uuid)), held.get((host_of(instance), uuid))
        if claim and owner and _is_outdated(claim, owner):
            withdraw(plan, host, uuid, claim["token"])


def _stale_claims(plan: Plan) -> Iterator[Tuple[Instance, str]]:
    """(instance, host with a claim of it) of the instances that have a host."""
    for instance in plan["instances"].values():
        for host in instance.get("stale_claims") or ():
            if instance["host"] and instance["host"] != host:
                yield instance, host


def _is_outdated(claim: ScannedRecord, owner: ScannedRecord) -> bool:
    at_rest = (claim["role"], claim["phase"]) == (CLAIM, CLAIMED)
    return at_rest and owner["role"] == OWN and owner["generation"][0] >= claim["generation"][0]
