# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_moves
version_added: 0.1.0
short_description: "Internal: decide the next sequence of steps for instances that are resized or migrated"
description:
  - Part of the playbooks that move instances. Reads what the hosts reported, finds the two sides of each move, continues
    a move that has begun, or chooses a destination for a new one.
  - If one of the two hosts did not answer, nothing is done for that instance, unless C(berth_lost_hosts)
    declares that host lost.
options:
  action:
    description: The operation to plan.
    type: str
    required: true
    choices: [resize, cold_migrate, live_migrate, migrate, confirm, revert, abort, delete, confirm_due]
  allow_same_host:
    description: Whether a resize may stay on its host (Nova's C(allow_resize_to_same_host)).
    type: bool
    default: false
  target:
    description: The host to move to. It must pass the filters. If the instance is already there, a migration changes nothing.
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.instances
  - berth.kvm.controller.hosts
  - berth.kvm.controller.selected
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
