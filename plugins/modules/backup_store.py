#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backup_store
version_added: 1.0.0
short_description: "Internal: keep the backups of an instance on a backup host"
description:
  - A backup host keeps backups in one of its directories. KVM hosts write them and read them through ports that are open for one
    backup, encrypted, with a key of their own. It needs QEMU's tools, neither libvirt nor guests.
  - Playbooks C(berth.kvm.backup), C(berth.kvm.backups), C(berth.kvm.restore) and C(berth.kvm.delete_backup) run it, beside
    M(berth.kvm.instance_backup) on the KVM host.
options:
  uuid:
    description: The instance.
    type: str
    required: true
  name:
    description: Its name in the inventory, for people.
    type: str
    required: true
  state:
    description:
      - V(listed) returns the backups of the instance, and what is wrong with those that are not whole.
      - V(looked) returns the newest whole one, and whether the next one has to have whole disks.
      - V(opened) opens a port for each disk of a new backup. V(kept) makes what was written a backup, after it was read back.
      - V(found) returns the backup to restore. V(served) compares it with its digests, and opens a port for each disk.
      - V(closed) closes the ports, and removes what was written of O(backup).
      - V(deleted) deletes O(backup), if no other stands on it.
    type: str
    choices: [listed, looked, opened, kept, found, served, closed, deleted]
    required: true
  to:
    description: The directory where backups are, on storage of its own.
    type: str
    required: true
  of:
    description: The uuid or the name of the instance that was backed up, if it is another.
    type: str
  project_id:
    description: The project in which O(of) is looked for by its name.
    type: str
    default: default
  backup:
    description: The id of a backup. With O(state=deleted), also several with commas between them.
    type: str
  full:
    description: See M(berth.kvm.instance_backup).
    type: bool
    default: false
  chain:
    description: See M(berth.kvm.instance_backup).
    type: int
    default: 30
  keep:
    description: See M(berth.kvm.instance_backup).
    type: int
  keep_days:
    description: See M(berth.kvm.instance_backup).
    type: int
  deep:
    description: With O(state=listed), read all files and compare them with their digests.
    type: bool
    default: false
  parts:
    description: With O(state=opened), the disks to copy, each with its C(name), C(size) and C(kind).
    type: list
    elements: dict
    default: []
  key:
    description: The one-time key of the ports, 64 hexadecimal digits.
    type: str
  address:
    description: The address at which KVM hosts reach this host. By default, that of its default route.
    type: str
extends_documentation_fragment:
  - berth.kvm.host
attributes:
  platform:
    details: Linux with QEMU's tools.
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
uuid:
  description: The instance that was asked about.
  returned: success
  type: str
  sample: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
backups:
  description: With O(state=listed), O(state=kept) and O(state=deleted), see M(berth.kvm.instance_backup).
  returned: success
  type: list
  elements: dict
  sample: []
newest:
  description: With O(state=looked) and O(state=found), the backup, with its C(id), C(uuid), C(name) and C(disks), or null.
  returned: success
  type: dict
  sample: null
full:
  description: With O(state=looked), whether the next backup has to have whole disks.
  returned: success
  type: bool
  sample: true
spare:
  description: With O(state=looked), the ids of those on which the newest does not stand.
  returned: success
  type: list
  elements: str
  sample: []
backup:
  description: With O(state=opened), the id of the new backup.
  returned: success
  type: str
  sample: 20260102T030405Z
targets:
  description: With O(state=opened) and O(state=served), the ports, each with its C(name), C(host) and C(port).
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.backup import store
from ..module_utils.compute.errors import failing
from ..module_utils.compute.move import listener
from ..module_utils.compute.move.listener import Detached
from ..module_utils.model.backups import LONGEST_CHAIN


def main():
    module = AnsibleModule(
        argument_spec={
            "uuid": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": list(store.STATES), "required": True},
            "to": {"type": "str", "required": True},
            "of": {"type": "str"},
            "project_id": {"type": "str", "default": "default"},
            "backup": {"type": "str"},
            "full": {"type": "bool", "default": False},
            "chain": {"type": "int", "default": LONGEST_CHAIN},
            "keep": {"type": "int", "no_log": False},
            "keep_days": {"type": "int", "no_log": False},
            "deep": {"type": "bool", "default": False},
            "parts": {"type": "list", "elements": "dict", "default": []},
            "key": {"type": "str", "no_log": True},
            "address": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    with failing(module):
        guard = Detached(listener.guard, longest=listener.LONGEST_SECONDS) if params["state"] in store.OPENING else None
        done = store.outcome_of(params, module.check_mode)
        if guard and done.get("targets"):
            guard.go(store.to_guard(params["uuid"], done["targets"]))
    module.exit_json(uuid=params["uuid"], **done)


if __name__ == "__main__":
    main()
