# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts pass: the hosts that a request names, then the filters in their order; no filter runs on forced hosts.

Source: HostManager.get_filtered_hosts and BaseFilterHandler.get_filtered_objects of Nova.
"""

from __future__ import annotations

import copy

from .base import PASS, RAISED, Verdict

# The fields of a request that name hosts: (field, whether the named hosts are kept, why hosts are refused).
NAMED_HOSTS = (
    ("ignore_hosts", False, "excluded by ignore_hosts"),
    ("force_hosts", True, "not named by force_hosts"),
    ("force_nodes", True, "not named by force_nodes"),
)


def filtered(filters, spec, hosts, number, record=None):
    """Return the HostStates that pass for instance ``number`` of the request; ``record`` collects the verdicts."""
    hosts = named_by_request(spec, hosts, record)
    if record is not None:
        record["hosts"] = [host_state.key for host_state in hosts]
    if skips_filters(spec):
        return hosts
    for filter_ in filters:
        hosts = _passing(filter_, spec, hosts, number, record)
        if not hosts:
            break
    return hosts


def skips_filters(spec):
    """Whether no filter runs: as in Nova, none does on forced hosts."""
    return bool(spec.force_hosts or spec.force_nodes) and not spec.scheduler_hints.get("_nova_check_type")


def named_by_request(spec, hosts, record=None):
    """Return the hosts that the request's destination, ignore_hosts, force_hosts and force_nodes leave."""
    destination = spec.requested_destination or {}
    if destination.get("host"):
        host, node = destination["host"], destination.get("node")
        hosts = [
            host_state for host_state in hosts if host_state.host == host and (not node or host_state.nodename == node)
        ]
    for rule, keeps, reason in NAMED_HOSTS:
        names = getattr(spec, rule)
        if not names:
            continue
        named = names if rule == "force_nodes" else {name.lower() for name in names}
        passed = [host_state for host_state in hosts if (_called(host_state, rule) in named) == keeps]
        if record is not None:
            passing = {host_state.key for host_state in passed}
            verdicts = {
                host_state.key: PASS if host_state.key in passing else Verdict(False, reason) for host_state in hosts
            }
            record["filters"].append({"filter": rule, "skipped": False, "verdicts": verdicts})
        hosts = passed
    return hosts


def _called(host_state, rule):
    """Return the name that a field of the request is compared with: a node's as it is, a host's in lower case."""
    return host_state.nodename if rule == "force_nodes" else host_state.host.lower()


def _passing(filter_, spec, hosts, number, record):
    if filter_.run_filter_once_per_request and number > 0:
        if record is not None:
            record["filters"].append({"filter": filter_.name, "skipped": True, "verdicts": {}})
        return hosts
    if spec.is_rebuild and not filter_.run_on_rebuild:
        return hosts
    passed, verdicts = [], {}
    for host_state in hosts:
        verdict = judge(filter_, host_state, spec)
        if verdict.passed:
            passed.append(host_state)
        if record is not None:
            verdicts[host_state.key] = verdict
    if record is not None:
        record["filters"].append({"filter": filter_.name, "skipped": False, "verdicts": verdicts})
    return passed


def judge(filter_, host_state, spec):
    """Return the verdict of a filter on a host, also if the filter raises."""
    try:
        verdict = filter_.check(host_state, spec if _is_ours(filter_) else _own_copy(filter_, spec))
        if isinstance(verdict, Verdict):
            return verdict
        if isinstance(verdict, bool):
            return PASS if verdict else Verdict(False, "does not pass")
        raise TypeError("check() gave %s, not a Verdict" % type(verdict).__name__)
    except RAISED as error:
        return raised(filter_, host_state, error)


def _is_ours(filter_):
    return type(filter_).__module__.startswith(__package__ + ".")


def _own_copy(filter_, spec):
    """The request for a plugin of somebody else: whatever it changes there, no other plugin and no host sees."""
    if getattr(filter_, "_copied", None) is None or filter_._copied[0] is not spec:
        filter_._copied = (spec, copy.deepcopy(spec))
    return filter_._copied[1]


def raised(plugin, host_state, error):
    """Return the verdict of a plugin that raised: it names class and host."""
    reason = "%s raised %s on %s: %s" % (plugin.name, type(error).__name__, host_state.key, error)
    return Verdict(False, reason, {"plugin": plugin.name, "host": host_state.key, "error": type(error).__name__})
