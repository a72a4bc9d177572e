#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: group_members
version_added: 1.0.0
short_description: "Internal: have packet filters follow the members of security groups"
description:
  - Updates the packet filters of instances on this host to the members of the security groups that their rules name as
    C(remote_group). Guests keep running.
  - Part of the playbooks C(berth.kvm.create) and C(berth.kvm.delete). The inventory decides who is a member.
options:
  instances:
    description: The UUIDs of the instances whose filters are updated. Instances that are not on this host are skipped.
    type: list
    elements: str
    required: true
  groups:
    description: For each project and group, the addresses of the C(members) by their UUIDs, and in C(unseen) the UUIDs of those that may be
      on a host which does not answer. Filters keep the addresses that they have for these.
    type: dict
    required: true
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
waiting:
  description: Instances whose filters were not updated, and why.
  returned: success
  type: list
  elements: dict
  sample: [{uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a, name: db-1, why: Instance db-1 is locked}]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest import update_filters
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.record import journal, state_directory


def main():
    arguments = {
        "instances": {"type": "list", "elements": "str", "required": True},
        "groups": {"type": "dict", "required": True},
        "by": {"type": "dict"},
    }
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    journal.act_for(module.params["by"])
    with failing(module):
        host = Host.here("group_members")
        state_directory.check(host.store)
        changed, waiting = update_filters.follow(
            host, set(module.params["instances"]), module.params["groups"], dry=module.check_mode
        )
    # do not return the members of groups, as a module's arguments otherwise are
    module.exit_json(changed=changed, invocation={"module_args": {}}, waiting=waiting)


if __name__ == "__main__":
    main()
