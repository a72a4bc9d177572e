# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a request from the variables of one instance: looks up names, fills in defaults and derives the rest.

Errors name the variable; those for unknown names say what was probably meant.
"""

from __future__ import annotations

import functools
import uuid
from typing import Any, Iterator, Mapping, Optional
from xml.etree import ElementTree

from ..model import (
    adopted,
    data_disks,
    image_properties,
    input_hints,
    operation_hints,
    request_digest,
    rescues,
    volumes,
)
from ..model import catalog_schema as schema
from ..model.catalog import check_image_fits, check_image_fits_volume, defined_volume, uploaded
from ..model.cloud_init import IGNITION, decode_user_data, kind, network_config, seed_of
from ..model.errors import InvalidInput, joined, together
from ..model.guest_features import check_guest
from ..model.guest_settings import PROPERTIES, GuestSettings, with_boot_files
from ..model.identity import ADOPTED, DEFAULT_PROJECT, check_name, group_uuid, instance_uuid, uuid_of
from ..model.messages import Document
from ..model.migration import check_same_firmware
from ..model.networks import make_nic, nics_of
from ..model.nics import is_of_nic
from ..model.request_spec import SCHEMA, RequestSpec
from ..model.security_groups import check_security_groups
from ..model.unknown_names import AvailabilityZoneNotFound, ServerGroupNotFound
from . import features, numa, pci

# Extra specs that are built into a guest, or give it something of its host.
BUILT = ("hw:", "quota:", "pci_passthrough:", "resources", "accel:", "os:", "berth:root_disk", "berth:max_")
OF_CPUS = ("cpu/numa", "vcpus")
OF_MEMORY = ("cpu/numa", "maxMemory", "devices/memory", "memtune")
DEFAULT_POOL = "berth"
# Of an instance that was adopted: no host makes it anew, so nothing is built from that.
NO_IMAGE = {
    **dict.fromkeys(("url", "checksum", "upload", "kernel", "initrd", "disk_format")),
    **{"name": "", "min_disk": 0, "min_ram": 0, "properties": {}},
}
ACCESS_IPS = ("access_ip_v4", "access_ip_v6")


def build_request(hostvars, catalog):
    """Return one instance's request: (spec, seed).

    ``hostvars`` are the variables of the instance's inventory host, with ``inventory_hostname``. The spec is complete
    except for what only the fleet knows: the members of the server group. The seed {hostname, fqdn, ssh_keys,
    user_data, metadata, cloud_config, network_config} holds everything that may be secret and goes to the build only.
    """
    name, values = checked_variables(hostvars, catalog)
    project = values.get("berth_project", DEFAULT_PROJECT)
    flavor = catalog.flavor(values["berth_flavor"], project)
    image = image_of(values["berth_image"], project, catalog) if "berth_image" in values else NO_IMAGE
    settings = GuestSettings(flavor["extra_specs"], image["properties"])
    own_uuid = uuid_of(name, values)
    keys = [*catalog.public_keys(values.get("berth_key_names", [])), *values.get("berth_ssh_keys", [])]
    boots, _guest, seed, nics, disks, choice = together(
        [
            lambda: _boot_volume(values, catalog, flavor, image, settings),
            lambda: check_guest(flavor, image),
            lambda: seed_of(name, values, decode_user_data(hostvars.get("berth_user_data")), image, keys),
            lambda: _nics(own_uuid, values, catalog, settings.get("vif_model", "virtio")),
            lambda: _disks(values, catalog, settings.get("disk_bus", "virtio"), project),
            lambda: _choice_of_host(values, project, catalog),
        ]
    )
    spec = {
        "schema": SCHEMA,
        "uuid": own_uuid,
        "name": name,
        "project_id": project,
        "flavor": flavor_snapshot(flavor),
        "image": _image_snapshot(image),
        "networks": nics,
        **disks,
        **choice,
        "num_instances": 1,
        "instance_uuids": [own_uuid],
        "numa_topology": None,
        "pci_requests": None,
        "metadata": values.get("berth_metadata", {}),
        **{part: values.get("berth_" + part) for part in ACCESS_IPS},
        "ssh_keys_digest": request_digest.of(sorted(seed["ssh_keys"])),
        "batch_id": None,
        **({adopted.KEY: {}} if own_uuid == values.get(ADOPTED) else {}),  # what there is of it, only its host knows
        **({"is_bfv": True} if boots else {}),
        **({"ignition": True} if kind(seed["user_data"]) == IGNITION else {}),
    }
    _derive(spec, catalog)
    return spec, {**seed, "network_config": values.get("berth_network_config") or network_config(nics)}


def checked_variables(hostvars, catalog=None):
    """(the name of the instance, its checked variables). Without the ``catalog``, whatever names they have in it."""
    name = hostvars.get("inventory_hostname")
    required = ("berth_flavor",) if hostvars.get(ADOPTED) else ("berth_flavor", "berth_image")
    return together(
        [
            lambda: check_name(name, "inventory_hostname"),
            lambda: _checked(hostvars, schema.INSTANCE, required, name, catalog),
        ]
    )


def rescue_image(name, project, catalog):
    """Return what a host needs of the image that an instance is rescued with."""
    if not name:
        raise InvalidInput(rescues.FIELD, name, "the name of an image", hint=operation_hints.name_rescue_image())
    image = catalog.image(name, project, rescues.FIELD)
    properties = image["properties"]
    if image["kernel"] or properties.get(PROPERTIES["kernel"]):
        raise InvalidInput(rescues.FIELD, name, "an image that boots by itself, not by a kernel beside it")
    for each in ("hw_rescue_bus", "hw_rescue_device"):
        fate = image_properties.PROPERTIES[each].fate
        if each in properties and not fate.takes(properties[each]):
            raise InvalidInput("berth_images.%s.properties.%s" % (name, each), properties[each], fate.rule)
    return _image_snapshot(image)


def image_of(name, project, catalog):
    """Return the image with the kernel and the initrd of the images that it names."""
    return with_boot_files(catalog.image(name, project), lambda other, field: catalog.image(other, project, field))


def _nics(uuid, values, catalog, model):
    groups = values.get("berth_security_groups", [])
    wanted = enumerate(values.get("berth_networks", []))
    return together(functools.partial(make_nic, uuid, at, nic, catalog, model, groups) for at, nic in wanted)


def _boot_volume(values, catalog, flavor, image, settings):
    """Return the name of the volume that the guest boots from, or None: what the image needs, it or the flavor's disk has. The
    errors are reported together."""
    name = next((entry["name"] for entry in values.get("berth_volumes", []) if entry["boot_index"] == 0), None)
    if name is None:
        check_image_fits(flavor, image)
        return None
    defined = defined_volume(name, catalog.volumes)

    def is_large_enough():
        check_image_fits_volume(name, defined, image)

    def is_made_from_its_image():
        if defined["image"] not in (None, image["name"]):
            rule = "berth_image of the instance that boots from it, %s, or none" % image["name"]
            raise InvalidInput("berth_volumes_defined.%s.image" % name, defined["image"], rule)

    def is_on_its_bus():
        bus = settings.get("disk_bus", "virtio")
        if bus != "virtio":
            raise InvalidInput(
                "berth_volumes.%s.boot_index" % name, 0, "hw_disk_bus virtio, not %s: volumes have no other" % bus
            )

    fits = functools.partial(check_image_fits, dict(flavor, root_gb=0), image)
    together([fits, is_large_enough, is_made_from_its_image, is_on_its_bus])
    return name


def _disks(values, catalog, bus, project):
    """Return {disks, volumes}, without volumes if there are none."""
    disks = data_disks.with_buses(values.get("berth_disks", []), bus)
    wanted, pool = values.get("berth_volumes", []), values.get("berth_pool", DEFAULT_POOL)

    def image_of_volume(entry):
        name = entry["name"]
        own_pool = defined_volume(name, catalog.volumes)["pool"]
        if name in [disk["name"] for disk in disks]:
            raise InvalidInput("berth_volumes.%s" % name, name, "another name than that of a data disk")
        if own_pool not in (None, pool):
            raise InvalidInput("berth_pool", pool, "the pool of its volume %s, %s" % (name, own_pool))
        return None if entry["boot_index"] == 0 else catalog.volume_image(name, project)

    images = together(functools.partial(image_of_volume, entry) for entry in wanted)
    made_from = {entry["name"]: image for entry, image in zip(wanted, images) if image}
    own = {"volumes": volumes.requested(wanted, catalog.volumes, made_from)} if wanted else {}
    return {"disks": disks, **own}


def _choice_of_host(values, project, catalog):
    """Return the parts that only placement uses."""
    zone, forced_host, forced_node = _zone(values.get("berth_availability_zone", ""))
    target = values.get("berth_target_host")
    return {
        "group": _group(values.get("berth_server_group"), project, catalog),
        "scheduler_hints": _hints(values.get("berth_hints", {}), project),
        "pool": values.get("berth_pool", DEFAULT_POOL),
        "availability_zone": zone,
        "ignore_hosts": values.get("berth_ignore_hosts", []),
        "force_hosts": values.get("berth_force_hosts", []) + ([forced_host] if forced_host else []),
        "force_nodes": [forced_node] if forced_node else [],
        "requested_destination": {"host": target} if target else None,
    }


def resize_request(spec, hostvars, catalog, allow_disabled=False):
    """Return the parts of an instance's request that ``berth_flavor`` changes: {flavor, numa_topology, pci_requests}.

    The rest stays as it is, also the image, which the inventory need not define any more.
    """
    values = _checked(hostvars, ("berth_flavor",), ("berth_flavor",), spec["name"])
    flavor = catalog.flavor(values["berth_flavor"], spec["project_id"], allow_disabled=allow_disabled)
    check_adopted(spec, flavor)
    check_image_fits(dict(flavor, root_gb=0) if volumes.boot(spec) else flavor, spec["image"])
    resized = dict(spec, flavor=flavor_snapshot(flavor))
    if resized["flavor"] != spec["flavor"] and not allow_disabled:  # a move under way continues as it was begun
        check_guest(flavor, spec["image"], look_at_image=False)
        check_same_firmware(spec, resized)
    _derive(resized, catalog)
    return {part: resized[part] for part in ("flavor", "numa_topology", "pci_requests")}


def _check_known(catalog, project, field, value):
    """Raise an error if a variable names something that the catalog does not have."""
    if field == "berth_flavor":
        catalog.flavor(value, project)
    elif field == "berth_image":
        catalog.image(value, project)
    elif field == "berth_server_group":
        _group(value, project, catalog)
    elif field == "berth_key_names":
        catalog.public_keys(value)
    elif field == "berth_volumes":
        together(functools.partial(defined_volume, each["name"], catalog.volumes) for each in value)
    elif field == "berth_security_groups":
        check_security_groups(value, field, catalog.security_groups)
    elif field == "berth_availability_zone":
        zone = _zone(value)[0]
        if zone and zone not in catalog.zones:
            raise AvailabilityZoneNotFound.named(field, zone, catalog.zones)


def _checked(hostvars, fields, required, name, catalog=None):
    """Return the checked variables among ``fields``; null and empty text count as not given. Raises all their faults
    together, including names that the ``catalog`` does not have."""
    project = str(hostvars.get("berth_project") or DEFAULT_PROJECT)
    wanted = [field for field in fields if field in required or hostvars.get(field) not in (None, "")]

    def check(field):
        if hostvars.get(field) in (None, ""):
            raise InvalidInput(field, None, "this variable is required", hint=input_hints.set_variable(field, name))
        on_networks = catalog and field == "berth_networks"
        shape = nics_of(catalog.networks) if on_networks else schema.INSTANCE[field]
        value = shape.check(hostvars[field], field)
        if catalog:
            _check_known(catalog, project, field, value)
        return value

    return dict(zip(wanted, together(functools.partial(check, field) for field in wanted)))


def _derive(spec, catalog):
    """Fill in the NUMA topology and the PCI requests that flavor and image ask for; what they ask for must agree."""
    read = RequestSpec(spec)
    features.check(read.flavor, read.image_props)
    topology = numa.constraints(read.flavor, read.image_props)
    spec["numa_topology"] = topology.to_document() if topology else None
    aliases = pci.read_aliases(catalog.pci_aliases)
    asked = pci.requests_from(read.flavor, read.image_props, aliases)
    # An existing instance keeps the requests of its NICs, whatever has become of their aliases.
    kept = [request for request in spec.get("pci_requests") or () if is_of_nic(request)]
    spec["pci_requests"] = asked + (kept or pci.of_nics(spec.get("networks") or (), aliases)) or None


def flavor_snapshot(flavor):
    """Return the parts of a flavor that are kept with the instance; who may use it is not."""
    sizes = ("name", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
    return dict({part: flavor[part] for part in sizes}, extra_specs=dict(flavor["extra_specs"]))


def _image_snapshot(image):
    parts = ("name", "url", "checksum", "disk_format", "min_disk", "min_ram")
    boot_files = {part: dict(image[part]) for part in PROPERTIES if image[part]}
    return {
        **{part: image[part] for part in parts},
        **boot_files,
        **uploaded(image),
        "id": image["name"],
        "properties": dict(image["properties"]),
    }


def _zone(text):
    """zone[:host[:node]] -> (zone, host, node), each None where it is not given."""
    parts = (text.split(":") + ["", ""])[:3]
    return tuple(part or None for part in parts)


def _group(name, project, catalog):
    if name is None:
        return None
    if name not in catalog.server_groups:
        raise ServerGroupNotFound.named("berth_server_group", name, catalog.server_groups)
    group = catalog.server_groups[name]
    return {
        "name": name,
        "uuid": group_uuid(project, name),
        "policy": group["policy"],
        "rules": dict(group["rules"]),
        "members": [],
    }


def _hints(hints, project):
    """same_host and different_host name instances; a name that is not a uuid is one of the same project's."""

    def uuids_or_values(hint):
        if hint not in ("same_host", "different_host"):
            return hints[hint]
        return together(functools.partial(_instance, name, project, "berth_hints." + hint) for name in hints[hint])

    return dict(zip(hints, together(functools.partial(uuids_or_values, hint) for hint in hints)))


def _instance(name, project, field):
    try:
        return str(uuid.UUID(name))
    except ValueError:
        pass
    try:
        return instance_uuid(project, check_name(name, field))
    except InvalidInput as error:
        error.hint = input_hints.list_with_e() if "," in name else error.hint
        raise


def check_adopted(spec: Mapping[str, Any], flavor: Document) -> None:
    """Raise InvalidInput, with all that is wrong, if an adopted instance cannot get this flavor."""
    found = adopted.of(spec)
    if not found or "definition" not in found:
        return
    field, faults = "berth_flavor (%s)" % flavor["name"], _faults_of_adopted(spec, flavor, adopted.root_of(found))
    errors = [InvalidInput(field, value, rule) for value, rule in faults]
    if errors:
        raise joined(errors)


def _faults_of_adopted(
    spec: Mapping[str, Any], flavor: Document, root: ElementTree.Element
) -> "Iterator[tuple[Any, str]]":
    old = spec["flavor"]
    for part in ("ephemeral_gb", "swap"):
        if flavor.get(part):
            yield flavor[part], "no %s: an adopted guest has only the disks that it was found with" % part
    before = old.get("extra_specs") or {}
    for name, value in (flavor.get("extra_specs") or {}).items():
        if name.startswith(BUILT) and before.get(name) != value:
            yield name, "no extra spec that is built into a guest: an adopted one keeps its own definition"
    if flavor["vcpus"] != old["vcpus"]:
        yield from ((flavor["vcpus"], "%d vCPUs: %s" % (old["vcpus"], why)) for why in _tied(root, OF_CPUS))
        cpus = _of_topology(root)
        if cpus not in (None, flavor["vcpus"]):
            yield flavor["vcpus"], "%d vCPUs, which its definition spreads over sockets and cores (cpu/topology)" % cpus
    if flavor["memory_mb"] != old["memory_mb"]:
        yield from ((flavor["memory_mb"], "%d MiB: %s" % (old["memory_mb"], why)) for why in _tied(root, OF_MEMORY))


def _tied(root: ElementTree.Element, parts: "tuple[str, ...]") -> Iterator[str]:
    return ("its definition says the same in %s" % part for part in parts if root.find(part) is not None)


def _of_topology(root: ElementTree.Element) -> Optional[int]:
    topology, count = root.find("cpu/topology"), 1
    if topology is None:
        return None
    for part in ("sockets", "dies", "clusters", "cores", "threads"):
        number = topology.get(part, "1")
        count *= int(number) if number.isdigit() else 0
    return count
