# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an instance may get another name. It keeps its uuid, so the inventory has to say it from then on; the name, and the uuid
that follows from it, must be nobody's.

    every host hears that this run means the name -> the record and the guest have it -> every host is read again

A create claims its name before it reads all hosts, and a rename writes its own before it does: of two runs that want one name, at
least one sees the other, and gives way. A create that reaches a host which the rename misses has told the others that it means to
use it.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterator, Mapping, Optional

from ..model import fleet_hints, hints
from ..model.errors import BerthError, InstanceExists, InvalidInput
from ..model.identity import ADOPTED, DEFAULT_PROJECT, KEPT, RESERVED, check_name, instance_uuid
from ..model.messages import Document
from . import majority, own_uuids
from .errors import HostUnknown, InstanceUnknown
from .fleet import Fleet
from .locate import check_no_stray, holders
from .notes import Answers, check_absent, put_together

OPERATION, FIELD = "rename", "berth_new_name"


def check(value: Any, count: int) -> None:
    """Raise InvalidInput for what is no name of an instance, or would be that of several. ``count``: how many are selected."""
    if value in (None, "") or count > 1:
        rule = "the new name of one instance" + (", and %d are selected" % count if count > 1 else "")
        raise InvalidInput(FIELD, value, rule, hint=fleet_hints.name_new(FIELD))
    if check_name(value, FIELD) in RESERVED:
        raise InvalidInput(FIELD, value, "no name with a meaning of its own in Ansible")


def task(
    fleet: Fleet, name: str, project: str, found: Document, new: str, run: str, lost: Collection[str] = ()
) -> Document:
    """What the operation needs beside ``found``, where the instance is. Raises unless the new name is free, or its own already."""
    uuid, of_name = found["uuid"], instance_uuid(project, new)
    own_uuids.check_name(name, project, uuid, fleet.places.get(uuid, ()), new)
    own_uuids.check_free(fleet, new, project, uuid)
    if not found["hosts"]:
        return {}
    if of_name != uuid:
        _check_no_instance(fleet, new, of_name, lost)
    owner = found["hosts"][-1]
    return {
        "new_name": new,
        "project_id": project,
        "asked": sorted(set(fleet.documents) - set(fleet.unprepared())),
        "plan": {"uuid": of_name, "host_uuid": fleet.uuids()[owner], "run": run},
        "adopted": own_uuids.was_adopted(fleet, uuid),
        "lost": sorted(lost),
        "silent": dict(fleet.verdicts),
    }


def _check_no_instance(fleet: Fleet, new: str, of_name: str, lost: Collection[str]) -> None:
    check_no_stray(fleet, new, of_name)
    claims, owners = holders(fleet, new, of_name, lost)
    hosts = [*claims, *owners, *fleet.failed_on(of_name)]
    if hosts:
        text = "%s has an instance whose uuid is that of the name %s" % (", ".join(sorted(set(hosts))), new)
        raise InstanceExists(text, hint=fleet_hints.another_new_name())
    answers = fleet.answers(lost)
    majority.check(new, fleet.member_lists, answers.names, answers.gives_up)


def announced(task: Mapping[str, Any], host: str) -> Document:
    """What all hosts hear before: while the host of the instance is silent, no other run makes one of that name."""
    plan = task["plan"]
    return {} if plan["uuid"] == task["uuid"] else {"hosts": {plan["host_uuid"]: host}, "planned": [plan]}


def given_up(task: Mapping[str, Any]) -> Document:
    return {"ended": [task["plan"]]}


def look_again(task: Mapping[str, Any]) -> Dict[str, Document]:
    """What each host is asked once the instance has the name, for taken_since()."""
    return {host: {"about": [task["plan"]["uuid"]]} for host in task["asked"]}


def taken_since(name: str, task: Mapping[str, Any], scans: Mapping[str, Mapping[str, Any]]) -> Optional[BerthError]:
    """Why it may not keep the new name: another instance has it by now, or may have it on a host that was not asked, or a host does
    not say. ``scans``: host -> its answer."""
    new = (task["new_name"], task["project_id"])
    for host, scan in scans.items():
        if "instances" not in scan:
            return HostUnknown(
                "%s keeps its name: %s did not say whether it has an instance %s by now" % (name, host, new[0]),
                hint=hints.run_again(),
            )
        for record in scan["instances"]:
            has = (record.get("own_name") or record["name"], record["project_id"] or DEFAULT_PROJECT)
            if has == new and record["uuid"] != task["uuid"]:
                text = "%s keeps its name: another run makes an instance %s on %s" % (name, new[0], host)
                return InstanceExists(text, hint=fleet_hints.another_new_name())
    return _maybe_made(name, task, scans)


def _maybe_made(name: str, task: Mapping[str, Any], scans: Mapping[str, Mapping[str, Any]]) -> Optional[BerthError]:
    of_name = task["plan"]["uuid"]
    if of_name == task["uuid"]:
        return None
    names = {scan["host_uuid"]: host for host, scan in scans.items()}
    noted = put_together({scan["host_uuid"]: scan["notes"].get(of_name, {}) for scan in scans.values()})
    try:
        check_absent(task["new_name"], noted, Answers(names, task["lost"], silent=task["silent"]), task["plan"]["run"])
    except BerthError as error:
        return InstanceUnknown("%s keeps its name: %s" % (name, error), hint=error.hint)
    return None


def inventory_lines(name: str, task: Mapping[str, Any]) -> Iterator[str]:
    """What the inventory has to say from now on."""
    new, follows = task["new_name"], task["plan"]["uuid"] == task["uuid"]
    yield "%s is %s now. In the inventory, in the place of %s:" % (name, new, name)
    yield "    %s:" % new
    if not follows or task["adopted"]:
        yield "      %s: %s" % (ADOPTED if task["adopted"] else KEPT, task["uuid"])
