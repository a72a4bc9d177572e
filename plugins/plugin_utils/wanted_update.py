# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says of an existing instance by now: its request and the new addresses of its NICs, for update, its request for
rebuild, the image that it boots from for rescue, its data disks and volumes for update_disks: which are new, and which grow."""

from __future__ import annotations

from ..module_utils.conductor import addressing, new_volumes, updating
from ..module_utils.conductor.plan import CLAIMING
from ..module_utils.model import catalog_schema, rescues
from ..module_utils.model.catalog import Catalog, defined_volume
from ..module_utils.model.cloud_init import network_config
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import project_of
from ..module_utils.model.volumes import volume_uuid
from ..module_utils.placement.request import rescue_image
from .inventory_variables import INSTANCE, listed, lost_hosts, variables
from .whose_variables import fixed_addresses


def wanted_update(run, name, task):
    """{spec, only_new}; ``only_new``: as of addressing.only_new, without addresses yet; None if no NIC is new."""
    place = run.fleet.place_on(task["uuid"], task["hosts"][-1])
    spec, _seed = run.inventory.checked(name, [place] if place else ())
    instance = {"name": name, "uuid": task["uuid"], "project": spec["project_id"], "spec": spec, "state": CLAIMING}
    only = addressing.only_new(instance, place["nics"] or () if place else ())
    if place:
        updating.check_group(run.fleet, instance, place, lost_hosts(run.variables))
    return {"spec": spec, "only_new": only if only["spec"]["networks"] else None}


def wanted_rebuild(run, name, task):
    """{spec}: the request by now, with the addresses that the instance has."""
    place = run.fleet.place_on(task["uuid"], task["hosts"][-1])
    spec, _seed = run.inventory.checked(name, [place] if place else ())
    return {"spec": spec}


def wanted_rescue(run, name, task):
    """{rescue_image, pool}: the image to boot from, and the storage pool that gets it."""
    place, given = run.fleet.place_on(task["uuid"], task["hosts"][-1]), variables(run.task_vars, name, [rescues.FIELD])
    catalog, project = run.inventory.catalogs.of(name), project_of(run.values(name))
    image = rescue_image(given.get(rescues.FIELD), project, catalog)
    return {"rescue_image": image, "pool": place["pool"] if place else None}


def give_addresses(run, found):
    """Choose the new addresses of all that are updated, none that a host reports or that the inventory gives. Return {name:
    error}."""
    if not any(task.get("only_new") for task in found.values()):
        return {}
    held, catalogs = on_hosts(run.fleet), run.inventory.catalogs
    for address, owner in fixed_addresses(catalogs.instances, catalogs).items():
        held.setdefault(address, owner)
    silent = {host: why for host, why in run.fleet.verdicts.items() if host not in lost_hosts(run.variables)}
    errors = {}
    for name, task in found.items():
        only = task.get("only_new")
        try:
            if only:
                place = run.fleet.place_on(task["uuid"], task["hosts"][-1])
                mine = {address: owner for address, owner in held.items() if list(owner) != [name]}
                addressing.give_new(only, (place["nics"] or ()) if place else (), mine, silent)
                held.update({address: owner for address, owner in mine.items() if address not in held})
        except BerthError as error:
            errors[name] = error
    return errors


def on_hosts(fleet):
    """Who has which address, by what the hosts report."""
    return addressing.addresses({host: document["instances"] for host, document in fleet.documents.items()})


def seed_of(inventory, task_vars, name, spec):
    """The seed, made where it is sent: it may hold secrets. With the addresses that the instance gets from pools."""
    _spec, seed = inventory.checked(name, ())
    given = variables(task_vars, name, INSTANCE).get("berth_network_config")
    return seed if given else {**seed, "network_config": network_config(spec["networks"])}


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
    disks = catalog_schema.INSTANCE["berth_disks"].check(wanted, "berth_disks")
    return [{part: value for part, value in disk.items() if value is not None} for disk in disks]


def _volumes(task_vars, name, project):
    """The volumes that the inventory gives the instance, checked; None if it does not mention any."""
    values = variables(task_vars, name, ["berth_volumes", "berth_volumes_defined"])
    if values.get("berth_volumes") is None:
        return None
    wanted = catalog_schema.INSTANCE["berth_volumes"].check(values["berth_volumes"], "berth_volumes")
    defined = catalog_schema.VOLUMES.check(values.get("berth_volumes_defined") or {}, "berth_volumes_defined")
    return [
        {**entry, **defined_volume(entry["name"], defined), "uuid": volume_uuid(project, entry["name"])}
        for entry in wanted
    ]
