# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action backtest: see plugins/modules/backtest.py for its documentation."""

from __future__ import annotations

import itertools

from ..module_utils.placement.receipt_file import ReceiptInvalid, decide_again
from ..module_utils.placement.scheduler import load
from ..module_utils.placement.text import table
from ..plugin_utils import fleet_options, receipts
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.screen import say
from ..plugin_utils.whose_variables import Catalogs

SHOWN = 40


class ActionModule(ControllerAction):
    argument_spec = documented("backtest")

    def reported(self, result):
        return {part: result[part] for part in ("decisions", "instances", "differ")}

    def act(self, args, task_vars):
        most = fleet_options.whole("berth_decisions", args["decisions"])
        catalogs = Catalogs(task_vars, [], kvm_hosts(task_vars, args["hosts"]), self._loader)
        options, decided, differ, left_out, instances = catalogs.shared.placement, 0, [], [], 0
        load(options)  # raises what is wrong with them
        for path, head in itertools.islice(receipts.heads(receipts.settings(self, task_vars)), most):
            try:
                _head, receipt, documents = receipts.read(path)
                pairs = _compared(receipt, decide_again(receipt, documents, options))
            except ReceiptInvalid as error:
                left_out.append("%s is left out: %s" % (path, error))
                continue
            decided, instances = decided + 1, instances + len(pairs)
            differ += [
                {"at": head["at"], "operation": head["operation"], "instance": name, "then": was, "now": now}
                for name, was, now in pairs
                if was != now
            ]
        say("", *_lines(decided, instances, differ), *left_out, "")
        return {"decisions": decided, "instances": instances, "differ": differ}


def _compared(receipt, result):
    """(instance, its hosts then, its hosts now) of each request."""
    try:
        decided = receipt["decision"]["requests"]
        then = [[str(selection["host"]) for selection in request["selections"]] for request in decided]
        now = [(each.spec.name, [selection.host for selection in each.selections]) for each in result.requests]
        return [(name, was, hosts) for (name, hosts), was in zip(now, then, strict=True)]
    except (LookupError, TypeError, ValueError):
        raise ReceiptInvalid("it does not say what was decided") from None


def _lines(decided, instances, differ):
    said = "%d decisions on %d requests, as placement is set now: " % (decided, instances)
    if not differ:
        return [said + "no other host"]
    rows = [
        (
            each["at"],
            each["operation"],
            each["instance"],
            *(", ".join(each[when]) or "none" for when in ("then", "now")),
        )
        for each in differ[:SHOWN]
    ]
    more = ["... and %d more" % (len(differ) - SHOWN)] if len(differ) > SHOWN else []
    return [
        said + "%d get other hosts" % len(differ),
        *table(("AT", "OPERATION", "INSTANCE", "THEN", "NOW"), rows),
        *more,
    ]
