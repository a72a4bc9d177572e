# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DifferentHostFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class DifferentHostFilter(Filter):
    """A host passes when it has none of the instances in the hint ``different_host`` (a uuid or a list).

    Options: none. Aggregate metadata: none. Runs once per request.
    Source: nova.scheduler.filters.affinity_filter.DifferentHostFilter.
    """

    run_filter_once_per_request = True

    def about(self, spec):
        return spec.scheduler_hints.get("different_host", ())

    def check(self, host_state, spec):
        named = spec.get_scheduler_hint("different_host")
        here = sorted(
            {named} & set(host_state.instances)
            if isinstance(named, str)
            else set(named or ()) & set(host_state.instances)
        )
        return fail("has %s" % ", ".join(here), instances=here) if named and here else PASS
