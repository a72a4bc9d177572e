# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apply_plan
version_added: 1.0.0
short_description: "Internal: check a plan for the fleet, and say what is left of it to do"
description:
  - Part of the playbook C(berth.kvm.apply_plan), which then makes the moves.
  - Refuses a plan if the fleet is no longer as it was when the plan was made, and says what changed. What the plan has moved
    already is done.
options:
  path:
    description: The file that C(berth.kvm.plan) has written.
    type: path
  plan:
    description: The plan itself, in place of a file.
    type: dict
  migration:
    description: With V(cold) the plan moves what runs cold, too, and these moves wait for people, as all others then.
    type: str
    default: auto
  to_end:
    description: Instances that an earlier drain has moved, and whose moves have only to end.
    type: list
    elements: str
    default: []
  at_once:
    description: How many moves run side by side at most.
    type: raw
    default: 4
  per_host:
    description: How many moves from or to one host run side by side at most.
    type: raw
    default: 2
  until:
    description: A time of day of the controller, such as V(06:00), after which no move begins.
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
