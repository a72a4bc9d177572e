# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's backups of a running guest: its disks as they are at one moment, or what changed since an earlier one, and from then on a
bitmap of writes in each qcow2 file. A move makes them, and compute/backup; block_jobs.is_ours tells them from others'."""

from __future__ import annotations

import os
import time
from xml.etree import ElementTree

from ...model.move_errors import TransferFailed
from .. import paths
from ..connection import require_libvirt
from ..paths import scratch_file
from . import watchdog
from .block_jobs import SOCKET

BACKUP_POLL_SECONDS = 0.02
LIBVIRT_DIR = "/var/lib/libvirt/qemu"
LONGEST_NAME = 20  # characters of a guest's name that libvirt takes into that of its directory


def show_backup(domain, socket, shown, checkpoint, recorded=None):
    """Export disks as they are now on a socket, until end(). ``shown``: {name in the guest, such as vda: path}; ``recorded``: see
    begin()."""
    discard_backup([socket, *map(scratch_file, shown.values())])
    root = ElementTree.Element("domainbackup", mode="pull")
    ElementTree.SubElement(root, "server", transport="unix", socket=socket)
    parts = ElementTree.SubElement(root, "disks")
    for target, path in shown.items():
        element = ElementTree.SubElement(parts, "disk", name=target, backup="yes", type="file", exportname=target)
        ElementTree.SubElement(element, "scratch", file=scratch_file(path))
    begin(domain, root, shown, checkpoint, recorded)


def write_changes(domain, shown, since, checkpoint, recorded=None):
    """Start writing what changed since the checkpoint ``since`` beside each disk, and all of those that are not ``recorded``;
    finish_backup() waits for it."""
    discard_backup(map(scratch_file, shown.values()))
    root = ElementTree.Element("domainbackup", mode="push")
    ElementTree.SubElement(root, "incremental").text = since
    parts = ElementTree.SubElement(root, "disks")
    for target, path in shown.items():
        how = {} if recorded is None or target in recorded else {"backupmode": "full"}
        element = ElementTree.SubElement(parts, "disk", name=target, backup="yes", type="file", **how)
        ElementTree.SubElement(element, "driver", type="qcow2")
        ElementTree.SubElement(element, "target", file=scratch_file(path))
    begin(domain, root, shown, checkpoint, recorded)


def discard_backup(found):
    for path in found:
        paths.remove(path)


def socket_of(domain):
    """Return a path in the directory that libvirt makes for this start of the guest, where QEMU may open a socket."""
    # a power cut leaves those of other guests, which had the same number
    directory = os.path.join(LIBVIRT_DIR, "domain-%d-%s" % (domain.ID(), domain.name()[:LONGEST_NAME]))
    if not os.path.isdir(directory):
        raise TransferFailed("libvirt has no directory of its own for the guest")
    return os.path.join(directory, SOCKET)


def begin(domain, root, shown, name, recorded=None):
    """Begin a backup of the disks ``shown`` and, at the same moment, the checkpoint ``name`` of those that are ``recorded``,
    by default the same."""
    recorded = shown if recorded is None else recorded
    checkpoint = ElementTree.Element("domaincheckpoint")
    ElementTree.SubElement(checkpoint, "name").text = name
    parts = ElementTree.SubElement(checkpoint, "disks")
    for target in recorded:
        ElementTree.SubElement(parts, "disk", name=target, checkpoint="bitmap", bitmap=name)
    for element in ElementTree.fromstring(domain.XMLDesc(0)).iterfind("devices/disk/target"):
        if element.get("dev") not in shown:
            ElementTree.SubElement(root.find("disks"), "disk", name=element.get("dev"), backup="no")
        if element.get("dev") not in recorded:
            ElementTree.SubElement(parts, "disk", name=element.get("dev"), checkpoint="no")
    backup, since = (ElementTree.tostring(each, encoding="unicode") for each in (root, checkpoint))
    try:
        domain.backupBegin(backup, since if recorded else None, 0)
    except require_libvirt().libvirtError as error:
        raise TransferFailed("libvirt began no backup of the running disks: %s" % error)


LEAST_ROOM = 1 << 30  # bytes


class Room:
    """What is free beside the disks of a running guest. What it overwrites while they are copied is kept there, and if
    there is no room for that, QEMU pauses the guest, and every other guest that needs room there. ``so``: what follows."""

    def __init__(self, found, so="they are copied when the guest is off"):
        self.directories, self.so = {os.path.dirname(path) for path in found}, so

    def least(self):
        """Return the free bytes where there are the fewest."""
        return min(map(paths.free_bytes, self.directories))

    def check(self):
        left = self.least()
        if left < LEAST_ROOM:
            raise TransferFailed("only %d MiB are free beside the disks: %s" % (left >> 20, self.so))


def finish_backup(domain, *also):
    """Wait for a backup that writes to files. Raise TransferFailed if it fails or makes no progress, or if one of the checks
    ``also`` does."""
    library = require_libvirt()
    checks = (
        *also,
        watchdog.Asked(),
        watchdog.Advance(lambda: domain.jobStats(0).get(library.VIR_DOMAIN_JOB_DISK_PROCESSED)),
    )
    while domain.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
        for check in checks:
            check.check()
        time.sleep(BACKUP_POLL_SECONDS)
    stats = domain.jobStats(library.VIR_DOMAIN_JOB_STATS_COMPLETED)
    if not stats.get(library.VIR_DOMAIN_JOB_SUCCESS):
        raise TransferFailed(
            "libvirt's backup failed: %s" % stats.get(library.VIR_DOMAIN_JOB_ERRMSG, "it does not say why")
        )


def changed(domain, name):
    """Return about how many bytes were written since a checkpoint: whole clusters count."""
    library = require_libvirt()
    text = domain.checkpointLookupByName(name, 0).getXMLDesc(library.VIR_DOMAIN_CHECKPOINT_XML_SIZE)
    return sum(int(disk.get("size") or 0) for disk in ElementTree.fromstring(text).iterfind("disks/disk"))


def forget_checkpoint(domain, name):
    """Remove a checkpoint. What was written since then counts for the one before it."""
    domain.checkpointLookupByName(name, 0).delete(0)


def forget_checkpoints(domain):
    """Remove the checkpoints of earlier attempts with their bitmaps, and no others."""
    library = require_libvirt()
    for checkpoint in domain.listAllCheckpoints(0):
        if checkpoint.getName().startswith("berth-"):
            try:
                checkpoint.delete(0)
            except library.libvirtError:
                checkpoint.delete(library.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)
