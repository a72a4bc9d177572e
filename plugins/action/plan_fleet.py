# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plan_fleet: see plugins/modules/plan_fleet.py for its documentation."""

from __future__ import annotations

import os

import yaml

from ..module_utils.conductor.errors import KvmHostNotFound
from ..module_utils.fleet import forecast, make_plan, plan_file
from ..module_utils.fleet.check import check
from ..module_utils.fleet.goals import BALANCE, CONSOLIDATE, GOALS, OF_HOSTS, Goal
from ..module_utils.model import fleet_hints, input_hints
from ..module_utils.model.errors import InvalidInput, together
from ..plugin_utils import fleet_options
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.documents import check_replaceable, write_named
from ..plugin_utils.fan_out import answers, ask
from ..plugin_utils.inventory_variables import kvm_hosts, listed
from ..plugin_utils.known_fleet import known_fleet
from ..plugin_utils.plain import plain
from ..plugin_utils.planned_lines import lines
from ..plugin_utils.screen import say

RESOURCES = {"memory": "MEMORY_MB", "vcpus": "VCPU"}
OURS = b"# A plan of berth.kvm"
HEAD = OURS.decode() + " for goal %s. %s\n"


class ActionModule(ControllerAction):
    argument_spec = documented("plan_fleet")

    def reported(self, result):
        return {"plan": result["plan"]}

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        args["drained"], path = listed(args, "drained"), args["path"] or None
        goal, _checked = together([lambda: _goal(args, hosts), lambda: _check_path(path)])
        known = known_fleet(self, task_vars, hosts, args["migration"])
        plan = make_plan.make(known.fleet, goal)
        check(known.fleet, plan.waves, goal.closed)
        document = plain(plan_file.to_document(known.fleet, plan))
        self._forecast(document, known.fleet, task_vars)
        if path and not self._task.check_mode:
            text = yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
            head = HEAD % (goal.name, fleet_hints.carry_out_plan(os.path.basename(path)))
            write_named(path, (head + text).encode(), "berth_plan")
        ends = [] if args["carried_out"] else [_next(document, path, self._task.check_mode)]
        say("", *lines(document, args["told"]), *_left_out(known.reported), *ends, "")
        return {"plan": document, "path": path}

    def _forecast(self, document, fleet, task_vars):
        """Write into each move how long it will take, by the past moves to the hosts where the plan moves something."""
        moves = [move for wave in document["waves"] for move in wave]
        asked = {"events_seconds": forecast.DAYS * 86400, "uuids": []}
        replies = answers(ask(self, task_vars, sorted({move["to"] for move in moves}), "instance_info", asked))
        paces = forecast.paces({host: reply.get("histories") or () for host, reply in replies.items()}, fleet.documents)
        for move in moves:
            move["seconds"] = forecast.seconds(paces, move)


def _check_path(path):
    if path:
        rule = "a file that is not there yet, or another plan"
        check_replaceable(path, "berth_plan", path, lambda file: file.read(len(OURS)) == OURS, rule)


def _goal(args, hosts):
    name, most = args["goal"] or None, args["max_moves"]
    if name not in GOALS:
        raise InvalidInput("berth_goal", name, "one of " + ", ".join(GOALS), hint=fleet_hints.choose_goal())
    if name in OF_HOSTS:
        if not args["drained"]:
            hint = input_hints.give_host("berth_kvm_host")
            raise InvalidInput("berth_kvm_host", None, "the name of a KVM host", hint=hint)
        for host in args["drained"]:
            if host not in hosts:
                raise KvmHostNotFound.of("berth_kvm_host", host, hosts)
    elif args["drained"]:
        raise InvalidInput("berth_kvm_host", args["drained"], "nothing here: goal %s is about all hosts" % name)
    if name in (BALANCE, CONSOLIDATE):
        most = fleet_options.whole("berth_max_moves", most, 10)
    gain = fleet_options.whole("berth_least_gain", args["least_gain"], 5)
    return Goal(
        name,
        frozenset(args["drained"]) if name in OF_HOSTS else frozenset(),
        most if name in (BALANCE, CONSOLIDATE) else None,
        RESOURCES[args["balance_by"]],
        gain / 100,
    )


def _left_out(reported):
    return ["%s is not in the plan: %s" % told for told in sorted(reported.verdicts.items())]


def _next(document, path, check_mode):
    if not document["waves"]:
        return "There is nothing to carry out."
    if not path:
        return fleet_hints.keep_plan()
    if check_mode:
        return "Check mode: %s was not written." % path
    return fleet_hints.carry_out_plan(path)
