# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action ask_fleet: see plugins/modules/ask_fleet.py for its documentation."""

from __future__ import annotations

import math

from ..module_utils.fleet import questions
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.schema import Whole
from ..module_utils.placement.request import flavor_snapshot
from ..module_utils.placement.text import table
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.known_fleet import known_fleet
from ..plugin_utils.plain import number
from ..plugin_utils.screen import say

MOST_SETS = 5000  # of hosts that fail at once: some minutes


class ActionModule(ControllerAction):
    argument_spec = {
        "question": {"type": "str", "choices": ["capacity", "survive"], "required": True},
        "kept_free": {"type": "raw", "default": 0},
        "failures": {"type": "raw", "default": 1},
        "away": {"type": "list", "elements": "str", "default": []},
        "hosts": {"type": "list", "elements": "str"},
    }

    def reported(self, result):
        return None if self._task.args.get("away") else {"answer": result["answer"]}

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        kept_free = Whole(0, len(hosts)).check(number(args["kept_free"]), "berth_kept_free")
        failures = Whole(0 if args["away"] else 1, 3).check(number(args["failures"]), "berth_failures")
        known = known_fleet(self, task_vars, hosts)
        if args["question"] == "survive":
            _check_not_too_many(len(known.fleet.documents), failures)
        answer, lines = (
            _capacity(known, kept_free) if args["question"] == "capacity" else _survive(known, failures, args["away"])
        )
        left_out = ["%s is not counted: %s" % told for told in sorted(known.reported.verdicts.items())]
        if lines:
            say("", *lines, *left_out, "")
        return {"answer": answer}


def _check_not_too_many(hosts, failures):
    most = max((number for number in range(1, failures) if math.comb(hosts, number) <= MOST_SETS), default=1)
    if failures > most and math.comb(hosts, failures) > MOST_SETS:
        rule = "at most %d with %d hosts, as each set of so many hosts is tried" % (most, hosts)
        raise InvalidInput("berth_failures", failures, rule)


def _capacity(known, kept_free):
    """How many more of each flavor of the catalog fit, were they the only ones that are created."""
    answer, rows, why = {}, [], []
    for _name, flavor in sorted(known.flavors.items()):
        try:
            found = questions.capacity(known.fleet, _request_of(flavor), kept_free)
        except BerthError as error:  # of a flavor that no instance can have
            found = questions.Capacity(0, dict.fromkeys(known.fleet.documents, 0), {"every host": str(error)})
        answer[flavor["name"]] = {"count": found.count, "hosts": found.of_host, "limited": found.limited}
        where = ", ".join("%d on %s" % (count, host) for host, count in sorted(found.of_host.items()) if count)
        rows.append((flavor["name"], str(found.count), where or "nowhere"))
        why += ["%s, not one more: %s" % (flavor["name"], reason) for _host, reason in sorted(found.limited.items())]
    free = ", with %d hosts kept free" % kept_free if kept_free else ""
    return answer, ["how many more fit of each flavor alone%s:" % free, *table(("FLAVOR", "MORE", "WHERE"), rows), *why]


def _request_of(flavor):
    name = "one more %s" % flavor["name"]
    return {"uuid": name, "name": name, "flavor": flavor_snapshot(flavor), "image": {}, "group": None}


def _survive(known, failures, away):
    found = questions.survive(known.fleet, failures, away=away)
    answer = {
        "survives": not found.hosts,
        "failing": list(found.hosts),
        "instances": list(found.names),
        "proven": found.proven,
    }
    if not found.hosts and away:
        return answer, []
    if not found.hosts:
        text = "the instances of any %d hosts find a place on the others" % failures
        return answer, [text if failures > 1 else "the instances of any host find a place on the others"]
    sure = "find no place" if found.proven else "found no place, one placed after the other"
    return answer, ["without %s: %s %s on the other hosts" % (", ".join(found.hosts), ", ".join(found.names), sure)]
