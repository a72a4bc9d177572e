# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backup of a running guest by libvirt: QEMU shows its disks as they are at one moment, or writes what changed to files
beside them, and from then on a bitmap in each qcow2 disk records what the guest writes.

QEMU itself never writes to where backups are. Before the guest overwrites a block, QEMU saves what was there, and where that fails
the guest's own write fails: so it is saved beside the disks, on storage that the guest needs anyway, as in a move.

libvirt notes a checkpoint for each bitmap, and with checkpoints it neither migrates a guest nor undefines it. So its note is
dropped once a backup is made, and made again for the next one: the bitmaps, which QEMU stores in the disks, are what counts.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Mapping, Optional, Sequence
from xml.etree import ElementTree

from ...model.backups import INCREMENT
from ...model.errors import BerthError
from ..connection import Bounded, require_libvirt
from ..guest import agent, domain, qemu_nodes
from ..move import block_jobs, left_backup, live_backup, storage_daemon, watchdog
from ..paths import BITMAP, bitmap_of, scratch_file
from . import off


def usable(found: Any, path: str) -> Mapping[str, bool]:
    """Return {bitmap: whether it has recorded all writes since it began} of a disk."""
    if not storage_daemon.is_there():
        return {}
    return {name: whole for name, (_node, whole) in qemu_nodes.bitmaps(found, path).items()}


def drop(found: Any, path: str, kept: str) -> None:
    """Remove all bitmaps of backups from a disk but the one that is kept."""
    for name, (node, _whole) in qemu_nodes.bitmaps(found, path).items():
        if name.startswith(BITMAP) and name != kept:
            qemu_nodes.remove_bitmap(found, node, name)


def copy(found: Any, mark: Optional[str], before: Any, parts: Sequence[Any], *also: Any) -> bool:
    """Write the disks to the files of ``parts`` (see make.Part). Those that record writes are either all copied whole, or of all
    what changed. Without a ``mark`` no bitmap begins. ``also``: see watchdog.follow.
    Return whether the guest's agent had written out its file systems."""
    guest, name, library = Bounded(found), bitmap_of(mark or ""), require_libvirt()
    shown = {block_jobs.target_of(guest, part.path): part for part in parts}
    recorded = [target for target, part in shown.items() if part.format == "qcow2" and mark]
    files = {target: part.path for target, part in shown.items()}
    room = live_backup.Room(files.values(), "the copy was ended, since its guest might have had to wait for room")
    room.check()
    since = bitmap_of(before) if any(part.kind == INCREMENT for part in parts) else None
    socket = live_backup.socket_of(guest)
    try:
        if since:
            _note_again(guest, since, recorded)
            with agent.frozen(found) as frozen:
                live_backup.write_changes(guest, files, since, name, recorded)
            live_backup.finish_backup(guest, room, *also)
            for part in parts:
                _take(part)
        else:
            with agent.frozen(found) as frozen:
                live_backup.show_backup(guest, socket, files, name, recorded)
            for target, part in shown.items():
                seen = "driver=nbd,server.type=unix,server.path=%s,export=%s" % (socket, target)
                if part.port:
                    part.port.write(seen, [room, *also])
                else:
                    command = [*off.CONVERT, "--image-opts", "-O", part.target_format, "--", seen, part.target]
                    watchdog.follow(command, None, None, also=[room, *also])
    finally:
        left_backup.end_backup(guest)
        live_backup.discard_backup([socket, *map(scratch_file, files.values())])
        with contextlib.suppress(BerthError, library.libvirtError):  # the guest has ended
            domain.retry_failed_io(guest)
    return frozen


def _take(part: Any) -> None:
    """Copy what libvirt wrote beside a disk to where backups are."""
    changes = scratch_file(part.path)
    if part.kind == INCREMENT:
        off.copy_part(part, changes, {"sync": "top"})
    else:
        off.copy_whole(part, changes, "qcow2")


def _note_again(guest: Any, name: str, targets: Sequence[str]) -> None:
    """Have libvirt know the checkpoint of bitmaps that are in the disks. It wants the definition of that time, which is for
    people."""
    library, text = require_libvirt(), guest.XMLDesc(0)
    root = ElementTree.Element("domaincheckpoint")
    ElementTree.SubElement(root, "name").text = name
    ElementTree.SubElement(root, "creationTime").text = str(int(time.time()))
    disks = ElementTree.SubElement(root, "disks")
    definition = ElementTree.fromstring(text)
    for element in definition.iterfind("devices/disk/target"):
        how = "bitmap" if element.get("dev") in targets else "no"
        ElementTree.SubElement(disks, "disk", name=str(element.get("dev")), checkpoint=how)
    root.append(definition)
    flags = library.VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE | library.VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE
    guest.checkpointCreateXML(ElementTree.tostring(root, encoding="unicode"), flags)
