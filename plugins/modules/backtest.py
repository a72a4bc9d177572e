# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backtest
version_added: 1.0.0
short_description: Decide recorded decisions again under another policy
description:
  - Part of the playbook C(berth.kvm.backtest). Takes the newest receipts of this controller, decides each again with the options of
    placement of this run, and says where instances would be on other hosts. No host is asked and nothing is changed.
  - Each decision is made on the fleet as it was then, as if those before it had been made as they were.
options:
  decisions:
    description: How many receipts, the newest first.
    type: raw
    default: 100
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: See what the present policy would have decided
  berth.kvm.backtest:
    decisions: 20
"""

RETURN = r"""
decisions:
  description: How many were decided again.
  returned: success
  type: int
  sample: 20
instances:
  description: How many requests these have.
  returned: success
  type: int
  sample: 31
differ:
  description: Those that get other hosts, with the hosts C(then) and C(now), none where there was no valid host.
  returned: success
  type: list
  elements: dict
  sample: [{at: "2026-11-22T11:15:06Z", operation: create, instance: web1, then: [kvm1], now: [kvm2]}]
"""
