# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateRamFilter."""

from __future__ import annotations

from ...model.aggregate import lowest
from .ram_filter import RamFilter


class AggregateRamFilter(RamFilter):
    """RamFilter with a ratio per aggregate: the lowest of the host's aggregates, else the host's own.

    If a value is not a number, the host's own ratio counts.
    Options: none. Aggregate metadata: ram_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.ram_filter.AggregateRamFilter, removed in Nova 22.
    """

    def ratio(self, host_state):
        return lowest(host_state.aggregates, "ram_allocation_ratio", host_state.ram_allocation_ratio, float)
