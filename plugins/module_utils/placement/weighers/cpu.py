# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUWeigher."""

from __future__ import annotations

from ..base import Weigher


class CPUWeigher(Weigher):
    """Prefers hosts with more free vCPUs (total x cpu_allocation_ratio - used); a negative multiplier stacks.

    Normalised from 0 to the largest (negative raw weights count as 0).
    Options: cpu_weight_multiplier (1.0).
    Aggregate metadata: cpu_weight_multiplier.

    Source: nova.scheduler.weights.cpu.CPUWeigher.
    """

    minval = 0
    multiplier_option = "cpu_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.vcpus_total * host_state.cpu_allocation_ratio - host_state.vcpus_used
