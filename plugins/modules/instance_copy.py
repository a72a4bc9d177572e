#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_copy
version_added: 1.0.0
short_description: Keep one of two copies of an instance, and set the other aside
description:
  - Two hosts may own one instance if one of them was declared lost and is back. A person names the copy to keep.
  - Can be run again after an interruption, and continues where it stopped.
  - Playbooks C(berth.kvm.keep_one_copy) and C(berth.kvm.remove_set_aside) run it.
options:
  state:
    description:
      - V(kept) raises the generation of this host's copy above O(above), so that it counts from here on.
      - V(stopped) stops the guest of this host's copy, so that nothing but C(berth.kvm.start) starts it.
      - V(set_aside) stops the guest of this host's copy, renames the directory of its disks, puts the record and the
        definition beside them, and removes the copy from this host's instances. Nothing of it is lost.
      - V(listed) changes nothing; it returns the addresses of the copy that was set aside last.
      - V(recorded) writes the record of the copy that was set aside last, if there is none, without bringing it back.
      - V(brought_back) brings back a copy that is being set aside, off, with a generation above O(above). The host of the
        copy that stayed must be lost for good.
      - V(removed) removes for good what was set aside of the instance on this host. Nothing else ever does.
      - V(forgotten) removes this host's copy but for its disks, which O(new_owner) has taken over on shared storage while this host was
        off. Refused unless the file beside the disks proves that, or if the guest runs here.
    type: str
    choices: [kept, stopped, set_aside, listed, recorded, brought_back, removed, forgotten]
    required: true
  new_owner:
    description: The UUID of the host that owns the instance by now. For O(state=forgotten).
    type: str
  above:
    description: The highest generation of the other copies, as epoch and number. For O(state=kept) and
      O(state=brought_back).
    type: list
    elements: int
  timeout:
    description: How long to wait for another run on the same instance, in seconds.
    type: int
    default: 600
  shutdown_timeout:
    description: How long a guest may take to shut down before it is ended, in seconds. For O(state=stopped), O(state=set_aside)
      and O(state=brought_back).
    type: int
    default: 60
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
  - berth.kvm.host.named
"""

EXAMPLES = r"""
- name: Set this host's copy aside
  berth.kvm.instance_copy:
    name: web-1
    state: set_aside
"""

RETURN = r"""
instance_copy:
  description: The instance's C(uuid), and as C(paths) where its copy was put, or would be, or what was removed; with O(state=listed) as
    C(nics) the addresses of the copy; with O(state=removed) as C(gives_up) the removed disks with their sizes; the
    C(state) that was asked for, and the C(host) with its C(name) in the inventory.
  returned: success
  type: dict
  sample:
    uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
    paths: [/var/lib/libvirt/berth/set-aside/0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a-1.5]
    nics: []
    gives_up: []
    state: set_aside
    host: {name: kvm1}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest import set_aside
from ..module_utils.compute.guest.instance import Instance
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.record import journal

STATES = ["kept", "stopped", "set_aside", "listed", "recorded", "brought_back", "removed", "forgotten"]


def act(instance, params, dry):
    """Return (whether anything is changed, the paths that are affected)."""
    if params["state"] == "kept":
        return (set_aside.would_keep if dry else set_aside.keep)(instance, params["above"]), []
    if params["state"] == "stopped":
        return set_aside.would_stop(instance) if dry else set_aside.stop(instance, params["shutdown_timeout"]), []
    if params["state"] == "listed":
        return False, []
    if params["state"] == "forgotten":
        return bool((set_aside.check_outdated if dry else set_aside.remove_outdated)(instance, params["new_owner"])), []
    if params["state"] == "recorded":
        return (set_aside.would_record_again if dry else set_aside.record_again)(instance), []
    if params["state"] == "brought_back":
        if dry:
            return set_aside.would_bring_back(instance, params["above"]), []
        return set_aside.bring_back(instance, params["above"], params["shutdown_timeout"]), []
    if params["state"] == "set_aside":
        return True, [
            set_aside.would_set_aside(instance) if dry else set_aside.set_aside(instance, params["shutdown_timeout"])
        ]
    paths = sorted(set_aside.listed(instance.store, instance.uuid)) if dry else set_aside.remove(instance)
    return bool(paths), paths


def main():
    module = AnsibleModule(
        argument_spec={
            "uuid": {"type": "str"},
            "name": {"type": "str"},
            "project_id": {"type": "str"},
            "state": {"type": "str", "choices": STATES, "required": True},
            "above": {"type": "list", "elements": "int"},
            "new_owner": {"type": "str"},
            "timeout": {"type": "int", "default": 600},
            "shutdown_timeout": {"type": "int", "default": 60},
            "by": {"type": "dict"},
        },
        required_if=[
            ("state", "kept", ["above"]),
            ("state", "brought_back", ["above"]),
            ("state", "forgotten", ["new_owner"]),
        ],
        required_one_of=[("uuid", "name")],  # the action finds the uuid of a name
        supports_check_mode=True,
    )
    params = module.params
    journal.act_for(params["by"])
    with failing(module):
        instance = Instance(Host.here(params["state"]), params["uuid"], timeout=params["timeout"])
        gone = set_aside.given_up(instance) if params["state"] == "removed" else []
        changed, paths = act(instance, params, module.check_mode)
        nics = set_aside.addresses(instance) if params["state"] == "listed" else []
    copy = {"uuid": params["uuid"], "paths": paths, "nics": nics, "gives_up": gone}
    module.exit_json(changed=changed, instance_copy=copy)


if __name__ == "__main__":
    main()
