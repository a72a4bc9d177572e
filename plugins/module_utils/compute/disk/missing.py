# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of an instance are gone. It only looks whether they are there: no header is read, no QEMU is asked."""

from __future__ import annotations

import contextlib
import os

from ...model.errors import BerthError
from ...model.lifecycle import ACTIVE, OWN
from .. import paths
from . import disk as disks
from . import volume_files


def of(record, pool_path):
    """Return {path: disk} of the instance's disks and volumes whose files are missing."""
    if record.role != OWN or record.op:
        return {}
    own = [disk for disk in disks.planned(record.spec) if disk != disks.NVRAM]  # which the firmware makes again
    files = {paths.instance(pool_path, record.uuid, disk.file): disk for disk in own}
    files.update(volume_files.planned(pool_path, record.spec))
    return {path: disk for path, disk in files.items() if not os.path.lexists(path)}


def reported(host, record):
    """Return {disks_missing: [path]} of an instance that was made and lacks files, else {}."""
    with contextlib.suppress(BerthError, KeyError, TypeError):  # its pool or a damaged record, which others report
        found = of(record, host.pool_of(record)) if record.phase == ACTIVE else ()
        return {"disks_missing": sorted(found)} if found else {}
    return {}
