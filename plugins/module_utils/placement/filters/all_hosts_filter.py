# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AllHostsFilter."""

from __future__ import annotations

from ..base import PASS, Filter


class AllHostsFilter(Filter):
    """Every host passes.

    Options: none. Aggregate metadata: none. Runs once per request.
    Source: nova.scheduler.filters.all_hosts_filter.AllHostsFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return ()

    def check(self, host_state, spec):
        return PASS
