# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action claim_room: see plugins/modules/claim_room.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.commit import commit
from ..module_utils.conductor.plan import prepare_round
from ..module_utils.conductor.quotas import after_the_claims
from ..module_utils.conductor.telling import Telling
from ..module_utils.model.catalog import Catalog
from ..plugin_utils.answers_of_hosts import replies
from ..plugin_utils.asking import answers, ask
from ..plugin_utils.controller import ControllerAction, current_plan, new_token, plan_result
from ..plugin_utils.inventory_variables import SHARED_CATALOG, lost_hosts, variables
from ..plugin_utils.plain import plain


class ActionModule(ControllerAction):
    def act(self, args, task_vars):
        plan = current_plan(task_vars)
        # From any instance: placement has checked that they are the same for all.
        values = variables(task_vars, next(iter(plan["instances"])), ["berth_lost_hosts", *SHARED_CATALOG])
        over_quota = after_the_claims(Catalog.from_variables(values).quotas) if values.get("berth_quotas") else None
        while plan["claims"]:
            self._claim(plan, task_vars, lost_hosts(values), over_quota)
            if plan["build"]:
                break
            prepare_round(plan, new_token)
        return plan_result(plan)

    def _claim(self, plan, task_vars, lost, over_quota):
        """Claim on the chosen hosts, then read all hosts: of two runs, at least one then sees the other's claim."""
        hosts = [host for host in plan["hosts"] if host in plan["claims"] or host in plan["withdraw"]]
        own = {"claims": plan["claims"], "withdraw": plan["withdraw"]}
        claims = answers(ask(self, task_vars, hosts, "claim", {}, own))
        telling, known = Telling(plan["rescan"]["told"]), replies(task_vars, "__berth_facts")
        own = {"told": {host: telling.to(known.get(host, {}).get("digests")) for host in plan["reachable"]}}
        about = {"about": plan["rescan"]["about"]}
        scans = answers(ask(self, task_vars, plan["reachable"], "rescan", about, own))
        commit(plan, plain(claims), plain(scans), lost, over_quota)
