# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action read_hosts: see plugins/modules/read_hosts.py for its documentation."""

from __future__ import annotations

import time

from ansible.utils.vars import load_extra_vars

from ..module_utils.conductor.errors import NoHostAnswered
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import uuid_of
from ..module_utils.model.messages import BESIDE_FACTS
from ..plugin_utils import run_report
from ..plugin_utils.answers_of_hosts import reason_of
from ..plugin_utils.asking import answers, ask, warnings
from ..plugin_utils.berth_name import COUNTS, check_counts, check_given, check_group, check_name
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.inventory_variables import described, instances_among, kvm_hosts, raw_vars, variables
from ..plugin_utils.selection import no_kvm_hosts
from ..plugin_utils.variables import check_variables


class ActionModule(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "required": True},
        "hosts": {"type": "list", "elements": "str"},
        "most": {"type": "int"},
        **{part: {"type": "bool", "default": False} for part in BESIDE_FACTS},
        "must_answer": {"type": "bool", "default": True},
    }

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        check_variables(self, task_vars, hosts)
        check_name(self.own_variables(task_vars, ["berth_name"]))
        counts = self.own_variables(task_vars, COUNTS)
        check_counts(counts)
        check_group(counts, task_vars["groups"])
        check_given(task_vars, load_extra_vars(self._loader), "berth_name")
        run_report.begin(self, task_vars)
        more = {name: args[name] for name in BESIDE_FACTS}
        if not hosts:
            raise no_kvm_hosts(task_vars)
        began = time.time()
        results = ask(self, task_vars, hosts, "host_facts", {"about": self._uuids(args, task_vars), **more})
        found = answers(results)
        if args["must_answer"]:
            check_answers(found)
        times = {"asked": [began, time.time()], "changed": any(reply.get("changed") for reply in found.values())}
        return {**warnings(results), **times, "answers": found, "_ansible_verbose_override": True}

    @staticmethod
    def _uuids(args, task_vars):
        """The instances about which the hosts are asked what they remember."""
        names = instances_among(task_vars, args["instances"])
        if args["most"] is not None and len(names) > args["most"]:
            return []
        if any(raw_vars(task_vars, name).get("berth_lost_hosts") for name in names):
            # whether several machines had a lost name shows only in what hosts remember, even if --limit selects few
            names = dict.fromkeys([*names, *described(task_vars, task_vars["groups"]["all"])])
        found = []
        for name in names:
            try:
                found.append(uuid_of(name, variables(task_vars, name, ["berth_project"])))
            except BerthError:
                continue  # the action that works on the instance reports what is wrong with its name
        return found


def check_answers(found):
    """Raise NoHostAnswered if nothing is known about any host."""
    if not any("berth_host" in (reply.get("ansible_facts") or {}) for reply in found.values()):
        reasons = "; ".join("%s: %s" % (host, reason_of(reply)) for host, reply in found.items())
        raise NoHostAnswered("no host answered: %s" % reasons)
