# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a KVM host may be removed from the fleet: not while it holds, or may hold, what no other host has."""

from __future__ import annotations

from typing import Collection, List, Mapping, Optional

from ..model import fleet_hints
from ..model.errors import shortened
from ..model.messages import Document
from . import silence
from .errors import HostInUse
from .fleet import Fleet


def check_removable(fleet: Fleet, host: str, lost: Collection[str], names: Optional[Mapping[str, str]]) -> None:
    """Raise HostInUse if something is, or may be, on the host; HostNotLost if it was named as lost and answers. ``names``:
    uuid -> name of the inventory's instances, since who remembers an instance knows no name; None where a registry decides, and not
    what hosts remember."""
    if host in fleet.documents:
        silence.check_none_answers(lost, [host])
        held = holdings(fleet.documents[host])
        if held:
            raise HostInUse("%s holds %s" % (host, shortened(held)), hint=fleet_hints.empty_host(host))
        missing = last_seen_on(fleet, host, names)
        if missing:
            told = "%s has no record of %s, which other hosts last saw there" % (host, shortened(missing))
            raise HostInUse(told, hint=fleet_hints.find_records(host))
        return
    silence.check_lost(lost, {host: fleet.verdicts.get(host, silence.NO_ANSWER)})
    if host not in lost:
        told = silence.describe(host, fleet.verdicts)
        raise HostInUse("it is not known what is on %s" % told, hint=silence.hint([host], fleet.verdicts))
    left = last_seen_on(fleet, host, names)
    if left:
        raise HostInUse(
            "other hosts last saw %s on %s" % (shortened(left), host), hint=fleet_hints.give_up_instances(host)
        )


def holdings(document: Document) -> List[str]:
    """What the host has a record of, and berth's guests that it runs without a record."""
    found = [
        "instance %s" % instance["name"]
        if not instance.get("foreign")
        else "guest %s, which has no record" % instance["name"]
        for instance in document["instances"]
        if not instance.get("foreign") or instance.get("managed")
    ]
    return sorted(found) + sorted("volume %s" % volume["name"] for volume in document.get("volumes") or ())


def last_seen_on(fleet: Fleet, host: str, names: Optional[Mapping[str, str]]) -> List[str]:
    """The instances whose last owner was that host, as far as other hosts remember. If it answers, its uuid decides,
    whatever its name was then; otherwise its name, unless a host that answers is that machine."""
    if names is None:
        return []
    own, there = fleet.uuids().get(host), set(fleet.uuids().values())
    remembered = {uuid for notes in fleet.notes.values() for uuid in notes}
    known = {uuid: fleet.notes_on(uuid).known for uuid in remembered}
    return sorted(
        "instance %s" % names.get(uuid, uuid)
        for uuid, last in known.items()
        if last
        and (last.host_uuid == own if own else last.host == host and last.host_uuid not in there)
        and not any(place["role"] == "OWN" for place in fleet.places.get(uuid, ()))
    )
