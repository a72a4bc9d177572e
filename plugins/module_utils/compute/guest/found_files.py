# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks and UEFI variables of an adopted instance, as long as they lie where they were found."""

from __future__ import annotations

import os

from ...model import adopted
from .. import paths
from . import disk_users


def remove(connection, record):
    """Remove them, but none that another guest has as a disk or below one. Return whether there was one."""
    files = adopted.files(record.spec)
    if not files:
        return False
    users = disk_users.files_of_each(connection)
    of_others = {path for uuid, used in users.items() if uuid != record.uuid for path in used}
    gone = [path for path in files if os.path.realpath(path) not in of_others]
    # a link and what it leads to
    removed = [paths.remove(each) for path in gone for each in (os.path.realpath(path), path)]
    for directory in {os.path.dirname(path) for path in gone}:
        if os.path.isdir(directory):
            paths.sync_directory(directory)
    return any(removed)
