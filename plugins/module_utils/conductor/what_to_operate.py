# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an operation acts on an instance that exists, by what the hosts reported."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Sequence

from ..model.errors import InvalidInput
from ..model.messages import Document
from ..model.vm_states import SHELVED
from . import addressing, arrived, copies, keep_one
from .errors import KvmHostNotFound
from .fleet import Fleet
from .gossip import will_own
from .locate import generation_of, locate, locate_to_delete, locate_to_run, locate_to_take_back, locate_to_unlock
from .operations import OPERATIONS
from .start_after_outage import to_recover

FIND = {
    **{operation: locate_to_run for operation, row in OPERATIONS.items() if row.runs},
    "delete": locate_to_delete,
    "unlock": locate_to_unlock,
}


@dataclasses.dataclass(frozen=True)
class Said:
    """What a run says of all instances: its id, and its variables, such as the hosts that are ``lost``."""

    run: str
    lost: Sequence[str] = ()
    keep_on: Optional[str] = None
    keep_on_confirmed: bool = False
    recover_on: Optional[str] = None
    set_aside_on: Optional[str] = None
    adopt_on: Optional[str] = None
    new_name: Optional[str] = None


def where(operation: str, fleet: Fleet, name: str, uuid: str, said: Said) -> Dict[str, Any]:
    """{uuid, hosts: those that have a part of the instance, the owner last, and what else the operation needs to know}; no
    hosts if there is nothing to do. Raises what the functions of locate.py raise."""
    return {"uuid": uuid, **OWN.get(operation, _at_rest)(operation, fleet, name, uuid, said)}


def _at_rest(operation: str, fleet: Fleet, name: str, uuid: str, said: Said) -> Dict[str, Any]:
    hosts, noted = FIND.get(operation, locate)(fleet, name, uuid, said.lost), fleet.notes_on(uuid)
    known, answers = noted.known, fleet.answers(said.lost)
    given_up = known is not None and not answers.counts(known)
    owner = known.host_uuid if known else None
    if operation == "delete" or not hosts:  # another host may have made since what one of these failed to build
        hosts = fleet.failed_on(uuid) + hosts
    latest = max(noted.latest, generation_of(fleet.places.get(uuid, ())))
    return {"hosts": hosts, "after": list(latest), "owner": owner, "given_up": given_up}


def _recover(_operation: str, fleet: Fleet, name: str, uuid: str, said: Said) -> Dict[str, Any]:
    return to_recover(fleet, name, uuid, list(said.lost))


def _remove_set_aside(_operation: str, fleet: Fleet, _name: str, _uuid: str, said: Said) -> Dict[str, Any]:
    return {"hosts": [_answering(fleet, "berth_set_aside_on", said.set_aside_on)]}


def _take_back(_operation: str, fleet: Fleet, name: str, uuid: str, said: Said) -> Dict[str, Any]:
    """``after``: the generation after which the record begins; a host that was lost and is back must not count as the
    owner. ``moved_by``: the move that brought the guest here, if its source has a record of it."""
    if said.recover_on:
        _answering(fleet, copies.FIELD, said.recover_on)
    hosts = locate_to_take_back(fleet, name, uuid, said.lost, said.recover_on)
    if not hosts:
        return {"hosts": []}
    latest, place = arrived.latest(fleet, uuid, hosts[0], said.lost), fleet.place_on(uuid, hosts[0])
    if place and generation_of([place]) == latest:  # so has a copy of another host, see locate_to_take_back()
        latest = (latest[0], latest[1] + 1)
    addressing.check_not_given_away(fleet, name, uuid, hosts[0])
    told = _to_tell(fleet, will_own(fleet, uuid, hosts[0], latest[0], said.run))
    moved_by = arrived.move_of(arrived.source_of(fleet, uuid, hosts[0]))
    return {"hosts": hosts, "after": list(latest), "to_tell": told, **moved_by}


def _keep_one(_operation: str, fleet: Fleet, name: str, uuid: str, said: Said) -> Dict[str, Any]:
    stays = _answering(fleet, keep_one.FIELD, said.keep_on)
    choice = keep_one.choose(fleet, name, uuid, stays, said.keep_on_confirmed, said.lost)
    task = {**dataclasses.asdict(choice), "hosts": [stays] if choice.comes_back else choice.others}
    if choice.comes_back:
        addressing.check_not_given_away(fleet, name, uuid, stays)
    if choice.others or (choice.comes_back and not choice.listed):
        # once the other copy is gone, nobody else may know of the one that stays
        task["to_tell"] = _to_tell(fleet, will_own(fleet, uuid, stays, choice.above[0], said.run))
    return task


def _to_tell(fleet: Fleet, told: Document) -> Document:
    """What procedures/copies.py needs to know."""
    return {"told": told, "hosts": list(fleet.documents), "unprepared": list(fleet.unprepared())}


def _leave(operation: str, fleet: Fleet, name: str, uuid: str, said: Said) -> Dict[str, Any]:
    """A guest of libvirt alone has left already."""
    strays = fleet.strays.get(uuid, ())
    if strays and not fleet.places.get(uuid) and not any(stray["managed"] for stray in strays):
        return {"hosts": []}
    return _at_rest(operation, fleet, name, uuid, said)


def _back_up(operation: str, fleet: Fleet, name: str, uuid: str, said: Said) -> Dict[str, Any]:
    """``shelved``: its disks are in a backup, and it has no others."""
    shelved = any(place["vm_state"] == SHELVED for place in fleet.places.get(uuid, ()))
    return {**_at_rest(operation, fleet, name, uuid, said), "shelved": shelved}


OWN = {
    "backup": _back_up,
    "leave": _leave,
    "keep_one": _keep_one,
    "recover": _recover,
    "recover_record": _take_back,
    "remove_set_aside": _remove_set_aside,
    "shelve": _back_up,
    "unshelve": _back_up,
}


def _answering(fleet: Fleet, field: str, host: Optional[str]) -> str:
    """The KVM host that a variable names. Raise unless it is in the inventory and answers."""
    if host and host not in fleet.documents and host not in fleet.verdicts:
        raise KvmHostNotFound.of(field, host, [*fleet.documents, *fleet.verdicts])
    if host is None or host not in fleet.documents:
        raise InvalidInput(
            field, host, "a KVM host that answers: %s" % (", ".join(sorted(fleet.documents)) or "none does")
        )
    return host
