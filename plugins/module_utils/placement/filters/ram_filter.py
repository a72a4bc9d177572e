# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RamFilter."""

from __future__ import annotations

from .. import overcommit
from ..base import Filter


class RamFilter(Filter):
    """A host passes when total x ratio less what is used leaves the MiB of memory that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host
    that passes gets the limit ``memory_mb``, which the claim tests again.
    Options: none. Aggregate metadata: none. Host: ram_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.ram_filter.RamFilter, removed in Nova 20 (Placement took its place).
    """

    sets_limits = True

    def ratio(self, host_state):
        return host_state.ram_allocation_ratio

    def check(self, host_state, spec):
        total = host_state.total_usable_ram_mb
        ratio = self.ratio(host_state)
        verdict = overcommit.verdict(spec.memory_mb, total, total - host_state.free_ram_mb, ratio, "MiB of memory")
        if verdict.passed:
            host_state.limits["memory_mb"] = total * ratio
        return verdict
