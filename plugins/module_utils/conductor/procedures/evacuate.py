# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An evacuation. What other hosts see the disks of is taken over by the create. What the lost host alone had the disks of is made
again by it, as one that is shelved in its newest backup and has its room; then its disks are restored, and it starts.

A run that was killed is run again: an instance whose record says that it is restored goes on from there.
"""

from __future__ import annotations

import datetime
import functools
from typing import Collection, Dict, List, Mapping, Optional

from ...model.backups import TIME
from ...model.line import age
from ...model.messages import Document
from ..plan import ACTIVE, FAILED, Built, Instance, Plan, host_of
from ..registry.interface import Takes
from ..take_over import Backups
from .backup_host import HOST, Run, operate_anywhere
from .operate import Done, Tasks, over
from .shelve import unshelve
from .steps import Procedure

UNNAMED = Backups("The inventory names no directory of its backups (berth_backup_to)")


def newest_backups(
    tasks: Tasks, given: Mapping[str, Document], run: Run, now: datetime.datetime
) -> Procedure[Dict[str, Backups]]:
    """What is known of the backups of each, by uuid. ``tasks``: with any KVM host that answers; ``given``: name -> where its variables say
    that backups are."""
    named = {name: task for name, task in tasks.items() if name in given}
    done = yield from operate_anywhere("backups", named, given, run)
    found = {name: _newest(done[name], given[name], task["hosts"][-1], now) for name, task in named.items()}
    return {task["uuid"]: found.get(name, UNNAMED) for name, task in tasks.items()}


def _newest(done: Done, given: Document, lister: str, now: datetime.datetime) -> Backups:
    place = "%s:%s" % (given.get(HOST) or lister, given["to"])
    if done.errors:
        return Backups("Its backups in %s could not be listed: %s" % (place, done.errors[0].get("message")))
    whole = [each["id"] for each in done.instance.get("backups") or () if "kind" in each and not each["faults"]]
    if not whole:
        return Backups("%s has no whole backup of it" % place)
    made = datetime.datetime.strptime(max(whole), TIME).replace(tzinfo=datetime.timezone.utc)
    old = age(int((now - made).total_seconds()))
    newest = {"backup": max(whole), "to": given["to"], HOST: given.get(HOST)}
    return Backups("Its newest whole backup is %s in %s, %s old" % (max(whole), place, old), newest, old)


def evacuate(
    plan: Plan,
    creation: Procedure[Dict[str, Built]],
    run: Run,
    stay_off: Collection[str],
    takes: Optional[Takes] = None,
) -> Procedure[Dict[str, Built]]:
    """``creation``: what create() does with the plan; ``stay_off``: the names of those that are not started; ``takes``: what an engine
    hears of the room of those that could not be restored. Return what create() does."""
    built = yield from creation
    tasks = {name: _task(each) for name, each in plan["instances"].items() if _is_to_restore(each)}
    restore = functools.partial(unshelve, run=run, stay_off=stay_off)
    done = yield from over(takes, tasks, restore, run.dry) if takes and tasks else restore(tasks)
    for name, each in done.items():
        instance, errors = plan["instances"][name], each.errors
        if errors:
            instance["state"], instance["error"] = FAILED, errors[0]
            continue
        instance["changed"] = instance["changed"] or each.changed
        instance["result"] = {**instance["result"], **each.instance}
        built[name] = {**built.get(name, {}), "changed": instance["changed"]}
    return built


def _is_to_restore(instance: Instance) -> bool:
    return bool(instance.get("from_backup")) and instance["state"] == ACTIVE


def _task(instance: Instance) -> Document:
    hosts: List[str] = [host_of(instance)]
    return {"uuid": instance["uuid"], "hosts": hosts, "project_id": instance["project"]}
