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

from ansible_collections.berth.kvm.plugins.module_utils.model import record, record_parts, reply_shapes, request_shape  # noqa: E402

PAGE = ROOT / "docs" / "records.md"
HEAD = """<!--
Copyright: (c) 2026, The berth.kvm authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Written by docs/make_records.py from model/record.py, model/request_shape.py and model/reply_shapes.py. -->
# Fields of records and requests

The record of an instance is `/var/lib/berth/instances/<uuid>/record.json` on its host, an object in JSON; that of a volume, below
`volumes`, has the same fields. How it changes is told in [architecture](architecture.md#the-record). Do not edit it: a record with a part
of another type than here is refused (`RecordInvalid`), and nothing is done to its instance.

Which versions read which records:

- A record with a higher `schema` than a version knows is refused; nothing of it is changed.
- A record of the same schema with fields that a version does not know is read, and every write keeps these fields as they are. They stay on
  that host: a move makes a new record on the other one. A field that has to be understood gets a new schema instead.
- A field that an older version did not write means what its absence meant then.
- Unknown fields of the request (`spec`) are kept, too, and go along with a move.
"""
RECORD = {
    "uuid": "the instance's uuid, which follows from project and name",
    "name": "its name",
    "project_id": "its project",
    "role": "what the host has to do with it: OWN, IN (it comes), OUT (it left), CLAIM (room alone)",
    "generation": "[epoch, n]: the epoch counts its owners, n the writes of one owner; it only grows",
    "token": "a nonce of whoever wrote it last; a write compares it",
    "phase": "how far it is, see [life cycle](lifecycle.md)",
    "spec": "the request, below, with the flavor as it was when the instance got it",
    "resources": "what the host has set aside for it, below",
    "op": "the id of the move it is in, else null",
    "vm_state": "Nova's vm_state",
    "task_state": "Nova's task_state: of a build scheduling, networking, block_device_mapping, spawning, then null",
    "power_state": "how its guest shall be: running or shutdown",
    "migration": "the move it is in, below, else null",
    "faults": "what failed on this host, for people",
    "history": "what was done, by whom, when, in which run; the last 100, for people",
    "lost_moves": "ids of moves that went on without their other host, which was lost for good",
    "lock": "who locked it: {by, reason, at}; it is not there where nobody did",
    "schema": "the schema of the record",
}
RESOURCES = {
    "vcpus": "shared CPUs",
    "pcpus": "dedicated CPUs",
    "memory_mb": "MiB of memory",
    "disk_gb": "GiB of all disks",
    "resources": "the same by Placement's resource classes",
    "numa_topology": "its NUMA cells on the host, with the CPUs that it is pinned to",
    "pci_devices": "the PCI devices that it has",
    "vgpus": "the vGPUs that it has, [{parent, type, uuid}]: the GPU, and the type and uuid of the mediated device",
}
MIGRATION = {
    "id": "the id of the operation",
    "type": "Nova's migration_type: resize, migration or live-migration",
    "status": "Nova's status of a migration",
    "source": "the host that it leaves, {uuid, name}",
    "destination": "the host that it goes to, {uuid, name}",
    "attempt": "how often the move was taken up; a step with a lower one is refused",
    "frozen": "the attempt for which the guest was stopped",
    "verified": "the attempt in which a live guest arrived",
    "shared": "whether both hosts have one storage",
    "started": "whether the guest was started on the destination",
    "vm_state_before": "what a revert goes back to",
    "old_spec": "the request from before",
    "new_spec": "the request with the new flavor",
    "old_resources": "what was set aside before",
    "new_resources": "on one host, what will be set aside after a confirm",
    "confirm_window": "seconds until confirm_due confirms it, 0: never",
    "waits_since": "the destination's time since its boot when it took over",
    "created_at": "when it began, for people",
}
REQUEST = {
    "schema": "the schema of the request",
    "uuid": "as in the record",
    "name": "as in the record",
    "project_id": "as in the record",
    "flavor": "the flavor, whole: name, vcpus, memory_mb, root_gb, ephemeral_gb, swap, extra_specs",
    "image": "the image: name, url or upload, checksum, disk_format, min_disk, min_ram, properties",
    "networks": "the NICs, each with its MAC address, network, fixed address, filter",
    "disks": "the data disks",
    "volumes": "the volumes",
    "group": "the server group with its policy and members",
    "availability_zone": "the zone that was asked for",
    "host_zone": "the zone of the host that was chosen; after a move that of the host it has come to",
    "access_ip_v4": "where people said that it is reached, see [the guest](guest-features.md)",
    "access_ip_v6": "the same for IPv6",
    "scheduler_hints": "the hints, each a list",
    "pool": "the storage pool",
    "ignore_hosts": "hosts that were left out",
    "force_hosts": "hosts that were forced",
    "force_nodes": "nodes that were forced",
    "requested_destination": "the one host, or the cell, that was asked for",
    "num_instances": "1",
    "instance_uuids": "its uuid",
    "numa_topology": "the NUMA cells that flavor and image ask for",
    "pci_requests": "the PCI devices that flavor and NICs ask for",
    "is_bfv": "whether it boots from a volume",
    "network_metadata": "what NUMA placement knows of the networks",
    "metadata": "names and texts of berth_metadata",
    "ssh_keys_digest": "a digest of its public keys",
    "hardware": "the machine type and addresses that its guest was first defined with",
    "batch_id": "the run of `-e berth_count` that it belongs to",
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
            record_parts.TYPES.get((*path, name), ""),
            "yes" if name in needed or (*path, name) in record_parts.REQUIRED else "",
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
