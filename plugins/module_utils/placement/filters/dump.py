# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DumpFilter: the host's state and the request, seen by a filter."""

from __future__ import annotations

from ..base import Filter, Verdict
from ..plain import plain

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
    Options: none. Aggregate metadata: none. Runs for every instance.
    """

    def check(self, host_state, spec):
        state = {name: getattr(host_state, name) for name in HOST}
        state["metrics"] = {metric.name: metric.value for metric in host_state.metrics}
        state["aggregates"] = [aggregate.name for aggregate in host_state.aggregates]
        state["instances"] = sorted(host_state.instances)
        asked = {name: getattr(spec, name) for name in REQUEST}
        return Verdict(True, repr(host_state), plain({"state": state, "asked": asked}))
