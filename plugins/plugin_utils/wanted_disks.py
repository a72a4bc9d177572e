# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which data disks and volumes the inventory gives an existing instance, for update_disks: which are new, and which grow."""

from __future__ import annotations

from ..module_utils.conductor import lost_data, volumes
from ..module_utils.model.catalog import Catalog, defined_volume
from ..module_utils.model.catalog_schema import INSTANCE, VOLUMES
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.identity import project_of
from ..module_utils.model.volumes import volume_uuid
from .inventory_variables import listed, lost_hosts, variables


def wanted_disks(task_vars, fleet, name, task, values, run):
    """{disks, project, volumes, new_volumes, grown_volumes, gives_up} that the inventory gives the instance; no volumes if it
    does not mention any. ``gives_up``: what a person said may go, or empty."""
    project, disks = project_of(values), _disks(task_vars, name)
    wanted = _volumes(task_vars, name, project)
    if wanted is None:
        return {"disks": disks, "project": project}
    host = task["hosts"][-1] if task["hosts"] else None
    lost, rebuilt = lost_hosts(run), listed(run, "berth_rebuild_lost")
    new, gives_up = lost_data.volumes_to_make(fleet, name, task["uuid"], host, wanted, lost, rebuilt)
    boots = [entry["name"] for entry in wanted if entry["uuid"] in new and entry["boot_index"] == 0]
    if boots:
        rule = "set when the instance is created: an existing instance boots from what it was created with"
        raise InvalidInput("berth_volumes.%s.boot_index" % boots[0], 0, rule)
    place = fleet.place_on(task["uuid"], host)
    pool = place["pool"] if place else None
    parts = ("name", "size_gb", "delete_on_termination", "boot_index")
    return {
        "disks": disks,
        "project": project,
        "gives_up": gives_up,
        "volumes": [{part: entry[part] for part in parts if entry[part] is not None} for entry in wanted],
        "new_volumes": [
            _new_volume(task_vars, name, project, {**entry, "pool": entry["pool"] or pool}, task["uuid"])
            for entry in wanted
            if entry["uuid"] in new
        ],
        "grown_volumes": [
            {**{part: entry[part] for part in ("uuid", "name", "size_gb")}, "from_gb": has, "instance": task["uuid"]}
            for entry in wanted
            if (has := volumes.grows_from(fleet, entry)) is not None
        ],
    }


def _new_volume(task_vars, name, project, entry, uuid):
    catalog = Catalog.from_variables(variables(task_vars, name, ["berth_images", "berth_volumes_defined"]))
    parts = {part: entry[part] for part in ("uuid", "name", "size_gb", "pool")}
    return {**parts, "image": catalog.volume_image(entry["name"], project), "instance": uuid}


def _disks(task_vars, name):
    """The data disks that the inventory gives the instance, checked."""
    wanted = variables(task_vars, name, ["berth_disks"]).get("berth_disks") or []
    disks = INSTANCE["berth_disks"].check(wanted, "berth_disks")
    return [{part: value for part, value in disk.items() if value is not None} for disk in disks]


def _volumes(task_vars, name, project):
    """The volumes that the inventory gives the instance, checked; None if it does not mention any."""
    values = variables(task_vars, name, ["berth_volumes", "berth_volumes_defined"])
    if values.get("berth_volumes") is None:
        return None
    wanted = INSTANCE["berth_volumes"].check(values["berth_volumes"], "berth_volumes")
    defined = VOLUMES.check(values.get("berth_volumes_defined") or {}, "berth_volumes_defined")
    return [
        {**entry, **defined_volume(entry["name"], defined), "uuid": volume_uuid(project, entry["name"])}
        for entry in wanted
    ]
