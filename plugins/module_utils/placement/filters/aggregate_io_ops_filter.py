# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateIoOpsFilter."""

from __future__ import annotations

from ...model.aggregate import lowest
from .io_ops_filter import IoOpsFilter


class AggregateIoOpsFilter(IoOpsFilter):
    """IoOpsFilter with a limit per aggregate: the lowest of the host's aggregates, else the option.

    If a value is not a whole number, the option counts.
    Options: max_io_ops_per_host (8). Aggregate metadata: max_io_ops_per_host. Runs for every instance.
    Source: nova.scheduler.filters.io_ops_filter.AggregateIoOpsFilter.
    """

    def limit(self, host_state):
        return lowest(host_state.aggregates, "max_io_ops_per_host", self.options["max_io_ops_per_host"], int)
