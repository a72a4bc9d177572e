#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

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
  confirm:
    description: Instances that a drain has moved while they were off, and whose moves are only to be confirmed.
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

EXAMPLES = r"""
- name: See what is left of a plan
  berth.kvm.apply_plan:
    path: plan.yml
"""

RETURN = r"""
goal:
  description: The goal of the plan.
  returned: success
  type: str
  sample: drain
moves:
  description: >-
    The moves that are left, in their order, to be made C(live) or C(cold), or only to C(confirm). C(project) is that of an
    instance that no inventory has. One that C(drains) comes home when the host that it leaves is returned. C(goes_with) are the others
    of its affinity group that go there, too.
  returned: success
  type: list
  elements: dict
  sample: [{name: web1, to: kvm1, how: live, goes_with: [], drains: false, project: null}]
sizes:
  description: How many of them run side by side, one number after the other.
  returned: success
  type: list
  elements: int
  sample: [1]
migration:
  description: As it was given.
  returned: success
  type: str
  sample: auto
until:
  description: When no further move begins, in seconds since 1970, or null.
  returned: success
  type: float
  sample: null
"""
