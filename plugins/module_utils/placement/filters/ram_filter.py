# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RamFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail
from ..text import number


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
        asked = spec.memory_mb
        total = host_state.total_usable_ram_mb
        used = host_state.total_usable_ram_mb - host_state.free_ram_mb
        ratio = self.ratio(host_state)
        limit = total * ratio
        numbers = {"asked": asked, "total": total, "used": used, "ratio": ratio, "limit": limit}
        if asked > total:
            return fail("needs %d MiB of memory, has %d in all" % (asked, total), **numbers)
        if limit - used < asked:
            told = (asked, number(limit - used), total, number(ratio))
            return fail("needs %d MiB of memory, %s free of %d x %s" % told, **numbers)
        host_state.limits["memory_mb"] = limit
        return PASS
