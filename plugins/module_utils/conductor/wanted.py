# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the wanted instances are there already, which are half made, and which have to be placed."""

from __future__ import annotations

from ..model.errors import BerthError
from ..model.lifecycle import CLAIM, OWN
from .errors import InstanceIsLocked
from .locate import check_no_stray, check_none_silent, generation_of, holders, unconfirmed
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
    check_no_stray(fleet, instance["name"], instance["uuid"])
    claims, owners = holders(fleet, instance["name"], instance["uuid"], lost_hosts)
    if strict and not owners:
        check_none_silent(fleet, instance["name"], lost_hosts)
    instance["notes"] = fleet.told_of(instance["uuid"])
    instance["generation"] = list(max(generation_of(places.values()), fleet.notes_on(instance["uuid"]).latest))
    hosts = claims + owners
    if not hosts:
        return
    instance["host"] = hosts[-1]
    instance["host_uuid"] = fleet.documents[hosts[-1]]["uuid"]
    instance["state"] = EXISTING if owners else CLAIMING
    instance["stale_claims"] = hosts[:-1]
    instance["why"] = "is there already" if owners else "an earlier run had claimed it there"
    instance["existing"] = bool(owners)


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
    """Give each request its server group's members as the hosts tell them."""
    for instance in instances.values():
        group = instance["spec"].get("group")
        if group:
            group["members"] = fleet.members(group, instance["project"])


def told(fleet, lost_hosts=()):
    """What every host is told of the others, for compute/whereabouts.remember: who owns what, or has it while it is on the move,
    what is gone, and which hosts are lost."""
    known, gone, lost = {}, {}, set()
    for uuid, places in fleet.places.items():
        held = [place for place in places if place["role"] != CLAIM]
        if held:
            place = max(held, key=lambda place: (place["role"] == OWN, generation_of([place])))
            epoch, n = generation_of([place])
            owned = known.setdefault(fleet.documents[place["host"]]["uuid"], {})
            # on the move both sides count in one epoch, each its own writes
            owned[uuid] = [epoch, n if place["role"] == OWN else 0]
    for holder, notes in fleet.notes.items():
        for uuid, note in notes.items():
            if note.get("gone"):
                gone.setdefault(holder, {})[uuid] = note["gone"]
            for host in filter(None, [note.get("known"), *note.get("planned", ())]):
                if host["host"] in lost_hosts and host["host_uuid"] not in fleet.uuids().values():
                    lost.add(host["host_uuid"])
    names = {uuid: name for name, uuid in fleet.uuids().items()}
    return {"hosts": names, "known": known, "gone": gone, "lost": sorted(lost)}


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
