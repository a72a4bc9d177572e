# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened to the file of a disk under its running guest: it was removed, or another was put in its place, as a
restore from a backup does. QEMU has the old file open and writes to it: once the guest is off, that is lost."""

from __future__ import annotations

import os

from ..guest import qemu_process
from . import disk as disks
from . import undo
from .difference import GONE, MISSING, RESTORED, Difference


def found(uuid, name, used, planned):
    """Return the differences of the disks ``used`` by the running domain of that name. ``planned``: {path: disk}."""
    own = [disk for disk in used if disk.path in planned and planned[disk.path] not in disks.NO_DISKS]
    return [difference for difference in (_found(uuid, name, disk) for disk in own) if difference]


def _found(uuid, name, disk):
    if not os.path.lexists(disk.path):
        command = undo.write_back(uuid, disk.target, disk.path, disk.format)
        return Difference(MISSING, GONE % disk.path, command, (disk.path,))
    if qemu_process.has_another(name, disk.path, qemu_process.RUN_DIR):
        text = "%s was put there while the guest runs, which has the earlier file open and writes to that" % disk.path
        command = undo.put_back_running(uuid, disk.target, disk.path, disk.format)
        return Difference(RESTORED, text, command, (disk.path,))
    return None
