# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AggregateNumInstancesFilter."""

from __future__ import annotations

from ...model.aggregate import lowest
from .num_instances_filter import NumInstancesFilter


class AggregateNumInstancesFilter(NumInstancesFilter):
    """NumInstancesFilter with a limit per aggregate: the lowest of the host's aggregates, else the option.

    If a value is not a whole number, the option counts.
    Options: max_instances_per_host (50). Aggregate metadata: max_instances_per_host. Runs for every instance.
    Source: nova.scheduler.filters.num_instances_filter.AggregateNumInstancesFilter.
    """

    def limit(self, host_state):
        return lowest(host_state.aggregates, "max_instances_per_host", self.options["max_instances_per_host"], int)
