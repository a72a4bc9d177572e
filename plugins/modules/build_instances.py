#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: build_instances
version_added: 1.0.0
short_description: "Internal: build several instances on a KVM host from their claims, or bring existing ones to what is wanted"
description:
  - Builds each of O(builds), as M(berth.kvm.instance) does with O(berth.kvm.instance#module:state=present), or takes it over
    from a lost host with which this one shares storage. The builds run at the same time, each in its own process. If one
    fails, the others continue.
options:
  builds:
    description: The instances to build. Each option is as for M(berth.kvm.instance).
    type: list
    elements: dict
    required: true
    suboptions:
      state:
        description: What is wanted. With V(taken_over), the instance gets the disks that another host has left.
        type: str
        choices: [present, taken_over]
        default: present
      uuid:
        description: The UUID of the instance.
        type: str
        required: true
      token:
        description: The token of the claim to build from. Absent for an instance that this host holds already.
        type: str
      spec:
        description: The request spec of the instance. Absent for an existing one that the inventory locks.
        type: dict
      disks_of:
        description: The UUID of the lost host whose disks the instance gets. Only with O(builds[].state=taken_over).
        type: str
      evidence:
        description: Who says that this host is off, for the history.
        type: str
        default: ""
      seed:
        description: What cloud-init gets at first boot. Never kept in a record or a log.
        type: dict
        suboptions:
          hostname:
            description: The host name of the guest.
            type: str
            required: true
          fqdn:
            description: The host name with its domain, if it has one.
            type: str
          ssh_keys:
            description: Public SSH keys of the default user.
            type: list
            elements: str
            default: []
          user_data:
            description: User data as plain text.
            type: str
          network_config:
            description: Network configuration, version 2.
            type: dict
          metadata:
            description: Free metadata of the instance.
            type: dict
          cloud_config:
            description: What cloud-init gets as vendor data, as the text of a JSON object.
            type: str
      power_state:
        description: Whether the guest is to run. One that is built for V(shutdown) is not started.
        type: str
        choices: [running, shutdown]
      mend:
        description: Whether to restore a definition that somebody changed in libvirt, and to add the packet filters that the inventory
          requests.
        type: bool
        default: false
      shutdown_timeout:
        description: How long a guest may take to shut down, in seconds.
        type: int
        default: 60
      timeout:
        description: How long to wait for another run on the same instance, in seconds.
        type: int
        default: 600
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
  - berth.kvm.host.registry
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
builds:
  description: Of each instance in O(builds), what M(berth.kvm.instance) would reply (C(reply)).
  returned: success
  type: list
  elements: dict
  sample:
    - uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
      reply: {changed: true, instance: {uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, name: web-1, state: running}}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest import build_many, seed
from ..module_utils.compute.record import journal, registry_mark
from ..module_utils.compute.record.store import Store

BUILD = {
    "state": {"type": "str", "choices": ["present", "taken_over"], "default": "present"},
    "uuid": {"type": "str", "required": True},
    "token": {"type": "str", "no_log": False},
    "spec": {"type": "dict"},
    "disks_of": {"type": "str"},
    "evidence": {"type": "str", "default": ""},
    "seed": {"type": "dict", "no_log": False, "options": seed.ARGUMENTS},
    "power_state": {"type": "str", "choices": ["running", "shutdown"]},
    "mend": {"type": "bool", "default": False},
    "shutdown_timeout": {"type": "int", "default": 60},
    "timeout": {"type": "int", "default": 600},
}
ARGUMENTS = {
    "builds": {"type": "list", "elements": "dict", "required": True, "options": BUILD},
    "by": {"type": "dict"},
    "registry": registry_mark.OPTION,
}


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    journal.act_for(module.params["by"])
    registry_mark.act_over(module.params["registry"])
    with failing(module):
        registry_mark.check(Store())
        found = build_many.build(module.params["builds"], module.check_mode)
    # do not return requests and seeds, as a module's arguments otherwise are
    changed = any(each["reply"].get("changed") for each in found)
    module.exit_json(changed=changed, invocation={"module_args": {}}, builds=found)


if __name__ == "__main__":
    main()
