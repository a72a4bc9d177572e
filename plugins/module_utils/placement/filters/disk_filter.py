# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DiskFilter."""

from __future__ import annotations

from .. import overcommit
from ..base import PASS, Filter
from ..networks_and_pools import counts_elsewhere


class DiskFilter(Filter):
    """A host passes when total x ratio less what is used leaves the MiB of disk that the flavor needs.

    An instance may overcommit against others, never against itself: it must fit in the host's total. A host
    that passes gets the limit ``disk_gb``, which the claim tests again. Disks in a pool on a file system of its own
    are not counted here, but by the capacity of that pool.
    Options: none. Aggregate metadata: none. Host: disk_allocation_ratio. Runs for every instance.
    Source: nova.scheduler.filters.disk_filter.DiskFilter, removed in Nova 20 (Placement took its place).
    """

    sets_limits = True

    def ratio(self, host_state):
        return host_state.disk_allocation_ratio

    def check(self, host_state, spec):
        if counts_elsewhere(host_state.document, spec):
            return PASS
        asked = spec.local_gb * 1024 + spec.swap
        total = host_state.total_usable_disk_gb * 1024
        ratio = self.ratio(host_state)
        verdict = overcommit.verdict(asked, total, total - host_state.free_disk_mb, ratio, "MiB of disk")
        if verdict.passed:
            host_state.limits["disk_gb"] = total * ratio / 1024
        return verdict
