#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_backup
version_added: 1.0.0
short_description: Back an instance up to a directory of its host, restore it, or make an image of it
description:
  - A backup is a directory of plain qcow2 files that describes itself. What the guest wrote since the
    backup before is copied where its disks have recorded that, otherwise all of it.
  - A backup that is cut off at any point is none, and leaves those before it whole. The next run removes what was left.
  - Playbooks C(berth.kvm.backup), C(berth.kvm.backups), C(berth.kvm.restore), C(berth.kvm.delete_backup) and
    C(berth.kvm.image_from_instance) run it.
options:
  state:
    description:
      - V(made) makes a backup, of a guest that is on or off.
      - V(listed) changes nothing; it returns the backups of the instance, and what is wrong with those that are not whole.
      - V(image_made) makes an image of the root disk in O(to), under the name O(image), of a guest that is on or off.
      - V(restored) replaces the disks of an instance that is off by those of a backup. All that it reads is compared with its
        digests before.
      - V(deleted) deletes backups on which no other stands.
      - The other states are steps of playbooks in which a backup host keeps the backup, see M(berth.kvm.backup_store). V(planned)
        tells what is to be copied, V(sent) writes it to the ports of the backup host, V(noted) notes in the record that
        it is kept. V(fits) tells whether a backup could be restored, V(fetched) restores it from the ports. V(let_go) tells whether
        backups of it may be deleted.
    type: str
    choices: [made, listed, restored, image_made, deleted, planned, sent, noted, fits, fetched, let_go]
    required: true
  to:
    description:
      - The directory on the host where backups are, on storage of its own. Where a backup host keeps them, its name and directory,
        for people.
      - With O(state=image_made), one from which the host takes images. By default, the first of those.
    type: str
  full:
    description: With O(state=made), copy whole disks although what was written since the backup before is known.
    type: bool
    default: false
  chain:
    description: With O(state=made), how many backups stand on each other at most. The next one has whole disks.
    type: int
    default: 30
  keep:
    description: With O(state=made), remove the backups of the instance but the newest so many, those of the last O(keep_days) days, and
      those on which they stand. Without both, none is removed.
    type: int
  keep_days:
    description: See O(keep).
    type: int
  of:
    description: With O(state=listed) and O(state=restored), the uuid or the name of the instance that was backed up, if it is another.
    type: str
  backup:
    description:
      - With O(state=restored), the id of the backup. By default, the newest that is whole.
      - With O(state=deleted), the id, or several with commas between them.
    type: str
  spare:
    description: With O(state=sent), the backups that a hint may name if there is no room, as M(berth.kvm.backup_store) returned them.
    type: list
    elements: str
    default: []
  newest:
    description: The newest backup on the backup host, or that to restore, with its C(id), C(uuid), C(name), and C(name) and C(size) of
      its C(disks).
    type: dict
  parts:
    description: What was planned to be copied, as O(state=planned) returned it.
    type: list
    elements: dict
    default: []
  targets:
    description: The ports of the backup host, as M(berth.kvm.backup_store) returned them.
    type: list
    elements: dict
    default: []
  key:
    description: The one-time key of the ports, 64 hexadecimal digits.
    type: str
  image:
    description: With O(state=image_made), the name of the image.
    type: str
  discards:
    description: With O(state=restored), the name of the instance, to confirm that what was written to its disks since is lost.
    type: str
  deep:
    description: With O(state=listed), read all files and compare them with their digests.
    type: bool
    default: false
  timeout:
    description: How long to wait for another run on the same instance, in seconds.
    type: int
    default: 600
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
  - berth.kvm.host.named
attributes:
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Back an instance up, and keep the backups of two weeks
  berth.kvm.instance_backup:
    name: web-1
    state: made
    to: /mnt/backup
    keep_days: 14
"""

RETURN = r"""
instance:
  description:
    - The instance as it is now, see M(berth.kvm.instance). C(backups) are those that were made, restored or deleted, or all. Each has its
      C(id), C(kind) full or increment, C(previous) on which it stands, C(bytes) of its files, C(of) whom it is, whether the
      guest's file systems were C(frozen), C(files) of the guest's firmware, C(why) disks were copied whole, and C(faults) if it
      cannot be restored.
    - With O(state=planned), C(parts) are the disks to copy, each with its C(name), C(size) and C(kind).
    - With O(state=image_made), C(made_image) has the C(name), C(path), C(checksum), C(bytes), C(min_disk) (GiB), C(min_ram) (MiB),
      C(properties), C(kernel) and C(initrd) of the image, and whether the guest's file systems were C(frozen).
  returned: success
  type: dict
  sample:
    uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
    name: web-1
    state: running
    backups:
      - {id: 20260102T030405Z, kind: increment, previous: 20260101T030405Z, bytes: 1048576, of: web-1, frozen: true, files: [], why: [],
         faults: []}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.backup.acts import STATES, outcome_of
from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest.instance import Instance
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.record import journal
from ..module_utils.model.backups import LONGEST_CHAIN
from ..module_utils.model.schema import OrNull, Whole

LIMITS = {
    "chain": Whole(1, 1000),
    "keep": OrNull(Whole(1, 10000)),
    "keep_days": OrNull(Whole(1, 10000)),
}


def main():
    module = AnsibleModule(
        argument_spec={
            "uuid": {"type": "str"},
            "name": {"type": "str"},
            "project_id": {"type": "str"},
            "state": {"type": "str", "choices": list(STATES), "required": True},
            "to": {"type": "str"},
            "full": {"type": "bool", "default": False},
            "chain": {"type": "int", "default": LONGEST_CHAIN},
            "keep": {"type": "int", "no_log": False},
            "keep_days": {"type": "int", "no_log": False},
            "of": {"type": "str"},
            "backup": {"type": "str"},
            "spare": {"type": "list", "elements": "str", "default": []},
            "newest": {"type": "dict"},
            "parts": {"type": "list", "elements": "dict", "default": []},
            "targets": {"type": "list", "elements": "dict", "default": []},
            "key": {"type": "str", "no_log": True},
            "image": {"type": "str"},
            "discards": {"type": "str"},
            "deep": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 600},
            "by": {"type": "dict"},
        },
        required_one_of=[("uuid", "name")],  # the action finds the uuid of a name
        supports_check_mode=True,
    )
    params = module.params
    journal.act_for(params["by"])
    with failing(module):
        for name, check in LIMITS.items():
            check.check(params[name], name)
        instance = Instance(Host.here(params["state"]), params["uuid"], timeout=params["timeout"])
        result = outcome_of(instance, params, module.check_mode)
        for text in instance.told:
            module.warn("%s: %s" % (result["instance"]["name"], text))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
