# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IoOpsFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class IoOpsFilter(Filter):
    """A host passes while it has fewer running operations (builds, resizes, migrations, snapshots) than max_io_ops_per_host.

    Options: max_io_ops_per_host (8). Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.io_ops_filter.IoOpsFilter.
    """

    def limit(self, host_state):
        return self.options["max_io_ops_per_host"]

    def check(self, host_state, spec):
        limit = self.limit(host_state)
        if host_state.num_io_ops < limit:
            return PASS
        return fail(
            "has %d of at most %d I/O operations" % (host_state.num_io_ops, limit),
            num_io_ops=host_state.num_io_ops,
            max_io_ops_per_host=limit,
        )
