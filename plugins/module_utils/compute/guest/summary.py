# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary of an instance for users: its record and its guest, in Nova's terms. It contains no secrets."""

from __future__ import annotations

import math
import time

from ...model import data_disks, shelves, snapshots, vm_states, volumes
from ...model.identity import is_uuid
from ...model.lifecycle import ACTIVE, ALIVE, OUT, OWN, SPAWNING
from ...model.safe_text import clean
from ..host import boot_time
from . import domain, gate


def describe(record, power):
    """Return the user's view of a record and its guest, whose state in libvirt is ``power``."""
    flavor = record.spec.get("flavor") or {}
    return {
        "uuid": record.uuid,
        "name": record.name,
        "project_id": record.project_id,
        "role": record.role,
        "phase": record.phase,
        "generation": list(record.generation),
        "op": record.op,
        "vm_state": record.vm_state,
        "task_state": record.task_state,
        "power_state": record.power_state,
        "locked": clean(record.locked_by()) if record.lock else None,
        "state": power or ("absent" if vm_states.is_defined(record.vm_state) else "shutdown"),
        "flavor": flavor.get("name"),
        "vcpus": flavor.get("vcpus"),
        "memory_mb": flavor.get("memory_mb"),
        "root_gb": flavor.get("root_gb"),
        "disks": data_disks.shown(record.spec),
        "snapshots": snapshots.shown(record.spec),
        "volumes": volumes.shown(record.spec),
        "delete_on_termination": volumes.going(record.spec),
        "boot_order": volumes.boot_order(record.spec),
        "image": (record.spec.get("image") or {}).get("name"),
        "networks": [_nic(nic) for nic in record.spec.get("networks") or []],
        "metadata": record.spec.get("metadata") or {},
        "batch_id": record.spec.get("batch_id"),
        "group": (record.spec.get("group") or {}).get("name"),
        "availability_zone": zone(record.spec),
        "access_ips": access_ips(record.spec),
        **({"shelved": shelves.of(record.spec)} if shelves.of(record.spec) else {}),
        "migration": _migration(record.migration),
        "faults": list(record.faults),
        "history": list(record.history),
    }


def zone(spec):
    """Return the availability zone of the chosen host; for a record from before that was kept, the requested zone."""
    return spec["host_zone"] if "host_zone" in spec else spec.get("availability_zone")


def access_ips(spec):
    """Return the addresses at which the inventory says that the guest is reached, version 4 first."""
    return [spec[part] for part in ("access_ip_v4", "access_ip_v6") if spec.get(part)]


def moved_to(record):
    """Return {moved_to: {op, host_uuid}} if this host let go of the instance in a move that has not ended, else {}."""
    there = ((record.migration or {}).get("destination") or {}).get("uuid")
    return {"moved_to": {"op": record.op, "host_uuid": there}} if record.role == OUT and is_uuid(there) else {}


def _nic(nic):
    """A NIC without a packet filter has no list of security groups, not even an empty one."""
    security = nic.get("security")
    return {
        **{key: nic.get(key) for key in ("network", "mac", "address")},
        **({"address6": nic["address6"]} if nic.get("address6") else {}),
        "security_groups": security["groups"] if security else None,
    }


def _migration(migration):
    """Return a move that has not ended: {type, status, source, destination (names of hosts), confirm_by}, or None.

    ``confirm_by`` is for people, in s since 1970 by this host's clock; whether it is due depends on the time since
    boot.
    """
    if not migration:
        return None
    left = confirm_in(migration, boot_time.now())
    return {
        "type": migration["type"],
        "status": migration["status"],
        "source": migration["source"]["name"],
        "destination": migration["destination"]["name"],
        "confirm_by": None if left is None else int(time.time()) + left,
    }


# Whether the guest of an instance is already what its record says, so that no step is needed.


def is_made(record, left_off=False):
    """Whether its guest was started once, or is to be ``left_off``. Before that, create finishes what it began."""
    return record.role == OWN and record.phase == ACTIVE and (left_off or record.task_state != SPAWNING)


def is_in(host, record, vm_state):
    """Whether the instance is in that state by its record and by libvirt, with nothing under way."""
    meant = vm_states.VM_STATES[vm_state]
    if (record.vm_state, record.power_state, record.task_state) != (vm_state, meant.power_state, None):
        return False
    shown = domain.state(host.connection, record.uuid)
    if meant.on():
        return shown == meant.power_state and gate.is_permitted(record.uuid, host.run_dir)
    return shown not in ALIVE and (not meant.memory or domain.has_memory(host.connection, record.uuid))


def is_started(host, record):
    return is_in(host, record, vm_states.started(record.spec))


def is_as_its_record_says(host, record):
    return record.vm_state in vm_states.VM_STATES and is_in(host, record, record.vm_state)


def confirm_in(migration, now):
    """Seconds until a resize is confirmed automatically, 0 if it is due, None for never. ``now`` is {boot_id, uptime} of the
    host that took over: no other clock is used, and setting a clock changes nothing. A reboot restarts the window, because
    nobody knows how long the host was off.
    """
    window, since = migration["confirm_window"], migration.get("waits_since")
    if not window or not since:
        return None
    began = since["uptime"] if since["boot_id"] == now["boot_id"] else 0
    return max(0, math.ceil(began + window - now["uptime"]))
