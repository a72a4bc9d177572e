# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host aggregate: a named set of hosts with metadata, Nova's way of saying something about many hosts at once."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Set, TypeVar

from .messages import Document

Number = TypeVar("Number", int, float)


class Aggregate:
    """{name, hosts [host name], metadata {text: text}}; ``uuid`` is the name where there is none."""

    __slots__ = ("uuid", "name", "hosts", "metadata")

    def __init__(self, document: Document) -> None:
        self.name = document["name"]
        self.uuid = document.get("uuid") or self.name
        self.hosts = frozenset(document.get("hosts") or ())
        self.metadata = {key: str(value) for key, value in (document.get("metadata") or {}).items()}

    def to_dict(self) -> Document:
        return {"name": self.name, "uuid": self.uuid, "hosts": sorted(self.hosts), "metadata": dict(self.metadata)}


def zones(aggregates: Iterable[Document]) -> Dict[str, str]:
    """Return {host: availability zone} for the hosts that are in one."""
    named = [(aggregate["hosts"], aggregate["metadata"].get("availability_zone")) for aggregate in aggregates]
    return {host: zone for hosts, zone in named if zone for host in hosts}


def values_of(aggregates: Iterable[Aggregate], key: str) -> Set[str]:
    """The different values that the aggregates of one host have for a metadata key."""
    return {aggregate.metadata[key] for aggregate in aggregates if key in aggregate.metadata}


def merged_metadata(aggregates: Iterable[Aggregate]) -> Dict[str, Set[str]]:
    """{key: set of values} over the aggregates of one host; a value is a comma list."""
    merged: Dict[str, Set[str]] = {}
    for aggregate in aggregates:
        for key, value in aggregate.metadata.items():
            merged.setdefault(key, set()).update(part.strip() for part in value.split(","))
    return merged


def lowest(aggregates: Iterable[Aggregate], key: str, default: Number, read: Callable[[str], Number]) -> Number:
    """The lowest value of ``key`` over the aggregates; ``default`` where there is none, or a value cannot be read."""
    values = values_of(aggregates, key)
    if not values:
        return default
    try:
        return min(read(value) for value in values)
    except ValueError:
        return default
