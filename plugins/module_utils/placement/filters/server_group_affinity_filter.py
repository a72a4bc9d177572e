# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ServerGroupAffinityFilter."""

from __future__ import annotations

from ..base import PASS, Filter, fail


class ServerGroupAffinityFilter(Filter):
    """With group policy affinity a host passes when members are on it, or while no member is anywhere.

    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.affinity_filter.ServerGroupAffinityFilter.
    """

    def about(self, spec):
        return group.members if (group := spec.instance_group) and group.policy == "affinity" else ()

    def check(self, host_state, spec):
        group = spec.instance_group
        if group is None or group.policy != "affinity" or not group.hosts or host_state.host in group.hosts:
            return PASS
        return fail("group %s is on %s" % (group.name, ", ".join(sorted(group.hosts))), hosts=sorted(group.hosts))
