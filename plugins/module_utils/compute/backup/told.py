# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups as a host tells them."""

from __future__ import annotations

from typing import Any, Dict, List

from ...model.backups import Backup
from ...model.safe_text import clean
from .place import Place


def all_of(where: Place, deep: bool) -> List[Dict[str, Any]]:
    """Return the backups, the oldest first."""
    known, shown = where.known(), []
    for name, found in where.read().items():
        if isinstance(found, Backup):
            shown.append(one(found, where.faults(found, known, deep)))
        else:
            shown.append({"id": name, "faults": [found]})
    return shown


def one(backup: Backup, faults: Any = ()) -> Dict[str, Any]:
    return {
        "id": backup.id,
        "kind": backup.kind,
        "previous": backup.previous,
        "bytes": backup.bytes,
        "of": clean(backup.name),
        "frozen": backup.frozen,
        "files": [file.name for file in backup.files],
        "why": [clean("%s: %s" % (disk.name, disk.why)) for disk in backup.disks if disk.why],
        "faults": [clean(fault, 500) for fault in faults],
    }


def fitting(backup: Backup) -> Dict[str, Any]:
    """What another host needs to know to stand on the backup, or to see whether it fits an instance."""
    disks = [{"name": disk.name, "size": disk.size} for disk in backup.disks]
    return {"id": backup.id, "uuid": backup.uuid, "name": clean(backup.name), "disks": disks}
