# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: move_instances
version_added: 1.0.0
short_description: "Internal: resize and migrate instances, confirm and revert that"
description:
  - Part of the roles that move instances. Without a plan of this run it reads the KVM hosts and plans for the instances of
    the play. The first process does that for all that have come, then each moves its own instance.
  - What an earlier run left of another move is finished first. The hosts are read again after that, and also if the move
    turns out to have ended before this run took it up.
  - If a leg of the move fails before the source has let go, the move is given up, and the next candidate is tried.
  - The last of those that were planned together shows the closing table, and ends the run.
options:
  operation:
    description: What is done with the instance.
    type: str
    required: true
    choices: [resize, cold_migrate, live_migrate, migrate, confirm, confirm_due, revert]
  only_prepare:
    description: Claim room on the destination, and touch no guest.
    type: bool
    default: false
  may_fail:
    description: Whether the task ends well also if the move failed. C(error) says why.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
