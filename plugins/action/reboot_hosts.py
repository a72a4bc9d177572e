# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action reboot_hosts: see plugins/modules/reboot_hosts.py for its documentation."""

from __future__ import annotations

import time

from ..module_utils.conductor import fleet_events, maintenance, rolling
from ..module_utils.conductor.doctor import examine
from ..module_utils.conductor.errors import HostUnknown, KvmHostNotFound
from ..module_utils.model import fleet_hints, hints
from ..module_utils.model.messages import BESIDE_FACTS
from ..plugin_utils import berth_where_hosts, end_of_operation, fleet_options
from ..plugin_utils.answers_of_hosts import read_reports
from ..plugin_utils.controller import documented
from ..plugin_utils.doctor_case import case_of
from ..plugin_utils.inventory_variables import kvm_hosts, listed, variables
from ..plugin_utils.moving_instances import FACTS, Asked, MovesInstances, after_second_look
from ..plugin_utils.plain import plain
from ..plugin_utils.reading import read
from ..plugin_utils.screen import say
from ..plugin_utils.selection import check_none_chosen, instances_by_uuid

PAUSE = 5  # seconds between two questions to a host that boots
LOOKS = {
    **dict.fromkeys(BESIDE_FACTS, False),
    "checkup": True,
    "must_answer": False,
    "instances": [],
    "operation": "doctor",
}


class ActionModule(MovesInstances):
    argument_spec = documented("reboot_hosts")

    def reported(self, result):
        return (
            {part: result[part] for part in ("steps", "names")} if "steps" in result and not result["names"] else None
        )

    def act(self, args, task_vars):
        return {"order": self._order, "move": self._move, "check": self._check}[args["step"]](args, task_vars)

    def _order(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        at_once = fleet_options.whole("berth_hosts_at_once", args["at_once"])
        since = fleet_events.seconds_since(args["since"], time.time()) if args["since"] else None
        check_none_chosen(self, task_vars, "berth_kvm_host and berth_where_hosts say which hosts", "berth_migration")
        fleet = read_reports(task_vars, hosts)
        steps = rolling.order(fleet, self._named(args, task_vars, hosts, fleet), since)
        inventory, known = instances_by_uuid(task_vars, hosts), set(map(str, task_vars["groups"]["all"]))
        say("", *(_line(step, maintenance.leaving(fleet, step.host, inventory, known)) for step in steps))
        names = [step.host for step in steps if step.does in (rolling.REBOOT, rolling.RETURN)]
        if names and not self._task.check_mode:
            say(fleet_hints.pass_over_booted(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))
        say("")
        return {"names": names, "at_once": at_once, "steps": {step.host: step.does for step in steps}}

    def _named(self, args, task_vars, hosts, fleet):
        """The hosts that are named, by themselves or by a group; without a name all, or those of the query."""
        given = listed({"berth_kvm_host": args["names"]}, "berth_kvm_host")
        if not given:
            answering = [host for host in berth_where_hosts.selected(self, task_vars, fleet.documents) if host in hosts]
            return answering if berth_where_hosts.VARIABLE in task_vars else [*answering, *sorted(fleet.verdicts)]
        found = [str(host) for name in given for host in task_vars["groups"].get(name, [name])]
        for host in found:
            if host not in hosts:
                raise KvmHostNotFound.of("berth_kvm_host", host, hosts)
        return list(dict.fromkeys(found))

    def _move(self, args, task_vars):
        """One instance after the other; the plan of each names its host, and placement decides again if that is full by then."""
        if not args["names"]:
            return {"failed_names": []}
        asked = Asked("migrate", args["hosts"], {**task_vars, "berth_migration": "auto"})  # whatever the inventory has
        moves, done = plain(self.read_and_plan(asked, args["names"])), {}
        for name in moves["names"]:
            done[name], second, _more = self.moved(asked, name, moves["moves"].get(name))
            moves = after_second_look(moves, second, [name]) if second else moves
        ended = end_of_operation.end(self, task_vars, "migrate", {}, {}, moves, done)
        failed = ended["ansible_facts"]["berth_results"]["failed"]
        return {"changed": any(each["changed"] for each in done.values()), "failed_names": sorted(failed)}

    def _check(self, args, task_vars):
        """Wait until the host of this task reports what it holds, and raise HostNotWhole if the doctor finds errors there."""
        host, hosts = str(task_vars["inventory_hostname"]), kvm_hosts(task_vars, args["hosts"])
        until = time.monotonic() + args["seconds"]
        while True:
            told = read(self, {**LOOKS, "hosts": hosts}, task_vars)
            seen = {**task_vars, FACTS: told}
            why = read_reports(seen, hosts).verdicts.get(host)
            if why is None:
                rolling.check_whole(host, examine(case_of(seen, hosts, told["asked"], self._loader)))
                return {}
            if time.monotonic() >= until:
                raise HostUnknown("%s was booted, but: %s" % (host, why), hint=hints.bring_back([host]), host=host)
            time.sleep(PAUSE)

    def values_of(self, task_vars, name, names):
        """An instance's own, or else those of the play: the task is that of a KVM host."""
        return {**self.own_variables(task_vars, names), **variables(task_vars, name, names)}


def _line(step, moving):
    if step.does == rolling.DONE:
        return "%s was booted since then" % step.host
    if step.does == rolling.CLOSED:
        return "%s is closed and left alone: %s" % (step.host, step.why)
    if step.does == rolling.RETURN:
        return "%s was booted, and is to be opened" % step.host
    leave = sorted(set(moving.names) - set(moving.off))
    stays = {name: error for name, error in moving.errors.items() if name not in moving.off}
    held = ["; stays: %s: %s" % (name, error) for name, error in sorted(stays.items())]
    return "%s is to be booted; leaves before: %s%s" % (step.host, ", ".join(leave) or "nothing", "".join(held))
