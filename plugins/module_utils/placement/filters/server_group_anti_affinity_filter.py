# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ServerGroupAntiAffinityFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class ServerGroupAntiAffinityFilter(Filter):
    """With group policy anti-affinity a host passes while it has fewer members than max_server_per_host (1).

    A host that has this same instance passes too (a move may consider its own host).
    Options: none. Aggregate metadata: none. Group rule: max_server_per_host. Runs for every instance.
    Source: nova.scheduler.filters.affinity_filter.ServerGroupAntiAffinityFilter.
    """

    def about(self, spec):
        return group.members if (group := spec.instance_group) and group.policy == "anti-affinity" else ()

    def check(self, host_state, spec):
        group = spec.instance_group
        if group is None or group.policy != "anti-affinity" or spec.instance_uuid in host_state.instances:
            return PASS
        here = len(group.members.intersection(host_state.instances))
        limit = group.max_server_per_host
        if here < limit:
            return PASS
        return fail(
            "has %d of at most %d members of group %s" % (here, limit, group.name),
            members=here,
            max_server_per_host=limit,
        )
