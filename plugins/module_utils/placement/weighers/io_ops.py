# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IoOpsWeigher."""

from __future__ import annotations

from ..base import Weigher


class IoOpsWeigher(Weigher):
    """Avoids hosts that are busy with builds, resizes, migrations and snapshots.

    Normalised from 0 to the largest (negative raw weights count as 0).
    Options: io_ops_weight_multiplier (-1.0).
    Aggregate metadata: io_ops_weight_multiplier.

    Source: nova.scheduler.weights.io_ops.IoOpsWeigher.
    """

    minval = 0
    multiplier_option = "io_ops_weight_multiplier"

    def raw(self, host_state, spec):
        return host_state.num_io_ops
