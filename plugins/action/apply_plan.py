# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action apply_plan: see plugins/modules/apply_plan.py for its documentation."""

from __future__ import annotations

import datetime

from ..module_utils.fleet import plan_file
from ..module_utils.model import fleet_hints
from ..module_utils.model.errors import InvalidInput, together
from ..plugin_utils import fleet_options, rest_of_plan
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.documents import read_yaml
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.known_fleet import known_fleet
from ..plugin_utils.plain import plain
from ..plugin_utils.planned_lines import lines
from ..plugin_utils.screen import say
from ..plugin_utils.selection import check_none_chosen

MOST_BYTES = 1 << 26


class ActionModule(ControllerAction):
    argument_spec = documented("apply_plan")

    def reported(self, result):
        return None if result["moves"] else {part: result[part] for part in ("goal", "moves")}

    def act(self, args, task_vars):
        at_once, per_host = (
            fleet_options.whole(variable, args[option])
            for option, variable in (("at_once", "berth_moves_at_once"), ("per_host", "berth_moves_per_host"))
        )
        if not args["plan"]:
            check_none_chosen(self, task_vars, "the plan says what moves, where and how", "berth_migration")
        until, (document, written) = together(
            [lambda: _until(args["until"], datetime.datetime.now()), lambda: _written(args)]
        )
        known = known_fleet(self, task_vars, kvm_hosts(task_vars, args["hosts"]), args["migration"])
        parts = rest_of_plan.parts(written, known, at_once, per_host, args["to_end"])
        if not args["plan"]:
            say("", *lines(document), "", _summary(written, parts, until, self._task.check_mode), "")
        return {
            "goal": written.goal.name,
            "until": until,
            "migration": args["migration"],
            "sizes": [len(part) for part in parts],
            "moves": [rest_of_plan.move(written, known, uuid, host) for part in parts for uuid, host in part],
        }


def _written(args):
    """(the plan as it is written, the same as it was read)."""
    if not args["plan"] and not args["path"]:
        raise InvalidInput("berth_plan", None, plan_file.RULE, hint=fleet_hints.name_plan())
    document = plain(args["plan"]) or read_yaml(args["path"], "berth_plan", plan_file.RULE, MOST_BYTES)
    return document, plan_file.read(document, args["path"] or "of this run")


def _until(text, now):
    """The seconds since 1970 of the next such time of day on the controller, None without one."""
    if not text:
        return None
    hour, minute = map(int, fleet_options.TIME_OF_DAY.check(text, "berth_until").split(":"))
    at = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (at if at > now else at + datetime.timedelta(days=1)).timestamp()


def _summary(written, parts, until, check_mode):
    left = sum(map(len, parts))
    done = len(written.moves) - left
    if not left:
        return "All of it is done already."
    text = "%s %d moves, %d of them at most at once" % (
        "Would make" if check_mode else "To make:",
        left,
        max(map(len, parts)),
    )
    text += "; %d were made already" % done if done else ""
    if until:
        text += ". No move begins after %s" % datetime.datetime.fromtimestamp(until).strftime("%Y-%m-%d %H:%M")
    return text + "."
