# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CrossCellWeigher."""

from __future__ import annotations

from ..base import Weigher


class CrossCellWeigher(Weigher):
    """For a move that may leave its cell: 1 for hosts in the preferred cell, -1 for others; else 0.

    A host's cell is its variable berth_host_cell. A resize or migration prefers the cell of the host that it leaves, and
    goes to another only if no host there will do; if the host that it leaves has no cell, all are alike.
    Normalised from the smallest to the largest.
    Options: cross_cell_move_weight_multiplier (1000000.0).
    Aggregate metadata: cross_cell_move_weight_multiplier.

    Source: nova.scheduler.weights.cross_cell.CrossCellWeigher.
    """

    multiplier_option = "cross_cell_move_weight_multiplier"

    def raw(self, host_state, spec):
        destination = spec.requested_destination or {}
        if not destination.get("cell") or not destination.get("allow_cross_cell_move"):
            return 0
        return 1 if host_state.cell_uuid == destination["cell"] else -1
