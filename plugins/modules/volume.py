#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: volume
version_added: 1.0.0
short_description: Make or remove a volume on a KVM host
description:
  - Removes a free volume with its file. A volume that an instance uses is refused, with the instance's name.
  - Makes a volume for an existing instance in two steps, claimed and present. It is free until it is attached.
  - Grows an existing volume in the same two steps, with O(grows). Its file grows when the instance is updated.
  - Playbooks C(berth.kvm.delete_volume) and C(berth.kvm.update_disks) run it.
options:
  uuid:
    description: The UUID of the volume. It follows from O(project_id) and O(name), so one of O(uuid) and O(name) is enough.
    type: str
  name:
    description: The name of the volume. That of O(volume), if it is given, is enough.
    type: str
  project_id:
    description: The project that the volume belongs to. By default C(default).
    type: str
  state:
    description: The state to bring the volume to. V(claimed) reserves room for a new volume, and V(present) makes it from the
      claim with O(token). V(absent) removes a volume, or, with O(token), only the claim with that token.
    type: str
    choices: [absent, claimed, present]
    default: absent
  token:
    description: The token that identifies the claim.
    type: str
  volume:
    description: The volume to claim, or to make from its claim.
    type: dict
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      size_gb:
        description: Its size in GiB.
        type: int
        required: true
      pool:
        description: Its storage pool. It must be the pool of the instance.
        type: str
      image:
        description: The image that it is made from, with name, url or upload, checksum and disk_format. Without one it is empty. An image
          with upload is sent to the host first.
        type: dict
      instance:
        description: The name or the UUID of the instance beside which it is made.
        type: str
        required: true
  grows:
    description: Whether O(volume) exists and grows to O(volume.size_gb). V(claimed) reserves the room, V(present) confirms the
      larger size, and V(absent) releases the claim with O(token).
    type: bool
    default: false
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
  - berth.kvm.host.registry
"""

EXAMPLES = r"""
- name: Remove a volume
  berth.kvm.volume:
    name: db
- name: Reserve room for a volume beside its instance
  berth.kvm.volume:
    state: claimed
    token: 5f0c1f7d
    volume:
      name: db
      size_gb: 20
      instance: web-1
- name: Make the volume that was claimed
  berth.kvm.volume:
    name: db
    state: present
    token: 5f0c1f7d
"""

RETURN = r"""
uuid:
  description: The UUID of the volume.
  returned: success
  type: str
  sample: 2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.disk import new_volume, volume
from ..module_utils.compute.errors import failing
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.record import journal, registry_mark, state_directory

VOLUME = {
    "name": {"type": "str", "required": True},
    "size_gb": {"type": "int", "required": True},
    "pool": {"type": "str"},
    "image": {"type": "dict"},
    "instance": {"type": "str", "required": True},
}
ARGUMENTS = {
    "uuid": {"type": "str"},
    "name": {"type": "str"},
    "project_id": {"type": "str"},
    "state": {"type": "str", "choices": ["absent", "claimed", "present"], "default": "absent"},
    "token": {"type": "str", "no_log": False},
    "volume": {"type": "dict", "options": VOLUME},
    "grows": {"type": "bool", "default": False},
    "by": {"type": "dict"},
    "registry": registry_mark.OPTION,
}


def act(host, params, dry):
    """Return whether anything was changed."""
    uuid, token = params["uuid"], params["token"]
    if params["grows"]:
        return _grow(host, params, dry)
    if params["state"] == "claimed":
        new_volume.claim(host, params["volume"], token, dry)
    elif params["state"] == "present":
        return new_volume.make(host, uuid, token, (params["volume"] or {}).get("image"), dry)
    elif token:
        return new_volume.withdraw(host, uuid, token, dry)
    else:
        return volume.delete(host, uuid, dry=dry)
    return True


def _grow(host, params, dry):
    if params["state"] == "claimed":
        return new_volume.claim_growth(host, params["volume"], params["token"], dry)
    settle = new_volume.confirm_growth if params["state"] == "present" else new_volume.give_growth_back
    return settle(host, params["uuid"], params["token"], dry)


def main():
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_if=[("state", "claimed", ("token", "volume")), ("state", "present", ("token",))],
        required_one_of=[("uuid", "name")],  # the action finds the uuid of a name
        supports_check_mode=True,
    )
    journal.act_for(module.params["by"])
    registry_mark.act_over(module.params["registry"])
    with failing(module):
        host = Host.here("volume")
        state_directory.check(host.store)
        if module.params["state"] != "absent":
            registry_mark.check(host.store)
        changed = act(host, module.params, module.check_mode)
    module.exit_json(changed=changed, uuid=module.params["uuid"])


if __name__ == "__main__":
    main()
