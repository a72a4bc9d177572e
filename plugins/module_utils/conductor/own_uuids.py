# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances whose uuid does not follow from their name: guests that were adopted, and instances that were renamed. No host can
give such an instance its name: the inventory says which uuid a name has. No name is that of two."""

from __future__ import annotations

from typing import Collection, Optional

from ..model import fleet_hints, hints
from ..model.errors import BerthError, InstanceExists
from ..model.identity import DEFAULT_PROJECT, NAME, instance_uuid
from .fleet import Fleet, Place
from .locate import generation_of


class InstanceRenamed(BerthError):
    """The instance has another name than the inventory gives it. Nothing was changed."""


def check_free(fleet: Fleet, name: str, project: str, uuid: str) -> None:
    """Raise InstanceExists if the instance of that name is another one than ``uuid``, which keeps its own uuid."""
    other = fleet.own_names.get((project, name))
    if other not in (None, uuid):
        hosts = ", ".join(sorted(place["host"] for place in fleet.places[str(other)]))
        how = "adopted" if was_adopted(fleet, other) else "renamed"
        text = "%s is %s on %s, which was %s" % (name, other, hosts, how)
        raise InstanceExists(text, hint=name_it(fleet, name, str(other)))


def was_adopted(fleet: Fleet, uuid: Optional[str]) -> bool:
    return any(place.get("adopted") for place in fleet.places.get(str(uuid), ()))


def untold(fleet: Fleet, name: str, uuid: str) -> str:
    """What is wrong where the inventory has an instance without the uuid that it has, or has it not at all."""
    how = "adopted" if was_adopted(fleet, uuid) else "renamed"
    return "%s was %s, and the inventory does not say its uuid" % (name, how)


def name_it(fleet: Fleet, name: str, uuid: str) -> str:
    """How the inventory says that an instance of that name has this uuid."""
    return hints.name_adopted(uuid) if was_adopted(fleet, uuid) else fleet_hints.name_renamed(name, uuid)


def check_name(name: str, project: str, uuid: str, places: Collection[Place], becomes: Optional[str] = None) -> None:
    """Raise InstanceRenamed if the instance has another name, unless it has that which it is to get (``becomes``). The name of
    an adopted guest is what the inventory says. Of two copies the later one has its name: a host may have been restored whole."""
    kept = uuid != instance_uuid(project, name)
    latest = generation_of(places)
    for place in (each for each in places if generation_of([each]) == latest):
        told = place.get("own_name") or (place["name"] if kept else None)
        if (
            told in (None, uuid)
            or place.get("adopted")
            or (place["project_id"] or DEFAULT_PROJECT) == project
            and told in (name, becomes)
        ):
            continue
        raise InstanceRenamed(
            "%s is %s of project %s, as %s says" % (name, told, place["project_id"] or DEFAULT_PROJECT, place["host"]),
            hint=fleet_hints.name_renamed(told if NAME.match(told) else "NAME", uuid),
        )


def check_new(name: str, project: str, uuid: str) -> None:
    """Raise InstanceRenamed if ``uuid``, of an instance that no host has, is one that only an instance that was renamed has."""
    if uuid != instance_uuid(project, name):
        text = "%s is to be the instance %s, which no host has" % (name, uuid)
        raise InstanceRenamed(text, hint=fleet_hints.without_uuid(name))
