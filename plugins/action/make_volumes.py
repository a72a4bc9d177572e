# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action make_volumes: see plugins/modules/make_volumes.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import new_volumes, volume_quotas
from ..plugin_utils.answers_of_hosts import reason_of
from ..plugin_utils.asking import answers, ask
from ..plugin_utils.controller import ControllerAction, controller_fact, new_token
from ..plugin_utils.inventory_variables import kvm_hosts, lost_hosts
from ..plugin_utils.plain import plain
from ..plugin_utils.whose_variables import Catalogs


class ActionModule(ControllerAction):
    argument_spec = {"hosts": {"type": "list", "elements": "str"}}

    def act(self, args, task_vars):
        located = controller_fact(task_vars, "berth_located")
        makings = new_volumes.to_make(located["instances"], new_token)
        wanted = [making for making in makings if not making.error]
        if not makings:
            return {}
        lost = lost_hosts(self.own_variables(task_vars, ["berth_lost_hosts"]))
        hosts, over = kvm_hosts(task_vars, args["hosts"]), {}
        self._ask(task_vars, wanted, "claimed")
        for making in wanted:
            making.is_claimed = not making.error
        if not self._task.check_mode:
            quotas = Catalogs(task_vars, located["names"], hosts, self._loader).shared.quotas
            over = self._make(task_vars, makings, [host for host in hosts if host not in lost], lost, located, quotas)
        failures = {**over, **new_volumes.failures(makings)}
        located["errors"].update(failures)
        located["found"] = [name for name in located["found"] if name not in failures]
        changed = any(not making.error for making in makings)
        return {"changed": changed, "ansible_facts": {"berth_located": located}, "_ansible_verbose_override": True}

    def _make(self, task_vars, makings, hosts, lost, located, quotas):
        """Read all hosts after the claims, then create and grow the volumes that no other run creates and that the quotas allow.
        Return {name: why} of the instances that exceed theirs."""
        claimed = [making for making in makings if making.is_claimed]
        if not claimed:
            return {}
        scans = plain(answers(ask(self, task_vars, hosts, "rescan", {})))
        silent = {host: reason_of(scan) for host, scan in scans.items() if "host_uuid" not in scan}
        new_volumes.decide(claimed, scans, silent, lost)
        answered = [scan for scan in scans.values() if "host_uuid" in scan]
        over = volume_quotas.after_the_claims(located["instances"], claimed, answered, quotas)
        over = {name: new_volumes.message_of(error) for name, error in over.items()}
        refused_of = {**new_volumes.failures(makings), **over}
        for making in claimed:  # all of an instance, or none: one that fails gets nothing
            making.error = making.error or refused_of.get(making.name)
        self._ask(task_vars, [making for making in claimed if making.error], "absent")
        self._ask(task_vars, [making for making in claimed if not making.error], "present")
        return over

    def _ask(self, task_vars, makings, state):
        """Bring the volumes, or their growth, to the state on their hosts, and record what a host refused."""
        for of_host in new_volumes.rounds(makings):
            own = {host: making.arguments(state) for host, making in of_host.items()}
            parts = {
                part: {host: given[part] for host, given in own.items() if part in given}
                for part in ("uuid", "state", "token", "volume", "grows")
            }
            for host, reply in plain(answers(ask(self, task_vars, of_host, "volume", {}, parts))).items():
                if ("error" in reply or "reason" in reply) and not of_host[host].error:
                    of_host[host].error = refused(of_host[host], reply)


def refused(making, reply):
    """Why a host refused, its error code first, or that it did not answer."""
    code, reason = "HostUnreachable", reason_of(reply)
    if "error" in reply:
        code, _colon, reason = reason.partition(": ")
    return "%s: volume %s on %s: %s" % (code, making.volume["name"], making.host, reason)
