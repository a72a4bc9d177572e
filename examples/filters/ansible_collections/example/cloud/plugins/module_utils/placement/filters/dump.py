# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DumpFilter: lets every host pass and shows all that placement knows of it and of the request.

The filter of this name that is used to teach Nova's scheduler writes into the log; placement has no log, so here what
it sees is the numbers of its verdict, which the explanation and the receipt show.
"""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Filter, Verdict

HOST = (
    "host nodename total_usable_ram_mb total_usable_disk_gb disk_mb_used free_ram_mb free_disk_mb vcpus_total "
    "vcpus_used num_instances num_io_ops host_ip hypervisor_type hypervisor_version hypervisor_hostname "
    "supported_instances limits ram_allocation_ratio cpu_allocation_ratio disk_allocation_ratio updated"
).split()
REQUEST = "name project_id vcpus memory_mb root_gb ephemeral_gb swap availability_zone scheduler_hints".split()


class DumpFilter(Filter):
    """Passes every host; the verdict's numbers are the state of the host and the request."""

    # The state changes with every instance that is placed, so it is asked again for each of them.
    run_filter_once_per_request = False

    def check(self, host_state, spec):
        numbers = {name: getattr(host_state, name) for name in HOST}
        numbers["pci_pools"] = [dict(pool) for pool in host_state.pci_stats or ()]
        numbers["numa_cells"] = (
            [cell.to_document() for cell in host_state.numa_topology.cells] if host_state.numa_topology else []
        )
        numbers["metrics"] = {metric.name: metric.value for metric in host_state.metrics}
        numbers["aggregates"] = [aggregate.name for aggregate in host_state.aggregates]
        numbers["instances"] = sorted(host_state.instances)
        numbers["request"] = {name: getattr(spec, name) for name in REQUEST}
        return Verdict(True, repr(host_state), numbers)
