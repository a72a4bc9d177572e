# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copying a disk while its guest runs, so that only what changed since is copied when it has stopped.

1. running: libvirt's pull backup exports the disk as it is now, and a persistent bitmap records later writes.
   The export is copied and compared, whatever the guest does meanwhile. What it wrote since is copied again while it
   runs, as often as that leaves less (repeat); each time a new bitmap begins.
2. stopped: QEMU has stored the bitmaps in the qcow2 file; what the last one marks is copied.

If any of this is impossible (raw disk, guest killed, no qemu-storage-daemon), the whole disk is copied as usual.
"""

from __future__ import annotations

import contextlib
import os

from ...model.move_errors import TransferFailed
from .. import paths
from ..connection import require_libvirt
from ..disk import inside
from ..guest import domain as guests
from . import block_jobs, disks, left_backup, live_backup, storage, storage_daemon, transfer, watchdog

# A cold move: how often the writes of a running guest are copied again before it stops.
MOST = 10
LITTLE_SECONDS = 0.25  # the amount copied in this time is little
LITTLE_BYTES = 4 << 20
GAIN = 0.8  # of what was left before: a guest that writes as fast as its disks are copied leaves more


def repeat(copies, rate):
    """Copy again until little is left. ``copies``: precopy.Copies after the first; ``rate`` of the first, in bytes/s.
    A failed copy is the last; its part is copied after the guest has stopped."""
    library, little = require_libvirt(), max(LITTLE_BYTES, rate * LITTLE_SECONDS)
    before = float("inf")
    for number in range(1, MOST + 1):
        try:
            left = copies.left(number - 1)
            # As much again may be written beside the disks meanwhile, and a full pool would pause the guest.
            if left <= little or left > GAIN * before or copies.room() < 4 * left:
                return
            copies.again(number)
            before = left
        except (TransferFailed, library.libvirtError):
            with contextlib.suppress(library.libvirtError):
                copies.take_back(number)
            return


def copy_by_daemon(uuid, disk, path, target, bandwidth, wanted):
    """Copy the part ``wanted`` (the synchronization mode of QEMU's blockdev-backup) of the file ``path`` to the target
    of ``disk``, which has the rest. The key is in place. Return the bytes copied."""
    credentials, options = transfer.target_options(uuid, disk, target)
    arguments = [
        credentials[0], credentials[1],
        "--blockdev", "driver=file,node-name=file,filename=%s,read-only=on,auto-read-only=off" % path,
        # The backup's file names the disk itself as its backing file, which the guest has locked.
        "--blockdev", '{"driver": "qcow2", "node-name": "source", "file": "file", "read-only": true, "backing": null}',
        "--blockdev", options + ",node-name=arriving",
        # The disk may be larger there, and a backup needs the same size on both sides.
        "--blockdev", "driver=raw,size=%d,file=arriving,node-name=target" % disk["size"],
    ]  # fmt: skip
    wanted = {"device": "source", "target": "target", **wanted}
    if bandwidth:
        wanted["speed"] = int(bandwidth)
    with open(transfer.directory(uuid, "daemon.log"), "wb") as log, storage_daemon.started(arguments, log) as process:
        with open(transfer.directory(uuid, transfer.PID_FILE), "w") as file:
            file.write(str(process.pid))
        monitor = storage_daemon.Monitor(process)
        job = storage_daemon.copy(monitor, wanted, watchdog.Asked(), watchdog.OtherEnd(target))
    if job.get("error"):
        raise watchdog.failed("copying the rest: %s" % job["error"])
    return job["total-progress"]


def bitmap_name(record, number):
    """Return the bitmap's name. Each attempt has its own bitmaps: one from another attempt says nothing about this
    copy. ``number`` counts the copies of an attempt from 0."""
    return "berth-%s-%d-%d" % (record.op[:12], record.migration["attempt"], number)


def copied_mark(path, record, number):
    """Return the path of a file that marks this copy as complete. Without it, the copy's bitmap is worthless."""
    mark = "%s%s-%d-%d" % (storage.MARK, record.op, record.migration["attempt"], number)
    return os.path.join(os.path.dirname(path), mark)


def is_possible(connection, record, manifest):
    """Whether anything can be copied while the guest runs."""
    if not guests.is_active(connection, record.uuid) or not storage_daemon.is_there():
        return False
    return bool(_recording(manifest))


def _recording(manifest):
    """Return the disks that can record writes meanwhile. One with snapshots is copied as a file, when its guest is off."""
    return [disk for disk in manifest if disk["format"] == "qcow2" and not disks.is_whole(disk)]


def copy_running(connection, record, manifest, targets, key, bandwidth):
    """Step 1: copy the disks that can record writes meanwhile, and those that the guest only reads. Return {bytes,
    seconds} of the first copy. Raise TransferFailed with the guest as it was."""
    domain = guests.find(connection, record.uuid)
    left_backup.end_backup(domain)
    live_backup.forget_checkpoints(domain)

    chosen = _recording(manifest)
    room = live_backup.Room(disk["path"] for disk in chosen)
    room.check()

    def send(found, rest=None):
        return transfer.send(record.uuid, found, targets, key, bandwidth, rest, [room])

    copies = Copies(domain, record, chosen, send, bandwidth)
    sent = copies.first(disks.read_only(manifest))
    repeat(copies, sent["bytes"] / max(sent["seconds"], 0.001))
    return sent


class Copies:
    """The copies of a running guest's qcow2 disks in one attempt. ``send``: transfer.send() to their targets."""

    def __init__(self, domain, record, chosen, send, bandwidth):
        self.domain, self.record, self.send, self.bandwidth = domain, record, send, bandwidth
        self.disks = {block_jobs.target_of(domain, disk["path"]): disk for disk in chosen}
        self.shown = {target: disk["path"] for target, disk in self.disks.items()}

    def first(self, more):
        """Copy all of them as they are now, and the disks ``more``. Return {bytes, seconds}."""
        socket = live_backup.socket_of(self.domain)
        try:
            live_backup.show_backup(self.domain, socket, self.shown, bitmap_name(self.record, 0))
            seen = "driver=nbd,server.type=unix,server.path=%s,export=%s"
            found = [dict(disk, options=seen % (socket, target)) for target, disk in self.disks.items()]
            sent = self.send(found + more)
            self._is_whole(0)
            return sent
        finally:
            self._end(socket)

    def again(self, number):
        """Copy what was written since the previous copy began."""
        names = (bitmap_name(self.record, each) for each in (number - 1, number))
        try:
            live_backup.write_changes(self.domain, self.shown, *names)
            live_backup.finish_backup(self.domain)
            found = self.disks.values()
            self.send(found, {disk["name"]: self._send_changes for disk in found})
            self._is_whole(number)
        finally:
            self._end()

    def _send_changes(self, disk, target):
        changes = paths.scratch_file(disk["path"])
        return copy_by_daemon(self.record.uuid, disk, changes, target, self.bandwidth, {"sync": "top"})

    def take_back(self, number):
        """Undo a failed copy: what it should have copied is still to be copied."""
        live_backup.forget_checkpoint(self.domain, bitmap_name(self.record, number))

    def left(self, number):
        """Return the bytes that were written since a copy began."""
        return live_backup.changed(self.domain, bitmap_name(self.record, number))

    def room(self):
        """Return the free bytes beside the disks, where there are the fewest."""
        return live_backup.Room(self.shown.values()).least()

    def _is_whole(self, number):
        for path in self.shown.values():
            mark = copied_mark(path, self.record, number)
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    def _end(self, *more):
        left_backup.end_backup(self.domain)
        live_backup.discard_backup([*map(paths.scratch_file, self.shown.values()), *more])
        guests.retry_failed_io(self.domain)


# ---- stopped ---------------------------------------------------------------------------------------------------------


def what_is_missing(record, manifest):
    """Return (the disks not on the destination yet, {name: bitmap} of those of which only the rest is missing)."""
    if not any(os.path.lexists(copied_mark(disk["path"], record, 0)) for disk in manifest[:1]):
        return manifest, {}
    missing = [disk for disk in manifest if not disks.is_read_only(disk)]
    found = {disk["name"]: _usable_bitmap(record, disk) for disk in _recording(missing)}
    return missing, {name: bitmap for name, bitmap in found.items() if bitmap}


def _usable_bitmap(record, disk):
    """Return the newest bitmap that covers all writes since a complete copy of this attempt began ("auto"), or None.
    The bitmap of a killed guest is marked as in use and worthless."""
    found = inside.bitmaps(disk["path"], TransferFailed)
    for number in range(MOST, -1, -1):
        flags = found.get(bitmap_name(record, number), ())
        if inside.is_recording(flags) and os.path.lexists(copied_mark(disk["path"], record, number)):
            return bitmap_name(record, number)
    return None


def copy_rest(uuid, disk, target, bitmap, bandwidth):
    """Step 2: copy what the bitmap marks to the target that has the rest. The key is in place. Return the bytes."""
    wanted = {"sync": "bitmap", "bitmap": bitmap, "bitmap-mode": "never"}
    return copy_by_daemon(uuid, disk, disk["path"], target, bandwidth, wanted)


def tidy(connection, uuid, manifest):
    """Before a start, remove bitmaps and checkpoints of earlier moves, which are useless now."""
    domain = guests.find(connection, uuid)
    if domain is not None:
        live_backup.forget_checkpoints(domain)
    discard_scratch(manifest)
    for disk in manifest:
        if disk["format"] == "qcow2":
            remove_bitmaps(disk["path"])


def discard_scratch(manifest):
    """Remove what a host left beside disks when it lost power while copying them. Their guest is off."""
    live_backup.discard_backup(paths.scratch_file(disk["path"]) for disk in manifest if disk["format"] == "qcow2")


def remove_bitmaps(path):
    """Remove the bitmaps of moves from a disk whose guest is off."""
    for name in inside.bitmaps(path, TransferFailed):
        if name.startswith("berth-") and not name.startswith(paths.BITMAP):
            inside.remove_bitmap(path, name, TransferFailed)
