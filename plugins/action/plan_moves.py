# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plan_moves: see plugins/modules/plan_moves.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.plan_moves import PlanMoves


class ActionModule(PlanMoves):
    """Plans, and leaves the rest to the tasks of the playbook."""
