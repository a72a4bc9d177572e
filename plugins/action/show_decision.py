# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_decision: see plugins/modules/show_decision.py for its documentation."""

from __future__ import annotations

from ..module_utils.model import input_hints
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.identity import instance_uuid
from ..module_utils.model.suggest import did_you_mean
from ..module_utils.placement.explain import decision_text
from ..plugin_utils import receipts
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say


class ReceiptNotFound(BerthError):
    """No receipt of a decision on the instance is kept."""


class ActionModule(ControllerAction):
    argument_spec = {"name": {"type": "str"}, "project": {"type": "str"}}

    def reported(self, result):
        return {part: result[part] for part in ("receipt_file", "receipt", "decision")}

    def act(self, args, task_vars):
        if args["name"] is None:
            raise InvalidInput("berth_name", None, "the name of an instance", hint=input_hints.name_instance())
        keeping = receipts.settings(self, task_vars)
        path, head = self._newest(keeping, args["name"], args["project"])
        _head, receipt, fleet = receipts.read(path)
        (explained,) = receipts.explained(path, receipt, fleet, [args["name"]])
        left_out = ["host %s left out: %s" % entry for entry in sorted(receipt["left_out"].items())]
        say("", receipts.headline(path, head), *decision_text(explained).splitlines(), *left_out, "")
        return {"receipt_file": path, "receipt": head, "decision": plain(explained)}

    @staticmethod
    def _newest(keeping, name, project):
        """The last decision about an instance of that name; of any project if none is given."""
        known = set()
        for path, head in receipts.heads(keeping):
            uuid = head["instances"].get(name)
            if uuid is not None and project in (None, "") or uuid and uuid == instance_uuid(project, name):
                return path, head
            known.update(head["instances"])
        raise ReceiptNotFound(
            "no receipt is kept of a decision on %s in %s" % (name, receipts.place(keeping)),
            hint=did_you_mean(name, known - {name}, "instance") if known else None,
        )
