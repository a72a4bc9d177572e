# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fence_host
version_added: 1.0.0
short_description: "Internal: switch silent KVM hosts off by their fence agents, and see that they are off"
description:
  - Part of the playbook C(berth.kvm.evacuate). The agent and its options are in the host's variable C(berth_fence). It runs on
    the controller, and gets the options on its standard input.
  - Refuses a host that answers, before any is switched off. In check mode the agent is only asked whether the host is off.
options:
  names:
    description: The hosts, as the inventory calls them, a list or names with commas between them.
    type: raw
    required: true
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
