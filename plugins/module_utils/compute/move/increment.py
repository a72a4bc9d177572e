# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copying a disk while its guest runs, so that only what changed since is copied when it has stopped.

1. running: libvirt's pull backup shows the disk as it is now, and a persistent bitmap notes what is written from
then on.
   The picture is copied and compared, whatever the guest does meanwhile.
2. stopped: QEMU has stored the bitmap in the qcow2 file; what it marks is copied.
Where any of this is not to be had (raw disk, guest killed, no qemu-storage-daemon) the whole disk is copied as ever.
"""

from __future__ import annotations

import glob
import json
import os
import select
import shutil
import subprocess
import time
from xml.etree import ElementTree

from ...model.move_errors import TransferFailed
from .. import paths
from ..connection import LibvirtTimeout, require_libvirt
from ..guest import domain as guests
from ..run import PATH
from . import disks, following, jobs, storage, transfer

DAEMON = "qemu-storage-daemon"
SCRATCH = "scratch"
SOCKET = "berth-backup.sock"
POLL = 0.02
LIBVIRT_DIR = "/var/lib/libvirt/qemu"


def bitmap_name(record):
    """Each attempt has its own bitmap: one that began earlier or later says nothing about this copy."""
    return "berth-%s-%d" % (record.op[:12], record.migration["attempt"])


def is_possible(connection, record, manifest):
    """Whether anything can be copied while the guest runs."""
    found = guests.find(connection, record.uuid)
    if found is None or not found.isActive() or not shutil.which(DAEMON, path=PATH):
        return False
    return any(disk["format"] == "qcow2" for disk in manifest)


def copy_running(connection, record, manifest, targets, key, bandwidth):
    """Step 1, of the disks that can show what is written meanwhile, and of those that the guest only reads.
    -> {bytes, seconds}. Raises TransferFailed with the guest as it was."""
    chosen = [disk for disk in manifest if disk["format"] == "qcow2"]
    domain = guests.find(connection, record.uuid)
    end_backup(domain)
    forget_checkpoints(domain)
    socket = os.path.join(own_directory(domain), SOCKET)
    scratch = {disk["name"]: "%s.%s" % (disk["path"], SCRATCH) for disk in chosen}
    discard([socket, *scratch.values()])
    names = {disk["name"]: jobs.target_of(domain, disk["path"]) for disk in chosen}
    others = [element.get("dev") for element in _targets(domain) if element.get("dev") not in names.values()]
    library = require_libvirt()
    try:
        domain.backupBegin(
            _backup(socket, [(names[disk["name"]], scratch[disk["name"]]) for disk in chosen], others),
            _checkpoint(bitmap_name(record), names.values(), others),
            0,
        )
    except library.libvirtError as error:
        raise TransferFailed("the running disks could not be shown: %s" % error)
    done = copied_mark(chosen[0]["path"], record)
    try:
        shown = [
            dict(disk, options="driver=nbd,server.type=unix,server.path=%s,export=%s" % (socket, names[disk["name"]]))
            for disk in chosen
        ]
        shown += disks.read_only(manifest)
        said = transfer.send(record.uuid, shown, targets, key, bandwidth)
        os.close(os.open(done, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        return said
    finally:
        end_backup(domain)
        discard([socket, *scratch.values()])


def own_directory(domain):
    """The directory that libvirt makes for this start of the guest, where QEMU may open a socket."""
    found = glob.glob(os.path.join(LIBVIRT_DIR, "domain-%d-*" % domain.ID()))
    if len(found) != 1:
        raise TransferFailed("libvirt has no directory of its own for the guest")
    return found[0]


def copied_mark(path, record):
    """A file that says: the picture of this attempt was copied whole. Without it the bitmap is worth nothing."""
    return os.path.join(os.path.dirname(path), "%s%s-%d" % (storage.MARK, record.op, record.migration["attempt"]))


def _targets(domain):
    return ElementTree.fromstring(domain.XMLDesc(0)).iterfind("devices/disk/target")


def _backup(socket, chosen, others):
    root = ElementTree.Element("domainbackup", mode="pull")
    ElementTree.SubElement(root, "server", transport="unix", socket=socket)
    parts = ElementTree.SubElement(root, "disks")
    for target, scratch in chosen:
        element = ElementTree.SubElement(parts, "disk", name=target, backup="yes", type="file", exportname=target)
        ElementTree.SubElement(element, "scratch", file=scratch)
    for target in others:
        ElementTree.SubElement(parts, "disk", name=target, backup="no")
    return ElementTree.tostring(root, encoding="unicode")


def _checkpoint(name, chosen, others):
    root = ElementTree.Element("domaincheckpoint")
    ElementTree.SubElement(root, "name").text = name
    parts = ElementTree.SubElement(root, "disks")
    for target in chosen:
        ElementTree.SubElement(parts, "disk", name=target, checkpoint="bitmap", bitmap=name)
    for target in others:
        ElementTree.SubElement(parts, "disk", name=target, checkpoint="no")
    return ElementTree.tostring(root, encoding="unicode")


def end_backup(domain):
    """End a backup of this guest, also one that a killed run left; none there is fine."""
    library = require_libvirt()
    try:
        if SOCKET not in domain.backupGetXMLDesc(0):
            return  # another program's
    except (library.libvirtError, LibvirtTimeout):
        return
    try:
        domain.abortJob()
        jobs.has_ended(domain)
    except (library.libvirtError, LibvirtTimeout):
        pass  # QEMU does not answer: whoever copies next ends it


def end_backup_of(connection, uuid):
    domain = guests.find(connection, uuid)
    if domain is not None and domain.isActive():
        end_backup(domain)


def forget_checkpoints(domain):
    """Remove the checkpoints of earlier attempts with their bitmaps; others' stay."""
    library = require_libvirt()
    for checkpoint in domain.listAllCheckpoints(0):
        if checkpoint.getName().startswith("berth-"):
            try:
                checkpoint.delete(0)
            except library.libvirtError:
                checkpoint.delete(library.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)


def discard(found):
    for path in found:
        paths.remove(path)


# ---- stopped -------------------------------------------------------------------------------------------------------


def what_is_missing(record, manifest):
    """(the disks that are not on the destination yet, the names of those of which only the rest is missing)."""
    if not any(os.path.lexists(copied_mark(disk["path"], record)) for disk in manifest[:1]):
        return manifest, []
    missing = [disk for disk in manifest if not disks.is_read_only(disk)]
    return missing, [disk["name"] for disk in missing if disk["format"] == "qcow2" and has_bitmap(record, disk)]


def has_bitmap(record, disk):
    """Whether the disk notes what was written since this attempt copied it. That of a guest that was killed is marked
    as in use and worth nothing."""
    name = bitmap_name(record)
    data = (disks.info(disk["path"], "qcow2").get("format-specific") or {}).get("data") or {}
    for bitmap in data.get("bitmaps") or ():
        if bitmap["name"] == name:
            return "in-use" not in bitmap["flags"]
    return False


def tidy(connection, uuid, manifest):
    """Before a start: bitmaps and checkpoints of earlier moves are of no use any more."""
    domain = guests.find(connection, uuid)
    if domain is not None:
        forget_checkpoints(domain)
    discard_scratch(manifest)
    for disk in manifest:
        if disk["format"] == "qcow2":
            remove_bitmaps(disk["path"])


def discard_scratch(manifest):
    """What a host that lost its power while it showed running disks left beside them; their guest is off."""
    discard("%s.%s" % (disk["path"], SCRATCH) for disk in manifest if disk["format"] == "qcow2")


def remove_bitmaps(path):
    """Remove berth's bitmaps from a disk whose guest is off."""
    data = (disks.info(path, "qcow2").get("format-specific") or {}).get("data") or {}
    for bitmap in data.get("bitmaps") or ():
        if bitmap["name"].startswith("berth-"):
            transfer.run(
                ["qemu-img", "bitmap", "--remove", "-f", "qcow2", "--", path, bitmap["name"]], error=TransferFailed
            )


def copy_rest(uuid, disk, target, name, bandwidth):
    """Step 2: what the bitmap marks, to the target that has the rest. The key is in place. -> bytes copied"""
    credentials, options = transfer.target_options(uuid, disk, target)
    command = [
        DAEMON, credentials[0], credentials[1],
        "--blockdev", "driver=file,node-name=file,filename=%s,read-only=on,auto-read-only=off" % disk["path"],
        "--blockdev", "driver=qcow2,node-name=source,file=file,read-only=on",
        "--blockdev", options + ",node-name=arriving",
        # The disk may be larger there, and a backup wants both sides alike.
        "--blockdev", "driver=raw,size=%d,file=arriving,node-name=target" % disk["size"],
        "--chardev", "stdio,id=monitor", "--monitor", "chardev=monitor",
    ]  # fmt: skip
    with open(transfer.directory(uuid, "daemon.log"), "wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=following.ENVIRONMENT, bufsize=0
        )
    with open(transfer.directory(uuid, transfer.PID_FILE), "w") as file:
        file.write(str(process.pid))
    try:
        monitor = Monitor(process)
        arguments = {
            "job-id": "rest", "device": "source", "target": "target", "sync": "bitmap", "bitmap": name,
            "bitmap-mode": "never", "auto-dismiss": False,
        }  # fmt: skip
        if bandwidth:
            arguments["speed"] = int(bandwidth)
        monitor.ask("blockdev-backup", arguments)
        return _await(monitor, target)
    finally:
        process.stdin.close()
        process.stdout.close()
        following.end(process)


def _await(monitor, target):
    job = {}
    come = following.Advance(lambda: (job.get("status"), job.get("current-progress")))
    checks = following.Asked(), following.OtherEnd(target), come
    while True:
        job.update(next(entry for entry in monitor.ask("query-jobs") if entry["id"] == "rest"))
        if job["status"] == "concluded":
            if job.get("error"):
                raise TransferFailed("copying the rest: %s" % job["error"])
            return job["total-progress"]
        for check in checks:
            check.check()
        time.sleep(POLL)


class Monitor:
    """QEMU's monitor protocol over a program's standard streams."""

    def __init__(self, process):
        self.process, self.said = process, b""
        self._read("QMP")
        self.ask("qmp_capabilities")

    def ask(self, command, arguments=None):
        text = json.dumps({"execute": command, "arguments": arguments or {}}) + "\n"
        self.process.stdin.write(text.encode())
        return self._read("return")["return"]

    def _read(self, key):
        while True:
            message = json.loads(self._line())
            if "error" in message:
                raise TransferFailed("%s: %s" % (DAEMON, message["error"].get("desc")))
            if key in message:
                return message

    def _line(self):
        while b"\n" not in self.said:
            if not select.select([self.process.stdout], [], [], following.STALLED_SECONDS)[0]:
                raise TransferFailed("%s has not answered for %d s" % (DAEMON, following.STALLED_SECONDS))
            part = self.process.stdout.read(65536)
            if not part:
                raise TransferFailed("%s ended" % DAEMON)
            self.said += part
        line, _end, self.said = self.said.partition(b"\n")
        return line
