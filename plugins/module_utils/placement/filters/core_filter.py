# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CoreFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail
from ..text import number


class CoreFilter(Filter):
    """A host passes when total x ratio less what is used leaves the vCPUs that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host that
    reports no CPUs passes. A host that passes gets the limit ``vcpu``, which the claim tests again.
    Options: none. Aggregate metadata: none. Host: cpu_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.core_filter.CoreFilter, removed in Nova 20 (Placement took its place).
    """

    sets_limits = True

    def ratio(self, host_state):
        return host_state.cpu_allocation_ratio

    def check(self, host_state, spec):
        asked = spec.vcpus
        total = host_state.vcpus_total
        if not total:
            return PASS
        used = host_state.vcpus_used
        ratio = self.ratio(host_state)
        limit = total * ratio
        numbers = {"asked": asked, "total": total, "used": used, "ratio": ratio, "limit": limit}
        if asked > total:
            return fail("needs %d vCPUs, has %d in all" % (asked, total), **numbers)
        if limit - used < asked:
            told = (asked, number(limit - used), total, number(ratio))
            return fail("needs %d vCPUs, %s free of %d x %s" % told, **numbers)
        host_state.limits["vcpu"] = limit
        return PASS
