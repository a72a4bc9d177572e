# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action apply_plan: see plugins/modules/apply_plan.py for its documentation."""

from __future__ import annotations

import datetime
import re

from ..module_utils.fleet import plan_file
from ..module_utils.fleet.check import check
from ..module_utils.model import fleet_hints
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.lifecycle import RESIZED
from ..module_utils.model.migration import COLD
from ..plugin_utils import fleet_options
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.documents import read_yaml
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.known_fleet import known_fleet
from ..plugin_utils.plain import plain
from ..plugin_utils.planned_lines import lines
from ..plugin_utils.screen import say
from ..plugin_utils.selection import check_none_chosen

MOST_BYTES = 1 << 26
TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])\Z")


class ActionModule(ControllerAction):
    argument_spec = {
        "path": {"type": "path"},
        "plan": {"type": "dict"},
        "migration": {"type": "str", "default": "auto"},
        "confirm": {"type": "list", "elements": "str", "default": []},
        "at_once": {"type": "raw", "default": 4},
        "per_host": {"type": "raw", "default": 2},
        "until": {"type": "str"},
        "hosts": {"type": "list", "elements": "str"},
    }

    def reported(self, result):
        return None if result["moves"] else {part: result[part] for part in ("goal", "moves")}

    def act(self, args, task_vars):
        at_once, per_host = (
            fleet_options.whole(variable, args[option])
            for option, variable in (("at_once", "berth_moves_at_once"), ("per_host", "berth_moves_per_host"))
        )
        if not args["plan"]:
            check_none_chosen(self, task_vars, "the plan says what moves, where and how", "berth_migration")
        until = _until(args["until"], datetime.datetime.now())
        if not args["plan"] and not args["path"]:
            raise InvalidInput("berth_plan", None, plan_file.RULE, hint=fleet_hints.name_plan())
        document = plain(args["plan"]) or read_yaml(args["path"], "berth_plan", plan_file.RULE, MOST_BYTES)
        path = args["path"] or "of this run"
        written = plan_file.read(document, path)
        known = known_fleet(self, task_vars, kvm_hosts(task_vars, args["hosts"]), args["migration"])
        waves = plan_file.left(written, known.fleet)
        first = [plan_file.begun(written, known.fleet), _unconfirmed(written, known)]
        ends = [(written.moves[uuid]["from"], uuid, host) for part in first for uuid, host in part]
        check(known.fleet, waves, written.goal.closed, ends)
        first.append(
            [(uuid, each.host) for uuid, each in known.fleet.instances.items() if each.name in args["confirm"]]
        )
        parts = [part for part in first if part]
        parts += [part for wave in waves for part in plan_file.batches(wave, known.fleet, at_once, per_host)]
        if not args["plan"]:
            say("", *lines(document), "", _summary(written, parts, until, self._task.check_mode), "")
        return {
            "goal": written.goal.name,
            "until": until,
            "migration": args["migration"],
            "sizes": [len(part) for part in parts],
            "moves": [_move(written, known, uuid, host) for part in parts for uuid, host in part],
        }


def _unconfirmed(written, known):
    """What a run has moved while it was off, and did not confirm. A resize, and what runs, waits for people who look at it."""
    uuids, found = known.reported.uuids(), []
    for uuid, move in written.moves.items():
        view = known.views.get(move["to"], {}).get(uuid, {})
        begun = view.get("migration") or {}
        if view.get("phase") == RESIZED and begun.get("type") == COLD and not view.get("running"):
            if begun["source"]["uuid"] == uuids.get(move["from"]):
                found.append((uuid, move["to"]))
    return found


def _until(text, now):
    """The seconds since 1970 of the next such time of day on the controller, None without one."""
    if not text:
        return None
    found = TIME.match(text)
    if not found:
        raise InvalidInput("berth_until", text, "a time of day of the controller, such as 06:00")
    at = now.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    return (at if at > now else at + datetime.timedelta(days=1)).timestamp()


def _move(written, known, uuid, host):
    instance = known.fleet.instances[uuid]
    added = instance.name in known.moving.added
    return {
        "name": instance.name,
        "to": host,
        "how": "confirm" if instance.host == host and not instance.going else instance.how,
        "goes_with": _together(written, known.fleet, uuid, host),
        "drains": written.moves.get(uuid, {}).get("from") in written.goal.closed,
        "project": known.moving.names[instance.name] if added else None,
    }


def _together(written, fleet, uuid, host):
    """uuid -> the host that it leaves, of the other members of its affinity group that the plan moves to the same host."""
    group = fleet.instances[uuid].goes_with
    if not group:
        return {}
    there = {
        each: move["from"] for each, move in written.moves.items() if move["to"] == host and each in fleet.instances
    }
    return {each: at for each, at in there.items() if each != uuid and fleet.instances[each].goes_with == group}


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
