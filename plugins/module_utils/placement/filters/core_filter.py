# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CoreFilter."""

from __future__ import annotations

from .. import overcommit
from ..base import PASS, Filter


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
        total = host_state.vcpus_total
        if not total:
            return PASS
        ratio = self.ratio(host_state)
        verdict = overcommit.verdict(spec.vcpus, total, host_state.vcpus_used, ratio, "vCPUs")
        if verdict.passed:
            host_state.limits["vcpu"] = total * ratio
        return verdict
