#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance
version_added: 0.1.0
short_description: Bring one instance on a KVM host to a state
description:
  - With O(state=present) builds the instance from its claim (image, disks, seed, definition, start). You can run it
    again after an interruption at any point; it then continues. An existing instance is left as it is, on or off.
  - A build that fails removes what it made, says why, and says in RV(retryable) whether another host should be tried.
  - It does not place instances; the playbook C(create) does that.
options:
  state:
    description:
      - V(present) means that the instance exists, V(started) that the guest runs, V(stopped) that it is off and keeps
        its disks, V(absent) that the instance and its disks are deleted. V(started) also builds an instance that was only claimed.
      - V(recovered) starts the guest if its record says that it runs and nobody stopped it, as after a power cut of the
        host. A guest that was stopped from inside, or by hand, since the host booted stays off.
      - V(paused) stops the guest's CPUs and keeps its memory on the host until it is V(unpaused). V(suspended) writes the
        memory to a file on the host and ends the guest, which goes on from there when it is V(resumed).
      - V(rebooted) shuts the guest down and starts it again. A guest that does not shut down in time is powered off.
      - V(locked) protects the instance from changes until it is V(unlocked). If it is already locked, the first lock
        stays.
      - V(recorded) restores a lost record from the copy in the guest's definition, with a generation above O(after). The
        caller must make sure that no other host has the instance.
      - V(adopted) makes an instance of a guest that is here and that libvirt knows by O(uuid). Guest and disks stay as they are.
        With V(left), an adopted instance is a guest of libvirt alone again, and goes on.
      - V(disks_updated) adds the data disks of O(disks) that the instance lacks, and enlarges those with a larger size,
        while its guest runs or is off.
      - V(updated) does that, and gives the instance the NICs, limits, metadata, keys, user data and server group of O(spec) and
        O(seed), without stopping its guest.
      - V(rebuilt) makes the root disk anew from the image of O(spec), with a new seed from O(seed). The root disk and the
        snapshots of the instance are lost, so O(discards_root) names it. A guest that ran is stopped meanwhile.
      - V(rescued) boots the guest from a new disk of the image O(rescue_image), with its own disks beside it, until it is
        V(unrescued), which starts it from its own disk again. A guest that ran is stopped meanwhile.
      - V(renamed) gives the instance the name O(new_name), whether its guest runs or is off. Its UUID stays. The caller must make
        sure that no other instance has the name.
      - V(shelved) removes the disks of an instance that is off once O(shelve_to) has them, and gives back its room. V(unshelved)
        takes room for it again; M(berth.kvm.instance_backup) then restores the disks, and V(started) starts it.
      - V(snapshotted) makes the snapshot O(snapshot) of the root disk and the data disks, unless it is there, while the guest
        runs or is off. V(snapshot_reverted) makes the disks of a guest that is off what they were then, and starts it again where
        it was if the snapshot has its memory. V(snapshot_deleted) deletes the snapshot.
    type: str
    choices:
      [present, started, stopped, paused, unpaused, suspended, resumed, rebooted, absent, recovered, recorded, locked,
       unlocked, renamed, disks_updated, updated, rebuilt, rescued, unrescued, shelved, unshelved,
       snapshotted, snapshot_reverted, snapshot_deleted, adopted, left]
    default: started
  uuid:
    description: The UUID of the instance. It follows from O(project_id) and O(name), so one of O(uuid) and O(name) is enough.
    type: str
  token:
    description: The token of the claim to build from.
    type: str
  name:
    description: The name of the instance; that which it gets with O(state=adopted). An adopted instance is only known by its O(uuid).
    type: str
    version_added: 1.0.0
  new_name:
    description: With O(state=renamed), the name that the instance gets.
    type: str
    version_added: 1.0.0
  project_id:
    description: The project that the instance belongs to. By default C(default).
    type: str
    version_added: 1.0.0
  flavor:
    description: The flavor of the instance with O(state=adopted), which must agree with the guest. By default one of its own.
    type: dict
    version_added: 1.0.0
  spec:
    description: The request spec of the instance. It is compared with that of the instance, and differences are a warning.
      Use a resize to change an instance. With O(state=updated), what the instance gets.
    type: dict
  only_claim:
    description: With O(state=updated), only write the record, with the new addresses, before the guest has them.
    type: bool
    default: false
    version_added: 1.0.0
  seed:
    description: What cloud-init gets at first boot. Needed to build, and never kept in a record or a log.
    type: dict
    suboptions:
      hostname:
        description: The host name of the guest.
        type: str
        required: true
      fqdn:
        description: The host name with its domain, if it has one.
        type: str
      ssh_keys:
        description: Public SSH keys of the default user.
        type: list
        elements: str
        default: []
      user_data:
        description: User data as plain text.
        type: str
      network_config:
        description: Network configuration, version 2.
        type: dict
      metadata:
        description: Free metadata of the instance.
        type: dict
      cloud_config:
        description: What cloud-init gets as vendor data, as the text of a JSON object.
        type: str
  disks:
    description: The data disks of V(disks_updated) and V(updated). One that the instance has and that is not named stays.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The name of the disk.
        type: str
        required: true
      size_gb:
        description: Its size in GiB.
        type: int
        required: true
      bus:
        description: The bus of a new disk. By default, that of the other disks.
        type: str
        choices: [virtio, scsi, sata]
    version_added: 1.0.0
  discards:
    description: With O(state=updated), the names of data disks that the instance loses, with all that is on them.
    type: list
    elements: str
    default: []
    version_added: 1.0.0
  volumes:
    description:
      - The volumes of V(disks_updated) and V(updated), each of which is on this host. One that the instance has and that is not named is
        detached and stays. Without this list it has those that it had.
    type: list
    elements: dict
    suboptions:
      name:
        description: The name of the volume.
        type: str
        required: true
      size_gb:
        description: Its size in GiB, at least what it has.
        type: int
        required: true
      delete_on_termination:
        description: Whether it is removed with the instance.
        type: bool
        default: false
      boot_index:
        description: 0 for the volume that the guest boots from, 1 and so on for those that its firmware tries next. It does not change.
        type: int
    version_added: 1.0.0
  timeout:
    description: How long to wait for another run on the same instance, in seconds.
    type: int
    default: 600
  shutdown_timeout:
    description: How long a guest may take to shut down with O(state=stopped), in seconds. It is asked every few seconds, and
      ended when the time is over. With O(state=absent) the guest is ended at once.
    type: int
    default: 60
  after:
    description: The highest generation, epoch and number, in which any host has heard of the instance. With O(state=absent) the
      host notes that the instance is gone up to that generation, with O(state=left), too; with O(state=recorded) and
      O(state=adopted) the record gets a later one.
    type: list
    elements: int
    version_added: 1.0.0
  moved_by:
    description: Only with O(state=recorded), the move that brought the guest here, whose source has let go of it. The move counts as
      ended without the source, which only removes what it kept. Refused if the disks were not taken over yet, or the
      guest is from before the move.
    type: dict
    suboptions:
      op:
        description: The id of the move.
        type: str
        required: true
      epoch:
        description: The epoch in which the source let go.
        type: int
        required: true
    version_added: 1.0.0
  changed_disks:
    description: Only with O(state=absent), remove the instance even if its guest's disks are not those of its record, such as
      after a snapshot. Other files in its directory are removed too; files elsewhere stay.
    type: bool
    default: false
    version_added: 1.0.0
  power_state:
    description: With O(state=present), whether the guest is to run. One that is built for V(shutdown) is not started. Without it an
      instance that was made is left as it is found, and so is one that is locked.
    type: str
    choices: [running, shutdown]
    version_added: 1.0.0
  mend:
    description:
      - With O(state=present), restore the definition of the guest from the record if somebody changed it in libvirt, and give NICs
        without a packet filter one if O(spec) says C(port_security) for them. Apart from that filter, a running guest stays as it is until
        its next start.
      - Disks are not restored, nor is an instance that is locked or in a move.
    type: bool
    default: false
    version_added: 1.0.0
  reboot:
    description: With O(state=rebooted), V(hard) ends the guest at once; what it had not written is lost.
    type: str
    choices: [soft, hard]
    default: soft
    version_added: 1.0.0
  discards_root:
    description: With O(state=rebuilt), the name of the instance whose root disk and snapshots may be lost.
    type: str
    version_added: 1.0.0
  rescue_image:
    description: With O(state=rescued), the image to boot from, as the C(image) of O(spec).
    type: dict
    version_added: 1.0.0
  shelve_to:
    description: With O(state=shelved), the backup that has the disks. Without it, only what an ended run has begun is finished.
    type: dict
    suboptions:
      backup:
        description: The id of the backup.
        type: str
        required: true
      to:
        description: The directory of backups.
        type: str
        required: true
      host:
        description: The backup host; without it, the directory is on this host.
        type: str
      generation:
        description: The generation of the record when the backup was made. Nothing is removed if it is another by now.
        type: list
        elements: int
        required: true
    version_added: 1.0.0
  snapshot:
    description: The name of the snapshot.
    type: str
    version_added: 1.0.0
  snapshot_memory:
    description: With O(state=snapshotted), the snapshot of a running guest also has its memory.
    type: bool
    default: false
    version_added: 1.0.0
  reason:
    description: With O(state=locked), why.
    type: str
    default: ''
    version_added: 1.0.0
extends_documentation_fragment:
  - berth.kvm.host
  - berth.kvm.host.by
  - berth.kvm.host.registry
attributes:
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Stop an instance
  berth.kvm.instance:
    name: web-1
    state: stopped
    shutdown_timeout: 120

- name: Delete an instance
  berth.kvm.instance:
    name: web-1
    state: absent
"""

RETURN = r"""
instance:
  description: The instance as it is now. C(state) is that of the guest in libvirt, or C(absent). Then C(gives_up) names the
    disks that were removed, or would be, with their sizes; with O(state=left), C(files_stay) the guest's files, and of
    a shelved instance that is deleted its backup. C(shelved) is the backup that the disks of a shelved instance are in. With
    O(state=updated), C(updates) each change, and how the guest gets it.
  returned: success
  type: dict
  sample: {"uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "name": "web-1", "state": "running", "vm_state": "active",
           "task_state": null, "flavor": "m1.tiny", "vcpus": 1, "memory_mb": 512, "root_gb": 1, "disks": {"logs": 10},
           "snapshots": [], "volumes": {"db": 20}, "delete_on_termination": [], "boot_order": {},
           "role": "OWN"}
retryable:
  description: Whether another host may succeed.
  returned: failure
  type: bool
  sample: true
error_code:
  description: The kind of failure, such as C(BuildFailed), C(ImageInvalid), C(NetworkNotFound) or C(ClaimRevoked).
  returned: failure
  type: str
  sample: BuildFailed
error:
  description: The failure with C(code), C(message), C(retryable) and what else is known.
  returned: failure
  type: dict
  sample: {"code": "BuildFailed", "message": "starting the guest failed", "retryable": true}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest import adopt, given_up, seed, shelve
from ..module_utils.compute.guest.acts import ACTS, outcome_of
from ..module_utils.compute.guest.instance import Instance
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.record import journal, registry_mark
from ..module_utils.model import data_disks

DISK = {
    "name": {"type": "str", "required": True},
    "size_gb": {"type": "int", "required": True},
    "bus": {"type": "str", "choices": list(data_disks.BUSES)},
}
VOLUME = {
    "name": {"type": "str", "required": True},
    "size_gb": {"type": "int", "required": True},
    "delete_on_termination": {"type": "bool", "default": False},
    "boot_index": {"type": "int"},
}
MOVED_BY = {"op": {"type": "str", "required": True}, "epoch": {"type": "int", "required": True}}
SHELVE_TO = {
    "backup": {"type": "str", "required": True},
    "to": {"type": "str", "required": True},
    "host": {"type": "str"},
    "generation": {"type": "list", "elements": "int", "required": True},
}
ARGUMENTS = {
    "state": {
        "type": "str",
        "choices": list(ACTS),
        "default": "started",
    },
    "uuid": {"type": "str"},
    "token": {"type": "str", "no_log": False},
    "name": {"type": "str"},
    "new_name": {"type": "str"},
    "project_id": {"type": "str"},
    "flavor": {"type": "dict"},
    "spec": {"type": "dict"},
    "after": {"type": "list", "elements": "int"},
    "moved_by": {"type": "dict", "options": MOVED_BY},
    "seed": {"type": "dict", "no_log": False, "options": seed.ARGUMENTS},
    "timeout": {"type": "int", "default": 600},
    "shutdown_timeout": {"type": "int", "default": 60},
    "changed_disks": {"type": "bool", "default": False},
    "disks": {"type": "list", "elements": "dict", "default": [], "options": DISK},
    "discards": {"type": "list", "elements": "str", "default": []},
    "volumes": {"type": "list", "elements": "dict", "options": VOLUME},
    "power_state": {"type": "str", "choices": ["running", "shutdown"]},
    "mend": {"type": "bool", "default": False},
    "discards_root": {"type": "str"},
    "only_claim": {"type": "bool", "default": False},
    "reboot": {"type": "str", "choices": ["soft", "hard"], "default": "soft"},
    "reason": {"type": "str", "default": ""},
    "rescue_image": {"type": "dict"},
    "shelve_to": {"type": "dict", "options": SHELVE_TO},
    "snapshot": {"type": "str"},
    "snapshot_memory": {"type": "bool", "default": False},
    "by": {"type": "dict"},
    "registry": registry_mark.OPTION,
}


def main():
    # the action finds the uuid of a name
    module = AnsibleModule(argument_spec=ARGUMENTS, required_one_of=[("uuid", "name")], supports_check_mode=True)
    params = module.params
    journal.act_for(params["by"])
    registry_mark.act_over(params["registry"])
    with failing(module):
        instance = Instance(Host.here(params["state"]), params["uuid"], timeout=params["timeout"])
        gone = given_up.words(instance, params["state"], params["snapshot"])
        stay = adopt.files(instance) if params["state"] == "left" else []
        stay += shelve.kept(instance) if params["state"] == "absent" else []
        result = outcome_of(instance, params, module.check_mode, gone)
        if params["state"] == "adopted" and module.check_mode and result["changed"]:
            result["diff"] = adopt.difference(instance, adopt.wanted(params))
        if instance.updates and result["changed"]:
            result["instance"]["updates"] = instance.updates
            result["diff"] = {"before": "", "after": "\n".join(instance.updates) + "\n"}
        for text in instance.told if result["changed"] else ():
            module.warn("%s: %s" % (result["instance"]["name"], text))
        if stay:
            result["instance"]["files_stay"] = stay
    module.exit_json(**result)


if __name__ == "__main__":
    main()
