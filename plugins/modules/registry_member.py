#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_member
version_added: 1.0.0
short_description: "Internal: make a machine a member of the registry"
description:
  - Reports etcd's version and which certificate the machine has, and makes its key where it is missing. With O(settings) writes etcd's
    settings, the service and the backups, and with O(snapshot) restores a snapshot.
  - M(berth.kvm.prepare_registry_member) calls it. Needs no libvirt.
options:
  settings:
    description: What the member is. Without it nothing is written but the key.
    type: dict
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      members:
        description: The address of each member, by its name.
        type: dict
        required: true
      quota_gb:
        description: How many GiB the registry may take.
        type: int
        required: true
      hosts_authority:
        description: The authority, in PEM, that signs for the hosts that read the registry.
        type: str
        required: true
      backup_directory:
        description: Where the backups are.
        type: path
        required: true
      backups:
        description: How many backups are kept.
        type: int
        required: true
  signed:
    description: The new C(certificate) and C(authority) in PEM.
    type: dict
    default: {}
  root_password:
    description: The password of etcd's user C(root), for the backups.
    type: str
    default: ""
  snapshot:
    description: A snapshot on this machine that takes the place of the member's data.
    type: path
  token:
    description: A name for the restore, the same on all members.
    type: str
    default: ""
extends_documentation_fragment:
  - berth.kvm.host
attributes:
  platform:
    details: Linux with openssl and etcd 3.4 or later.
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
version:
  description: etcd's version, empty if it is not installed.
  returned: success
  type: str
  sample: 3.4.23
held:
  description: The C(request), C(certificate) and C(authority) in PEM, or empty.
  returned: success
  type: dict
  sample: {request: "", certificate: "", authority: ""}
files:
  description: The files that were changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/berth-registry/etcd.json]
restart:
  description: Whether the member has to be restarted for what it has now.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.host.registry_member import Member

SETTINGS = {
    "name": {"type": "str", "required": True},
    "members": {"type": "dict", "required": True},
    "quota_gb": {"type": "int", "required": True},
    "hosts_authority": {"type": "str", "required": True},
    "backup_directory": {"type": "path", "required": True},
    "backups": {"type": "int", "required": True},
}


def act(module):
    given, member = module.params, Member(dry=module.check_mode)
    held = member.held()
    if given["settings"]:
        if given["snapshot"]:
            member.restore(given["settings"], given["snapshot"], given["token"])
        member.prepare(given["settings"], given["signed"], given["root_password"])
    return {
        "changed": bool(member.changed),
        "version": member.version(),
        "held": held,
        "files": member.changed,
        "restart": member.is_due(),
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "dict", "options": SETTINGS},
            "signed": {"type": "dict", "default": {}},
            "root_password": {"type": "str", "default": "", "no_log": True},
            "snapshot": {"type": "path"},
            "token": {"type": "str", "default": "", "no_log": False},
        },
        supports_check_mode=True,
    )
    with failing(module):
        result = act(module)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
