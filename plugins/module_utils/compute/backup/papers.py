# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a KVM host and a backup host tell each other of a backup beside its disks, through a port of its own: its description
and what the guest's firmware keeps. The controller sees neither, since they have the guest's secrets."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, Dict

from ...model import backups
from ...model.backups import Backup
from ...model.schema import Fields, MapOf, Text
from .. import durable
from . import place

NAME = "papers"
LARGEST = 4 * backups.LARGEST_FILE  # bytes: the description and two files, as base64
BLOCK = 512  # bytes: what a port gives is a multiple of it
_PAPERS = Fields({"backup": backups.ANYTHING, "files": MapOf(Text(empty=True, longest=2 * backups.LARGEST_FILE))})


def pack(backup: Backup, directory: str, path: str) -> None:
    """Write the papers of the backup, whose files are in the directory, to the file ``path``."""
    files = {file.name: place.content(os.path.join(directory, file.name)) for file in backup.files}
    packed: Dict[str, Any] = {
        "backup": backup.to_dict(),
        "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
    }
    text = json.dumps(packed)
    durable.write_at(path, text.ljust(-(-len(text) // BLOCK) * BLOCK).encode(), durable.FILE_MODE)


def unpack(path: str, directory: str) -> Backup:
    """Write the files of the papers in ``path`` to the directory, and return the backup. Raise InvalidInput or ValueError for what
    is none."""
    with open(path, "rb") as file:
        found = _PAPERS.check(json.loads(file.read(LARGEST).rstrip(b"\0")), NAME)
    backup = Backup.from_dict(found["backup"])
    for each in backup.files:
        data = base64.b64decode(found["files"].get(each.name, ""), validate=True)
        durable.write_at(os.path.join(directory, each.name), data, durable.FILE_MODE)
    return backup
