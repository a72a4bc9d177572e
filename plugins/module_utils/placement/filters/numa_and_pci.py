# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that ask whether NUMA cells, pinned CPUs, huge pages and PCI devices are free."""

from __future__ import annotations

from .. import capacity, pci
from ..base import PASS, Filter, fail


class NUMATopologyFilter(Filter):
    """A host passes when the instance's NUMA topology fits on its cells.

    It checks CPUs and memory of each cell (shared ones up to the allocation ratios), pinning with the thread policy,
    free pages of the requested size, and PCI devices and physical networks near the cells. A topology needs a host that
    reports cells; dedicated CPUs with thread policy require need a host with SMT. A host that passes gets the limit
    ``numa_topology``, under which the claim fits it again.
    Options: packing_host_numa_cells_allocation_strategy (false): fuller cells first.
    Source: nova.scheduler.filters.numa_topology_filter.NUMATopologyFilter.
    """

    sets_limits = True

    def about(self, spec):
        return None if spec.topology or spec.flavor.extra_specs or spec.image_props else ()

    def check(self, host_state, spec):
        extra_specs, props = spec.flavor.extra_specs, spec.image_props
        policies = (extra_specs.get("hw:cpu_policy"), props.get("hw_cpu_policy"))
        threads = (extra_specs.get("hw:cpu_thread_policy"), props.get("hw_cpu_thread_policy"))
        needs_threads = "dedicated" in policies and "require" in threads
        if spec.topology is None and not needs_threads:
            return PASS
        host = host_state.numa_topology
        if host and needs_threads and not host.has_threads:
            return fail("has no SMT, which hw:cpu_thread_policy=require needs")
        if spec.topology is None:
            return PASS
        if host is None:
            return fail("reports no NUMA cells")
        limits, why = capacity.numa_limits(host_state, spec), []
        packing = self.options["packing_host_numa_cells_allocation_strategy"]
        if capacity.fit_numa(host_state, spec.topology.copy(), limits, spec.pci_requests, packing, why) is None:
            reasons = list(dict.fromkeys(why))
            return fail("; ".join(reasons) or "does not fit", reasons=reasons)
        host_state.limits["numa_topology"] = limits
        return PASS


class PciPassthroughFilter(Filter):
    """A host passes when its pools of free PCI devices can serve all of the flavor's ``pci_passthrough:alias``.

    Vendor, product, device type and tags must match; physical functions, vDPA and remote managed devices are given only
    if they are asked for. NUMATopologyFilter judges NUMA locality.
    Options: pci_alias ([]).
    Source: nova.scheduler.filters.pci_passthrough_filter.PciPassthroughFilter.
    """

    def about(self, spec):
        return None if spec.pci_requests else ()

    def check(self, host_state, spec):
        if not spec.pci_requests:
            return PASS
        # Without pools the cells, which are slow to read, decide nothing.
        cells = host_state.numa_topology if host_state.pci_stats else None
        if pci.supports(host_state.pci_stats, spec.pci_requests, None, cells):
            return PASS
        wanted = {request["alias_name"]: request["count"] for request in spec.pci_requests}
        text = ", ".join("%s:%d" % pair for pair in wanted.items())
        return fail(
            "has no free PCI devices for %s" % text,
            wanted=wanted,
            free=sum(pool["count"] for pool in host_state.pci_stats),
        )
