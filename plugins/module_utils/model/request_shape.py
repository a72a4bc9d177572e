# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a request as a host keeps it in the record of an instance and sends it in a move.

The controller wrote it, and a host may have changed it since: placement and the conductor read it again when the
instance is moved, so each part that they read is checked. Other parts are kept as plain data.
"""

from __future__ import annotations

from typing import Any, Dict

from . import adopted, clones, data_disks, guest_settings, host_document, rescues, shelves, snapshots, volumes
from .messages import Document
from .shape import (
    Check,
    Fault,
    anything,
    block,
    choice,
    flag,
    large,
    list_of,
    map_of,
    mapping,
    object_of,
    or_null,
    text,
    uuid,
    whole,
    word,
)

_COUNT = whole(0, 1 << 40)
_LINE = or_null(text())
_NAMES = or_null(list_of(text(), 10000))
_LONG = text(4096)


def scalar(value: Any) -> Any:
    """A text, a number, true or false, or null."""
    if isinstance(value, (list, dict)):
        raise Fault(value, "one value")
    return anything(value)


_SCALARS = map_of(text(), scalar, 1000)


def _hint(value: Any) -> Any:
    return _HINTS(value) if isinstance(value, list) else _LONG(value)


def _destination(value: Any) -> Any:
    return _SCALARS(value) if isinstance(value, dict) else text()(value)


_HINTS = list_of(_LONG, 10000)
_FLAVOR_EXTRA = object_of({"extra_specs": or_null(map_of(text(), text(), 1000))}, optional=("extra_specs",))


def flavor(value: Any) -> Document:
    return {**host_document.flavor(value), **_FLAVOR_EXTRA(value)}


boot_file = or_null(object_of({"url": _LONG, "checksum": text()}))
_IMAGE = {
    "kernel": boot_file,
    "initrd": boot_file,
    "name": text(),
    "id": text(),
    "url": or_null(_LONG),
    "upload": or_null(_LONG),
    "checksum": _LINE,
    "disk_format": _LINE,
    "min_disk": or_null(_COUNT),
    "min_ram": or_null(_COUNT),
    "properties": or_null(_SCALARS),
}
image = object_of(_IMAGE, set(_IMAGE) - {"min_disk", "min_ram", "properties"})
_NIC = {
    **dict.fromkeys(("network", "address", "mac", "type", "source", "model", "nwfilter", "gateway"), _LINE),
    **dict.fromkeys(("address6", "gateway6"), _LINE),
    "mtu": or_null(_COUNT),
    "nameservers": or_null(list_of(text(), 100)),
    "security": or_null(mapping(anything)),
    "port_security": flag,
    "dhcp": _LINE,
    "default_route": flag,
}
_OF_NIC = object_of(_NIC, set(_NIC))


def nic(value: Any) -> Document:
    return {**mapping(anything)(value), **_OF_NIC(value)}


_OF_DISK = object_of(
    {
        "name": word(data_disks.NAME, data_disks.LONGEST_NAME),
        "size_gb": whole(1, data_disks.MOST_GB),
        "bus": choice(*data_disks.BUSES),
        "slot": whole(0, data_disks.MOST - 1),
    },
    optional=("slot",),
)


_OF_VOLUME = object_of(
    {
        "name": word(data_disks.NAME, data_disks.LONGEST_NAME),
        "size_gb": whole(1, data_disks.MOST_GB),
        "delete_on_termination": flag,
        "slot": whole(0, volumes.MOST - 1),
        "new": flag,
        "boot_index": whole(0, volumes.MOST - 1),
        "image": object_of({part: _IMAGE[part] for part in (*volumes.SOURCE, "upload")}, optional=("upload",)),
    },
    optional=("new", "boot_index", "image"),
)


def disk(value: Any) -> Document:
    return {**mapping(anything)(value), **_OF_DISK(value)}


def volume(value: Any) -> Document:
    return {**mapping(anything)(value), **_OF_VOLUME(value)}


_OF_SNAPSHOT = object_of(
    {
        "name": word(snapshots.NAME, snapshots.LONGEST_NAME),
        "made_at": _LINE,
        "taken": or_null(choice("off", "frozen", "running")),
        "size_gb": whole(0, 1 << 24),
        "disks": list_of(word(r"[a-z0-9-]+", 64), data_disks.MOST + 1),
        "memory": flag,
        "reverting": flag,
    },
    optional=("memory", "reverting"),
)


def snapshot(value: Any) -> Document:
    return {**mapping(anything)(value), **_OF_SNAPSHOT(value)}


_GROUP = {
    "name": text(),
    "uuid": text(),
    "policy": choice("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"),
    "rules": or_null(map_of(text(), whole(1, 1 << 20), 10)),
    "members": or_null(list_of(uuid, 10000)),
}
_PCI_REQUEST = {
    "alias_name": _LINE,
    "request_id": _LINE,
    "count": whole(1, 1000),
    "spec": list_of(_SCALARS, 100),
    "numa_policy": or_null(word("[a-z]+", 32)),
}
# The hardware of a guest's first definition, see compute/guest/hardware.py: the destination of a move defines it again.
_HARDWARE = object_of(
    {
        "wished": _LINE,
        "machine": word(r"[A-Za-z0-9][A-Za-z0-9._+-]*", 64),
        "devices": map_of(
            word(r"controller/[a-z-]+/[0-9]{1,4}/[a-z0-9-]*|[a-z]+/[A-Za-z0-9:.-]+", 96),
            word(r"[a-z]+=[A-Za-z0-9.-]+(,[a-z]+=[A-Za-z0-9.-]+)*", 256),
            1000,
        ),
        "variables": word(guest_settings.VARIABLES, 64),
    },
    optional=("variables",),
)
_FOUND = object_of(
    {
        "target": word("[a-z]+[0-9]*", 16),
        "path": text(adopted.LONGEST_PATH),
        "format": choice("raw", "qcow2"),
        "size": whole(0, 64 << 40),
    }
)
_OF_ADOPTED = {
    "definition": block(adopted.LONGEST),
    "disks": list_of(_FOUND, 100),
    "variables": or_null(text(adopted.LONGEST_PATH)),
}
_KNOWN: Dict[str, Check] = {
    "schema": whole(1, 1),
    "uuid": uuid,
    "instance_id": uuid,
    "name": text(),
    "project_id": text(),
    "flavor": flavor,
    "image": image,
    "networks": or_null(list_of(nic, 1000)),
    "disks": or_null(list_of(disk, data_disks.MOST)),
    "volumes": or_null(list_of(volume, volumes.MOST)),
    "snapshots": or_null(list_of(snapshot, snapshots.MOST)),
    "group": or_null(object_of(_GROUP, ("rules", "members"))),
    "availability_zone": _LINE,
    "host_zone": _LINE,
    "access_ip_v4": _LINE,
    "access_ip_v6": _LINE,
    "scheduler_hints": or_null(map_of(text(), _hint, 1000)),
    "pool": _LINE,
    "ignore_hosts": _NAMES,
    "force_hosts": _NAMES,
    "force_nodes": _NAMES,
    "requested_destination": or_null(_destination),
    "num_instances": whole(1, 1),
    "instance_uuids": or_null(list_of(uuid, 1)),
    "numa_topology": or_null(host_document.instance_topology),
    "pci_requests": or_null(list_of(object_of(_PCI_REQUEST, ("alias_name", "request_id", "numa_policy")), 100)),
    "is_bfv": flag,
    "ignition": flag,
    "network_metadata": or_null(mapping(anything)),
    "metadata": or_null(map_of(text(), block(1 << 16), 1000)),
    "ssh_keys_digest": _LINE,
    "hardware": or_null(_HARDWARE),
    rescues.KEY: or_null(object_of({"image": image, "size_gb": whole(0, 1 << 24), "hardware": or_null(_HARDWARE)})),
    shelves.KEY: or_null(object_of({"backup": _LINE, "to": _LINE, "host": or_null(_LINE)})),
    shelves.EVACUATED: or_null(uuid),
    adopted.KEY: or_null(object_of(_OF_ADOPTED)),
    "batch_id": _LINE,
    "home": or_null(uuid),
    clones.KEY: or_null(uuid),
}
_PARTS = object_of(_KNOWN, set(_KNOWN) - {"name", "project_id", "flavor", "image"})
_NAMES_OF_PARTS = map_of(word("[a-z][a-z0-9_]*", 64), lambda part: part, 100)


def request(value: Any) -> Document:
    """Check the request and return all its parts: a move must not lose one that a newer version wrote."""
    parts = _PARTS(value)
    return {name: parts[name] if name in parts else large(part) for name, part in _NAMES_OF_PARTS(value).items()}
