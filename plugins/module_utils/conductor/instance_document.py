# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance as one document of plain values, over which berth_where is evaluated: docs/queries.md explains each key.

Texts, lists and mappings are empty where there is nothing, never null, so that functions of JMESPath take them.
"""

from __future__ import annotations

from typing import Any, Dict, List

from ..model import nics
from ..model.messages import Document
from .show_instance import Held, owner

FORM: Document = {
    "name": "web1",
    "uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a",
    "project": "default",
    "state": "active",
    "task_state": "resize_migrating",
    "guest": "running",
    "host": "kvm1",
    "flavor": {"name": "small", "vcpus": 2, "memory_mb": 2048, "root_gb": 20},
    "image": "debian-12",
    "addresses": ["192.0.2.11"],
    "networks": [{"network": "lan", "mac": "02:00:00:00:00:01", "address": "192.0.2.11"}],
    "disks": [{"name": "logs", "size_gb": 10}],
    "volumes": [{"name": "db", "size_gb": 20}],
    "group": "web",
    "zone": "east",
    "locked": "by ann@ctl since 2026-11-22T00:00:00Z",
    "metadata": {},
    "reservation": "r-1",
    "created": "2026-11-22T00:00:00Z",
    "move": {"type": "resize", "status": "migrating", "source": "kvm1", "destination": "kvm2"},
}
FLAVOR = ("vcpus", "memory_mb", "root_gb")
# A record that an older version wrote begins otherwise, or has lost its beginning.
FIRST_EVENT = "claim"


def of(name: str, held: Held) -> Document:
    """The instance ``name`` as the hosts that have it tell of it: its owner, where one is known."""
    host, found = owner(held)
    networks: List[Document] = found.get("networks") or []
    first = (found.get("history") or [{}])[0]
    move = found.get("migration") or {}
    flavor = {"name": _text(found.get("flavor")), **{part: found.get(part) for part in FLAVOR}}
    return {
        **of_none(
            name, _text(found.get("project_id")), _text(found.get("vm_state") or found.get("phase")) or "unknown"
        ),
        "uuid": found["uuid"],
        "task_state": _text(found.get("task_state")),
        "guest": found["state"],
        "host": host,
        "flavor": flavor,
        "image": _text(found.get("image")),
        "addresses": [_bare(each) for nic in networks for each in nics.addresses(nic)],
        "networks": [{part: _bare(nic.get(part)) for part in ("network", "mac", "address")} for nic in networks],
        "disks": _sized(found.get("disks")),
        "volumes": _sized(found.get("volumes")),
        "group": _text(found.get("group")),
        "zone": _text(found.get("availability_zone")),
        "locked": _text(found.get("locked")),
        "metadata": dict(found.get("metadata") or {}),
        "reservation": _text(found.get("batch_id")),
        "created": _text(first.get("at")) if first.get("event") == FIRST_EVENT else "",
        "move": {part: _text(move.get(part)) for part in FORM["move"]},
    }


def of_none(name: str, project: str, state: str) -> Document:
    """An instance of which no host tells: all but its name, project and ``state`` is empty, its sizes are null."""
    empty: Dict[str, Any] = {key: _empty(value) for key, value in FORM.items()}
    return {**empty, "name": name, "project": project, "state": state}


def _empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _empty(part) for key, part in value.items()}
    return [] if isinstance(value, list) else "" if isinstance(value, str) else None


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _bare(address: Any) -> str:
    """Without the length of the prefix."""
    return _text(address).partition("/")[0]


def _sized(found: Any) -> List[Document]:
    return [{"name": name, "size_gb": size} for name, size in sorted((found or {}).items())]
