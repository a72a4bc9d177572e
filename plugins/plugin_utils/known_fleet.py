# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet of this run as plans are made for it: each instance with the request by which a move of it is placed, or with why it
may not move. Both come from the planning of moves itself."""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional

from ..module_utils.conductor import maintenance
from ..module_utils.conductor.closing_table import text_of
from ..module_utils.conductor.errors import InstanceMoving
from ..module_utils.conductor.fleet import Fleet as Reported
from ..module_utils.conductor.maintenance import Moving
from ..module_utils.conductor.moving import request as moved_request
from ..module_utils.conductor.plan import fail
from ..module_utils.conductor.procedures.plan_moves import Planned, Subject, Views, Wanted, plan_moves
from ..module_utils.fleet.state import Fleet, Instance
from ..module_utils.model import hints, migration, snapshot_hints, snapshots
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import IDENTITY, uuid_of
from ..module_utils.model.lifecycle import RESIZED
from ..module_utils.model.messages import View
from . import acting, receipts
from .answers_of_hosts import read_reports, replies
from .controller import new_token
from .driving import carry_out
from .inventory_variables import lost_hosts, variables, who_locked
from .plain import plain
from .plan_moves import views_of
from .selection import instances_by_uuid
from .whose_variables import Catalogs


class Known(NamedTuple):
    """``moving``: the instances that the hosts own, by their names of the inventory; ``views``: host -> {uuid: what the host
    says of its record}."""

    fleet: Fleet
    reported: Reported
    moving: Moving
    views: Views
    flavors: Dict[str, Dict[str, Any]]


def known_fleet(
    action: Any,
    task_vars: Dict[str, Any],
    hosts: List[str],
    migrates: str = "auto",
    only: Optional[Collection[str]] = None,
) -> Known:
    """``hosts``: the KVM hosts of the run; ``migrates``: cold if what runs is stopped for its move, too; ``only``: the uuids of the
    instances, by default all."""
    reported = read_reports(task_vars, hosts)
    inventory = instances_by_uuid(task_vars, hosts)
    known = set(map(str, task_vars["groups"]["all"]))
    moving = maintenance.all_of(reported, inventory, known)
    called = maintenance.names_of((each for _host, each in maintenance.owned(reported)), inventory, known)
    names = called if only is None else {uuid: called[uuid] for uuid in only if uuid in called}
    catalogs = Catalogs(task_vars, sorted(inventory.values()), hosts, action._loader)
    specs: Dict[str, Any] = {}
    views = views_of(replies(task_vars, "__berth_facts"), reported)
    plans = sorted({*names.values()} & moving.names.keys())
    planned = _planned(action, task_vars, plans, reported, moving, lost_hosts(catalogs.run), specs, views)
    found = Fleet(
        reported.documents,
        instances_of(reported, names, moving, views, planned, specs, migrates),
        catalogs.shared.placement,
        catalogs.shared.aggregate_documents(plain(task_vars["groups"])),
        receipts.seed(action.own_variables(task_vars, [receipts.SEED])),
    )
    return Known(found, reported, moving, views, _flavors(catalogs, inventory.values()))


def instances_of(
    reported: Reported,
    names: Mapping[str, str],
    moving: Moving,
    views: Views,
    planned: Planned,
    specs: Mapping[str, Any],
    migrates: str = "auto",
) -> Dict[str, Instance]:
    """Those of ``names`` (uuid -> name). ``planned``: the planning of their moves up to where placement would choose hosts;
    ``specs``: the requests by name that it would be given."""
    instances = {}
    for host, each in maintenance.owned(reported):
        if each["uuid"] not in names:
            continue
        name = names[each["uuid"]]
        view = views.get(host, {}).get(each["uuid"], {})
        how = "cold" if name in moving.off or migrates == "cold" else "live"
        instances[each["uuid"]] = _instance(each, name, host, view, how, planned, specs, moving.errors)
    return instances


def moves_live(known: Known) -> Dict[str, str]:
    """uuid -> "yes" if the instance would move to another host while it runs, or "no" and why, where its host told its records."""
    off = "no: it is off, and moves cold"
    return {
        uuid: "no: %s" % each.fixed if each.fixed else "yes" if each.how == "live" else off
        for uuid, each in known.fleet.instances.items()
        if each.host in known.views
    }


def _flavors(catalogs: Catalogs, names: Iterable[str]) -> Dict[str, Dict[str, Any]]:
    """name -> flavor, of those that the run or an instance of the inventory knows, and that are not disabled."""
    found: Dict[str, Dict[str, Any]] = {}
    for flavors in (catalogs.flavors_of_run(), *(catalogs.of(name).flavors for name in sorted(names))):
        for flavor in flavors.values():
            if not flavor["disabled"]:
                found.setdefault(flavor["name"], flavor)
    return found


def _planned(
    action: Any,
    task_vars: Dict[str, Any],
    names: List[str],
    reported: Reported,
    moving: Moving,
    lost: List[str],
    specs: Dict[str, Any],
    views: Views,
) -> Planned:
    """The planning of moves of these instances up to where placement would choose hosts; ``specs`` gets the requests by name."""

    def choose(instances: Any, _resized: Any) -> None:
        for name, instance in instances.items():
            specs[name] = instance["spec"]
            fail(instance, InstanceMoving("a plan chooses its host"))  # nothing is moved here

    def subject_of(name: str) -> Subject:
        values = {} if name in moving.added else variables(task_vars, name, ("berth_locked", *IDENTITY))
        given = {"berth_project": moving.names[name]} if name in moving.added else values
        return Subject(uuid_of(name, given), who_locked(values), lambda spec, _begun: spec)

    wanted = Wanted(
        action="migrate",
        run=acting.RUN,
        subject_of=subject_of,
        choose=choose,
        new_token=new_token,
        lost=lost,
        dry=True,
    )
    return carry_out(action, task_vars, plan_moves(names, reported, views, wanted))[0]


def _instance(
    told: Dict[str, Any],
    name: str,
    host: str,
    view: View,
    how: str,
    planned: Planned,
    specs: Mapping[str, Any],
    errors: Dict[str, BerthError],
) -> Instance:
    uuid, home = told["uuid"], told.get("home")
    if name in specs and name not in errors:
        why = _stays(name, view) or (_not_live(name, view) if how == "live" else None)
        return Instance(uuid, name, host, {**specs[name], "ignore_hosts": []}, why, how, None, home)
    begun = name in planned.moves and not waits_for_confirm(view)
    going = planned.moves[name]["destination"] if begun else None
    if name in errors:
        why = text_of(errors[name].to_dict())
    elif name in planned.errors:
        why = text_of(planned.errors[name])
    else:
        why = "a move of it has not ended. %s" % hints.finish_move(name)
    return Instance(uuid, name, host, _request_of(uuid, told, view), why, how, going, home)


def waits_for_confirm(view: View) -> bool:
    """Whether a cold move of the instance has ended but for its confirm."""
    return view.get("phase") == RESIZED and (view.get("migration") or {}).get("type") == migration.COLD


def _stays(name: str, view: View) -> Optional[str]:
    """Why its host would refuse to move it, whether it runs or not."""
    names = snapshots.with_memory(view["spec"])
    return "it has snapshots with memory. %s" % snapshot_hints.delete_one(name, names[0]) if names else None


def _not_live(name: str, view: View) -> Optional[str]:
    """Why its host would refuse to move the running guest, whatever the other host is."""
    held = view.get("resources") or {}
    if held.get("pci_devices") or held.get("vgpus"):
        return "its guest runs with devices of its host. %s" % hints.migrate_with_devices(name)
    names = [each["name"] for each in snapshots.of(view["spec"])]
    return "it runs and has snapshots. %s" % snapshot_hints.move_cold(name, names[0]) if names else None


def _request_of(uuid: str, told: Dict[str, Any], view: View) -> Dict[str, Any]:
    """The request of an instance that stays where it is: others have to keep to its group."""
    if view.get("spec"):
        return moved_request(view, None, migration.COLD, ())
    flavor = told.get("flavor") or {}
    sizes = {"vcpus": told.get("vcpus") or 0, "memory_mb": told.get("memory_mb") or 0, "root_gb": 0}
    return {"uuid": uuid, "name": told["name"], "flavor": {**sizes, **flavor}, "image": {}, "group": None}
