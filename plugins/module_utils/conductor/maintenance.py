# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances leave a host that is drained, and which come home when it is returned.

An instance's home is in its request, on the host that owns it now: a drain writes it, any other move removes it. So no host
can call home what it did not have.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Collection, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..model import fleet_hints, hints, input_hints
from ..model.errors import BerthError, InvalidInput
from ..model.identity import NAME, RESERVED, check_name, instance_uuid
from ..model.lifecycle import ACTIVE, ALIVE, CLAIM, CONFIRMING, KEEP, MIGRATING, OUT, OWN, RESIZED
from ..model.messages import Document
from ..model.move_errors import InstanceNotFound
from . import own_uuids
from .errors import InstanceMoving
from .fleet import Fleet
from .locate import holders
from .start_after_outage import is_off


class ForeignGuest(BerthError):
    """A guest that is no instance runs on the host that is to be empty. Move it or shut it down, or adopt it."""


class Moving(NamedTuple):
    """``names``: inventory name of each instance to move -> its project; ``added``: those of them that no inventory has;
    ``off``: those whose guest is off, so that their move is a cold one, which nobody has to look at; ``errors``: instance ->
    why it stays; ``ends``: the instances that an earlier run has moved, and whose moves have only to end."""

    names: Dict[str, str]
    added: List[str]
    off: List[str]
    errors: Dict[str, BerthError]
    ends: List[str]

    def reasons(self) -> Dict[str, str]:
        return {name: "%s: %s" % (error.code, error) for name, error in sorted(self.errors.items())}


def leaving(fleet: Fleet, host: str, inventory: Mapping[str, str], known: Collection[str]) -> Moving:
    """``inventory``: uuid -> name of the instances of the inventory; ``known``: all names of it."""
    found = _to_move(fleet, inventory, known, lambda owner, _instance: owner == host)
    owners = {instance["uuid"]: instance for _host, instance in owned(fleet)}
    for part in fleet.documents[host]["instances"]:
        if part["foreign"] and part["power_state"] in ALIVE:
            text = "it runs on %s and is no instance, so its owner has to move it or shut it down" % host
            found.errors["guest %s" % part["name"]] = ForeignGuest(text, hint=hints.list_guests())
        if not part["foreign"] and part["role"] != OWN and owners.get(part["uuid"]) is not part:
            name, owner = inventory.get(part["uuid"], part["name"]), owners.get(part["uuid"], {})
            if _only_ends(owner, fleet.documents[host]["uuid"]) and part["uuid"] in inventory:
                found.ends.append(name)  # a drain was interrupted before it ended the move
            else:
                found.errors[name] = _part_of(name, host, part["role"])
    return found


def all_of(fleet: Fleet, inventory: Mapping[str, str], known: Collection[str]) -> Moving:
    """What is in a move has an error and is in ``names``, too: the plan that began the move goes on with it."""
    return _chosen(fleet, inventory, known, lambda _owner, _instance: True)


def coming_home(fleet: Fleet, host: str, inventory: Mapping[str, str], known: Collection[str]) -> Moving:
    uuid = fleet.documents[host]["uuid"]
    return _to_move(fleet, inventory, known, lambda owner, instance: owner != host and instance.get("home") == uuid)


def fell(fleet: Fleet, host: str, inventory: Mapping[str, str]) -> List[str]:
    """The names of what ran on the host and is off, as after a boot: opening the host starts nothing."""
    return [
        inventory.get(each["uuid"]) or each.get("own_name") or str(each["name"])
        for each in owned_by(fleet.documents[host])
        if each["phase"] == ACTIVE and is_off(each)
    ]


def home(spec: Document, source: str, drains: bool) -> Optional[str]:
    """The uuid of the host that an instance is to return to, once it has left ``source``: of two drains the first counts."""
    return spec.get("home") or source if drains else None


def _only_ends(owner: Document, host_uuid: str) -> bool:
    """Whether the drain of that host has moved the instance, and its move has only to end: a live one, or that of a guest that is off.
    A guest that runs after a cold move is looked at first."""
    left = owner.get("home") == host_uuid and owner.get("phase") in (RESIZED, CONFIRMING)
    return left and (owner["task_state"] == MIGRATING or owner["power_state"] not in ALIVE)


def _part_of(name: str, host: str, role: Optional[str]) -> BerthError:
    if role == CLAIM:
        return InstanceMoving("a create of %s has claimed room on %s" % (name, host), hint=hints.run_again())
    text = "a move of %s has not ended, and %s keeps its part of it" % (name, host)
    return InstanceMoving(text, hint=hints.confirm_or_revert(name))


def _to_move(
    fleet: Fleet, inventory: Mapping[str, str], known: Collection[str], is_meant: Callable[[str, Document], bool]
) -> Moving:
    """What waits for a confirm stays. Of what is in the midst of a move the plan says whether it goes on with that."""
    found = _chosen(fleet, inventory, known, is_meant, lambda instance: instance["phase"] != RESIZED)
    return found._replace(errors={name: error for name, error in found.errors.items() if name not in found.names})


def _chosen(
    fleet: Fleet,
    inventory: Mapping[str, str],
    known: Collection[str],
    is_meant: Callable[[str, Document], bool],
    goes_on: Callable[[Document], bool] = lambda _instance: True,
) -> Moving:
    """``goes_on``: whether an instance that is in a move is to move, too."""
    meant = [(owner, instance) for owner, instance in owned(fleet) if is_meant(owner, instance)]
    found, names = Moving({}, [], [], {}, []), names_of([instance for _owner, instance in meant], inventory, known)
    for owner, instance in meant:
        name = names[instance["uuid"]]
        try:
            _check(fleet, owner, name, instance, inventory)
        except BerthError as error:
            found.errors[name] = error
            if not (isinstance(error, InstanceMoving) and goes_on(instance)):
                continue
        found.names[name] = instance["project_id"]
        if instance["uuid"] not in inventory:
            found.added.append(name)
        if instance["power_state"] not in ALIVE:
            found.off.append(name)
    return found


def names_of(instances: Iterable[Document], inventory: Mapping[str, str], known: Collection[str]) -> Dict[str, str]:
    """uuid -> what each instance is called: its name of the inventory, or the one that its host says, with its project if
    another of them has that name too, or something else in the inventory."""
    by_uuid = {instance["uuid"]: instance for instance in instances}
    times = Counter(str(each["name"]) for uuid, each in by_uuid.items() if uuid not in inventory)
    taken = {name for name in times if times[name] > 1 or name in known or name in RESERVED}
    return {
        uuid: inventory.get(uuid)
        or ("%(name)s of project %(project_id)s" % each if each["name"] in taken else str(each["name"]))
        for uuid, each in by_uuid.items()
    }


def owned(fleet: Fleet) -> Iterator[Tuple[str, Document]]:
    """(host, what it has of an instance) of each that a host owns, and of each that one has given up in a move and no other has taken
    over yet: it counts as on the host that it leaves."""
    owners = {each["uuid"] for document in fleet.documents.values() for each in owned_by(document)}
    for host, document in sorted(fleet.documents.items()):
        left = [each for each in document["instances"] if _is_left(each) and each["uuid"] not in owners]
        for instance in sorted([*owned_by(document), *left], key=_name):
            yield host, instance


def _is_left(part: Document) -> bool:
    return not part["foreign"] and (part["role"], part["phase"]) == (OUT, KEEP)


def _name(instance: Document) -> str:
    return str(instance["name"])


def owned_by(document: Document) -> List[Document]:
    found = [each for each in document["instances"] if not each["foreign"] and each["role"] == OWN]
    return sorted(found, key=_name)


def _check(fleet: Fleet, owner: str, name: str, instance: Document, inventory: Mapping[str, str]) -> None:
    """Raise if another host may own the instance, or its name, which a host has said, would stand for something else."""
    if instance["uuid"] not in inventory:
        _check_uuid_told(fleet, instance)
        _check_told(owner, name, instance)
    holders(fleet, name, instance["uuid"], ())


def _check_uuid_told(fleet: Fleet, instance: Document) -> None:
    told, uuid = instance.get("own_name"), str(instance["uuid"])
    if told and NAME.match(told):
        hint = fleet_hints.list_it_first(told, instance["project_id"], uuid, own_uuids.was_adopted(fleet, uuid))
        raise InstanceNotFound(own_uuids.untold(fleet, told, uuid), hint=hint)


def _check_told(owner: str, name: str, instance: Document) -> None:
    told, field = instance["name"], "the name of an instance on %s" % owner
    check_name(told, field)
    if instance_uuid(instance["project_id"], told) != instance["uuid"]:
        raise InvalidInput(field, told, "the name that it was created with", hint=input_hints.plain_name())
    if name != told:
        hint = fleet_hints.move_alone(told, instance["project_id"])
        raise InvalidInput(field, told, "a name that nothing else in the fleet or the inventory has", hint=hint)
