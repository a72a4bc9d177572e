# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether another program works on the disks of a running guest: a stop for a move would silently interrupt it."""

from __future__ import annotations

from xml.etree import ElementTree

from ...model import hints
from ..connection import require_libvirt
from ..errors import DisksBusy
from ..guest import domain as guests
from . import backups


def check(connection, record, host):
    """Raise DisksBusy if there is a backup of the guest that no move began, or a copy of one of its disks."""
    guest = guests.find(connection, record.uuid)
    if guest is None or not guest.isActive():
        return
    work = _backup(guest) or _copy(guest)
    if work:
        raise DisksBusy(
            "another program makes %s of %s (%s) on %s, so that guest is not stopped for a move"
            % (work, record.name, record.uuid, host),
            hint=hints.end_job(host, record.uuid),
            instance=record.name,
            host=host,
        )


def _backup(found):
    try:
        backup = found.backupGetXMLDesc(0)
    except require_libvirt().libvirtError:
        return None  # no job
    return None if backups.is_of_a_move(found, backup) else "a backup"


def _copy(found):
    for disk in ElementTree.fromstring(found.XMLDesc(0)).iterfind("devices/disk"):
        if disk.find("mirror") is not None:
            return "a copy of disk %s" % disk.find("target").get("dev")
    return None
