# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ServerGroupSoftAntiAffinityWeigher."""

from __future__ import annotations

from ..base import Weigher


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """With group policy soft-anti-affinity: avoids a host the more members of the group it has.

    Normalised from the smallest to the largest.
    Options: soft_anti_affinity_weight_multiplier (1.0, not negative).
    Aggregate metadata: soft_anti_affinity_weight_multiplier.

    Source: nova.scheduler.weights.affinity.ServerGroupSoftAntiAffinityWeigher.
    """

    multiplier_option = "soft_anti_affinity_weight_multiplier"

    def raw(self, host_state, spec):
        group = spec.instance_group
        if group is None or group.policy != "soft-anti-affinity":
            return 0
        return -len(group.members.intersection(host_state.instances))
