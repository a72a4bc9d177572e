# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: read_hosts
version_added: 1.0.0
short_description: "Internal: read the state of all KVM hosts"
description:
  - Part of the playbooks. Asks all hosts for their facts, and what they remember of the selected instances.
  - A host that does not answer is in C(answers) with the reason. If no host answers, the task fails.
options:
  most:
    description: If there are more instances than this, do not ask what the hosts remember, because each host would answer about
      each instance. Only for a playbook that asks again before it builds anything, as C(create) does.
    type: int
  operation:
    description: What is to be done, in the words of the playbooks. Over a registry it says whether all hosts are asked, or those that the
      registry knows to have one of the instances, or whether it is refused.
    type: str
    default: show_fleet
  digests:
    description: Also read the digests of what each host remembers about all instances, so that it is sent only what it lacks.
    type: bool
    default: false
  looks:
    description: Also read which instances are as their records say, so that nothing has to be done about them.
    type: bool
    default: false
  moves:
    description: Also read what each host holds of instances in a move.
    type: bool
    default: false
  addresses:
    description: Also read at which addresses the guests are reached.
    type: bool
    default: false
  attached:
    description: Also read what lies beside the disks of the instances that are on shared storage and belong to another host.
    type: bool
    default: false
  domains:
    description: Also read which guests are no instances, and what is in the way of adopting them.
    type: bool
    default: false
  checkup:
    description: Also have each host look for what is wrong with itself.
    type: bool
    default: false
  fix:
    description: Whether the host repairs what is safe to repair.
    type: bool
    default: false
  must_answer:
    description: Fail if no host answers.
    type: bool
    default: true
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.instances
  - berth.kvm.controller.hosts
"""

EXAMPLES = "\n[]\n"
RETURN = "#"
