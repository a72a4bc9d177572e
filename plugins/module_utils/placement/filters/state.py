# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that ask how a host is: whether it answers, was tried before, reports metrics; and those that pass all hosts."""

from __future__ import annotations

from ..base import PASS, Filter, Verdict, fail, parse_options
from ..text import plain


class AllHostsFilter(Filter):
    """Every host passes.

    Source: nova.scheduler.filters.all_hosts_filter.AllHostsFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return ()

    def check(self, host_state, spec):
        return PASS


class ComputeFilter(Filter):
    """A host passes when it is enabled and answers: not ``disabled``, not ``forced_down``, and ``up``.

    Nova asks whether the heartbeat of nova-compute is younger than service_down_time; here ``up`` says whether the host
    answered when its facts were gathered. No host says ``forced_down`` or ``up: false`` of itself: they are for host
    documents that you make, such as those of Nova's services. A host that playbooks shall not use is ``disabled``, and
    one that does not answer has no facts and is no candidate.
    Source: nova.scheduler.filters.compute_filter.ComputeFilter.
    """

    run_filter_once_per_request = True
    reads = ("service",)

    def check(self, host_state, spec):
        service = host_state.service
        if service.get("disabled"):
            return fail("is disabled: %s" % (service.get("disabled_reason") or "no reason given"), disabled=True)
        if not host_state.service_up:
            return fail("does not answer", up=False, forced_down=bool(service.get("forced_down")))
        return PASS


class RetryFilter(Filter):
    """A host passes when this request was not tried on it before: it is not in the request's ``retry.hosts``.

    ``retry`` is {num_attempts, hosts: [[host, node] or host]}. No playbook sets it, since a create and a move take the
    alternates of their decision one by one: it is for requests that you make.
    Source: nova.scheduler.filters.retry_filter.RetryFilter, removed in Nova 22 (alternates took its place).
    """

    def about(self, spec):
        return None if (spec.document.get("retry") or {}).get("hosts") else ()

    def check(self, host_state, spec):
        tried = (spec.document.get("retry") or {}).get("hosts") or []
        here = (host_state.host, [host_state.host, host_state.nodename], (host_state.host, host_state.nodename))
        return fail("was tried before", attempts=len(tried)) if any(attempt in here for attempt in tried) else PASS


class MetricsFilter(Filter):
    """A host passes when it reports every metric that metrics.weight_setting names.

    Options: metrics.weight_setting ([]; "name=ratio").
    Source: nova.scheduler.filters.metrics_filter.MetricsFilter.
    """

    reads = ("metrics",)

    def __init__(self, options):
        super().__init__(options)
        self.names = {name for name, _ratio in parse_options(options["metrics"]["weight_setting"])}

    def check(self, host_state, spec):
        missing = sorted(self.names - {metric.name for metric in host_state.metrics})
        return fail("does not report %s" % ", ".join(missing), missing=missing) if missing else PASS


HOST = (
    "host nodename total_usable_ram_mb total_usable_disk_gb disk_mb_used free_ram_mb free_disk_mb vcpus_total vcpus_used "
    "pci_stats numa_topology num_instances num_io_ops host_ip hypervisor_type hypervisor_version hypervisor_hostname "
    "cpu_info supported_instances stats limits metrics aggregates instances ram_allocation_ratio cpu_allocation_ratio "
    "disk_allocation_ratio updated"
).split()
REQUEST = "vcpus memory_mb root_gb ephemeral_gb".split()


class DumpFilter(Filter):
    """Passes every host; the verdict has the state of the host and the request, which `why` and `place -v` show.

    It may also be called `dump`, and sees the limits that the filters before it have set.
    """

    def check(self, host_state, spec):
        state = {name: getattr(host_state, name) for name in HOST}
        state["metrics"] = {metric.name: metric.value for metric in host_state.metrics}
        state["aggregates"] = [aggregate.name for aggregate in host_state.aggregates]
        state["instances"] = sorted(host_state.instances)
        asked = {name: getattr(spec, name) for name in REQUEST}
        return Verdict(True, repr(host_state), plain({"state": state, "asked": asked}))
