# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attributes of Nova's HostState: what capabilities and JSON queries may name."""

from __future__ import annotations

HOST_STATE_ATTRIBUTES = frozenset(
    (
        "host",
        "nodename",
        "uuid",
        "cell_uuid",
        "total_usable_ram_mb",
        "total_usable_disk_gb",
        "disk_mb_used",
        "free_ram_mb",
        "free_disk_mb",
        "vcpus_total",
        "vcpus_used",
        "pci_stats",
        "numa_topology",
        "num_instances",
        "num_io_ops",
        "failed_builds",
        "host_ip",
        "hypervisor_type",
        "hypervisor_version",
        "hypervisor_hostname",
        "cpu_info",
        "supported_instances",
        "limits",
        "metrics",
        "aggregates",
        "instances",
        "ram_allocation_ratio",
        "cpu_allocation_ratio",
        "disk_allocation_ratio",
        "updated",
        "stats",
        "service",
    )
)
