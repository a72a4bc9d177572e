# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that hosts have and the inventory does not: made with -e berth_name, of another inventory, taken out of this one,
or renamed there, so that the guest still runs under its old name. No --limit selects them."""

from __future__ import annotations

import re
from typing import Container, Iterable, List, Mapping, Tuple

from ..model import fleet_hints
from ..model.errors import BerthError, shortened
from ..model.identity import ADOPTED, DEFAULT_PROJECT, KEPT, NAME, uuid_of
from ..model.lifecycle import OWN
from .fleet import Fleet, Place, own_name


def unlisted(fleet: Fleet, listed: Container[str]) -> List[Tuple[str, Place]]:
    """(uuid, place) of each that its host owns, by name. ``listed``: the uuids of the inventory's instances."""
    found = [(uuid, place) for uuid, places in fleet.places.items() if uuid not in listed for place in places]
    return sorted((pair for pair in found if pair[1]["role"] == OWN), key=lambda pair: (pair[1]["name"], pair[0]))


def names(fleet: Fleet, listed: Container[str]) -> List[str]:
    """Their names alone, also where they are most of a large fleet."""
    return [record["name"] for uuid, record in fleet.places.records(OWN) if uuid not in listed]


def told(names: Iterable[str]) -> str:
    """What is said of them, wherever it is said."""
    return "instances that this inventory does not have: %s" % shortened(sorted(names))


def line(names: Iterable[str]) -> str:
    return "The hosts have %s. %s" % (told(names), fleet_hints.list_again())


def selection(uuid: str, place: Place, taken: Container[str]) -> str:
    """The options that select it; none if its host says a name or project that are not those of its uuid. ``taken``: the names
    of the inventory's instances, of which one of another project would be selected."""
    name, project = place["name"], place["project_id"] or DEFAULT_PROJECT
    own = own_name(place)
    if own:  # it is shown by its uuid; another name than that in its record is none that a run finds
        known = NAME.match(own) and own not in taken
        options = fleet_hints.options_of(own, project if project != DEFAULT_PROJECT else None)
        return "%s -e %s=%s" % (options, ADOPTED if place["adopted"] else KEPT, uuid) if known else ""
    try:
        if uuid_of(name, {"berth_project": project}) != uuid:
            return ""
    except BerthError:
        return ""
    return fleet_hints.options_of(name, project if project != DEFAULT_PROJECT or name in taken else None)


def selected(text: str, selections: Mapping[str, str]) -> str:
    """The text, whose commands select with ``selections`` (name -> options) what --limit would not find."""
    names = [name for name, options in selections.items() if options]
    limited = r"--limit (%s)(?![\w*-]|[.,:][\w*!&])" % "|".join(map(re.escape, sorted(names)))
    return re.sub(limited, lambda found: selections[found[1]], text) if names else text
