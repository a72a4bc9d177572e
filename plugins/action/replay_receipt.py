# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action replay_receipt: see plugins/modules/replay_receipt.py for its documentation."""

from __future__ import annotations

from ..module_utils.model.collection_version import COLLECTION_VERSION
from ..module_utils.model.errors import InvalidInput
from ..module_utils.placement.receipt import ReceiptMismatch
from ..module_utils.placement.receipt_file import ReceiptInvalid, decide_again
from ..module_utils.placement.text import table
from ..plugin_utils import receipts
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.screen import say

SHOWN = 40


class ActionModule(ControllerAction):
    argument_spec = documented("replay_receipt")

    def reported(self, result):
        return {part: result[part] for part in ("same", "hosts", "receipt")}

    def act(self, args, task_vars):
        path = args["path"]
        if path is None:
            raise InvalidInput("berth_receipt", None, "the path of a receipt, TIME-RUN-OPERATION.receipt.gz")
        head, receipt, documents = receipts.read(path)
        say("", receipts.headline(path, head))
        try:
            result = decide_again(receipt, documents)
        except ReceiptMismatch as error:
            error.message = "%s: another decision%s: %s" % (path, _versions(head), error.message)
            raise
        except ReceiptInvalid as error:
            raise receipts.of_file(path, error) from None
        hosts = {answer.spec.name: answer.hosts for answer in result.requests}
        rows = [(name, ", ".join(found) or "no valid host") for name, found in hosts.items()]
        more = ["... and %d more" % (len(rows) - SHOWN)] if len(rows) > SHOWN else []
        say("same decision%s" % _versions(head), *table(("INSTANCE", "HOST"), rows[:SHOWN]), *more, "")
        return {"same": True, "hosts": hosts, "receipt": head}


def _versions(head):
    """Both versions if they differ: that may be the reason why the decision differs."""
    if head["collection"] == COLLECTION_VERSION:
        return ""
    return " (made by berth.kvm %s, decided again by %s)" % (head["collection"], COLLECTION_VERSION)
