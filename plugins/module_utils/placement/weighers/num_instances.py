# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NumInstancesWeigher."""

from __future__ import annotations

from ..base import Weigher


class NumInstancesWeigher(Weigher):
    """Counts instances: a negative multiplier spreads them, a positive one stacks.

    Normalised from the smallest to the largest.
    Options: num_instances_weight_multiplier (0.0: off).
    Aggregate metadata: num_instances_weight_multiplier.

    Source: nova.scheduler.weights.num_instances.NumInstancesWeigher.
    """

    multiplier_option = "num_instances_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.num_instances
