# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of deleted instances and volumes: a file for each that this host owned last and removed, kept for 30 days.

It is here and not on a controller, so that every controller can show who deleted what. It is for people; no decision
uses it.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time

from ...model.identity import is_uuid
from .. import durable
from . import journal, state_file

FOLDER = "deleted"
DAYS, MOST = 30, 1000


def keep(store, record):
    """Keep the history, before the owner's record is removed."""
    document = {
        "name": record.name,
        "project_id": record.project_id,
        "history": record.history,
        "faults": record.faults,
        "at": journal.now(),
    }
    folder = durable.open_directory(_path(store), create=True)
    try:
        _make_room(folder)
        durable.write(folder, _file(record.uuid), json.dumps(document).encode())
    finally:
        os.close(folder)


def read(store, uuid):
    """Return what is kept of an instance or a volume that this host removed, {"history", "faults", ...}, or None."""
    try:
        return state_file.read(_path(store), _file(uuid), _parse, None)
    except state_file.StateDamaged as error:
        return {"history": [], "faults": [{"code": error.code, "message": str(error), "at": None}]}


def all_of(store):
    """Return {uuid: what is kept} of all instances and volumes that this host removed."""
    folder = _path(store)
    names = os.listdir(folder) if os.path.isdir(folder) else ()
    uuids = [name[: -len(".json")] for name in names if name.endswith(".json")]
    found = {uuid: read(store, uuid) for uuid in uuids if is_uuid(uuid)}
    return {uuid: kept for uuid, kept in found.items() if kept}


def describe(store, uuid):
    """Return what is known of an instance that this host removed, in the form of module instance_info, or None."""
    document = read(store, uuid)
    if document is None:
        return None
    return {
        **document,
        "uuid": uuid,
        "role": None,
        "phase": None,
        "vm_state": "deleted",
        "task_state": None,
        "power_state": None,
        "state": "absent",
        "migration": None,
    }


def _path(store):
    return os.path.join(store.state_dir, FOLDER)


def _file(uuid):
    return uuid + ".json"


def _parse(data):
    lists = {name: state_file.list_of(data[name], dict) for name in ("history", "faults")}
    return {"name": state_file.text(data["name"]), "project_id": state_file.text(data["project_id"]), **lists}


def _make_room(folder):
    """Remove the files older than DAYS, and the oldest beyond MOST, by this host's clock alone."""
    files = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # another run removed it
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):  # somebody else's, and no reason to delete nothing any more
                files.append((status.st_mtime, name))
    files.sort(reverse=True)
    oldest = time.time() - DAYS * 86400
    for at, (changed, name) in enumerate(files):
        if at >= MOST - 1 or changed < oldest:
            durable.remove(folder, name)
