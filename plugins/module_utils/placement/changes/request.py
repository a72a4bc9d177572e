# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of the request itself: each leaves out or relaxes one thing that it asks for besides sizes."""

from __future__ import annotations

from .trial import COST_OF_REQUEST, Change

# The fields of the request that name hosts, and the text for leaving them out.
_TARGETS = (
    ("availability_zone", "ask for no availability zone"),
    ("requested_destination", "ask for no particular host"),
    ("force_hosts", "force no host"),
)
# Hints because of which a filter may refuse every host.
_HINTS = {"SameHostFilter": "same_host", "JsonFilter": "query", "SimpleCIDRAffinityFilter": "build_near_host_ip"}
_MOST_SHOWN = 4


def request_changes(trial, refused, answer):
    name = answer.spec.document.get("name")
    at = next((number for number, candidate in enumerate(trial.requests) if candidate.get("name") == name), 0)
    request = trial.requests[at]
    offers = [*_group(request, refused), *_hints(request, refused), *_hosts(request, refused)]
    return [
        Change("request", None, text, COST_OF_REQUEST, lambda states, requests, change=change: change(requests[at]))
        for text, change in offers
    ]


def _numbers(refused, rule):
    """Return {host: the numbers of its verdict} of the hosts that this rule refused."""
    return {
        host: verdict.numbers or {}
        for host, verdicts in refused.items()
        for rule_name, verdict in verdicts
        if rule_name == rule
    }


def _group(request, refused):
    group = request.get("group")
    if not isinstance(group, dict):
        return
    name = group.get("name") or group.get("uuid")
    counts = [
        numbers["members"]
        for numbers in _numbers(refused, "ServerGroupAntiAffinityFilter").values()
        if "members" in numbers
    ]
    if counts:
        limit = min(counts) + 1
        yield (
            "let server group %s have %d members on a host (max_server_per_host)" % (name, limit),
            lambda changed: changed["group"].update(
                rules={**(changed["group"].get("rules") or {}), "max_server_per_host": limit}
            ),
        )
    elsewhere = sorted(
        {host for numbers in _numbers(refused, "ServerGroupAffinityFilter").values() for host in numbers["hosts"]}
    )
    if elsewhere:
        yield (
            "let server group %s be soft-affinity (its members are on %s)" % (name, ", ".join(elsewhere[:_MOST_SHOWN])),
            lambda changed: changed["group"].update(policy="soft-affinity"),
        )


def _hints(request, refused):
    here = _numbers(refused, "DifferentHostFilter")
    if here:
        # The host to share is the one with the fewest of the instances named.
        host = min(here, key=lambda name: len(here[name]["instances"]))
        shared = here[host]["instances"]
        yield (
            "share %s with %s (hint different_host)" % (host, ", ".join(shared[:_MOST_SHOWN])),
            lambda changed: _keep(changed["scheduler_hints"], "different_host", shared),
        )
    for rule, hint in _HINTS.items():
        value = (request.get("scheduler_hints") or {}).get(hint)
        if value and _numbers(refused, rule):
            yield (
                "leave out the hint %s (now %s)" % (hint, _shortened(value)),
                lambda changed, hint=hint: changed["scheduler_hints"].pop(hint),
            )


def _keep(hints, name, without):
    named = [hints[name]] if isinstance(hints[name], str) else hints[name]
    hints[name] = [value for value in named if value not in without]


def _hosts(request, refused):
    ignored = [host for host, verdicts in refused.items() if verdicts[0][0] == "ignore_hosts"]
    if ignored:
        yield "do not ignore %s" % ", ".join(ignored[:_MOST_SHOWN]), lambda changed: changed.update(ignore_hosts=[])
    for name, what in _TARGETS:
        bound = isinstance(request.get(name), dict) and request[name].get("why")  # nobody asked for this
        if request.get(name) and not bound:
            fields = {name: None, **({"force_nodes": None} if "force" in name else {})}
            yield (
                "%s (now %s)" % (what, _shortened(request[name])),
                lambda changed, fields=fields: changed.update(fields),
            )


def _shortened(value):
    if isinstance(value, dict):
        return value.get("host")
    return ", ".join(str(item) for item in value[:_MOST_SHOWN]) if isinstance(value, list) else value
