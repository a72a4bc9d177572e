# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts own one instance: what tells their copies apart, for the person who has to choose."""

from __future__ import annotations

from typing import Any, Collection, Dict, Mapping

from ..model import copy_hints
from . import notes
from .errors import DuplicateInstance
from .fleet import Place

Copies = Mapping[str, Mapping[str, Any]]  # host -> {generation, power_state of the guest if it is known}


def of(places: Collection[Place]) -> Dict[str, Dict[str, Any]]:
    return {place["host"]: {name: place[name] for name in ("generation", "power_state")} for place in places}


def owned_twice(name: str, copies: Copies) -> DuplicateInstance:
    return DuplicateInstance(
        "%s is owned by %s" % (name, told(copies)), hint=copy_hints.find_the_right_copy(name, sorted(copies))
    )


def told(copies: Copies) -> str:
    """Return the hosts, with the state of the guest there, the generation of the record, and which record is newer."""
    generations = {host: notes.generation(copy["generation"] or notes.NEVER) for host, copy in copies.items()}
    newest = [host for host in copies if generations[host] == max(generations.values())]
    parts = []
    for host, copy in sorted(copies.items()):
        age = "" if len(newest) > 1 else "newer " if host in newest else "older "
        record = "%srecord of generation %d.%d" % (age, *generations[host])
        parts.append("%s (%s)" % (host, ", ".join(filter(None, (copy.get("power_state"), record)))))
    return " and ".join(parts)
