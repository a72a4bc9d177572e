# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backup of a running guest by libvirt: QEMU writes its disks, as they are at one moment, to files, and from then on a
bitmap in each qcow2 disk records what the guest writes.

libvirt notes a checkpoint for each bitmap, and with checkpoints it neither migrates a guest nor undefines it. So its note is
dropped once a backup is made, and made again for the next one: the bitmaps, which QEMU stores in the disks, are what counts.
"""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional, Sequence
from xml.etree import ElementTree

from ...model.backups import INCREMENT
from ..connection import Bounded, require_libvirt
from ..guest import agent, qemu_nodes
from ..move import block_jobs, live_backup
from ..paths import BITMAP, bitmap_of


def forget(found: Any) -> None:
    """End a backup that a killed run left, and drop libvirt's notes of checkpoints. The bitmaps stay."""
    library = require_libvirt()
    live_backup.end_backup(Bounded(found))
    for checkpoint in found.listAllCheckpoints(0):
        if checkpoint.getName().startswith(BITMAP):
            checkpoint.delete(library.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)


def usable(found: Any, path: str) -> Mapping[str, bool]:
    """Return {bitmap: whether it has recorded all writes since it began} of a disk."""
    return {name: whole for name, (_node, whole) in qemu_nodes.bitmaps(found, path).items()}


def drop(found: Any, path: str, kept: str) -> None:
    """Remove all bitmaps of backups from a disk but the one that is kept."""
    for name, (node, _whole) in qemu_nodes.bitmaps(found, path).items():
        if name.startswith(BITMAP) and name != kept:
            qemu_nodes.remove_bitmap(found, node, name)


def copy(found: Any, backup_id: Optional[str], previous: Any, parts: Sequence[Any]) -> bool:
    """Write the disks to the files of ``parts`` (see make.Part), which are there. Without a ``backup_id`` no bitmap begins. Return
    whether the guest's agent had written out its file systems."""
    guest, library = Bounded(found), require_libvirt()
    shown = {block_jobs.target_of(guest, part.path): part for part in parts}
    recorded = [target for target, part in shown.items() if part.format == "qcow2" and backup_id]
    since = [target for target, part in shown.items() if part.kind == INCREMENT]
    if since:
        _note_again(guest, bitmap_of(previous), since)
    root = ElementTree.Element("domainbackup", mode="push")
    written = ElementTree.SubElement(root, "disks")
    for target, part in shown.items():
        how = {"backupmode": part.kind if part.kind != INCREMENT else "incremental"}
        how.update({"incremental": bitmap_of(previous)} if part.kind == INCREMENT else {})
        element = ElementTree.SubElement(written, "disk", name=target, backup="yes", type="file", **how)
        ElementTree.SubElement(element, "driver", type=part.target_format)
        ElementTree.SubElement(element, "target", file=part.target)
    with agent.frozen(found) as frozen:
        flags = library.VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL
        live_backup.begin(guest, root, shown, bitmap_of(backup_id or ""), recorded, flags)
    live_backup.finish_backup(guest)
    return frozen


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
