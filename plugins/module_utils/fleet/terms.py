# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be said of a fleet in linear terms: where each instance may go at all, what it counts there, which limits and
groups hold. All of it comes from placement's own code; what these terms cannot say, placement refuses later.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections import Counter
from typing import Collection, Dict, Iterable, List, Mapping, Sequence, Tuple

from ..placement.changes.would_fit import held
from .state import Fleet, State, limits

# Parts of a request that say who an instance is, and nothing of where it may be.
_OF_ONE = frozenset(
    "uuid name instance_uuids batch_id group metadata ssh_keys_digest access_ip_v4 access_ip_v6 home schema".split()
)
_OF_ONE_NIC = frozenset(("mac", "address", "address6"))

Amounts = Dict[str, int]


@dataclasses.dataclass
class Terms:
    """``may``: uuid of each instance that may move -> the hosts that could take it if they were empty; ``takes``: (uuid, host)
    -> what it counts there; ``fixed``: host -> what counts there whatever moves; ``limit``: host -> {resource class: limit};
    ``misplaced``: those whose own host would not take them even if it was empty."""

    may: Dict[str, List[str]]
    takes: Dict[Tuple[str, str], Amounts]
    fixed: Dict[str, Amounts]
    limit: Dict[str, Amounts]
    misplaced: List[str]

    def allow(self, empty: Empty, uuid: str, hosts: Iterable[str]) -> None:
        """Let the instance go to those of ``hosts`` that could take it."""
        taken = {host: amounts for host in hosts for good, amounts in [empty.takes(uuid, host)] if good}
        self.may[uuid] = list(taken)
        self.takes.update({(uuid, host): amounts for host, amounts in taken.items()})

    def only(self, may: Dict[str, List[str]], where: Mapping[str, str]) -> "Terms":
        """The same with other hosts for some instances, while all others stay where they are."""
        fixed = {host: Counter(amounts) for host, amounts in self.fixed.items()}
        for uuid in self.may:
            if uuid not in may and uuid in where:
                fixed[where[uuid]].update(self.takes[uuid, where[uuid]])
        return dataclasses.replace(self, may=may, fixed={host: dict(amounts) for host, amounts in fixed.items()})


class Empty:
    """Which hosts could take an instance if they were empty, asked of placement once for each kind of instance."""

    def __init__(self, fleet: Fleet) -> None:
        self.state = State(fleet)
        for uuid in list(self.state.where):
            self.state.leave(uuid)
        self._verdicts: Dict[Tuple[str, str], Tuple[bool, Amounts]] = {}
        self._kinds: Dict[str, str] = {}

    def kind(self, uuid: str) -> str:
        if uuid not in self._kinds:
            request = self.state.fleet.instances[uuid].request
            nics = [
                {key: value for key, value in nic.items() if key not in _OF_ONE_NIC}
                for nic in request.get("networks") or ()
            ]
            rest = {key: value for key, value in request.items() if key not in _OF_ONE}
            self._kinds[uuid] = json.dumps({**rest, "networks": nics}, sort_keys=True, default=str)
        return self._kinds[uuid]

    def takes(self, uuid: str, host: str) -> Tuple[bool, Amounts]:
        """(whether the host would take it, what it would count)."""
        key = self.kind(uuid), host
        if key not in self._verdicts:
            spec, state = self.state.spec(uuid, group=False), self.state.hosts[host]
            amounts = self.state.amounts(uuid, host)
            answer, before = self.state.scheduler.choose([state], copy.copy(spec))
            for changed, old in before.items():
                changed.__dict__.clear()
                changed.__dict__.update(old)
            self._verdicts[key] = answer.error is None, amounts
        return self._verdicts[key]


def terms(
    fleet: Fleet, empty: Empty, movers: Iterable[str], targets: Sequence[str], closed: Collection[str] = ()
) -> Terms:
    """The terms in which ``movers`` may go to ``targets``, and to none that is ``closed``."""
    state = State(fleet)
    found = Terms({}, {}, {host: dict(each.used) for host, each in state.hosts.items()}, {}, [])
    for host, each in state.hosts.items():
        found.limit[host] = {name: int(limit) for name, limit in limits(each).items()}
    for uuid in movers:
        own = fleet.instances[uuid].host
        here = held(state.hosts[own], state.hosts[own].instances[uuid])
        found.takes[uuid, own] = here
        for name, amount in here.items():
            found.fixed[own][name] = found.fixed[own].get(name, 0) - amount
        found.allow(empty, uuid, (host for host in targets if host != own and host not in closed))
        if not empty.takes(uuid, own)[0]:
            found.misplaced.append(uuid)
    return found
