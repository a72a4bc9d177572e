# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reboot_hosts
version_added: 1.0.0
short_description: "Internal: steps of booting KVM hosts anew, one after the other"
description:
  - Part of the playbook C(berth.kvm.rolling_reboot), which closes, boots and opens the hosts.
options:
  step:
    description:
      - V(order), which hosts are to be booted, in which order, and which are done.
      - V(move), move instances, one after the other.
      - V(check), wait until the host of the task reports what it holds, and fail if the doctor finds errors there.
    type: str
    choices: [order, move, check]
    required: true
  names:
    description: Of V(order) the KVM hosts, or groups of them, by default all; of V(move) the instances.
    type: raw
    default: []
  since:
    description: A host that was booted since then is done, as O(berth.kvm.show_events#module:since).
    type: str
  at_once:
    description: How many hosts are booted at a time.
    type: raw
    default: 1
  seconds:
    description: How long the host has to report, in seconds.
    type: int
    default: 600
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
