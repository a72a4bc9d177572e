#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/records.md: the fields of a record and of a request, as the code has them. A field without words here is an error."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.berth.kvm.plugins.module_utils.model import record, reply_shapes, request_shape  # noqa: E402

PAGE = ROOT / "docs" / "records.md"
HEAD = """<!--
Copyright: (c) 2026, The berth.kvm authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Written by docs/make_records.py from model/record.py, model/request_shape.py and model/reply_shapes.py. -->
# Fields of records and requests

The record of an instance is `/var/lib/berth/instances/<uuid>/record.json` on its host, an object in JSON; that of a volume, below
`volumes`, has the same fields. [Architecture](architecture.md#the-record) describes how it changes. Do not edit it: a record with a field
of the wrong type is refused (`RecordInvalid`), and its instance is left alone.

`checksum` is in the file only: `sha256` of all else as JSON with sorted keys, and the `generation` that it is of. A record that does not
have the content of its checksum is refused, too: it changed on the disk, or somebody edited it. The message names instance, host and
file. The other instances of that host go on; it gets no new ones until the record is restored or moved away, because nobody knows
what the instance takes. For a volume with a damaged record, the whole host counts as silent: elsewhere, the volume would be made
anew and empty. A record without a checksum is from an older version. It gets one when it is written next. If an older version writes
such a record, it keeps a checksum that is of another generation and says nothing.

Which versions read which records:

- A record with a higher `schema` than a version knows is refused and not changed.
- A record of the same schema may have fields that a version does not know: it reads the record, and every write keeps these
  fields. They stay on that host, because a move makes a new record on the other one. A field that every version must
  understand gets a new schema instead.
- If a field is missing because an older version wrote the record, it means what it meant in that version.
- Unknown fields of the request (`spec`) are kept, too, and a move takes them along.
"""
RECORD = {
    "uuid": "the instance's uuid, which follows from project and name",
    "name": "its name",
    "project_id": "its project",
    "role": "the host's part: OWN (it has the instance), IN (the instance arrives), OUT (the instance has left), CLAIM (room is reserved)",
    "generation": "[epoch, n]: the epoch grows with each change of the owner, n with each write; a lower one is refused",
    "token": "a random text from the last write; the next write must name it (compare and swap)",
    "phase": "the state within the role, see [life cycle](lifecycle.md)",
    "spec": "the request, below, with the flavor as it was at the create or the last resize",
    "resources": "the resources that the host reserves for it, below",
    "op": "the id of the move it is in, else null",
    "vm_state": "Nova's vm_state",
    "task_state": "Nova's task_state: of a build scheduling, networking, block_device_mapping, spawning, then null",
    "power_state": "how its guest should be: running or shutdown",
    "migration": "the move it is in, below, else null",
    "faults": "what failed on this host, for people",
    "history": "what was done, by whom, when, in which run; the last 100, for people",
    "lost_moves": "ids of moves that went on without their other host, which was lost for good",
    "lock": "who locked it: {by, reason, at}; missing if it is not locked",
    "schema": "the schema of the record",
}
RESOURCES = {
    "vcpus": "shared CPUs",
    "pcpus": "dedicated CPUs",
    "memory_mb": "MiB of memory",
    "disk_gb": "GiB of all disks",
    "resources": "the same by Placement's resource classes",
    "numa_topology": "its NUMA cells on the host, with the CPUs that they are pinned to",
    "pci_devices": "the PCI devices that it has",
    "vgpus": "the vGPUs that it has, [{parent, type, uuid}]: the GPU, and the type and uuid of the mediated device",
}
MIGRATION = {
    "id": "the id of the operation",
    "type": "Nova's migration_type: resize, migration or live-migration",
    "status": "Nova's status of a migration",
    "source": "the host that it leaves, {uuid, name}",
    "destination": "the host that it goes to, {uuid, name}",
    "attempt": "the fencing token: how many runs have worked on the move; a step with a lower one is refused",
    "frozen": "the attempt in which the guest was stopped",
    "grown": "whether the running guest gets, or got, the CPUs and memory of the new flavor without a restart",
    "verified": "the attempt in which a live guest arrived",
    "shared": "whether both hosts have the same shared storage",
    "started": "whether the guest was started on the destination",
    "vm_state_before": "the vm_state that a revert restores",
    "old_spec": "the request before the move",
    "new_spec": "the request with the new flavor",
    "old_resources": "the reserved resources before the move",
    "new_resources": "in a move on the same host, the resources that stay reserved after a confirm",
    "confirm_window": "seconds until confirm_due confirms it, 0: never",
    "arriving": "bytes that the source copies to this destination",
    "waits_since": "uptime of the destination when it took over, from which the confirm window counts",
    "created_at": "when it began, for people",
}
REQUEST = {
    "schema": "the schema of the request",
    "uuid": "as in the record",
    "name": "as in the record",
    "project_id": "as in the record",
    "flavor": "the complete flavor: name, vcpus, memory_mb, root_gb, ephemeral_gb, swap, extra_specs",
    "image": "the image: name, url or upload, checksum, disk_format, min_disk, min_ram, properties",
    "networks": "the NICs, each with its MAC address, network, fixed address, filter",
    "disks": "the data disks",
    "volumes": "the volumes",
    "snapshots": "the snapshots inside its disks",
    "rescue": "what it is rescued with, while it is: the image, the room of its disk, the hardware from before",
    "shelved": "the backup that its disks are in, while it is shelved: id, directory, backup host",
    "adopted": "of an adopted instance: its definition, disks and drives as they were found",
    "clone_of": "the uuid of the instance whose disks it was made from",
    "evacuated_from": "the uuid of the host that had it, and was lost, until it was restored from a backup",
    "group": "the server group with its policy and members",
    "availability_zone": "the zone that was asked for",
    "host_zone": "the zone of the host; a move updates it",
    "access_ip_v4": "the address under which the instance is reached, as the user set it, see [the guest](guest-features.md)",
    "access_ip_v6": "the IPv6 address, likewise",
    "scheduler_hints": "the hints, each a list",
    "pool": "the storage pool",
    "ignore_hosts": "hosts to leave out",
    "force_hosts": "hosts to use without asking the filters",
    "force_nodes": "nodes to use without asking the filters",
    "requested_destination": "the requested host or cell",
    "num_instances": "1",
    "instance_uuids": "its uuid",
    "numa_topology": "the NUMA cells that flavor and image ask for",
    "pci_requests": "the PCI devices that flavor and NICs ask for",
    "is_bfv": "whether it boots from a volume",
    "network_metadata": "what NUMA placement knows about the networks",
    "metadata": "keys and values of berth_metadata",
    "ssh_keys_digest": "a digest of its public keys",
    "hardware": "the machine type and addresses that its guest was first defined with",
    "home": "the host that it returns to after a drain",
    "batch_id": "the run of `-e berth_count` that it belongs to",
    "ignition": "whether its user data are Ignition, which its guest reads from the firmware's configuration and not from the seed",
    "instance_id": "what cloud-init knows it by; it changes when the instance is made anew, and stays through moves",
}


def text():
    fields = {field.name: field for field in dataclasses.fields(record.Record) if field.name in record.FIELDS}
    needed = [name for name, field in fields.items() if _is_needed(field)]
    return "\n".join(
        [
            HEAD,
            *_table("The record, schema %d" % record.SCHEMA, RECORD, fields, (), needed),
            *_table("spec: the request", REQUEST, request_shape._KNOWN, ("spec",)),
            *_table("resources", RESOURCES, (*reply_shapes._OF_RESOURCES, "resources"), ("resources",)),
            *_table("migration", MIGRATION, reply_shapes._OF_MIGRATION, ("migration",)),
        ]
    )


def _is_needed(field):
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _table(title, words, names, path, needed=()):
    if set(words) != set(names):
        raise SystemExit("%s: words and fields differ: %s" % (title, ", ".join(sorted(set(words) ^ set(names)))))
    rows = [
        "| `%s` | %s | %s | %s |"
        % (
            name,
            record.TYPES.get((*path, name), ""),
            "yes" if name in needed or (*path, name) in record.REQUIRED else "",
            words[name],
        )
        for name in names
    ]
    return [
        "## %s\n" % title,
        "| field | type, where the host works with it | always there | meaning |",
        "| --- | --- | --- | --- |",
        *rows,
        "",
    ]


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
