# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A shelved instance, in its request: {backup, to, host}, the backup that its disks are in. As long as it is there, the instance
has no disks on its host and takes no room there. ``to``: the directory, on the backup host ``host``, or on its own host if None.

One that was made again from its backup, since its host was lost, begins as shelved there: ``evacuated_from`` is the uuid of that host,
until it is shelved on purpose."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from .messages import Document

KEY, EVACUATED = "shelved", "evacuated_from"


def of(spec: Mapping[str, Any]) -> Optional[Document]:
    return spec.get(KEY) or None


def begun(spec: Document, backup: str, to: str, host: Optional[str]) -> Document:
    kept = {part: value for part, value in spec.items() if part != EVACUATED}
    return {**kept, KEY: {"backup": backup, "to": to, "host": host}}


def made_again(spec: Document, backup: Document, lost: str) -> Document:
    """``backup``: {backup, to, host}; ``lost``: the uuid of the host that had the instance."""
    return {**spec, KEY: dict(backup), EVACUATED: lost}


def evacuated_from(spec: Mapping[str, Any]) -> Optional[str]:
    return spec.get(EVACUATED)


def ended(spec: Mapping[str, Any]) -> Document:
    """Return the request of the instance with its disks."""
    return {part: value for part, value in spec.items() if part != KEY}


def noted(spec: Mapping[str, Any]) -> Document:
    """What the history says of one that is made again from its backup."""
    shelved = of(spec)
    return {"backup": shelved["backup"], "to": place(shelved), "source": spec[EVACUATED]} if shelved else {}


def place(shelved: Mapping[str, Any]) -> str:
    """Where the backup is, in words."""
    return "%s:%s" % (shelved["host"], shelved["to"]) if shelved["host"] else str(shelved["to"])


def reported(record: Any) -> Dict[str, Any]:
    """Return {shelved: {vcpus, memory_mb}} of one that has given its room back: Nova counts it in the quota of its project."""
    if not of(record.spec) or record.resources:
        return {}
    flavor = record.spec["flavor"]
    return {KEY: {name: flavor.get(name) or 0 for name in ("vcpus", "memory_mb")}}
