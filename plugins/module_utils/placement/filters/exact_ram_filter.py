# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ExactRamFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail
from ..text import number


class ExactRamFilter(Filter):
    """A host passes when exactly the MiB of memory that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``memory_mb``, which the claim tests again: no second one fits.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.exact_ram_filter.ExactRamFilter, removed in Nova 18.
    """

    sets_limits = True

    def check(self, host_state, spec):
        asked = spec.memory_mb
        free = host_state.free_ram_mb
        if asked != free:
            return fail("needs exactly %d MiB of memory, %s free" % (asked, number(free)), asked=asked, free=free)
        host_state.limits["memory_mb"] = host_state.total_usable_ram_mb
        return PASS
