#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: run_leg
version_added: 0.2.0
short_description: "Internal: run the next leg of a move"
description:
  - Part of role C(move). Runs M(berth.kvm.migration) with the steps of the leg that the fact C(berth_walk) names, on the
    host that it names, and finds the leg after it. So the screen shows one task for each leg.
  - If the leg fails, the fact stays as it was, and M(berth.kvm.walk_move) finds what is given up.

options:
  move:
    description: The plan of the move as M(berth.kvm.plan_moves) made it.
    type: dict
    required: true
  at:
    description: How far the move has come, the fact C(berth_walk).
    type: dict
    required: true
  key:
    description: The key of the transfer, for the legs that need one.
    type: str
extends_documentation_fragment:
  - berth.kvm.controller
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Claim room on the destination
  berth.kvm.run_leg:
    move: "{{ move_plan }}"
    at: "{{ ansible_facts.berth_walk }}"
  delegate_to: "{{ ansible_facts.berth_walk.host }}"
  become: true
"""

RETURN = r"""
move:
  description: The record after the leg, as M(berth.kvm.migration) returns it.
  returned: success
  type: dict
  sample: {role: OWN, phase: resizing}
token:
  description: The fencing token, as M(berth.kvm.migration) returns it.
  returned: success
  type: dict
  sample: {op: 1f0c2a9e, attempt: 1}
took:
  description: Step -> the seconds that it took.
  returned: success
  type: dict
  sample: {claim: 0.2}
ansible_facts:
  description: The fact C(berth_walk), how far the move has come and which leg is next.
  returned: success
  type: dict
  sample: {berth_walk: {labels: [Claim room on the destination], tasks: leg.yml, host: kvm2}}
"""
