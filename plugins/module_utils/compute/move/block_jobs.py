# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Block jobs of a running guest, through libvirt: its own, and those of other programs."""

from __future__ import annotations

import time
from xml.etree import ElementTree

from ...model import hints
from ...model.move_errors import TransferFailed
from ..connection import require_libvirt
from ..errors import DisksBusy
from ..guest import domain as guests
from ..paths import scratch_file

POLL_SECONDS = 0.2
CANCEL_SECONDS = 60  # in which a cancelled job ends
STALLED_SECONDS = 300  # in which a block job must make progress
SOCKET = "berth-backup.sock"  # where QEMU shows the disks of a move


def target_of(domain, path):
    """Return the guest's name, such as vda, of the disk with the file ``path``."""
    for element in ElementTree.fromstring(domain.XMLDesc(0)).iterfind("devices/disk"):
        source = element.find("source")
        if source is not None and source.get("file") == path:
            return element.find("target").get("dev")
    raise TransferFailed("the running guest has no disk %s" % path)


def pull(domain, path, base):
    """Copy the layers between ``base`` (None: all) and the disk into it while the guest runs, or join a running job."""
    library = require_libvirt()
    target = target_of(domain, path)
    try:
        if not domain.blockJobInfo(target, 0):
            domain.blockRebase(target, base, 0, 0)
        _follow(domain, target)
    except library.libvirtError as error:
        raise TransferFailed("pulling the old layer of %s: %s" % (target, error))


def _follow(domain, target):
    """Wait for a block job as long as it makes progress."""
    done, since = None, time.monotonic()
    while True:
        job = domain.blockJobInfo(target, 0)
        if not job:
            return
        if job.get("cur") != done:
            done, since = job.get("cur"), time.monotonic()
        elif time.monotonic() - since > STALLED_SECONDS:
            raise TransferFailed("the job on %s has made no progress for %d s" % (target, STALLED_SECONDS))
        time.sleep(POLL_SECONDS)


def has_ended(domain):
    """Wait up to CANCEL_SECONDS until the guest has no job (backup, migration). Return whether it has none."""
    library = require_libvirt()
    until = time.monotonic() + CANCEL_SECONDS
    while domain.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
        if time.monotonic() > until:
            return False
        time.sleep(POLL_SECONDS)
    return True


def is_ours(domain, text):
    """Whether a backup that libvirt describes is one of berth's, for a move or of an instance: they write beside the disks alone."""
    written = {target.get("file") or "" for target in ElementTree.fromstring(text).iterfind("disks/disk/target")}
    if SOCKET in text:
        return True
    return bool(written) and any(scratch_file(path) in written for path in _paths(domain))


def _paths(domain):
    sources = ElementTree.fromstring(domain.XMLDesc(0)).iterfind("devices/disk/source")
    return [source.get("file") for source in sources if source.get("file")]


# Whether another program works on the disks of a running guest: a stop for a move would silently interrupt it.


def check_no_others_jobs(connection, record, host, so="that guest is not stopped for a move"):
    """Raise DisksBusy if there is a backup of the guest that berth did not begin, or a copy of one of its disks. ``so``: what is
    not done meanwhile."""
    guest = guests.find_active(connection, record.uuid)
    if guest is None:
        return
    work = _backup(guest) or _copy(guest)
    if work:
        raise DisksBusy(
            "another program makes %s of %s (%s) on %s, so %s" % (work, record.name, record.uuid, host, so),
            hint=hints.end_job(host, record.uuid),
            instance=record.name,
            host=host,
        )


def _backup(found):
    try:
        backup = found.backupGetXMLDesc(0)
    except require_libvirt().libvirtError:
        return None  # no job
    return None if is_ours(found, backup) else "a backup"


def _copy(found):
    for disk in ElementTree.fromstring(found.XMLDesc(0)).iterfind("devices/disk"):
        if disk.find("mirror") is not None:
            return "a copy of disk %s" % disk.find("target").get("dev")
    return None
