#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rescan
version_added: 0.1.0
short_description: "Internal: read which instances a KVM host holds after claims were made"
description:
  - Returns every record of the host, claims too. The C(create) playbook reads all hosts this way between claim and
    commit, so that of two runs that want the same name, group or quota at least one sees the other.
  - Tells the host where the other hosts' instances are, and returns what it remembered before. A later run needs that to
    refuse a second copy of an instance whose host does not answer.
  - The host holds its lock from the first that it reads to the last that it writes, so that of two runs one comes first,
    and the other one reads what that one told. A host whose lock is not free within a minute has failed.
  - Clears the C(vm_state) error of instances that were placed again.
options:
  about:
    description: The UUIDs of the instances to recall the whereabouts of.
    type: list
    elements: str
    default: []
  told:
    description:
      - What the host is to remember. C(hosts) has the inventory names of hosts by their UUIDs. C(known) has for each host the
        instances that it owns with their generations, C(gone) those that it has removed. C(planned) and C(ended) have
        dictionaries with C(uuid), C(host_uuid) and C(run) for each instance that a run means to make, or has not made.
        C(members) has the hosts that belong to the fleet, C(registry) the registry that the host belongs to from now on, null for none.
      - Only a higher generation replaces what is known about an instance; plans do not.
    type: dict
    default: {}
extends_documentation_fragment:
  - berth.kvm.host
"""

EXAMPLES = "\n[]\n"
RETURN = r"""
host_uuid:
  description: The pinned UUID of the host.
  returned: success
  type: str
  sample: 4c4c4544-0042-3510-8052-b4c04f4a3232
instances:
  description: Every record of the host, of whatever role.
  returned: success
  type: list
  elements: dict
  sample:
    - uuid: 0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a
      name: web-1
      project_id: default
      role: OWN
      generation: [1, 7]
      phase: active
      token: 5f0c1f7d
      power_state: running
      group: web
      vcpus: 2
      pcpus: 0
      memory_mb: 2048
      nics: ["MAC address 02:00:00:00:00:01", "address 192.0.2.10 on bridge br0"]
      lets_in:
        1c8a55d0-9a71-5b1c-8a55-0f6f0d3f7c11: ["address 192.0.2.11 on bridge br0"]
members:
  description: Which hosts belong to the fleet, as the host knew before this run; as in M(berth.kvm.host_facts).
  returned: success
  type: dict
  sample: {4c4c4544-0042-3510-8052-b4c04f4a3233: {name: kvm2, changes: 1}}
registry:
  description: The registry that the host belonged to before this run, as in M(berth.kvm.host_facts), or null.
  returned: success
  type: dict
  sample: {kind: etcd, incarnation: 5f0c1f7d6a6b4c5d8e9f00112233aabb, revision: 4711}
volumes:
  description: Every record of a volume on the host, of whatever role.
  returned: success
  type: list
  elements: dict
  sample:
    - uuid: 2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11
      project_id: default
      size_gb: 20
notes:
  description: What the host remembered about the instances in O(about) before this run sent it anything; as in M(berth.kvm.host_facts).
  returned: success
  type: dict
  sample:
    0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a:
      known: null
      planned: [{"host": kvm2, "host_uuid": 4c4c4544-0042-3510-8052-b4c04f4a3233, "run": r-8f31}]
      gone: null
"""

import contextlib
import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.host.settings import load, no_member
from ..module_utils.compute.record import failed_instances, registry_mark, whereabouts
from ..module_utils.compute.record.store import Store, check_uuid
from ..module_utils.compute.record.volume_store import VolumeStore, size_gb
from ..module_utils.model import admitted_members, nics, shelves
from ..module_utils.model.identity import own_name


def summary(record):
    return {
        "uuid": record.uuid,
        "name": record.name,
        "project_id": record.project_id,
        "role": record.role,
        "generation": list(record.generation),
        "phase": record.phase,
        "token": record.token,
        "power_state": record.power_state,
        "group": (record.spec.get("group") or {}).get("name"),
        **{name: record.resources.get(name, 0) for name in ("vcpus", "pcpus", "memory_mb")},
        "nics": nics.taken(record.spec.get("networks")),
        **own_name(record),
        **shelves.reported(record),
    }


def placed(told):
    """Return the instances that a host has or is about to get."""
    owned = [uuid for owned in (told.get("known") or {}).values() for uuid in owned]
    return owned + [instance["uuid"] for instance in told.get("planned") or ()]


def exchange(store, host_uuid, about, told, dry=False):
    """Return what this host holds and remembers, then remember what the run tells. Nobody else does so in between: of two
    runs that each reach a host that the other one does not, at least one reads here what the other one plans."""
    with contextlib.nullcontext() if dry else store.host_lock():
        notes = whereabouts.recall(store, about)
        records = store.sound()
        volumes, damaged = VolumeStore.beside(store).sound_and_damaged()
        known, mark = whereabouts.read_members(store.state_dir), registry_mark.read(store.state_dir)
        if not dry:
            whereabouts.remember(store, told)
            whereabouts.take_in_members(store, told.get("members") or {})
            failed_instances.forget(store, placed(told))
            if "registry" in told:
                registry_mark.keep(store, told["registry"])
    lets_in = admitted_members.reported((record.uuid, record.spec) for record in records)
    return {
        "host_uuid": host_uuid,
        "instances": [{**summary(record), **lets_in[record.uuid]} for record in records],
        "notes": notes,
        "volumes": [{"uuid": each.uuid, "project_id": each.project_id, "size_gb": size_gb(each)} for each in volumes]
        + [{"uuid": uuid, "project_id": "", "size_gb": 0} for uuid in damaged],
        "members": known,
        "registry": mark,
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "about": {"type": "list", "elements": "str", "default": []},
            "told": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    store = Store(action="rescan")
    with failing(module):
        settings = load()
        if not settings.prepared:
            raise no_member(os.uname().nodename)
        for uuid in module.params["about"]:
            check_uuid(uuid)
        about, told = module.params["about"], module.params["told"]
        reply = exchange(store, settings.uuid, about, told, dry=module.check_mode)
        # What a host remembers of others is not a change of the host. Do not return what it was told, as a module's
        # arguments otherwise are.
        module.exit_json(changed=False, invocation={"module_args": {}}, **reply)


if __name__ == "__main__":
    main()
