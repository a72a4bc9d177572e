#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: volume
version_added: 0.2.0
short_description: Remove a volume from a KVM host
description:
  - Removes a volume that no instance has, with its file. One that an instance has is refused, with the instance's name.
  - Playbook C(berth.kvm.delete_volume) runs it.
options:
  uuid:
    description: The UUID of the volume.
    type: str
    required: true
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
author:
  - The berth.kvm authors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Remove a volume
  berth.kvm.volume:
    uuid: 2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11
"""

RETURN = r"""
uuid:
  description: The UUID of the volume.
  returned: success
  type: str
  sample: 2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.disk import volume
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.record import journal, state_directory
from ..module_utils.model.errors import BerthError


def main():
    module = AnsibleModule(
        argument_spec={"uuid": {"type": "str", "required": True}, "by": {"type": "dict"}}, supports_check_mode=True
    )
    journal.act_for(module.params["by"])
    try:
        host = Host.here("volume")
        state_directory.check(host.store)
        changed = volume.delete(host, module.params["uuid"], dry=module.check_mode)
    except BerthError as error:
        module.fail_json(**error.to_result())
    module.exit_json(changed=changed, uuid=module.params["uuid"])


if __name__ == "__main__":
    main()
