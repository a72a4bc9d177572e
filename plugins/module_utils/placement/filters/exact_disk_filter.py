# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ExactDiskFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail
from ..networks_and_pools import counts_elsewhere
from ..text import number


class ExactDiskFilter(Filter):
    """A host passes when exactly the MiB of disk that the flavor needs are free on it (for whole-host instances).

    A host that passes gets its total as the limit ``disk_gb``, which the claim tests again: no second one fits.
    Disks in a pool on a file system of its own are not counted here, but by the capacity of that pool.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.exact_disk_filter.ExactDiskFilter, removed in Nova 18.
    """

    sets_limits = True

    def check(self, host_state, spec):
        if counts_elsewhere(host_state.document, spec):
            return PASS
        asked = spec.local_gb * 1024 + spec.swap
        free = host_state.free_disk_mb
        if asked != free:
            return fail("needs exactly %d MiB of disk, %s free" % (asked, number(free)), asked=asked, free=free)
        host_state.limits["disk_gb"] = host_state.total_usable_disk_gb
        return PASS
