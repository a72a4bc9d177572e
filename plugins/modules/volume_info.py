#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: volume_info
version_added: 1.0.0
short_description: Read the history of volumes on a KVM host
description:
  - Returns the image that each volume was made from, and its history. M(berth.kvm.host_facts) returns neither. Nothing
    is changed.
  - The history of a volume that was deleted from this host is kept for 30 days.
  - Playbook C(berth.kvm.show) runs it.
options:
  uuids:
    description: The UUIDs of the volumes. One that the host neither has nor deleted is left out.
    type: list
    elements: str
  names:
    description: The names of volumes of the project O(project_id), beside those of O(uuids). One of both is needed.
    type: list
    elements: str
  project_id:
    description: The project of O(names). By default C(default).
    type: str
extends_documentation_fragment:
  - berth.kvm.host
"""

EXAMPLES = r"""
- name: What happened to a volume
  berth.kvm.volume_info:
    names: [db]
"""

RETURN = r"""
volumes:
  description: The volumes. C(image) is the name of the image that the volume was made from, or null if it was made empty.
  returned: success
  type: list
  elements: dict
  sample: [{"uuid": "2f3c0d8e-9a71-5b1c-8a55-0f6f0d3f7c11", "name": "db", "generation": [1, 4], "image": null,
            "history": [{"event": "claim", "at": "2026-11-22T00:00:00Z", "who": "ann@ctl", "run": "r-1", "instance": "web-1"}]}]
deleted:
  description: The volumes that were deleted from this host. C(faults) says why a history cannot be read.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.record import deleted
from ..module_utils.compute.record.store import Store, check_uuid
from ..module_utils.compute.record.volume_store import VolumeStore
from ..module_utils.model.safe_text import clean_all


def read(store, uuids):
    own = VolumeStore.beside(store)
    found = [own.read(check_uuid(uuid)) for uuid in uuids]
    return [
        {
            "uuid": record.uuid,
            "name": record.name,
            "generation": list(record.generation),
            "image": clean_all(record.spec.get("source_image")),
            "history": list(record.history),
        }
        for record in found
        if record is not None
    ]


def read_deleted(store, uuids):
    found = {uuid: deleted.read(store, check_uuid(uuid)) for uuid in uuids}
    return [
        {"uuid": uuid, "name": kept.get("name"), "history": kept["history"], "faults": kept["faults"]}
        for uuid, kept in found.items()
        if kept
    ]


def main():
    module = AnsibleModule(
        argument_spec={
            "uuids": {"type": "list", "elements": "str"},
            "names": {"type": "list", "elements": "str"},
            "project_id": {"type": "str"},
        },
        required_one_of=[("uuids", "names")],  # the action finds the uuids of names
        supports_check_mode=True,
    )
    with failing(module):
        store, uuids = Store(action="volume_info"), module.params["uuids"]
        volumes = read(store, uuids)
        gone = read_deleted(store, set(uuids) - {volume["uuid"] for volume in volumes})
    module.exit_json(changed=False, volumes=volumes, deleted=gone)


if __name__ == "__main__":
    main()
