# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: replay_receipt
version_added: 1.0.0
short_description: Replay a decision from its receipt
description:
  - Takes the receipt of a placement and the documents of the hosts that are in it, decides again, and compares both decisions. No host
    is contacted and nothing is changed, so it works on any machine that has this collection.
  - Fails if the decision differs in a host, a reason or a number, or if the file is not a receipt, is damaged, was
    edited, or was written by a newer version.
options:
  path:
    description: The receipt, C(NAME.receipt.gz). If it is missing, the error says how to give it to the playbook.
    type: path
extends_documentation_fragment:
  - berth.kvm.controller
"""

EXAMPLES = r"""
- name: Decide again
  berth.kvm.replay_receipt:
    path: ~/.local/state/berth/receipts/20261122T111506Z-r-8f31c2d0-create.receipt.gz
"""

RETURN = r"""
same:
  description: True. Another decision is the error C(ReceiptMismatch).
  returned: success
  type: bool
hosts:
  description: The hosts of each instance.
  returned: success
  type: dict
  sample: {web-1: [kvm2]}
receipt:
  description: Who decided what and when, with which version of the collection.
  returned: success
  type: dict
  sample: {operation: create, who: "ada@ctl", run: r-8f31c2d0, at: "2026-11-22T11:15:06Z", collection: 1.0.0}
"""
