#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: claim
version_added: 0.1.0
short_description: "Internal: claim room on a KVM host for instances, or withdraw claims"
description:
  - Placement proposes a host, and the host decides. Under the host's lock, and with the arithmetic of the scheduler,
    each claim is tested against what the host holds now, for capacity, server group, and name.
  - One run decides all claims of a host. If a claim is refused, its result has an error, and the task does not fail.
  - A second claim with the same token returns the same claim. A claim with another token adopts the claim of a run that
    has ended.
options:
  claims:
    description: The claims to make.
    type: list
    elements: dict
    default: []
    suboptions:
      spec:
        description: The request spec of the instance.
        type: dict
        required: true
      token:
        description: The nonce of the run that makes the claim. The module makes one if it is left out.
        type: str
      limits:
        description: The limits of the decision, tested again.
        type: dict
        default: {}
      after:
        description: The highest generation of the instance that any host knows, as epoch and number.
        type: list
        elements: int
        default: [0, 0]
      host_uuid:
        description: The machine that was chosen. Another one refuses the claim.
        type: str
  withdraw:
    description: The claims to give up, done first. A claim that another run has adopted, or that is built, stays.
    type: list
    elements: dict
    default: []
    suboptions:
      uuid:
        description: The UUID of the instance.
        type: str
        required: true
      token:
        description: The token of the claim.
        type: str
        required: true
  failed:
    description: Instances whose creation was given up; this host was the last that failed to build them. They are shown in
      C(vm_state) error by
      M(berth.kvm.instance_info) until they are claimed again anywhere, or deleted. One that the host holds is left alone.
    type: list
    elements: dict
    default: []
    suboptions:
      uuid:
        description: The UUID of the instance.
        type: str
        required: true
      name:
        description: Its name.
        type: str
        required: true
      project_id:
        description: Its project.
        type: str
        required: true
      host:
        description: The inventory name of this host.
        type: str
        required: true
      error:
        description: Why, with C(code) and C(message).
        type: dict
        required: true
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
  - berth.kvm.host.registry
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
results:
  description: One result per claim, in their order.
  returned: success
  type: list
  elements: dict
  contains:
    uuid:
      description: The UUID of the instance.
      type: str
      sample: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
    name:
      description: The name of the instance.
      type: str
      sample: web-1
    claimed:
      description: Whether the claim holds.
      type: bool
      sample: true
    token:
      description: The token of the claim.
      type: str
      sample: 5f0c1f7d6a6b4c5d8e9f00112233aabb
    allocation:
      description: What the host has set aside.
      type: dict
      sample: {"vcpus": 1, "pcpus": 0, "memory_mb": 512, "disk_gb": 1, "numa_topology": null, "pci_devices": []}
    error:
      description: Why the claim does not hold, with C(code), C(message) and C(retryable).
      type: dict
      sample: null
withdrawn:
  description: One result per withdrawal, with C(uuid) and C(withdrawn).
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.record import failed_instances, journal, registry_mark
from ..module_utils.compute.record.claim import claim_all, withdraw_all

CLAIM = {
    "spec": {"type": "dict", "required": True},
    "token": {"type": "str", "no_log": False},
    "limits": {"type": "dict", "default": {}},
    "after": {"type": "list", "elements": "int", "default": [0, 0]},
    "host_uuid": {"type": "str"},
}
WITHDRAWAL = {"uuid": {"type": "str", "required": True}, "token": {"type": "str", "required": True, "no_log": False}}
FAILED = {
    "error": {"type": "dict", "required": True},
    **{name: {"type": "str", "required": True} for name in ("uuid", "name", "project_id", "host")},
}


def main():
    module = AnsibleModule(
        argument_spec={
            "claims": {"type": "list", "elements": "dict", "default": [], "options": CLAIM},
            "withdraw": {"type": "list", "elements": "dict", "default": [], "options": WITHDRAWAL},
            "failed": {"type": "list", "elements": "dict", "default": [], "options": FAILED},
            "by": {"type": "dict"},
            "registry": registry_mark.OPTION,
        },
        supports_check_mode=True,
    )
    journal.act_for(module.params["by"])
    registry_mark.act_over(module.params["registry"])
    with failing(module):
        host = Host.here("claim")
        withdrawn = withdraw_all(host, module.params["withdraw"], dry=module.check_mode)
        results = claim_all(host, module.params["claims"], dry=module.check_mode)
        noted = bool(module.params["failed"]) and failed_instances.note(
            host.store, module.params["failed"], module.check_mode
        )
    changes = [result.pop("changed") for result in results] + [result["withdrawn"] for result in withdrawn]
    module.exit_json(changed=any(changes) or noted, results=results, withdrawn=withdrawn)


if __name__ == "__main__":
    main()
