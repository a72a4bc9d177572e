# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAMWeigher."""

from __future__ import annotations

from ..base import Weigher


class RAMWeigher(Weigher):
    """Prefers hosts with more free memory (MiB, without the allocation ratio); a negative multiplier stacks.

    Normalised from 0 to the largest (negative raw weights count as 0).
    Options: ram_weight_multiplier (1.0).
    Aggregate metadata: ram_weight_multiplier.

    Source: nova.scheduler.weights.ram.RAMWeigher.
    """

    minval = 0
    multiplier_option = "ram_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.free_ram_mb
