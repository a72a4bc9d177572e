# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet as plans are made for it: hosts with what they count, and where each instance is while moves are tried.

Whether an instance may enter a host is asked of placement alone, with all filters, on the state of that moment. An
instance on its way counts on both of its hosts.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections import Counter
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ..model.host_state import Aggregate, HostState
from ..model.lifecycle import OWN
from ..model.messages import Document
from ..model.request_spec import RequestSpec, ServerGroup
from ..placement import capacity, explain, pci
from ..placement.changes.would_fit import leave
from ..placement.pipeline import Pipeline
from ..placement.scheduler import host_states, load, prepare, run_one

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"


@dataclasses.dataclass(frozen=True)
class Instance:
    """``request``: as a move of it is placed. ``fixed``: why it may not move, None if it may. ``how``: live or cold.
    ``going``: the host to which a move of it has begun that has not ended; ``home``: uuid of the host that it left by a drain."""

    uuid: str
    name: str
    host: str
    request: Document
    fixed: Optional[str] = None
    how: str = "live"
    going: Optional[str] = None
    home: Optional[str] = None

    @property
    def group(self) -> Optional[str]:
        group = self.request.get("group")
        return (group.get("uuid") or group["name"]) if group else None

    @property
    def goes_with(self) -> Optional[str]:
        """Its affinity group, whose members are on one host; None if it has none."""
        return self.group if self.group and self.request["group"]["policy"] == AFFINITY else None


@dataclasses.dataclass(frozen=True)
class Fleet:
    """``documents``: host -> its host state document; ``instances``: uuid -> Instance, only those that a host owns;
    ``options``: of placement; ``aggregates``: {name, hosts, metadata}."""

    documents: Mapping[str, Document]
    instances: Mapping[str, Instance]
    options: Document = dataclasses.field(default_factory=dict)
    aggregates: Sequence[Document] = ()
    seed: int = 0


class Scheduler:
    """Placement, asked for one instance and some hosts at a time."""

    def __init__(self, fleet: Fleet) -> None:
        self.filters, self.weighers, options = load(fleet.options)
        self.options = copy.copy(options)
        self.options["max_attempts"] = 1  # no alternates: each move is decided again when it begins
        self.aggregates = [Aggregate(aggregate) for aggregate in fleet.aggregates]
        self.aliases = pci.read_aliases(options["pci_alias"])
        self.rng = random.Random(fleet.seed)
        self.known: Dict[Any, Any] = {}

    def spec(self, request: Document) -> RequestSpec:
        return prepare(RequestSpec.from_dict(request), self.aliases, self.known)

    def choose(self, hosts: List[HostState], spec: RequestSpec) -> Tuple[Any, Dict[HostState, Dict[str, Any]]]:
        """(the RequestResult for one instance, what the chosen host was before). The host counts it from now on."""
        pipeline = Pipeline(hosts, self.options, self.filters, self.weighers, self.aggregates, self.rng)
        return run_one(pipeline, spec, False), pipeline.journal


class State:
    """Hosts and instances while a plan is made or checked. ``where``: uuid -> host; ``going``: uuid -> the host that it has
    entered and not yet moved to for good. ``without``: hosts that are not there, with all that they have."""

    def __init__(self, fleet: Fleet, without: Collection[str] = ()) -> None:
        self.fleet = fleet
        self.scheduler = Scheduler(fleet)
        kept = [document for host, document in fleet.documents.items() if host not in without]
        self.hosts: Dict[str, HostState] = {state.host: state for state in host_states(kept, self.scheduler.aggregates)}
        self.where = {uuid: each.host for uuid, each in fleet.instances.items() if each.host in self.hosts}
        self.going: Dict[str, str] = {}
        self.members: Dict[str, Set[str]] = {}
        self.policies: Dict[str, Document] = {}
        for uuid, instance in fleet.instances.items():
            if instance.group:
                self.members.setdefault(instance.group, set()).add(uuid)
                self.policies[instance.group] = instance.request["group"]
        self._specs: Dict[str, RequestSpec] = {}
        self._before: Dict[str, Tuple[HostState, Dict[str, Any]]] = {}

    def spec(self, uuid: str, group: bool = True) -> RequestSpec:
        """A fresh request of the instance, whose placing changes it."""
        if uuid not in self._specs:
            self._specs[uuid] = self.scheduler.spec(self.fleet.instances[uuid].request)
        spec = copy.copy(self._specs[uuid])
        spec.topology = spec.topology.copy() if spec.topology else None
        spec.instance_group = copy.copy(spec.instance_group) if group else None
        return spec

    def _asked(self, uuid: str, together: Collection[str]) -> RequestSpec:
        spec, group = self.spec(uuid), self.fleet.instances[uuid].group
        if group and spec.instance_group:
            spec.instance_group.members = set(self.members[group])
            spec.instance_group.hosts = self._hosts_of(group, uuid, together)
        return spec

    def _hosts_of(self, group: str, but: str, together: Collection[str]) -> Set[str]:
        """Where the other members are. Of an affinity group only where they will be once the moves are over: members that
        move together do not hold one another back."""
        others = self.members[group] - {but}
        if self.policies[group]["policy"] == AFFINITY:
            held = {uuid for uuid in others if uuid in self.where and uuid not in together or uuid in self.going}
            return {self.ends_on(uuid) for uuid in held}
        there = {self.where[uuid] for uuid in others if uuid in self.where}
        return there | {self.going[uuid] for uuid in others if uuid in self.going}

    def ends_on(self, uuid: str) -> str:
        """Where the instance is when what is on its way has arrived, also by a move that has begun before the plan."""
        return self.going.get(uuid) or self.fleet.instances[uuid].going or self.where[uuid]

    def enter(self, uuid: str, hosts: Sequence[str], together: Collection[str] = ()) -> Tuple[Optional[str], str]:
        """Have placement choose among ``hosts``. Return (the host, "") or (None, why no host takes it). The instance counts
        there from now on, and on the host where it is."""
        spec = self._asked(uuid, together)
        states = [self.hosts[host] for host in hosts if host != self.where.get(uuid)]
        if spec.topology or spec.pci_requests:
            states = [state for state in states if self._claims(state, spec)]
        if not states:
            return None, "no host has what it needs free"
        answer, before = self.scheduler.choose(states, spec)
        if answer.error is not None:
            return None, refusal(answer)
        chosen = answer.selections[0]
        state = self.hosts[chosen.host]
        self._before[uuid] = (state, before[state])
        state.instances[uuid] = self._told(uuid, chosen.allocation)
        self.going[uuid] = state.host
        return state.host, ""

    @staticmethod
    def _claims(state: HostState, spec: RequestSpec) -> bool:
        """Whether the host's own claim would hold: cells and devices may have no filter."""
        try:
            capacity.allocate(state, spec)
        except capacity.ClaimFailed:
            return False
        return True

    def _told(self, uuid: str, allocation: Document) -> Document:
        """The instance as its new host will tell of it."""
        instance = self.fleet.instances[uuid]
        old = self.fleet.documents[instance.host].get("instances") or ()
        known = next((each for each in old if each["uuid"] == uuid), {"uuid": uuid, "name": instance.name})
        parts = ("vcpus", "pcpus", "memory_mb", "disk_gb", "numa_topology")
        return {**known, "role": OWN, **{part: allocation.get(part) for part in parts}}

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Undo the last entries, given in their order."""
        for uuid in reversed(list(uuids)):
            state, before = self._before.pop(uuid)
            state.__dict__.clear()
            state.__dict__.update(before)
            del self.going[uuid]

    def arrive(self) -> None:
        """What was on its way has left the host where it was."""
        for uuid, host in self.going.items():
            if uuid in self.where:
                self.leave(uuid)
            self.hosts[host].num_io_ops -= 1
            self.where[uuid] = host
        self.going, self._before = {}, {}

    def end(self, source: str, uuid: str, host: str) -> None:
        """A move that the documents show has ended: nothing of the instance is left on ``source``."""
        self.where[uuid] = source
        self.leave(uuid)
        self.where[uuid] = host

    def leave(self, uuid: str) -> None:
        state = self.hosts[self.where[uuid]]
        instance = state.instances.get(uuid)
        if instance is not None:
            leave(state, instance)

    def amounts(self, uuid: str, host: str) -> Dict[str, int]:
        """What the instance counts, or would count, on a host."""
        state = self.hosts[host]
        return dict(capacity.amounts_on(state, self.spec(uuid))[0].amounts)

    # -- what is broken
    def broken(self) -> Counter[Tuple[str, ...]]:
        """{what: by how much} of the rules that the state breaks: ("over", host, resource class), ("group", uuid, host) of
        anti-affinity, ("group", uuid) of affinity. Instances on their way count on both hosts, except for affinity, where
        they count where they go."""
        found: Counter[Tuple[str, ...]] = Counter()
        for host, state in self.hosts.items():
            for name, limit in limits(state).items():
                if state.used.get(name, 0) > limit:
                    found["over", host, name] = state.used.get(name, 0) - int(limit)
        for group, members in self.members.items():
            found.update(self._broken_group(group, members))
        return found

    def _broken_group(self, group: str, members: Collection[str]) -> Dict[Tuple[str, ...], int]:
        policy = self.policies[group]
        there = [uuid for uuid in members if uuid in self.where]
        if policy["policy"] == AFFINITY:
            used = {self.ends_on(uuid) for uuid in there}
            return {("group", group): len(used) - 1} if len(used) > 1 else {}
        if policy["policy"] != ANTI_AFFINITY:
            return {}
        count = Counter(
            host for uuid in there for host in sorted({self.where[uuid], self.going.get(uuid, self.where[uuid])})
        )
        most = ServerGroup(policy).max_server_per_host
        return {("group", group, host): number - most for host, number in count.items() if number > most}


def limits(state: HostState) -> Dict[str, float]:
    """{resource class: how much of it may be used in all} of a host."""
    return {
        name: capacity.limit_of(each["total"], each["reserved"], each["allocation_ratio"])
        for name, each in state.inventories.items()
    }


def refusal(answer: Any) -> str:
    """Why no host took an instance: the reason of each rule, with the hosts that gave it, the most frequent first."""
    by_rule: Dict[Tuple[str, str], List[str]] = {}
    for host, told in explain.rejections(explain.document(answer)).items():
        by_rule.setdefault(told, []).append(host)
    if not by_rule:
        return str(answer.error)
    told_most = sorted(by_rule.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:3]
    return "; ".join(
        "%s: %s" % (hosts[0] if len(hosts) == 1 else "%d hosts such as %s" % (len(hosts), hosts[0]), reason or rule)
        for (rule, reason), hosts in told_most
    )
