#!/usr/bin/python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_info
version_added: 0.1.0
short_description: Read the instances of a KVM host
description:
  - Returns every instance that has a record on the host, in any role, with the state of its guest, and the domains
    that berth does not manage. Nothing is changed.
options:
  uuids:
    description: The UUIDs of the instances to return. By default, all.
    type: list
    elements: str
    default: []
  names:
    description: The names of the instances to return, of the project O(project_id), beside those of O(uuids).
    type: list
    elements: str
    default: []
    version_added: 1.0.0
  project_id:
    description: The project of O(names). By default C(default).
    type: str
    version_added: 1.0.0
  console_lines:
    description: How many of the last console lines to return for each instance, at most 500. With 0 the guest is not asked.
    type: int
    default: 0
    version_added: 1.0.0
  events_seconds:
    description: Return only what happened in the last so many seconds by the host's clock, in RV(histories), also of deleted instances.
    type: int
    version_added: 1.0.0
extends_documentation_fragment:
  - berth.kvm.host
"""

EXAMPLES = r"""
- name: What is on the host
  berth.kvm.instance_info:
  register: here

- name: What the host knows of one instance
  berth.kvm.instance_info:
    names: [web-1]
  register: web
"""

RETURN = r"""
instances:
  description:
    - The instances. C(state) is that of the guest in libvirt, C(saved) if it is off because somebody saved its memory to a file of their
      own (C(virsh save)), or C(absent).
    - C(disks_missing) are the files of its disks and volumes that are gone, and C(disks_differ) are sentences that say why no move
      would take it, such as a snapshot's layer. An instance about which there is nothing to say has neither.
    - An instance whose creation failed here last is in C(vm_state) error, with C(faults) of C(code), C(message), C(host) and C(at),
      until it is created or deleted. It holds nothing.
    - An instance that was deleted from this host is in C(vm_state) deleted, with its history, for 30 days. It is returned only if its uuid
      is in O(uuids). It holds nothing.
    - C(console_log) is empty if there is none, as of an adopted guest.
    - C(migration) exists during a move and until it is confirmed or reverted. Its C(confirm_by) is the time, in seconds
      since 1970 by the clock of this host, from which the playbook C(confirm_due) confirms it, or null.
      Its C(progress) is how far the copy from this host is, in bytes and bytes per second, or null if no copy runs.
    - C(console) is returned with O(console_lines). It has the last C(lines) without terminal control sequences, how to C(attach) to
      the serial console on the host, its device C(serial), the address of the screen C(vnc) or null, and the C(addresses) that
      the guest's agent or libvirt's leases report.
  returned: success
  type: list
  elements: dict
  sample: [{"uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "name": "web-1", "role": "OWN", "state": "running",
            "console_log": "/var/log/libvirt/qemu/0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a-console.log",
            "migration": {"type": "resize", "status": "migrating", "source": "kvm1", "destination": "kvm2", "confirm_by": null,
                          "progress": {"state": "copying", "bytes": 1288490189, "total": 10737418240, "percent": 12.0,
                                       "rate": 123731968}}}]
histories:
  description: With O(events_seconds) and instead of all else, what happened since, of the instances that are here or were deleted
    from here in the last 30 days.
  returned: with O(events_seconds)
  type: list
  elements: dict
  sample: [{"uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "name": "web-1", "faults": [],
            "history": [{"event": "stop", "at": "2026-11-22T00:00:00Z", "who": "ann@ctl", "run": "r-1"}]}]
foreign:
  description: The domains that berth does not manage.
  returned: success
  type: list
  elements: dict
  sample: [{"uuid": "8c7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2b", "name": "legacy", "state": "running"}]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.compute import paths
from ..module_utils.compute.disk import differences, disk_chain
from ..module_utils.compute.errors import failing
from ..module_utils.compute.guest import console, domain, domains, live_differences
from ..module_utils.compute.guest.summary import describe
from ..module_utils.compute.host.host import Host
from ..module_utils.compute.move import transfer
from ..module_utils.compute.record import deleted, failed_instances, journal
from ..module_utils.compute.record.store import check_uuid
from ..module_utils.model.errors import BerthError
from ..module_utils.model.lifecycle import ACTIVE, OWN
from ..module_utils.model.safe_text import clean
from ..module_utils.model.schema import Whole


def against_a_move(host, record):
    """Return {disks_differ: [sentence]} of an instance that no move would take as it is, else {}."""
    if (record.role, record.phase) != (OWN, ACTIVE):
        return {}
    try:
        found = disk_chain.against_a_move(host, record, disk_chain.found_on(host, record))
    except (BerthError, *live_differences.DAMAGED):
        return {}  # its pool, or a damaged record, which is told elsewhere
    return {"disks_differ": [clean(each.text) for each in found]} if found else {}


def histories(host, uuids, seconds):
    """Return [{uuid, name, history, faults}] with what happened in the last ``seconds`` by this host's clock, of instances that
    are here or were deleted from here. An event that came along with an instance has the time of the host where it was."""
    since = journal.now(seconds)
    found = [(record.uuid, record.name, record.history, record.faults) for record in host.store.records()]
    for uuid, kept in sorted(deleted.all_of(host.store).items()):
        found.append((uuid, kept.get("name") or uuid, kept["history"], kept["faults"]))
    told = []
    for uuid, name, *lists in found:
        history, faults = ([each for each in events if str(each.get("at")) >= since] for events in lists)
        if (history or faults) and (not uuids or uuid in uuids):
            told.append({"uuid": uuid, "name": name, "history": history, "faults": faults})
    return told


def read(host, uuids, console_lines=0):
    """Return (instances, foreign) of the host. One libvirt call reads all states."""
    found = domains.states(host.connection)
    records = host.store.sound()
    instances = []
    for record in records:
        if not uuids or record.uuid in uuids:
            state = found[record.uuid][1] if record.uuid in found else None
            state = domain.shown_state(host.connection, record.uuid, state)
            shown = dict(describe(record, state), token=record.token)
            shown["console_log"] = next(iter(paths.console_logs(record.uuid)), "")
            shown.update(differences.reported_missing(record, host.pool_path), **against_a_move(host, record))
            if console_lines:
                shown["console"] = console.look(host.connection, record.uuid, console_lines)
            if shown["migration"]:
                shown["migration"]["progress"] = transfer.read_progress(record.uuid)
            instances.append(shown)
    own = {record.uuid for record in records}
    for uuid, failure in sorted(failed_instances.read(host.store.state_dir).items()):
        if uuid not in own and (not uuids or uuid in uuids):
            instances.append(failed_instances.describe(uuid, failure))
    reported = {instance["uuid"] for instance in instances}
    known = [deleted.describe(host.store, check_uuid(uuid)) for uuid in uuids if uuid not in reported]
    instances += [instance for instance in known if instance]
    foreign = [
        {"uuid": uuid, "name": guest.name(), "state": state}
        for uuid, (guest, state) in sorted(found.items())
        if uuid not in own
    ]
    return instances, foreign


def main():
    module = AnsibleModule(
        argument_spec={
            "uuids": {"type": "list", "elements": "str", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "project_id": {"type": "str"},
            "console_lines": {"type": "int", "default": 0},
            "events_seconds": {"type": "int"},
        },
        supports_check_mode=True,
    )
    with failing(module):
        lines = Whole(0, console.MOST_LINES).check(module.params["console_lines"], "console_lines")
        host, uuids, seconds = Host.here("instance_info"), module.params["uuids"], module.params["events_seconds"]
        if seconds is not None:
            module.exit_json(changed=False, instances=[], foreign=[], histories=histories(host, uuids, seconds))
        instances, foreign = read(host, uuids, lines)
    module.exit_json(changed=False, instances=instances, foreign=foreign)


if __name__ == "__main__":
    main()
