# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: show_instances
version_added: 1.0.0
short_description: Show the state of instances
description:
  - Shows the state of instances, where they are, what they have, who locked them, the move that they are in, and their history
    with who did what in which run. Nothing is changed.
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.instances
  - berth.kvm.controller.hosts
"""

EXAMPLES = r"""
- name: Show an instance
  berth.kvm.show_instances:
    instances: [web-1]
"""

RETURN = r"""
instances:
  description: For each instance that was found, what each host reports about it. See M(berth.kvm.instance_info).
  returned: success
  type: dict
  sample: {web-1: [{host: kvm1, role: OWN, vm_state: active, locked: null}]}
free_volumes:
  description: The volumes that no instance has, unless the run selects instances.
  returned: success
  type: list
  elements: dict
  sample: [{name: db, project_id: default, size_gb: 20, pool: berth, host: kvm1, changed_at: "2026-11-22T00:00:00Z"}]
outcomes:
  description: A line of the table for each instance.
  returned: success
  type: list
  elements: dict
  sample: [{instance: web-1, state: active, host: kvm1, flavor: small, address: 192.0.2.11, why: "", error: ""}]
ansible_facts:
  description: What the run reports as failed, as a fact of localhost.
  returned: success
  type: dict
  contains:
    berth_results:
      description: The errors of the instances as C(failed), and the hosts that were C(left_out) with the reason.
      type: dict
      sample: {failed: {}, left_out: {}}
"""
