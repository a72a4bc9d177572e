# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change that might help, and placement run with it on a copy of the fleet."""

from __future__ import annotations

import copy

from ...model.host_state import Aggregate
from ...model.request_spec import RequestSpec
from ..errors import UnsupportedPolicy
from ..scheduler import host_states, select_destinations

# The cost of changes that cannot be measured: a field of the request, a host out of service, a move.
COST_OF_REQUEST, COST_OF_SERVICE, COST_OF_MOVE = 0.5, 1.0, 0.25
HOSTS_TRIED = 8
NEIGHBOURS = 6


class Change:
    """One change: ``kind`` (limit, request, move), ``host`` or None, ``text`` for people, ``cost`` to compare by.

    ``apply(states by key, requests)`` makes it, in place.
    """

    def __init__(self, kind, host, text, cost, apply):
        self.kind, self.host, self.text, self.cost, self.apply = kind, host, text, cost, apply

    def to_dict(self):
        return {"kind": self.kind, "host": self.host, "text": self.text}


class Trial:
    """The fleet and the requests, and placement run on altered copies of them."""

    def __init__(self, host_documents, requests, options, aggregates, seed):
        self.aggregates = [
            aggregate if isinstance(aggregate, Aggregate) else Aggregate(aggregate) for aggregate in aggregates or ()
        ]
        self.states = host_states(host_documents, self.aggregates)
        self.requests = [
            copy.deepcopy(request.document if isinstance(request, RequestSpec) else request) for request in requests
        ]
        self.options, self.seed = options, seed
        self.by_key = {state.key: state for state in self.states}

    def run(self, states, requests, explain=False):
        return select_destinations(states, requests, self.options, self.aggregates, self.seed, explain=explain)

    def holds(self, change):
        """Whether every request gets a host with only this change made."""
        states = {state.key: state.copy() for state in self.states}
        requests = copy.deepcopy(self.requests)
        change.apply(states, requests)
        try:
            return not self.run(list(states.values()), requests).errors
        except UnsupportedPolicy:
            return False

    def alone(self, state, answer):
        """Return the result of the failed request with only this host and those of its group to choose from."""
        others = [other for other in self._group_hosts(answer) if other.key != state.key]
        return self.run([state] + others, [dict(answer.spec.document)], explain=True).requests[0]

    def _group_hosts(self, answer):
        """Return hosts with members of its group; they have refused it already."""
        group = answer.spec.instance_group
        members = set(group.members) if group else set()
        return [state for state in self.states if members.intersection(state.instances)][:NEIGHBOURS] if members else []


def refusals(explanation):
    """Return {host: [(rule, Verdict)]}: what refused each host, the rules of one host in their order."""
    refused = {}
    for host, rules in explanation["candidates"].items():
        bad = [(rule, verdict) for rule, verdict in rules if not verdict.passed]
        if bad:
            refused[host] = bad
    for instance in explanation["instances"][-1:]:
        for step in instance["filters"]:
            for host, verdict in step["verdicts"].items():
                if not verdict.passed:
                    refused.setdefault(host, []).append((step["filter"], verdict))
    return refused


def share(shortfall):
    """Return how much of a resource class a host lacks, as a share of what it has."""
    limit = shortfall.get("limit") or 0
    return shortfall["short"] / limit if "short" in shortfall and limit > 0 else 10.0


def free_up(state, amounts):
    """Give back to a host state what ``amounts`` {resource class: amount} take."""
    state.used = {name: used - amounts.get(name, 0) for name, used in state.used.items()}
    state.free_ram_mb += amounts.get("MEMORY_MB", 0)
    state.free_disk_mb += amounts.get("DISK_GB", 0) * 1024
    state.vcpus_used -= amounts.get("VCPU", 0) + amounts.get("PCPU", 0)
