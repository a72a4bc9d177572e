# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_fleet
version_added: 1.0.0
short_description: Plan moves for a whole fleet
description:
  - Part of the playbooks C(berth.kvm.plan), C(berth.kvm.drain) and C(berth.kvm.return). Finds the
    moves that reach a goal, in waves of moves that run side by side. At each
    moment all rules of placement hold that held before, while an instance on its way counts on both of its hosts.
  - The plan is a YAML file that people read and review, and that C(berth.kvm.apply_plan) carries out. Nothing is moved.
  - All goals but V(drain) and V(return) need OR-tools on the controller. Without it a drain is placed one after the other.
options:
  goal:
    description:
      - V(drain), hosts become empty. V(return), what left hosts by a drain comes home.
        V(repair), whatever breaks a rule of placement today keeps it again. V(balance), the fullest
        host becomes less full. V(consolidate), as many hosts as possible become empty.
      - All of them with as few moves as possible.
    type: str
  drained:
    description: The hosts to drain, or to return. A list, or names with commas between them.
    type: raw
    default: []
  migration:
    description: With V(cold) what runs moves cold, too.
    type: str
    default: auto
  carried_out:
    description: Whether the playbook carries the plan out at once, so that nobody has to be told how to.
    type: bool
    default: false
  told:
    description: Instances of which the run has said already why they stay.
    type: list
    elements: str
    default: []
  max_moves:
    description: How many moves a balance or a consolidation may have. Default 10.
    type: raw
  balance_by:
    description: What a balance looks at.
    type: str
    choices: [memory, vcpus]
    default: memory
  least_gain:
    description: By how many percent of its capacity the fullest host must become less full for a balance to be worth it.
    type: raw
    default: 5
  path:
    description: The file on the controller to which the plan is written. Without it the plan is only shown.
    type: path
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Plan how kvm3 becomes empty
  berth.kvm.plan_fleet:
    goal: drain
    drained: [kvm3]
    path: plan.yml
"""

RETURN = r"""
plan:
  description: The plan.
  returned: success
  type: dict
  sample:
    berth_plan: 1
    goal: {name: drain, hosts: [kvm3]}
    proof: no plan has fewer moves
    waves: [[{instance: web1, uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, from: kvm3, to: kvm1, how: live, memory_mb: 2048,
              disk_gb: 20, why: leaves kvm3, seconds: 190}]]
    stays: {}
    hosts: {kvm1: "memory 40 % -> 41 %"}
    state: {hash: 9f86d081884c7d65, hosts: {}}
path:
  description: The file, or null.
  returned: success
  type: str
  sample: plan.yml
"""
