# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action maintain_host: see plugins/modules/maintain_host.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import maintenance
from ..module_utils.conductor.errors import HostUnknown, KvmHostNotFound
from ..module_utils.conductor.procedures.close_host import close_host
from ..module_utils.model import fleet_hints, hints, input_hints
from ..module_utils.model.errors import InvalidInput
from ..plugin_utils import berth_where_hosts, fleet_options
from ..plugin_utils.answers_of_hosts import read_reports
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import is_true, kvm_hosts
from ..plugin_utils.screen import say
from ..plugin_utils.selection import check_none_chosen, instances_by_uuid

VARIABLE, BRING_HOME = "berth_kvm_host", "berth_bring_home"


class ActionModule(ControllerAction):
    argument_spec = documented("maintain_host")

    def reported(self, result):
        goes_on = result["names"] or not self._task.args.get("ends_run", True)
        return None if goes_on else {part: result[part] for part in ("host", "state", "stay")}

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        fleet = read_reports(task_vars, hosts)
        host = self._host(task_vars, args, fleet)
        host = host.strip()
        if "," in host or host in task_vars["groups"]:
            raise InvalidInput(VARIABLE, host, "the name of one KVM host", hint=input_hints.give_host(VARIABLE))
        if host not in hosts:
            raise KvmHostNotFound.of(VARIABLE, host, hosts)
        self._check_given(task_vars, args)
        if host in fleet.verdicts:
            why = fleet.verdicts[host]
            raise HostUnknown("%s does not answer: %s" % (host, why), hint=hints.bring_back([host]), host=host)
        drains = args["state"] == "drained"
        known = set(map(str, task_vars["groups"]["all"]))
        choose = maintenance.leaving if drains else maintenance.coming_home
        inventory = instances_by_uuid(task_vars, hosts)
        found = choose(fleet, host, inventory, known)
        given = {"state": args["state"], "reason": args["reason"]}
        closing = close_host(fleet, host, given, self._task.check_mode)
        changed, _said = carry_out(self, task_vars, closing)
        off = [] if drains else maintenance.fell(fleet, host, inventory)
        say(
            "",
            *_summary(host, drains, found, self._task.check_mode, self._stays(task_vars)),
            *map(fleet_hints.start_what_fell, off),
        )
        return {
            "changed": changed,
            "host": host,
            "state": args["state"],
            "names": sorted(found.names),
            "add": [{"name": name, "project": found.names[name]} for name in sorted(found.added)],
            "are_off": sorted(found.off),
            "to_end": sorted(found.ends),
            "stay": found.reasons(),
        }

    def _stays(self, task_vars):
        """Whether nothing comes home when the host is opened."""
        return not is_true({BRING_HOME: True, **self.own_variables(task_vars, [BRING_HOME])}, BRING_HOME)

    def _host(self, task_vars, args, fleet):
        by_query = args["ends_run"] and args["state"] == "drained" and berth_where_hosts.VARIABLE in task_vars
        if bool(args["name"]) == by_query:
            rule = "not beside berth_where_hosts, which selects the host" if by_query else "the name of a KVM host"
            raise InvalidInput(VARIABLE, args["name"], rule, hint=input_hints.give_host(VARIABLE))
        return berth_where_hosts.one(self, task_vars, fleet.documents) if by_query else args["name"]

    def _check_given(self, task_vars, args):
        """What would choose other instances than those of the host, or others than it says, is refused."""
        fleet_options.REASON.check(args["reason"], "berth_drain_reason")
        check_none_chosen(self, task_vars, "%s says which host, and all of its instances are meant" % VARIABLE)


def _summary(host, drains, found, check_mode, stays):
    would = "would be" if check_mode else "is"
    done = "%s %s %s" % (host, would, "closed: it takes no instance until berth.kvm.return" if drains else "open")
    moving = ", ".join(sorted(found.names)) or "nothing"
    if stays and not drains:
        return ["%s. What left it stays where it is: %s." % (done, moving)]
    what = "leave it" if drains else "come home to it"
    lines = ["%s. What is to %s: %s." % (done, what, moving)]
    return lines + ["%s stays where it is: %s" % stays for stays in found.reasons().items()]
