# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ExactCoreFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class ExactCoreFilter(Filter):
    """A host passes when exactly the vCPUs that the flavor needs are free on it (for whole-host instances).

    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.exact_core_filter.ExactCoreFilter, removed in Nova 18.
    """

    def check(self, host_state, spec):
        asked = spec.vcpus
        free = host_state.vcpus_total - host_state.vcpus_used
        return (
            PASS if asked == free else fail("needs exactly %d vCPUs, %g free" % (asked, free), asked=asked, free=free)
        )
