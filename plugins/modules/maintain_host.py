# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintain_host
version_added: 1.0.0
short_description: "Internal: close a KVM host for maintenance, or open it, and find the instances to move"
description:
  - Part of the playbooks C(berth.kvm.drain) and C(berth.kvm.return), which then move the instances.
  - A closed host takes no instance, whichever controller asks. It has to answer.
options:
  name:
    description: The host, as the inventory calls it.
    type: str
  state:
    description: Close the host (V(drained)), and find what it has; or open it, and find what left it by a drain.
    type: str
    choices: [drained, open]
    required: true
  reason:
    description: Why it is closed, for people.
    type: str
    default: ""
  ends_run:
    description: Whether the run ends with this task if nothing is to move.
    type: bool
    default: true
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
