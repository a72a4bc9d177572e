# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of a guest in a snapshot: a file beside its disks, of the moment of the disks.

The guest stands still from before the snapshot of its disks until the file is written. The memory comes back only beside the
disks of that moment, and only to a guest with the same devices.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence
from xml.etree import ElementTree

from ...model import hints, snapshots, volumes
from ...model.errors import BerthError
from ...model.messages import Document
from ...model.vm_states import ACTIVE, VM_STATES
from .. import paths
from ..disk import disk as disks
from ..errors import BuildFailed, SnapshotNotPossible
from . import domain, gate, qemu_nodes, start

PARTS = {"CPUs": "vcpu", "KiB of memory": "memory"}
DEVICES = {"network interface": "devices/interface/mac[@address]", "disk": "devices/disk/target[@dev]"}


def path(instance: Any, record: Any, name: str) -> str:
    return paths.instance(instance.host.pool_of(record), record.uuid, snapshots.memory_file(name))


def check(instance: Any, record: Any) -> None:
    """Raise SnapshotNotPossible unless the guest runs, and writes to no disk that a snapshot leaves out. One that a killed run has
    left standing still counts as running."""
    shown = domain.state(instance.host.connection, record.uuid)
    if record.vm_state != ACTIVE or shown != "running" and not (shown == "paused" and is_half_taken(record)):
        back = hints.make_active(record.name, VM_STATES[record.vm_state or ACTIVE].back or "start")
        raise _refusal(record, "its guest does not run, it is %s" % (shown or "not there"), back)
    others = [each.name for each in disks.plan(record.spec) if each.kind in ("ephemeral", "swap")]
    others += ["volume %s" % each["name"] for each in volumes.of(record.spec)]
    if others:
        what = ", ".join(others)
        raise _refusal(record, "its guest also writes to %s, and a revert would leave that as it is" % what)
    if not os.path.isdir(paths.instance(instance.host.pool_of(record), record.uuid)):
        raise _refusal(record, "it was adopted, and its disks lie outside of the pool")


def _refusal(record: Any, why: str, hint: Optional[str] = None) -> SnapshotNotPossible:
    return SnapshotNotPossible("no snapshot of %s can have its memory: %s" % (record.name, why), hint=hint)


def is_half_taken(record: Any) -> bool:
    """Whether a run that was killed may have left the guest standing still."""
    return any(each.get("memory") and not each["made_at"] for each in snapshots.of(record.spec))


def let_go_on(instance: Any, record: Any) -> None:
    """QEMU changes no file of a guest whose memory was written, until it goes on."""
    connection = instance.host.connection
    if is_half_taken(record) and record.vm_state == ACTIVE and domain.is_paused_by_user(connection, record.uuid):
        domain.start(connection, record.uuid)


def take(instance: Any, record: Any, guest: Any, files: Sequence[str], name: str) -> None:
    """Make the snapshot of the running guest inside its disks ``files``, with its memory."""
    place = path(instance, record, name)
    with _standing_still(instance):
        qemu_nodes.snapshot(guest, files, snapshots.tag(name))
        instance.observe("snapshot memory")
        domain.save_beside(guest, place)
    paths.sync(place)
    paths.sync_directory(os.path.dirname(place))


@contextlib.contextmanager
def _standing_still(instance: Any) -> Iterator[None]:
    domain.pause(instance.host.connection, instance.uuid)
    try:
        yield
    finally:
        domain.start(instance.host.connection, instance.uuid)


def fits(instance: Any, record: Any, entry: Document) -> bool:
    """Whether the guest can go on with the memory of the snapshot, if that has any."""
    return bool(entry.get("memory")) and not misfit(instance, record, entry)


def misfit(instance: Any, record: Any, entry: Document) -> str:
    """Return why the guest cannot go on with the memory of the snapshot, in words; "" if it can."""
    place = path(instance, record, entry["name"])
    if not os.path.lexists(place):
        return "is gone: somebody has removed %s" % place
    now = domain.definition(instance.host.connection, record.uuid)
    if now is None:
        return ""  # it is defined again, from its record
    try:
        then = _devices(domain.saved_definition(instance.host.connection, place))
    except BuildFailed as error:
        return "cannot be read: %s" % error
    differing = [
        "%s: %s then, %s now" % (part, then[part], has) for part, has in _devices(now).items() if then[part] != has
    ]
    said = "does not fit the guest any more: it has other CPUs, memory or devices (%s)"
    return said % ", ".join(differing) if differing else ""


def _devices(text: str) -> Dict[str, str]:
    root = ElementTree.fromstring(text)
    found = {part: root.findtext(where) or "0" for part, where in PARTS.items()}
    for part, where in DEVICES.items():
        names: List[str] = sorted(each.get("address") or each.get("dev") or "" for each in root.iterfind(where))
        found[part] = " and ".join(names) or "none"
    return found


def bring_back(instance: Any, record: Any, entry: Document) -> Optional[BerthError]:
    """Let the guest go on with the memory of the snapshot, beside the disks of that moment. Return why libvirt did not."""
    connection, run_dir = instance.host.connection, instance.host.run_dir
    record = start.make_ready(instance, record)
    instance.observe("restore memory")
    try:
        domain.restore(connection, instance.uuid, path(instance, record, entry["name"]))
    except BuildFailed as error:
        gate.revoke(instance.uuid, run_dir)
        return error
    instance.observe("memory restored")
    return None
