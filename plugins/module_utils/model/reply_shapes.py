# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema of each module's reply from a host, as data.

REPLIES has one entry per module, and one per Ansible module that the roles run on hosts. Keys that are not named here
never reach the controller. To add a key to a module's reply, add it to the module's RETURN and to its entry here, with
the narrowest check of shape.py that fits; make it ``optional`` if not every reply has it. To add a key to the view of
an instance in a move (steps/common.view), to the migration part of a record or to what a step returns besides, add it
to _VIEW, _MIGRATION or _SAID. Add it to the good reply in tests/unit/replies/ too: the hostile ones follow from that.
"""

from __future__ import annotations

from typing import Any, Dict, cast

from . import backups, data_disks, guest_settings, host_document, made_images, shelves, snapshots, volumes
from .lifecycle import ROLES
from .messages import Document, View
from .migration import KINDS
from .request_shape import boot_file, request, scalar, volume
from .shape import (
    Check,
    Fault,
    address,
    block,
    choice,
    cleaned,
    flag,
    generation,
    large,
    list_of,
    map_of,
    mapping,
    number,
    object_of,
    or_null,
    shown,
    state,
    text,
    uuid,
    whole,
    word,
    words,
)

SERVICES = list_of(choice("libvirtd", "virtproxyd", "virtqemud"), 3)
DIFF = object_of({"before": block(1 << 20), "after": block(1 << 20)})
PREPARE = object_of(
    {
        "parts": list_of(choice("uuid", "state", "settings", "pool", "gate", "listening", "directories"), 10),
        "host_uuid": uuid,
        "listener": choice("libvirtd", "virtproxyd"),
        "restart": SERVICES,
        "removed_images": words("[0-9a-f]+", 10000),
        "forgotten_failed_builds": whole(0, 1 << 40),
        "diff": DIFF,
    },
    optional=("diff",),
)
_PARTS = ("request", "certificate", "authority", "revoked")
_CERTIFICATES_OF_ONE_USE = object_of(dict.fromkeys(_PARTS, block(1 << 20)), optional=_PARTS)
CERTIFICATES = object_of(
    {
        "held": map_of(choice("libvirt", "qemu"), _CERTIFICATES_OF_ONE_USE, 2),
        "address": or_null(address),
        "files": list_of(text(), 100),
        "loose": list_of(text(), 100),
        "restart": SERVICES,
    }
)
SYSTEM = object_of({"os_family": word("[A-Za-z]+", 32), "service_manager": word("[a-z]+", 32)})
_HELD = object_of(dict.fromkeys(("request", "certificate", "authority"), block(1 << 20)))
REGISTRY_MEMBER = object_of(
    {"version": word("[0-9A-Za-z.+~-]*", 40), "held": _HELD, "files": list_of(text(), 100), "restart": flag}
)
OUTAGE_UNIT = object_of({"files": list_of(text(), 100), "lacks_code": flag})
CLEAN = object_of({"removed": list_of(text(), 100), "left": list_of(text(), 100), "restart": SERVICES})

MOST_RECORDS = 10000
MOST_HEARD_OF = 300000  # more than a host's notes have room for
_TIME = whole(0, 1 << 33)  # s since 1970
_SECONDS = number(0, float(1 << 33))
_BYTES = whole(0, 1 << 60)
_COUNT = whole(0, 1 << 40)
_XML = or_null(block(1 << 16))
_ROLE = choice(*ROLES)
_POWER = or_null(word("[a-z]+", 32))
token = word(r"[A-Za-z0-9_.:-]+", 64)
_TOKEN = or_null(token)
_PEOPLE = list_of(mapping(shown), 1000)  # faults and history: for people


def many(of_each: Check) -> Check:
    return list_of(of_each, MOST_RECORDS)


# ---- claims ----------------------------------------------------------------------------------------------------------

_OF_RESOURCES = {
    **dict.fromkeys(("vcpus", "pcpus", "memory_mb", "disk_gb"), _COUNT),
    "numa_topology": or_null(host_document.instance_topology),
    "pci_devices": or_null(list_of(mapping(large), 1000)),
    "vgpus": or_null(list_of(object_of({"parent": text(12), "type": text(), "uuid": uuid}), 1000)),
}
_RESOURCES = object_of(_OF_RESOURCES, set(_OF_RESOURCES))
_ERROR_OF_CLAIM = object_of(
    {"code": word("[A-Za-z][A-Za-z0-9]*", 64), "message": cleaned(2000), "retryable": flag, "hint": or_null(cleaned())},
    optional=("retryable", "hint"),
)
_CLAIM = object_of(
    {
        "results": many(
            object_of(
                {
                    "uuid": or_null(uuid),
                    "name": or_null(text()),
                    "claimed": flag,
                    "token": _TOKEN,
                    "allocation": or_null(_RESOURCES),
                    "error": or_null(_ERROR_OF_CLAIM),
                }
            ),
        ),
        "withdrawn": many(object_of({"uuid": uuid, "withdrawn": flag})),
    }
)
_NOTE = object_of(
    {
        "known": or_null(object_of({"host": text(), "host_uuid": uuid, "generation": generation})),
        "planned": list_of(object_of({"host": text(), "host_uuid": uuid, "run": text()}), 1000),
        "after": _COUNT,
        "gone": or_null(generation),
        "left": or_null(generation),
    }
)
_NOTES = map_of(uuid, _NOTE, MOST_RECORDS)
_MEMBERS = map_of(
    uuid, object_of({"name": or_null(text()), "changes": _COUNT, "closed": text()}, ("closed",)), MOST_RECORDS
)
_SCANNED = object_of(
    {
        "uuid": uuid,
        **dict.fromkeys(("name", "project_id"), text()),
        "role": _ROLE,
        "generation": generation,
        "phase": state,
        "token": token,
        "power_state": _POWER,
        "group": or_null(text()),
        **dict.fromkeys(("vcpus", "pcpus", "memory_mb"), _COUNT),
        "nics": list_of(text(), 1000),
        "lets_in": host_document.lets_in,
        "own_name": text(),
        shelves.KEY: host_document.shelved,
    },
    optional=("lets_in", "own_name", shelves.KEY),
)


def _scanned(value: Any) -> Document:
    return volumes.instance(_SCANNED(value), value["project_id"])


_RESCAN = object_of(
    {
        "host_uuid": uuid,
        "instances": many(_scanned),
        "notes": _NOTES,
        "volumes": many(object_of({"uuid": uuid, "project_id": text(), "size_gb": _COUNT})),
        "members": _MEMBERS,
        "registry": or_null(host_document.REGISTRY),
    },
    optional=("members", "registry"),
)
# ---- instances -------------------------------------------------------------------------------------------------------

_PROGRESS = object_of(
    {"state": _POWER, "bytes": _BYTES, "total": _BYTES, "percent": shown, "rate": shown},
    optional=("state", "bytes", "total", "percent", "rate"),
)
_MOVE_SHOWN = object_of(
    {
        "type": choice(*KINDS),
        "status": state,
        "source": text(),
        "destination": text(),
        "confirm_by": or_null(_TIME),
        "progress": or_null(_PROGRESS),
    },
    optional=("progress",),
)
_CONSOLE = object_of(
    {
        "lines": list_of(cleaned(), 500),
        "attach": text(),
        "serial": or_null(text()),
        "vnc": or_null(text()),
        "addresses": list_of(object_of({"mac": text(), "address": text(), "source": choice("agent", "lease")}), 64),
    }
)
_NO_BACKUP = {"id": word("[0-9TZ]+", 16), "faults": list_of(cleaned(500), 1000)}
_BACKUP = object_of(
    {
        **_NO_BACKUP,
        "kind": choice("full", "increment"),
        "previous": or_null(word("[0-9TZ]+", 16)),
        "bytes": whole(0, 1 << 60),
        "of": cleaned(),
        "frozen": flag,
        "files": list_of(choice(backups.VARIABLES, backups.TPM_STATE), 2),
        "why": list_of(cleaned(), 1000),
    }
)
_UNREADABLE_BACKUP = object_of(_NO_BACKUP)


def _backup(value: Any) -> Document:
    """Of one that cannot be read there is only why."""
    return _BACKUP(value) if isinstance(value, dict) and "kind" in value else _UNREADABLE_BACKUP(value)


_DISK_OF_BACKUP = {"name": token, "size": _BYTES}
_FITTING = object_of(
    {
        "id": word("[0-9TZ]+", 16),
        "uuid": uuid,
        "name": cleaned(),
        "disks": list_of(object_of(_DISK_OF_BACKUP), data_disks.MOST + 100),
    }
)
_MADE_IMAGE = object_of(
    {
        "name": word(made_images.NAME, 100),
        "path": text(1024),
        "checksum": word("sha256:[0-9a-f]{64}", 71),
        "bytes": whole(0, 1 << 60),
        "min_disk": _COUNT,
        "min_ram": _COUNT,
        "properties": map_of(text(), scalar, 1000),
        **dict.fromkeys(("kernel", "initrd"), boot_file),
        "frozen": flag,
    }
)
_SNAPSHOT = object_of(
    {
        "name": word(snapshots.NAME, snapshots.LONGEST_NAME),
        **dict.fromkeys(("made_at", "taken"), or_null(text())),
        "memory": flag,
        "size_gb": _COUNT,
        "disks": list_of(text(), data_disks.MOST + 1),
    }
)
_OF_INSTANCE: Dict[str, Check] = {
    "backups": list_of(_backup, 10000),
    "parts": list_of(object_of({**_DISK_OF_BACKUP, "kind": choice("full", "increment")}), 1000),
    "made_image": _MADE_IMAGE,
    "console": _CONSOLE,
    "uuid": uuid,
    "state": word("[a-z]+", 32),
    "name": text(),
    "project_id": text(),
    "role": or_null(_ROLE),
    "phase": state,
    "generation": generation,
    "op": _TOKEN,
    "token": token,
    "vm_state": state,
    "task_state": state,
    "power_state": _POWER,
    "locked": or_null(text(1024)),
    **dict.fromkeys(("flavor", "image", "group", "availability_zone", "batch_id"), or_null(text())),
    "access_ips": list_of(text(), 2),
    "metadata": map_of(cleaned(255), cleaned(1024), 1000),
    **dict.fromkeys(("vcpus", "memory_mb", "root_gb"), or_null(_COUNT)),
    "disks": map_of(text(), _COUNT, data_disks.MOST),
    "snapshots": list_of(_SNAPSHOT, snapshots.MOST),
    "volumes": map_of(text(), _COUNT, volumes.MOST),
    "delete_on_termination": list_of(text(), volumes.MOST),
    "boot_order": map_of(text(), whole(0, volumes.MOST - 1), volumes.MOST),
    "networks": list_of(
        object_of(
            {
                **dict.fromkeys(("network", "mac", "address", "address6"), or_null(text())),
                "security_groups": or_null(list_of(text(), 64)),
            },
            ("address6",),
        ),
        1000,
    ),
    shelves.KEY: object_of({"backup": text(), "to": text(), "host": or_null(text())}),
    "migration": or_null(_MOVE_SHOWN),
    "console_log": text(),
    "disks_missing": list_of(cleaned(), 1000),
    "disks_differ": list_of(cleaned(), 1000),
    "gives_up": list_of(cleaned(), 1000),
    "updates": list_of(cleaned(), 1000),
    "files_stay": list_of(cleaned(), 1000),
    "mended": or_null(cleaned(1000)),
    "domain_differs": host_document.domain_differs,
    "faults": _PEOPLE,
    "history": _PEOPLE,
}
_SHOWN = object_of(_OF_INSTANCE, optional=set(_OF_INSTANCE) - {"uuid", "state"})
_LOOK = object_of(
    {
        "uuid": uuid,
        "converged": flag,
        "compared": flag,
        "filters": map_of(text(17), word("[0-9a-f]{12}", 12), 1000),
        "address": or_null(address),
        "instance": _SHOWN,
    },
    optional=("address",),  # an earlier version does not look for it
)
_HISTORY = object_of({"uuid": uuid, "name": cleaned(255), "history": _PEOPLE, "faults": _PEOPLE})
_FOREIGN = object_of({"uuid": uuid, "name": cleaned(255), "state": word("[a-z]+", 32)})

# ---- moves -----------------------------------------------------------------------------------------------------------

_SIDE = object_of({"uuid": uuid, "name": text()})
_OF_MIGRATION: Dict[str, Check] = {
    "id": token,
    "type": choice(*KINDS),
    "status": state,
    "source": _SIDE,
    "destination": _SIDE,
    "attempt": _COUNT,
    "arriving": _BYTES,
    "frozen": or_null(_COUNT),
    "grown": flag,
    "verified": or_null(_COUNT),
    "shared": flag,
    "started": flag,
    "vm_state_before": state,
    "old_spec": request,
    "new_spec": request,
    "old_resources": _RESOURCES,
    "new_resources": or_null(_RESOURCES),
    "confirm_window": _COUNT,
    "waits_since": or_null(object_of({"boot_id": text(), "uptime": _SECONDS})),
    "created_at": _TIME,
}
_MIGRATION = object_of(
    _OF_MIGRATION, optional=set(_OF_MIGRATION) - {"id", "type", "source", "destination", "attempt", "new_spec"}
)
_VIEW: Dict[str, Check] = {
    "uuid": uuid,
    "name": text(),
    "project_id": text(),
    "host": _SIDE,
    "role": _ROLE,
    "phase": word(r"[a-z][a-z0-9_-]*", 64),
    "op": _TOKEN,
    "generation": generation,
    "attempt": _COUNT,
    "vm_state": state,
    "task_state": state,
    "power_state": _POWER,
    "spec": request,
    "resources": _RESOURCES,
    "migration": or_null(_MIGRATION),
    "confirm_in": or_null(_COUNT),
    "last_move": or_null(choice("confirmed", "reverted", "given up")),
    "lost_moves": list_of(token, 1000),
    "running": flag,
    "executing": flag,
    "has_left": flag,
    "halted": flag,
}
_DISK = object_of(
    {
        "name": token,
        "format": token,
        "size": _BYTES,
        "used": _BYTES,
        "whole": _BYTES,
        "variables": word(guest_settings.VARIABLES, 64),
    },
    optional=("used", "whole", "variables"),
)
_GUEST = object_of(
    {
        "cpu": _XML,
        "host_cpu": _XML,
        "arch": or_null(text()),
        "machine": or_null(text()),
        "virt_type": or_null(text()),
        "qemu": _COUNT,
        "bytes": _BYTES,
    }
)
_OF_SEEN: Dict[str, Check] = {**dict.fromkeys(("problems", "certificates"), list_of(cleaned(), 100)), "shared": flag}
_SEEN = object_of({**_OF_SEEN, "address": or_null(address), "pool_path": text()})
_TARGET = object_of({"name": token, "host": address, "port": whole(1, 65535)})
_PREPARED = object_of(
    {
        "arrived": flag,
        "address": or_null(address),
        "binds": flag,
        "libvirt": _COUNT,
        "shared": flag,
        "pool_path": text(),
    }
)
_TRANSFER = object_of(
    {"bytes": _BYTES, "seconds": shown, "increments": list_of(token, 100), "failed": cleaned(), "shared": flag},
    optional=("bytes", "seconds", "increments", "failed", "shared"),
)


def _targets(value: Any) -> Any:
    """Check where disks are to be copied, or what the destination of a live migration has prepared."""
    return _PREPARED(value) if type(value) is dict else _TARGETS(value)  # pylint: disable=unidiomatic-typecheck


_TARGETS = list_of(_TARGET, 100)
_HEALTH = object_of(
    {"state": choice("crashed", "answers", "up", "no panic seen", "off", "not looked at"), "seen": cleaned()}
)
_SAID: Dict[str, Check] = {
    "history": _PEOPLE,
    "disks": list_of(_DISK, 100),
    "volumes": list_of(
        object_of({"uuid": uuid, "generation": generation, "image": text()}, optional=("image",)), volumes.MOST
    ),
    "guest": or_null(_GUEST),
    "seen": or_null(_SEEN),
    "targets": or_null(_targets),
    "transfer": or_null(_TRANSFER),
    "sent": or_null(_COUNT),
    "ended": flag,
    "downtime_ms": or_null(_COUNT),
    "health": or_null(_HEALTH),
}
_HELD = object_of({**_VIEW, **_SAID}, optional=set(_SAID))
_NOTHING_HELD = object_of({"uuid": uuid, "host": _SIDE, **_SAID}, optional=set(_SAID))


def view(value: Any) -> View:
    """Check a host's view of its record of an instance; role is null if it has none."""
    if isinstance(value, dict) and value.get("role", "") is None:
        return cast(View, {**_NOTHING_HELD(value), "role": None})
    return cast(View, _whole_view(_HELD(value)))


def _whole_view(held: Document) -> Document:
    """Check that all parts are of one instance and one move: the requests count against quotas and are placed again."""
    own, move = held["uuid"], held["migration"] or {}
    for where, spec in ("spec", held["spec"]), ("new_spec", move.get("new_spec")), ("old_spec", move.get("old_spec")):
        uuids = {spec.get("uuid"), *(spec.get("instance_uuids") or ())} if spec else {own}
        if uuids != {own}:
            raise Fault(own, "the uuid of each of its requests", "uuid")
        if spec and (spec["name"], spec["project_id"]) != (held["name"], held["project_id"]):
            raise Fault(spec["name"], "the instance's own name and project", "name", where)
    if held["op"] != move.get("id") or (held["role"] in ("IN", "OUT") and not move):
        raise Fault(held["op"], "the operation of the move that the record is in", "op")
    return held


_MIGRATE = object_of(
    {
        "move": view,
        "token": object_of({"op": _TOKEN, "attempt": _COUNT}, optional=("op", "attempt")),
        "took": map_of(word("[a-z_]+", 32), _SECONDS, 100),
        "diff": DIFF,
    },
    optional=("diff",),
)
# ---- facts -----------------------------------------------------------------------------------------------------------

_FINDING = object_of(
    {
        "code": word("[A-Za-z][A-Za-z0-9]*", 64),
        "severity": choice("error", "warning"),
        "said": cleaned(500),
        "uuid": or_null(uuid),
        "fixed": flag,
    }
)
_DOMAIN = object_of(
    {
        "uuid": uuid,
        "name": cleaned(255),
        "state": _POWER,
        "vcpus": _COUNT,
        "memory_mb": _COUNT,
        "disks": list_of(
            object_of({"target": cleaned(64), "path": cleaned(1000), "format": cleaned(64), "size": _BYTES}), 1000
        ),
        "in_the_way": list_of(object_of({"code": word("[A-Za-z]+", 32), "said": cleaned(500)}), 1000),
    }
)
_ATTACHED = object_of(
    {
        "uuid": uuid,
        "owner": text(64),
        "volumes": list_of(volume, volumes.MOST),
        "nics": list_of(text(), 1000),
    },
    optional=("volumes", "nics"),
)
_FACTS = object_of(
    {
        "ansible_facts": object_of({"berth_host": host_document.shape}),
        "looks": many(_LOOK),
        "moves": many(view),
        "notes": _NOTES,
        "heard_of": list_of(uuid, MOST_HEARD_OF),
        "members": _MEMBERS,
        "digests": map_of(word("[0-9a-f]{2}|plans", 5), word("[0-9a-f]{32}|some", 32), 257),
        "checkup": object_of({"clock": _SECONDS, "findings": list_of(_FINDING, 10000), "notes": _NOTES}),
        "domains": list_of(_DOMAIN, 1000),
        "addresses": map_of(
            uuid, object_of({"address": address, "source": choice("static", "lease", "arp", "agent")}), MOST_RECORDS
        ),
        "awaited": list_of(uuid, MOST_RECORDS),
        "attached": many(_ATTACHED),
    },
    optional=(
        "looks",
        "moves",
        "notes",
        "addresses",
        "awaited",
        "checkup",
        "digests",
        "heard_of",
        "members",
        "domains",
        "attached",
    ),
)
_NO_KEYS = object_of({})
_COPY = object_of(
    {"uuid": uuid, "paths": many(text()), "nics": many(text()), "gives_up": list_of(cleaned(), 1000)}, ("gives_up",)
)
_VOLUME = object_of(
    {"uuid": uuid, "name": text(), "generation": generation, "image": or_null(text()), "history": _PEOPLE}
)
_DELETED_VOLUME = object_of({"uuid": uuid, "name": or_null(text()), "history": _PEOPLE, "faults": _PEOPLE})

REPLIES = {
    "backup_store": object_of(
        {
            "uuid": uuid,
            "backups": list_of(_backup, 10000),
            "newest": or_null(_FITTING),
            "full": flag,
            "spare": list_of(word("[0-9TZ]+", 16), backups.MOST_NAMED),
            "backup": word("[0-9TZ]+", 16),
            "targets": _TARGETS,
        },
        optional=("backups", "newest", "full", "spare", "backup", "targets"),
    ),
    "build_instances": object_of({"builds": many(object_of({"uuid": uuid, "reply": mapping(dict)}))}),
    "cached_image": object_of({"present": flag}),
    "claim": _CLAIM,
    "group_members": object_of({"waiting": many(object_of({"uuid": uuid, "name": text(), "why": cleaned(500)}))}),
    "host_certificates": CERTIFICATES,
    "host_clean": CLEAN,
    "host_facts": _FACTS,
    "host_maintenance": object_of({"drained": or_null(host_document.DRAINED)}),
    "host_prepare": PREPARE,
    "host_system": SYSTEM,
    "instance": object_of({"instance": _SHOWN, "diff": DIFF}, optional=("diff",)),
    "instance_backup": object_of({"instance": _SHOWN, "diff": DIFF}, optional=("diff",)),
    "instance_copy": object_of({"instance_copy": _COPY}),
    "instance_info": object_of(
        {"instances": many(_SHOWN), "foreign": many(_FOREIGN), "histories": many(_HISTORY)}, optional=("histories",)
    ),
    "migration": _MIGRATE,
    "outage_unit": OUTAGE_UNIT,
    "registry_member": REGISTRY_MEMBER,
    "rescan": _RESCAN,
    "volume": object_of({"uuid": uuid}),
    "volume_info": object_of({"volumes": many(_VOLUME), "deleted": many(_DELETED_VOLUME)}),
    "package": _NO_KEYS,  # this and the next ones are Ansible's own
    "reboot": _NO_KEYS,
    "service": _NO_KEYS,
    "systemd_service": object_of(
        {"status": object_of({"ActiveState": word("[a-z-]+", 32)}, optional=("ActiveState",))}, optional=("status",)
    ),
    "wait_for": _NO_KEYS,
}
