# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the requested instances exist already, which are partly built, and which must be placed. The host decides
whether it adopts a claim that an ended run left: compute/record/claim.py.
"""

from __future__ import annotations

from typing import Collection, Dict, List, Mapping, Optional

from ..model import adopted, hints
from ..model.errors import BerthError
from ..model.messages import Document
from . import adopting, drift, majority, own_uuids, silence, unconfirmed
from .fleet import Fleet, Place
from .locate import check_latest, check_no_stray, check_none_silent, generation_of, holders
from .notes import given_up, latest_with_lost
from .plan import AWAY, CLAIMING, EXISTING, UNCONFIRMED, Instance, fail


def unplaced(requests: Mapping[str, Document]) -> Dict[str, Instance]:
    """``requests``: inventory name -> request spec. The instances of a plan, to be placed whether they exist or not."""
    return {
        name: {
            "uuid": spec["uuid"],
            "name": spec["name"],
            "project": spec["project_id"],
            "spec": spec,
            "host": None,
            "alternates": [],
        }
        for name, spec in requests.items()
    }


def sort_out(
    requests: Mapping[str, Document],
    fleet: Fleet,
    lost_hosts: Collection[str] = (),
    strict: bool = False,
    without_majority: bool = False,
    unsaid: Optional[Mapping[str, Collection[str]]] = None,
) -> Dict[str, Instance]:
    """The instances of a create plan; those still to place have no ``state``. An instance that an interrupted run left
    claimed continues on that host. ``unsaid``: inventory name -> parts of its request that nobody has given."""
    instances = unplaced(requests)
    for name, instance in instances.items():
        instance["unsaid"] = list((unsaid or {}).get(name, ()))
        try:
            _find(instance, fleet, lost_hosts, strict)
            if not (without_majority or instance.get("existing")):
                answers = fleet.answers(lost_hosts)
                majority.check(instance["name"], fleet.member_lists, answers.names, answers.gives_up)
        except BerthError as error:
            fail(instance, error)
    return instances


def _find(instance: Instance, fleet: Fleet, lost_hosts: Collection[str], strict: bool) -> None:
    places = {place["host"]: place for place in fleet.places.get(instance["uuid"], ())}
    name, project, uuid = instance["name"], instance["project"], instance["uuid"]
    adopting.check_adopted(fleet, name, project, uuid)
    own_uuids.check_free(fleet, name, project, uuid)
    own_uuids.check_name(name, project, uuid, places.values())
    resized = unconfirmed.place_among(places.values())
    if resized:
        _set_found(instance, fleet, resized["host"], UNCONFIRMED)
        instance["result"] = {"flavor": resized["flavor"]}
        instance["why"] = "has flavor %s there and %s" % (resized["flavor"], unconfirmed.waits(resized["phase"]))
        return
    check_no_stray(fleet, instance["name"], instance["uuid"])
    if not places and _is_away(instance, fleet, lost_hosts):
        return
    claims, owners = holders(fleet, instance["name"], instance["uuid"], lost_hosts)
    if strict and not owners:
        check_none_silent(fleet, instance["name"], lost_hosts)
    instance["notes"] = fleet.told_of(instance["uuid"])
    noted = fleet.notes_on(instance["uuid"])
    if owners:
        check_latest(fleet, instance["name"], instance["uuid"], lost_hosts)
    answers = fleet.answers(lost_hosts)
    instance["generation"] = list(max(generation_of(places.values()), latest_with_lost(noted, answers)))
    instance["outlived"] = [
        {"uuid": instance["uuid"], "host_uuid": plan.host_uuid, "run": plan.run} for plan in given_up(noted, answers)
    ]
    hosts = claims + owners
    if not hosts:
        if adopted.KEY in instance["spec"]:
            raise adopting.GuestToAdoptUnknown(
                "%s is to be the guest %s, which no host has as an instance" % (instance["name"], instance["uuid"]),
                hint=hints.list_guests(),
            )
        if not noted.known:  # what a lost host had keeps its uuid
            own_uuids.check_new(name, project, uuid)
        return
    _set_found(instance, fleet, hosts[-1], EXISTING if owners else CLAIMING)
    if owners:
        instance["differs"] = _differs(instance, places[hosts[-1]])
        instance["content"] = places[hosts[-1]]["content"]
    instance["stale_claims"] = hosts[:-1]
    instance["why"] = "exists already" if owners else "an earlier run had claimed it there"


def _is_away(instance: Instance, fleet: Fleet, lost_hosts: Collection[str]) -> bool:
    """Whether it is on a host that a person closed before it was switched off: then nothing is to be done."""
    known, answers = fleet.notes_on(instance["uuid"]).known, fleet.answers(lost_hosts)
    if not known or not answers.counts(known) or not silence.is_closed(fleet.verdicts.get(known.host, "")):
        return False
    instance["state"], instance["existing"], instance["host"] = AWAY, True, known.host
    instance["why"] = "on %s" % silence.describe(known.host, fleet.verdicts)
    return True


def _differs(instance: Instance, place: Place) -> List[str]:
    """Differences from the inventory that the host's own answer does not contain."""
    name, wanted = instance["name"], drift.said(instance)
    differences = (drift.of_flavor_content(name, place, wanted), *drift.of_request(name, place, wanted))
    return [part for part in differences if part]


def _set_found(instance: Instance, fleet: Fleet, host: str, state: str) -> None:
    instance["host"], instance["host_uuid"] = host, fleet.documents[host]["uuid"]
    instance["state"], instance["existing"] = state, state != CLAIMING
