# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action commit_move: see plugins/modules/commit_move.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.commit_move import check_claim
from ..module_utils.model.catalog import Catalog
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.inventory_variables import CATALOG
from ..plugin_utils.plain import plain


class ActionModule(ControllerAction):
    argument_spec = {
        "move": {"type": "dict", "required": True},
        "host": {"type": "str", "required": True},
        "scans": {"type": "dict", "required": True},
    }

    def act(self, args, task_vars):
        catalog = Catalog.from_variables(self.own_variables(task_vars, CATALOG))
        check_claim(plain(args["move"]), args["host"], plain(args["scans"]), catalog.quotas)
        return {}
