# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HypervisorVersionWeigher."""

from __future__ import annotations

from ..base import Weigher


class HypervisorVersionWeigher(Weigher):
    """Prefers hosts with a newer hypervisor; a negative multiplier prefers older ones.

    Normalised from the smallest to the largest.
    Options: hypervisor_version_weight_multiplier (1.0).
    Aggregate metadata: hypervisor_version_weight_multiplier.

    Source: nova.scheduler.weights.hypervisor_version.HypervisorVersionWeigher.
    """

    multiplier_option = "hypervisor_version_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.hypervisor_version or 0
