# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action fleet_report: see plugins/modules/fleet_report.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.errors import NoHostAnswered
from ..module_utils.placement.explain import fleet_text
from ..plugin_utils.controller import ControllerAction, read_reports
from ..plugin_utils.documents import write_document
from ..plugin_utils.screen import say


class ActionModule(ControllerAction):
    argument_spec = {"hosts": {"type": "list", "elements": "str"}, "dest": {"type": "path"}}

    def act(self, args, task_vars):
        fleet = read_reports(task_vars, args["hosts"])
        text = fleet_text(list(fleet.documents.values()), fleet.verdicts)
        _blank, *lines, _end = say("", *text.splitlines(), "")
        if args["dest"]:
            write_document(args["dest"], {"hosts": _instances(fleet), "verdicts": fleet.verdicts})
        if args["hosts"] is not None and not fleet.documents:
            raise NoHostAnswered("no host answered; why is in the table above")
        return {"report": lines, "verdicts": fleet.verdicts}


def _instances(fleet):
    """Host -> what it holds, as its checked document says."""
    return {host: document["instances"] for host, document in fleet.documents.items()}
