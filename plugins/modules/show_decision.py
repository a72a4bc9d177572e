# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: show_decision
version_added: 1.0.0
short_description: Show why an instance got its host
description:
  - Shows the last decision that chose a host for an instance from its receipt, and the last refusal after it. That is the
    chosen host, the verdict of each filter on each host with its
    numbers, the weights, and who decided when. No host is contacted and nothing is changed.
  - Knows the decisions that were made on this controller, as long as their receipts are kept.
options:
  name:
    description: The name of the instance. If it is missing, the error says how to give it to the playbook.
    type: str
  project:
    description: Its project. By default the last decision on an instance of that name in any project.
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Why is it where it is
  berth.kvm.show_decision:
    name: web-1
"""

RETURN = r"""
receipt_file:
  description: The receipt.
  returned: success
  type: str
  sample: /home/ada/.local/state/berth/receipts/20261122T111506Z-r-8f31c2d0-create.receipt.gz
receipt:
  description: Who decided what and when, with which version of the collection.
  returned: success
  type: dict
  sample: {operation: create, who: "ada@ctl", run: r-8f31c2d0, at: "2026-11-22T11:15:06Z", collection: 1.0.0}
decision:
  description: The explanation of the decision, as filter P(berth.kvm.explain#filter) takes it.
  returned: success
  type: dict
refused:
  description: The explanation of the last refusal, such as of a resize, after the decision that chose the host.
  returned: if there was one
  type: dict
"""
