# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guest's firmware keeps outside of its disks, in a backup: the UEFI variables, and the state of its TPM.

Of a guest that runs they are as a power cut would leave them: QEMU writes the variables to their file at once, if it is raw,
and swtpm replaces its file as a whole. A qcow2 file of variables is read of a guest that is off alone, since QEMU keeps a part of it
in its memory.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterable, List, Tuple

from ...model.backups import TPM_STATE, VARIABLES, File
from ...model.guest_settings import GuestSettings
from ...model.move_errors import TransferFailed
from .. import durable, paths
from ..disk.disk import NVRAM, named_boot_files
from ..guest import domain_xml, nvram
from ..host import firmware
from ..move import disks as moved_disks
from . import place

TRIES, PAUSE = 20, 0.05  # s


def copy(host: Any, record: Any, directory: str, runs: bool) -> Tuple[File, ...]:
    """Copy what there is to the directory of a backup."""
    made: List[File] = []
    for name, path in _paths(host, record).items():
        if os.path.lexists(path) and not (runs and (nvram.form(path) or "").startswith("qcow2")):
            target = os.path.join(directory, name)
            durable.write_at(target, _at_one_moment(path), durable.FILE_MODE)
            made.append(File(name, os.path.getsize(target), place.digest(target)))
    return tuple(made)


def wanted(host: Any, record: Any, files: Iterable[File], path_of: Callable[[str], str]) -> Dict[str, str]:
    """Return {path: the file of the backup that is to be there}, of what the guest has a device for. Raise GuestNotSupported
    if its firmware here cannot use the variables."""
    settings, has_kernel = GuestSettings.of(record.spec), bool(named_boot_files(record.spec))
    has = {
        VARIABLES: domain_xml.is_uefi(host.capabilities.arch, settings, has_kernel),
        TPM_STATE: bool(settings.tpm_version()),
    }
    there = _paths(host, record)
    found = {there[file.name]: path_of(file.name) for file in files if has[file.name]}
    if there[VARIABLES] in found:
        firmware.check(host, record, nvram.form(found[there[VARIABLES]]))
    return found


def publish(contents: Dict[str, bytes]) -> None:
    """Put the files in their places. libvirt gives them to QEMU and swtpm when the guest starts."""
    for path, data in contents.items():
        durable.make_directories(os.path.dirname(path), durable.DIRECTORY_MODE)
        durable.write_at(path, data, durable.FILE_MODE)


def _paths(host: Any, record: Any) -> Dict[str, str]:
    there = moved_disks.files(host.pool_of(record), record.uuid, record.spec)
    found = [(VARIABLES, path) for disk, path in there if disk.kind == NVRAM.kind]
    return dict([*found, (TPM_STATE, paths.tpm_state(record.uuid))])


def _at_one_moment(path: str) -> bytes:
    """Return the content once two looks at it are alike: a firmware that writes would be seen in the middle of it."""
    before = place.content(path)
    for _each in range(TRIES):
        time.sleep(PAUSE)
        now = place.content(path)
        if now == before:
            return now
        before = now
    raise TransferFailed("%s changes all the time, so it was not read at one moment" % path)
