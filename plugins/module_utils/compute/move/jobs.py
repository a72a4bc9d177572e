# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Block jobs of a running guest, through libvirt."""

from __future__ import annotations

import time
from xml.etree import ElementTree

from ...model.move_errors import TransferFailed
from ..connection import require_libvirt
from . import following

POLL_SECONDS = 0.2
BACKUP_POLL_SECONDS = 0.02
CANCEL_SECONDS = 60  # in which a cancelled job ends
STALLED_SECONDS = 300  # in which a block job must make progress


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
            raise TransferFailed("the job on %s has not come on for %d s" % (target, STALLED_SECONDS))
        time.sleep(POLL_SECONDS)


def finish_backup(domain):
    """Wait for a backup that writes to files. Raise TransferFailed if it fails or makes no progress."""
    library = require_libvirt()
    checks = following.Asked(), following.Advance(lambda: domain.jobStats(0).get(library.VIR_DOMAIN_JOB_DISK_PROCESSED))
    while domain.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
        for check in checks:
            check.check()
        time.sleep(BACKUP_POLL_SECONDS)
    stats = domain.jobStats(library.VIR_DOMAIN_JOB_STATS_COMPLETED)
    if not stats.get(library.VIR_DOMAIN_JOB_SUCCESS):
        raise TransferFailed(
            "libvirt's backup failed: %s" % stats.get(library.VIR_DOMAIN_JOB_ERRMSG, "it does not say why")
        )


def has_ended(domain):
    """Wait up to CANCEL_SECONDS until the guest has no job (backup, migration). Return whether it has none."""
    library = require_libvirt()
    until = time.monotonic() + CANCEL_SECONDS
    while domain.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
        if time.monotonic() > until:
            return False
        time.sleep(POLL_SECONDS)
    return True
