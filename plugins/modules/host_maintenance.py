#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_maintenance
version_added: 1.0.0
short_description: "Internal: close a KVM host for maintenance, or open it again"
description:
  - A closed host takes no instance, whichever controller asks, until it is opened. Its instances stay as they are. The playbooks
    C(berth.kvm.drain) and C(berth.kvm.return) use it.
options:
  state:
    description: Whether the host is V(drained) or V(open).
    type: str
    choices: [drained, open]
    required: true
  reason:
    description: Why, for people. Empty keeps that of a drain that goes on.
    type: str
    default: ""
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
attributes:
  platform:
    details: Linux with libvirt.
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
drained:
  description: The maintenance that the host is in, or was in until now, and whether it was booted since; null if there is none.
  returned: success
  type: dict
  sample: {reason: new memory, by: ada@ctl, at: "2026-11-22T11:15:06Z", rebooted: false}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.record import drained, journal
from ..module_utils.compute.record.store import Store


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["drained", "open"], "required": True},
            "reason": {"type": "str", "default": ""},
            "by": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    journal.act_for(module.params["by"])
    with failing(module):
        store = Store(action="host_maintenance")
        if module.params["state"] == "open":
            found = drained.reopen(store, module.check_mode)
            changed = found is not None
        else:
            changed = drained.drain(store, module.params["reason"], module.check_mode)
            found = drained.read(store.state_dir)
    module.exit_json(changed=changed, drained=found)


if __name__ == "__main__":
    main()
