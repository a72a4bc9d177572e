# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances in vm_state error: their creation was given up, and this host was the last that failed.

Nova keeps such an instance in its database. Here only a note on that host is left, until a run places the instance
again or deletes it. The note is not a record: it holds no resources, no claim and no name.
"""

from __future__ import annotations

import json

from ...model.safe_text import clean
from .. import durable
from . import journal, state_file
from .store import check_uuid

FILE = "failures.json"
LIMIT = 1000
LONGEST = 1000
SHOWN = 240


def read(state_dir):
    """Return {instance uuid: {name, project_id, host, code, message, at}}; ``host`` is this host's inventory name."""
    return state_file.read(state_dir, FILE, _parse, {})


def _parse(data):
    def said(entry):
        return {name: state_file.text(entry[name]) for name in ("name", "project_id", "host", "code", "message", "at")}

    return state_file.dict_of(data, said)


def note(store, failed, dry=False):
    """Keep ``failed`` [{uuid, name, project_id, host, error {code, message}}]. Return whether that is news.

    An instance with a record here is skipped: its record has the fault.
    """
    with store.host_lock():
        before = read(store.state_dir)
        after = dict(before)
        for failure in failed:
            uuid = check_uuid(failure["uuid"])
            if store.read(uuid) is None:
                details = {**failure, **failure["error"]}
                entry = {
                    name: str(details[name])[:LONGEST] for name in ("name", "project_id", "host", "code", "message")
                }
                after.pop(uuid, None)  # the newest comes last and is kept longest
                after[uuid] = dict(entry, at=journal.now())
        return _replace(store, before, dict(list(after.items())[-LIMIT:]), dry)


def forget(store, uuids):
    """Remove the notes of these instances. Return whether there was one."""
    if not set(uuids) & set(read(store.state_dir)):
        return False
    with store.host_lock():
        before = read(store.state_dir)
        return _replace(store, before, {uuid: failure for uuid, failure in before.items() if uuid not in uuids})


def _replace(store, before, after, dry=False):
    if after == before or dry:
        return after != before
    durable.write_in(store.state_dir, FILE, json.dumps(after).encode(), create=True)
    return True


def reported(state_dir):
    """Return [{uuid, name, project_id, code, message}] for the host's document."""
    shown = ("name", "project_id", "code", "message")
    return [
        {"uuid": uuid, **{part: clean(failure[part], SHOWN) for part in shown}}
        for uuid, failure in sorted(read(state_dir).items())
    ]


def describe(uuid, failure):
    """Return the same form as compute.instance.describe for a record."""
    fault = {name: failure[name] for name in ("code", "message", "host", "at")}
    return {
        "uuid": uuid,
        "name": failure["name"],
        "project_id": failure["project_id"],
        "role": None,
        "phase": None,
        "vm_state": "error",
        "task_state": None,
        "power_state": None,
        "state": "absent",
        "migration": None,
        "faults": [fault],
        "history": [],
    }
