# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ExactCoreFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail
from ..text import number


class ExactCoreFilter(Filter):
    """A host passes when exactly the vCPUs that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``vcpu``, which the claim tests again: no second one fits.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.exact_core_filter.ExactCoreFilter, removed in Nova 18.
    """

    sets_limits = True

    def check(self, host_state, spec):
        asked = spec.vcpus
        free = host_state.vcpus_total - host_state.vcpus_used
        if asked != free:
            return fail("needs exactly %d vCPUs, %s free" % (asked, number(free)), asked=asked, free=free)
        host_state.limits["vcpu"] = host_state.vcpus_total
        return PASS
