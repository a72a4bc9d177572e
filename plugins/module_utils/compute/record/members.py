# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts belong to the fleet, as this host was told last: {host uuid: {name, changes}}. The name is that in the inventory,
null of a host that was removed. The changes of an entry are counted: only a higher count replaces it."""

from __future__ import annotations

import json
from typing import Any, Dict

from .. import durable
from . import state_file

FILE = "members.json"


def read(state_dir: str) -> Dict[str, Dict[str, Any]]:
    """Return the list; {} if this host was never told one."""
    return state_file.read(state_dir, FILE, lambda data: state_file.dict_of(data, _entry), {})


def take_in(store, told: Dict[str, Dict[str, Any]]) -> None:
    with store.host_lock():
        known = read(store.state_dir)
        news = {uuid: entry for uuid, entry in told.items() if entry["changes"] > _changes(known, uuid)}
        if news:
            durable.write_in(store.state_dir, FILE, json.dumps({**known, **news}, sort_keys=True).encode())


def _changes(known, uuid) -> int:
    return known[uuid]["changes"] if uuid in known else 0


def _entry(value):
    name = value["name"]
    return {"name": None if name is None else state_file.text(name), "changes": state_file.whole(value["changes"])}
