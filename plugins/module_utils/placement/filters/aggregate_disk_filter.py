# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateDiskFilter."""

from __future__ import annotations

from ...model.aggregate import lowest
from .disk_filter import DiskFilter


class AggregateDiskFilter(DiskFilter):
    """DiskFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    If a value is not a number, the host's own ratio counts.
    Options: none. Aggregate metadata: disk_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.disk_filter.AggregateDiskFilter, removed in Nova 22.
    """

    def ratio(self, host_state):
        return lowest(host_state.aggregates, "disk_allocation_ratio", host_state.disk_allocation_ratio, float)
