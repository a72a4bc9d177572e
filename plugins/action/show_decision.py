# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_decision: see plugins/modules/show_decision.py for its documentation."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from ..module_utils.conductor.similar_names import similar_instances
from ..module_utils.model import input_hints
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.identity import instance_uuid
from ..module_utils.placement.explain import decision_text
from ..plugin_utils import receipts
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say
from ..plugin_utils.whose_fleet import Fleet, machines


class ReceiptNotFound(BerthError):
    """No receipt of a decision on the instance is kept."""


class _Decided(NamedTuple):
    """A decision on one instance: the receipt's file, its head, and the verdicts on the hosts."""

    path: str
    head: Dict[str, Any]
    explained: Dict[str, Any]
    left_out: Dict[str, str]

    @classmethod
    def read(cls, path, head, name):
        _head, receipt, fleet = receipts.read(path)
        (explained,) = receipts.explained(path, receipt, fleet, [name])
        return cls(path, head, explained, receipt["left_out"])

    def lines(self):
        left_out = ["host %s left out: %s" % entry for entry in sorted(self.left_out.items())]
        return [receipts.headline(self.path, self.head), *decision_text(self.explained).splitlines(), *left_out]


class ActionModule(ControllerAction):
    argument_spec = documented("show_decision")

    def reported(self, result):
        return {part: result[part] for part in ("receipt_file", "receipt", "decision")}

    def act(self, args, task_vars):
        if args["name"] is None:
            raise InvalidInput("berth_name", None, "the name of an instance", hint=input_hints.name_instance())
        keeping = receipts.settings(self, task_vars)
        hosts = kvm_hosts(task_vars, args["hosts"])
        fleet = Fleet(machines(task_vars, hosts)) if hosts else None  # without an inventory any
        refused, placed = self._last(keeping, args["name"], args["project"], fleet)
        lines = [line for decided in (refused, placed) if decided for line in ("", *decided.lines())]
        say(*lines, "")
        shown = placed or refused
        return {
            "receipt_file": shown.path,
            "receipt": shown.head,
            "decision": plain(shown.explained),
            **({"refused": plain(refused.explained)} if refused and placed else {}),
        }

    @staticmethod
    def _last(keeping, name, project, fleet):
        """(The last decision on an instance of that name, of any project if none is given, if it was refused; the last
        that chose a host)."""
        known, refused = set(), None
        for path, head in receipts.heads(keeping, fleet):
            uuid = head["instances"].get(name)
            if uuid is not None and project in (None, "") or uuid and uuid == instance_uuid(project, name):
                if refused and head["instances"][name] != refused.head["instances"][name]:
                    continue  # another project's
                decided = _Decided.read(path, head, name)
                if not decided.explained["error"]:
                    return refused, decided
                refused = refused or decided
            known.update(head["instances"])
        if refused:
            return refused, None
        raise ReceiptNotFound(
            "no receipt is kept of a decision on %s in %s" % (name, receipts.place(keeping)),
            hint=similar_instances(name, known - {name}) if known else None,
        )
