# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for each instance to be moved: between which hosts, live or cold, with which request, whether it may move at
all, and which hosts are left out. Hosts forced at the creation do not bind a move.

Pure: takes the fleet's documents and the hosts' views, returns a move for each instance.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, TypedDict

from ..model import adopted_move, fleet_hints, hints, lifecycle, vm_states
from ..model import migration as names
from ..model.errors import BerthError
from ..model.messages import Document, FencingToken, Migration, Side, View
from ..model.migration import check_grow_only, check_tied_to_host
from ..model.move_errors import InstanceInvalidState, InstanceNotResized, MigrationEnded
from . import sequences
from .locate import to_end
from .locks import check_unlocked
from .plan import Alternate, Instance, host_of
from .sides import Sides

PLAYBOOKS = {
    names.RESIZE: "berth.kvm.resize",
    names.COLD: "berth.kvm.cold_migrate",
    names.LIVE: "berth.kvm.live_migrate",
}
# Two flavors are the same if they agree in these fields.
SIZES = ("name", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs")


class Views(TypedDict):
    """What the two hosts of a move report."""

    source: View
    destination: View


class Candidate(TypedDict):
    """A host where room may be claimed: an operation id of its own, the decision's limits, its availability zone."""

    op: str
    host: str
    destination: Side
    limits: Document
    zone: Optional[str]


class PlannedMove(TypedDict, total=False):
    """What to do about one instance; ``source`` and ``destination`` are inventory names."""

    uuid: str
    name: str
    source: str
    destination: Optional[str]
    sequence: Optional[str]  # None: nothing to do
    settles: bool  # the sequence only ends what an earlier run left: read the hosts again after it
    kind: str
    token: FencingToken
    views: Views
    why: Optional[str]
    place: bool  # placement has still to choose a destination
    confirm_in: Optional[int]
    spec: Document
    candidates: List[Candidate]
    id: str
    source_host: Side
    look: List[str]  # the hosts that are read again after the claim
    machines: Dict[str, str]  # the uuids of source and destination
    version: int  # of what the registry had of it
    when_due: bool
    again: bool  # of the second plan of a run
    goes_with: Dict[
        str, str
    ]  # uuid -> where it is, of the members of its affinity group that a plan moves to the same host


def plan(
    action: str,
    kind: str,
    uuid: str,
    name: str,
    sides: Sides,
    wanted: Optional[Document],
    locked: Any = None,
    target: Optional[str] = None,
) -> PlannedMove:
    """The move of one instance; without a destination if placement has still to choose one (``place`` is true).

    ``action`` is move, confirm, revert, abort or delete; ``wanted`` is the inventory's request (None if the action
    moves nothing), ``target`` the inventory name of the only allowed destination.
    """
    source, here, destination, there = sides
    check_unlocked(name, locked)
    if there.get("left"):
        return _sweep(action, uuid, name, sides)
    owner = here if here["role"] == "OWN" else there if there["role"] == "OWN" or not here["role"] else here
    migration = owner.get("migration")
    move = _not_planned(uuid, name, sides, migration["type"] if migration else kind, owner.get("op"))
    if destination is None:
        return _from_rest(move, action, kind, here, wanted)
    if action == sequences.MOVE and not (migration and is_wanted(migration, kind, wanted, destination, target)):
        action = sequences.OTHER
    move["sequence"], reaches = sequences.next_sequence(_ACTIONS[action], here, there)
    if move["sequence"] is None:
        raise _refusal(action, kind, move, owner)
    if move["sequence"] == "revert" and not here["role"]:
        begun = owner.get("phase") == lifecycle.REVERTING
        raise InstanceNotResized(
            uuid, hint=fleet_hints.confirm_without(source) if begun else hints.no_copy_to_revert_to()
        )
    move["settles"] = not reaches
    lost = source if here.get("lost") else destination if there.get("lost") else None
    move["why"] = _why(move, reaches, lost, "ends" if action == sequences.DELETE else "goes on with")
    move["confirm_in"] = owner.get("confirm_in")
    return move


def _not_planned(uuid: str, name: str, sides: Sides, kind: str, op: Optional[str]) -> PlannedMove:
    """The move before it is known what to do."""
    source, here, destination, there = sides
    return {
        "uuid": uuid,
        "name": name,
        "source": source,
        "destination": destination,
        "sequence": None,
        "settles": False,
        "kind": kind,
        "token": {"op": op, "attempt": max(here.get("attempt") or 0, there.get("attempt") or 0)},
        "views": {"source": here, "destination": there},
        "why": None,
        "place": False,
    }


def _why(move: PlannedMove, reaches: bool, lost: Optional[str], does: str) -> str:
    """``reaches``: the sequence itself does what was asked, which ``does`` that; ``lost``: the host that is given up."""
    why = (does if reaches else "first ends") + " the %s that was begun" % move["kind"]
    if lost:
        why = "%s is given up as lost" % lost
    if move["sequence"] == "reclaim_alone":
        why += ", and with it what the guest wrote there"
    return why


def _sweep(action: str, uuid: str, name: str, sides: Sides) -> PlannedMove:
    """Remove what a lost host still holds of a move that ended without it, then read the hosts again."""
    source, here, destination, there = sides
    move = there.get("migration")
    if action == sequences.DELETE:
        raise InstanceInvalidState(
            uuid, "role", there["role"], "delete", hint=hints.confirm_or_revert_left(name, destination or "")
        )
    return {
        "uuid": uuid,
        "name": name,
        "source": source,
        "destination": destination,
        "sequence": "sweep",
        "settles": True,
        "kind": move["type"] if move else names.RESIZE,
        "token": {"op": there["op"], "attempt": there["attempt"]},
        "views": {"source": here, "destination": there},
        "why": "first removes what a move that ended without %s left there" % destination,
        "confirm_in": None,
        "place": False,
    }


def kind_to_migrate(wanted: str, sides: Sides) -> str:
    """``wanted`` is live, cold, or auto: the kind of a migration already begun, otherwise live if the guest runs."""
    if wanted != "auto":
        return {"live": names.LIVE, "cold": names.COLD}[wanted]
    _source, here, _destination, there = sides
    begun = here.get("migration") or there.get("migration")
    if begun and begun["type"] != names.RESIZE:
        return begun["type"]
    owner = there if there["role"] == "OWN" else here
    return names.LIVE if owner.get("running") else names.COLD


# Abort and revert are one action: how far the move has come decides which of them happens.
_ACTIONS = {
    name: name for name in (sequences.MOVE, sequences.OTHER, sequences.CONFIRM, sequences.REVERT, sequences.DELETE)
}
_ACTIONS["abort"] = sequences.REVERT


def is_wanted(
    migration: Migration, kind: str, wanted: Optional[Document], destination: Optional[str], target: Optional[str]
) -> bool:
    """Whether the move that was begun is the one that the inventory asks for."""
    if migration["type"] != kind or target not in (None, destination):
        return False
    return kind != names.RESIZE or (
        wanted is not None and same_flavor(migration["new_spec"]["flavor"], wanted["flavor"])
    )


def _refusal(action: str, kind: str, move: PlannedMove, owner: View) -> BerthError:
    """Why the action is impossible in the present state."""
    uuid, name, phase = move["uuid"], move["name"], owner.get("phase")
    here, there = move["views"]["source"], move["views"]["destination"]
    if here.get("lost") or there.get("lost") or not (here["role"] and there["role"]) and owner["role"] != "OWN":
        hint = _what_is_left(move, here, there, owner)
        return InstanceInvalidState(uuid, "role", owner["role"], action, hint=hint)
    if phase == lifecycle.ERASING:
        return InstanceInvalidState(uuid, "task_state", owner.get("task_state"), kind, hint=hints.delete_again(name))
    if action == sequences.CONFIRM:
        return InstanceNotResized(uuid, hint=hints.move_again(name, PLAYBOOKS[move["kind"]]))
    if phase == lifecycle.RESIZED:
        return InstanceInvalidState(uuid, "vm_state", owner.get("vm_state"), kind, hint=hints.confirm_or_revert(name))
    state = owner.get("task_state") or phase
    return InstanceInvalidState(uuid, "task_state", state, kind, hint=hints.finish_move(name))


def _what_is_left(move: PlannedMove, here: View, there: View, owner: View) -> str:
    """The hint on what a person can do if the action needs the host that is lost, or that answers without its record."""
    source, destination = move["source"], move["destination"] or ""
    if owner.get("phase") == lifecycle.ERASING:
        return hints.delete_again(move["name"])
    if here["role"] == "OUT":
        return fleet_hints.revert_with_lost_destination(source, destination)
    if there["role"] == "OWN":
        return fleet_hints.confirm_with_lost_source(source, destination)
    if here["role"] == "OWN":
        return fleet_hints.revert_gives_up(source, destination)
    if here.get("lost"):
        return fleet_hints.bring_source_back(source, destination)
    return fleet_hints.bring_record_of_move_back(source, destination, move["name"], move["uuid"])


def busy(move: PlannedMove) -> BerthError:
    """The error for a move that has to be settled again although this run has just done so."""
    return InstanceInvalidState(move["uuid"], "task_state", move["sequence"], move["kind"], hint=hints.another_run())


def _from_rest(move: PlannedMove, action: str, kind: str, view: View, wanted: Optional[Document]) -> PlannedMove:
    """No move is under way: begin one, or there is nothing to do."""
    if action == sequences.DELETE:
        raise MigrationEnded("the move of %s has just ended" % move["name"], hint=hints.run_again())
    if action == "abort":
        move["why"] = "nothing is under way"
        return move
    if action in ("confirm", "revert"):
        if view.get("last_move") not in {"confirm": ("confirmed",), "revert": ("reverted", "given up")}[action]:
            raise InstanceNotResized(move["uuid"])
        move["why"] = "was %s already" % view["last_move"]
        return move
    if view["phase"] != lifecycle.ACTIVE or view["task_state"]:
        state = view["task_state"] or view["phase"]
        raise InstanceInvalidState(move["uuid"], "task_state", state, kind, hint=to_end(view, move["name"]))
    if kind == names.LIVE and view["vm_state"] == vm_states.STOPPED:
        hint = hints.migrate_what_is_off(move["name"])
        raise InstanceInvalidState(move["uuid"], "vm_state", view["vm_state"], kind, hint=hint)
    vm_states.check(move["name"], view["vm_state"], kind)
    if kind == names.RESIZE and wanted:
        if same_flavor(view["spec"]["flavor"], wanted["flavor"]):
            move["why"] = "has flavor %s already" % wanted["flavor"]["name"]
            return move
        check_grow_only(view["spec"]["flavor"], wanted["flavor"])
    check_tied_to_host(move["name"], view["spec"], kind)
    if kind != names.RESIZE:  # that may stay on its host
        adopted_move.check(move["name"], view["spec"])
    move["place"] = True
    return move


def hosts_to_leave_out(move: PlannedMove, hosts: Iterable[str], target: Optional[str], same: bool) -> List[str]:
    """The hosts that a move must not go to: the source unless ``same`` is allowed, and with a ``target`` all others. An
    instance with volumes is resized on its own host if that is allowed, since not every host can reach the volumes."""
    source, spec = move["source"], move["views"]["source"]["spec"]
    stays = same and move["kind"] == names.RESIZE
    only = target or (source if stays and spec.get("volumes") else None)
    ignored = set(hosts) - {only} if only else set()
    return sorted(ignored | (set() if stays else {source}))


def same_flavor(first: Document, second: Document) -> bool:
    return all((first.get(key) or 0) == (second.get(key) or 0) for key in SIZES)


def request(
    view: View,
    wanted: Optional[Document],
    kind: str,
    ignore_hosts: Iterable[str],
    cell: Optional[str] = None,
    home: Optional[str] = None,
) -> Document:
    """The request for the destination: the instance's own with the new flavor, without what pinned it before. ``cell``
    is the cell of its host, which CrossCellWeigher prefers; ``home`` the uuid of the host that it returns to after a drain."""
    spec = dict(view["spec"])
    if kind == names.RESIZE and wanted:
        spec.update({key: wanted.get(key) for key in ("flavor", "numa_topology", "pci_requests") if key in wanted})
    spec.update(
        force_hosts=[],
        force_nodes=[],
        requested_destination={"cell": cell, "allow_cross_cell_move": True} if cell else None,
        ignore_hosts=list(ignore_hosts),
        num_instances=1,
    )
    return {**{part: value for part, value in spec.items() if part != "home"}, **({"home": home} if home else {})}


def candidates(instance: Instance, new_op: Callable[[], str]) -> List[Candidate]:
    """The selected host and its alternates, each with an operation id of its own and the limits of the decision."""
    selected: Alternate = {
        "host": host_of(instance),
        "host_uuid": instance["host_uuid"],
        "limits": instance.get("limits") or {},
        "zone": instance.get("zone"),
    }
    return [
        {
            "op": new_op(),
            "host": chosen["host"],
            "destination": {"uuid": chosen["host_uuid"], "name": chosen["host"]},
            "limits": chosen.get("limits") or {},
            "zone": chosen.get("zone"),
        }
        for chosen in [selected, *(instance.get("alternates") or ())]
    ]


def old_flavor(move: PlannedMove) -> Document:
    """The flavor that a resize leaves."""
    here = move["views"]["source"]
    flavor: Document = ((here.get("migration") or {}).get("old_spec") or here["spec"])["flavor"]
    return flavor


def claimed_spec(move: PlannedMove) -> Document:
    """The request that room is claimed for: as placed in this run, otherwise as an earlier run claimed it."""
    here, there = move["views"]["source"], move["views"]["destination"]
    begun = here.get("migration")
    spec = move.get("spec") or there.get("spec") or (begun["new_spec"] if begun else None)
    if spec is None:
        raise ValueError("room is claimed for %s, and nobody has its request" % move["name"])
    return spec
