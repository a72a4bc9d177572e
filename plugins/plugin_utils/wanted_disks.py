# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which data disks and volumes the inventory gives an existing instance, for update_disks: which are new, and which grow."""

from __future__ import annotations

from ..module_utils.conductor import new_volumes
from ..module_utils.model.catalog import Catalog, defined_volume
from ..module_utils.model.catalog_schema import INSTANCE, VOLUMES
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

    def image_of(volume):
        catalog = Catalog.from_variables(variables(task_vars, name, ["berth_images", "berth_volumes_defined"]))
        return catalog.volume_image(volume, project)

    lost, rebuilt = lost_hosts(run), listed(run, "berth_rebuild_lost")
    more = new_volumes.wanted_by(fleet, name, task, wanted, lost, rebuilt, image_of)
    return {"disks": disks, "project": project, **more}


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
