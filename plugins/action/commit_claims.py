# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action commit_claims: see plugins/modules/commit_claims.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.commit import commit
from ..module_utils.conductor.plan import prepare_round
from ..module_utils.conductor.quotas import after_the_claims
from ..module_utils.model.catalog import Catalog
from ..plugin_utils.catalogs import SHARED_CATALOG
from ..plugin_utils.controller import (
    ControllerAction,
    current_plan,
    lost_hosts,
    new_token,
    plan_result,
    replies,
    variables,
)
from ..plugin_utils.plain import plain


class ActionModule(ControllerAction):
    def act(self, args, task_vars):
        plan = current_plan(task_vars)
        names = list(plan["hosts"])
        claims = plain(replies(task_vars, names, "__berth_claims"))
        scans = plain(replies(task_vars, names, "__berth_scans"))
        # What any instance has: placement has seen that they all have the same.
        given = variables(task_vars, next(iter(plan["instances"])), ["berth_lost_hosts", *SHARED_CATALOG])
        over_quota = after_the_claims(Catalog.from_variables(given).quotas) if given.get("berth_quotas") else None
        commit(plan, claims, scans, lost_hosts(given), over_quota)
        if not plan["build"]:
            prepare_round(plan, new_token)
        return plan_result(plan)
