# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NumInstancesFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class NumInstancesFilter(Filter):
    """A host passes while it has fewer instances than max_instances_per_host.

    Options: max_instances_per_host (50). Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.num_instances_filter.NumInstancesFilter.
    """

    def limit(self, host_state):
        return self.options["max_instances_per_host"]

    def check(self, host_state, spec):
        limit = self.limit(host_state)
        if host_state.num_instances < limit:
            return PASS
        return fail(
            "has %d of at most %d instances" % (host_state.num_instances, limit),
            num_instances=host_state.num_instances,
            max_instances_per_host=limit,
        )
