# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks of an instance a snapshot has: all that its guest writes to and that belong to it. The record names them."""

from __future__ import annotations

from typing import Any, List, Sequence, Set
from xml.etree import ElementTree

from ...model import adopted, snapshot_hints
from ...model.safe_text import clean
from .. import paths
from ..disk import disk as disks
from ..disk import layers
from ..errors import SnapshotNotPossible
from . import domain


def included(host: Any, record: Any) -> List[Any]:
    """Return the disks that a snapshot has. Raise SnapshotNotPossible."""
    found = [disk for disk in disks.plan(record.spec) if disk.name == "root" or disk.kind in (disks.DATA, disks.FOUND)]
    only_read = _only_read(host, record)
    written = [disk for disk in found if disk.name not in only_read]
    raw = [disk.name for disk in written if disk.format != "qcow2"]
    if raw or not written:
        none = "its guest only reads its disks" if found else "it has volumes alone, of which no snapshot is made"
        why = "its disk %s is raw" % raw[0] if raw else none
        raise SnapshotNotPossible("%s can have no snapshot: %s" % (record.name, why))
    return written


def left_out(host: Any, record: Any) -> List[str]:
    """Return in words what a snapshot leaves out beside drives, volumes and the flavor's own disks."""
    only_read = _only_read(host, record)
    said = [each for each in adopted.disks(record.spec) if each["target"] in only_read]
    return [
        "its disk %s (%s) is left out: its guest only reads it" % (clean(each["target"], 50), clean(each["path"], 1000))
        for each in said
    ]


def _only_read(host: Any, record: Any) -> Set[str]:
    """Return the targets of the disks of an adopted instance to which its guest can write neither now nor after its next start."""
    found = adopted.of(record.spec)
    if not found:
        return set()
    guest = domain.find(host.connection, record.uuid)
    texts = [text for text in domain.definitions(guest) if text] if guest is not None else [found["definition"]]
    return set.intersection(*(_marked(ElementTree.fromstring(text)) for text in texts))


def _marked(root: ElementTree.Element) -> Set[str]:
    elements = [each for each in root.iterfind("devices/disk") if each.find("readonly") is not None]
    return {str(target.get("dev")) for each in elements for target in each.iterfind("target")}


def check_alone(host: Any, record: Any, found: Sequence[Any]) -> None:
    """Raise SnapshotNotPossible for disks of an adopted instance that stand on another file, of which no record says what it is."""
    pool_path = host.pool_of(record)
    files = {disk.name: paths.instance(pool_path, record.uuid, disk.file) for disk in found if disk.kind == disks.FOUND}
    below = {name: layers.read_header(path).backing for name, path in files.items()}
    on = ["its disk %s stands on %s" % (name, clean(path, 1000)) for name, path in below.items() if path]
    if on:
        running = ["virsh blockpull %s %s --wait" % (record.uuid, name) for name in files if below[name]]
        off = [layers.pull(files[name]) for name in files if below[name]]
        raise SnapshotNotPossible(
            "%s can have no snapshot: %s" % (record.name, ", ".join(on)),
            hint=snapshot_hints.make_independent(host.connection.getHostname(), running, off),
        )
