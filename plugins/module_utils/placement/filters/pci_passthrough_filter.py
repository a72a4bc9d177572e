# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PciPassthroughFilter."""

from __future__ import annotations

from .. import pci
from ..base import PASS, Filter, fail


class PciPassthroughFilter(Filter):
    """A host passes when its pools of free PCI devices can serve all of the flavor's ``pci_passthrough:alias``.

    Vendor, product, device type and tags must match; physical functions, vDPA and remote managed devices are given only
    if they are asked for. NUMATopologyFilter judges NUMA locality.
    Options: pci_alias ([]). Aggregate metadata: none. Runs for every instance.
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
