#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: unchanged_instances
version_added: 0.2.0
short_description: "Internal: find the instances of a KVM host that need no change"
description:
  - The C(create) playbook asks each host once about all of its existing instances. Only those that need a change then take
    a run of M(berth.kvm.instance), which makes the same checks and says what is wrong.
  - Nothing is changed, and no other run is waited for.
options:
  wanted:
    description: The instances to look at.
    type: list
    elements: dict
    required: true
    suboptions:
      uuid:
        description: The UUID of the instance.
        type: str
        required: true
      spec:
        description: The request, as for M(berth.kvm.instance).
        type: dict
        required: true
      power_state:
        description: Whether it is to run. Without it the instance may be either.
        type: str
        choices: [running, shutdown]
      mend:
        description: Whether a definition that somebody changed in libvirt is to be brought back, as for M(berth.kvm.instance).
        type: bool
        default: false
extends_documentation_fragment:
  - berth.kvm.host
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: See whether the instance is there, and runs
  berth.kvm.unchanged_instances:
    wanted:
      - uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
        spec: "{{ hostvars['localhost'].ansible_facts.berth_plan.instances['web-1'].spec }}"
        power_state: running
"""

RETURN = r"""
instances:
  description:
    - For each instance in O(wanted), whether it is C(unchanged), and if so what M(berth.kvm.instance) returns as C(instance).
    - An instance is not unchanged if that cannot be determined, for example while another run works on it, or if somebody changed its
      guest in libvirt. If libvirt does not answer, the list ends.
  returned: success
  type: list
  elements: dict
  sample:
    - uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
      unchanged: true
      instance: {uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, name: web-1, state: running, vm_state: active, role: OWN}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import FAILURES, result_of
from ..module_utils.compute.guest import unchanged
from ..module_utils.compute.host.host import Host

WANTED = {
    "uuid": {"type": "str", "required": True},
    "spec": {"type": "dict", "required": True},
    "power_state": {"type": "str", "choices": ["running", "shutdown"]},
    "mend": {"type": "bool", "default": False},
}


def main():
    spec = {"wanted": {"type": "list", "elements": "dict", "required": True, "options": WANTED}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        found, warnings = unchanged.look(Host.here("unchanged"), module.params["wanted"])
    except FAILURES as error:
        module.fail_json(**result_of(error))
    for warning in warnings:
        module.warn(warning)
    # the requests need not come back, as the arguments of a module otherwise do
    module.exit_json(changed=False, invocation={"module_args": {}}, instances=found)


if __name__ == "__main__":
    main()
