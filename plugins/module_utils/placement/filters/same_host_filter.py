# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SameHostFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class SameHostFilter(Filter):
    """A host passes when it has at least one of the instances in the hint ``same_host`` (a uuid or a list).

    Options: none. Aggregate metadata: none. Runs once per request.
    Source: nova.scheduler.filters.affinity_filter.SameHostFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return spec.scheduler_hints.get("same_host", ())

    def check(self, host_state, spec):
        named = spec.get_scheduler_hint("same_host")
        if not named:
            return PASS
        named = {named} if isinstance(named, str) else set(named)
        return (
            PASS
            if named & set(host_state.instances)
            else fail("has none of %s" % ", ".join(sorted(named)), wanted=sorted(named))
        )
