# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DumpFilter: the host's state and the request, seen by a filter."""

from __future__ import annotations

from ..base import Filter, Verdict


class DumpFilter(Filter):
    """Passes every host; the verdict has the state of the host and the request.

    Options: none. Aggregate metadata: none. Runs for every instance.
    """

    def check(self, host_state, spec):
        asked = {
            "vcpus": spec.vcpus,
            "memory_mb": spec.memory_mb,
            "root_gb": spec.root_gb,
            "ephemeral_gb": spec.ephemeral_gb,
        }
        state = {
            "total_usable_ram_mb": host_state.total_usable_ram_mb,
            "free_ram_mb": host_state.free_ram_mb,
            "free_disk_mb": host_state.free_disk_mb,
            "vcpus_total": host_state.vcpus_total,
            "vcpus_used": host_state.vcpus_used,
            "num_instances": host_state.num_instances,
            "num_io_ops": host_state.num_io_ops,
            "limits": dict(host_state.limits),
        }
        return Verdict(True, repr(host_state), {"asked": asked, "state": state})
