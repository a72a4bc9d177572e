# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action fence_host: see plugins/modules/fence_host.py for its documentation."""

from __future__ import annotations

import os

from ..module_utils.conductor import silence
from ..module_utils.conductor.errors import HostNotLost, KvmHostNotFound
from ..module_utils.model import copy_hints
from ..module_utils.model.errors import InvalidInput
from ..plugin_utils import fencing
from ..plugin_utils.answers_of_hosts import read_reports
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.inventory_variables import kvm_hosts, listed, lost_hosts
from ..plugin_utils.screen import say

VARIABLE = "berth_kvm_host"


class ActionModule(ControllerAction):
    argument_spec = documented("fence_host")

    def act(self, args, task_vars):
        hosts, names = kvm_hosts(task_vars, args["hosts"]), listed({VARIABLE: args["names"]}, VARIABLE)
        if lost_hosts(self.own_variables(task_vars, ["berth_lost_hosts"])):
            rule = "nothing beside berth_lost_hosts, which says that hosts are off: berth_kvm_host is switched off here"
            raise InvalidInput(VARIABLE, args["names"], rule)
        fleet = read_reports(task_vars, hosts)
        agents = {host: _agent(task_vars, host, hosts, fleet) for host in names}
        was_off = [self._switched_off(host, *agent) for host, agent in agents.items()]
        evidence = ["%s says that %s is off" % (os.path.basename(agent[0]), host) for host, agent in agents.items()]
        say(
            "",
            *(
                _would(host, agents[host][0]) if not off and self._task.check_mode else said
                for host, off, said in zip(names, was_off, evidence)
            ),
            "",
        )
        return {"changed": not all(was_off), "hosts": names, "evidence": "; ".join(evidence)}

    def _switched_off(self, host, path, options):
        """Whether it was off already."""
        was_off = fencing.is_off(host, path, options)
        if not was_off and not self._task.check_mode:
            fencing.switch_off(host, path, options)
        return was_off


def _agent(task_vars, host, hosts, fleet):
    """(path, options) of its fence agent. Raises HostNotLost for a host that answers."""
    if host not in hosts:
        raise KvmHostNotFound.of(VARIABLE, host, hosts)
    if host in fleet.documents:
        raise HostNotLost("%s answers, so it was not switched off" % host, hint=copy_hints.nothing_to_take_over(host))
    silence.check_lost([host], fleet.verdicts)
    return fencing.agent_of(task_vars, host, hosts)


def _would(host, path):
    return "%s would be switched off by %s" % (host, os.path.basename(path))
