# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the wanted instances are there already, which are half made, and which have to be placed."""

from __future__ import annotations

from ..model.errors import BerthError
from ..model.record import CLAIM, OWN
from .errors import InstanceIsLocked, InstanceUnknown
from .locate import locate, unconfirmed
from .plan import CLAIMING, EXISTING, UNCONFIRMED, fail


def sort_out(requests, fleet, lost_hosts=(), strict=False):
    """``requests``: inventory name -> request spec. Gives inventory name -> instance of a plan.

    An instance that is still to be placed has no ``state``. One that an ended run left claimed goes on there.
    """
    instances = {}
    for name, spec in requests.items():
        instance = {
            "uuid": spec["uuid"],
            "name": spec["name"],
            "project": spec["project_id"],
            "spec": spec,
            "host": None,
            "alternates": [],
        }
        instances[name] = instance
        try:
            _find(instance, fleet, lost_hosts, strict)
        except BerthError as error:
            fail(instance, error)
    return instances


def _find(instance, fleet, lost_hosts, strict):
    places = {place["host"]: place for place in fleet.places.get(instance["uuid"], ())}
    resized = unconfirmed(places.values())
    if resized:
        instance.update(
            host=resized["host"],
            host_uuid=fleet.documents[resized["host"]]["uuid"],
            state=UNCONFIRMED,
            existing=True,
            why="has flavor %s there and waits for confirm_resize or revert_resize" % resized["flavor"],
        )
        return
    try:
        hosts = locate(fleet, instance["name"], instance["uuid"], lost_hosts)
    except InstanceUnknown:
        # not on any host that answered; what the hosts remember of the silent ones is asked at the commit
        if strict:
            raise
        hosts = [host for host, place in places.items() if place["role"] == CLAIM]
    if not hosts:
        return
    owner = hosts[-1] if places[hosts[-1]]["role"] == OWN else None
    instance["host"] = hosts[-1]
    instance["host_uuid"] = fleet.documents[hosts[-1]]["uuid"]
    instance["state"] = EXISTING if owner else CLAIMING
    instance["stale_claims"] = hosts[:-1]
    instance["why"] = "is there already" if owner else "an earlier run had claimed it there"
    instance["existing"] = bool(owner)


def hold_locked(instances, locks, fleet):
    """Mark the locked ones (``locks``: inventory name -> who locked it). A delete that was begun is not ended by create."""
    for name, who in locks.items():
        instance = instances.get(name)
        places = fleet.places.get(instance["uuid"], ()) if instance and who else ()
        if places:
            instance["locked"] = str(who)
        if any(place["phase"] == "deleting" for place in places):
            fail(instance, InstanceIsLocked("Instance %s is locked" % name, locked_by=str(who)))


def set_group_members(instances, fleet):
    """Give each request its server group's members as the hosts tell them (C13)."""
    for instance in instances.values():
        group = instance["spec"].get("group")
        if group:
            group["members"] = fleet.members(group, instance["project"])


def told(fleet, run):
    """What every host is told of the others: {instance uuid: {host, host_uuid, run}} for all that is owned or on the move."""
    notes = {}
    for uuid, places in fleet.places.items():
        for place in places:
            if place["role"] != CLAIM and (uuid not in notes or place["role"] == OWN):
                notes[uuid] = {"host": place["host"], "host_uuid": fleet.documents[place["host"]]["uuid"], "run": run}
    return notes


def unplaced(requests):
    """The instances of a plan for requests that are to be placed whatever there is (a move)."""
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
