# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

# The action plugin of the same name does the work.

DOCUMENTATION = r"""
module: operate_instances
version_added: 1.0.0
short_description: "Internal: stop, start, delete or change instances"
description:
  - Part of the playbooks that act on existing instances, and of role C(berth.kvm.delete). Where no playbook of this run has
    found the instances, it reads the KVM hosts and finds them, as M(berth.kvm.locate_instances) does.
  - Has the hosts of the instances do what was asked, all at once, as many at a time as Ansible has forks, and shows the
    closing table.
  - The task runs for each instance. The first one does the work of all, and each reports its own part.
options:
  operation:
    description: What to do, by the name of its playbook.
    type: str
    required: true
    choices:
      [adopt, delete, keep_one, leave, lock, reboot, recover, recover_record, remove_set_aside, start, stop, unlock, update_disks]
  may_fail:
    description:
      - Whether the task ends well also if it failed for the instance. C(error) says why.
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.controller
  - berth.kvm.controller.hosts
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Stop the instances
  berth.kvm.operate_instances:
    operation: stop
  delegate_to: localhost
  become: true
"""

RETURN = r"""
instance:
  description: The instance, as M(berth.kvm.instance) or M(berth.kvm.instance_copy) returns it.
  returned: when a host was asked
  type: dict
  sample: {uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, name: web-1, state: shutdown}
error:
  description: Why it failed, with C(code) and C(message).
  returned: when it failed
  type: dict
  sample: {code: InstanceIsLocked, message: "Instance web-1 is locked by ann@desk"}
outcomes:
  description: What became of each instance.
  returned: by the task of one instance
  type: list
  elements: dict
  sample: [{instance: web-1, state: stopped, host: kvm1}]
said:
  description: The instances that were changed, in their order, as M(berth.kvm.create_instances) returns them.
  returned: by the task of one instance
  type: list
  elements: dict
  sample: [{at: "2026-01-01T12:00:00Z", instance: web-1, host: kvm1, state: shutdown}]
"""
