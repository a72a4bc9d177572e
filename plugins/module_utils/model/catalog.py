# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog: flavors, images, networks, groups and the rest as the user's variables define them.

``Catalog.from_variables(variables)`` checks every catalog variable; ``build_request(hostvars, catalog)`` turns the
variables of one instance into its request. Everything given and returned is plain data; the first fault raises
InvalidInput or a kin of it that names the field, its value, the rule and what was probably meant.
"""

from __future__ import annotations

import ipaddress
import uuid

from . import catalog_schema as schema
from .errors import BerthError, InvalidInput
from .identity import NAMESPACE, check_name, instance_uuid
from .suggest import did_you_mean
from .user_data import decode_user_data

SPEC_SCHEMA = 1
DEFAULT_PROJECT = "default"
DEFAULT_POOL = "berth"


class _Unknown(BerthError):
    """A name in an instance's variables that is not in the catalog."""

    kind = None

    def __init__(self, field, name, known):
        super().__init__(
            "%s: there is no %s %s" % (field, self.kind, name), field=field, value=name, hint=did_you_mean(name, known)
        )


class FlavorNotFound(_Unknown):
    """The flavor is not defined, is disabled, or belongs to other projects (A07)."""

    kind = "flavor"


class ImageNotFound(_Unknown):
    """The image is not defined, or belongs to other projects."""

    kind = "image"


class NetworkNotFound(_Unknown):
    """The network is not defined (C06)."""

    kind = "network"


class ServerGroupNotFound(_Unknown):
    """The server group is not defined."""

    kind = "server group"


class FlavorDiskSmallerThanMinDisk(BerthError):
    """The flavor's root disk is smaller than the image's min_disk (A28)."""


class FlavorMemoryTooSmall(BerthError):
    """The flavor's memory is smaller than the image's min_ram (A28)."""


class Catalog:
    """The checked catalog: ``flavors``, ``images``, ``networks``, ``server_groups``, ``aggregates`` by name,
    ``pci_aliases`` (Nova's alias entries), ``quotas`` by project, ``placement`` (scheduler options, checked there)."""

    def __init__(self, flavors, images, networks, server_groups, aggregates, pci_aliases, quotas, placement):
        self.flavors = flavors
        self.images = images
        self.networks = networks
        self.server_groups = server_groups
        self.aggregates = aggregates
        self.pci_aliases = pci_aliases
        self.quotas = quotas
        self.placement = placement

    @classmethod
    def from_variables(cls, variables):
        """Read berth_flavors, berth_images, ... out of ``variables``; an absent one is empty."""

        def checked(name, check):
            value = variables.get(name)
            return check.check({} if value is None else value, name)

        placement = variables.get("berth_placement")
        if placement is not None and not isinstance(placement, dict):
            raise InvalidInput("berth_placement", placement, "a mapping of scheduler options")
        aliases = checked("berth_pci_aliases", schema.PCI_ALIASES)
        return cls(
            flavors=checked("berth_flavors", schema.FLAVORS),
            images=checked("berth_images", schema.IMAGES),
            networks=checked("berth_networks_defined", schema.NETWORKS),
            server_groups=checked("berth_server_groups", schema.SERVER_GROUPS),
            aggregates=checked("berth_aggregates", schema.AGGREGATES),
            pci_aliases=[
                dict({part: value for part, value in entry.items() if value is not None}, name=name)
                for name, entries in aliases.items()
                for entry in entries
            ],
            quotas=checked("berth_quotas", schema.QUOTAS),
            placement=dict(placement or {}),
        )

    def aggregate_documents(self, groups):
        """The aggregates as placement takes them: [{name, hosts, metadata}].

        ``groups`` is Ansible's mapping of inventory groups to host names; ``groups`` of an aggregate add their hosts.
        """
        documents = []
        for name, aggregate in self.aggregates.items():
            hosts = list(aggregate["hosts"])
            for at, group in enumerate(aggregate["groups"]):
                if group not in groups:
                    field = "berth_aggregates.%s.groups[%d]" % (name, at)
                    raise InvalidInput(field, group, "a group of the inventory", hint=did_you_mean(group, groups))
                hosts.extend(groups[group])
            metadata = dict(aggregate["metadata"])
            if aggregate["availability_zone"]:
                metadata["availability_zone"] = aggregate["availability_zone"]
            documents.append({"name": name, "hosts": list(dict.fromkeys(hosts)), "metadata": metadata})
        return documents

    def flavor(self, name, project, field="berth_flavor", allow_disabled=False):
        """The flavor ``name`` as ``project`` may use it; ``allow_disabled`` for a move that keeps its flavor (A07)."""
        usable = {
            known: flavor
            for known, flavor in self.flavors.items()
            if (not flavor["projects"] or project in flavor["projects"]) and (allow_disabled or not flavor["disabled"])
        }
        if name not in usable:
            raise FlavorNotFound(field, name, usable)
        return usable[name]

    def image(self, name, project, field="berth_image"):
        """The image ``name`` as ``project`` may use it."""
        usable = {
            known: image
            for known, image in self.images.items()
            if image["visibility"] == "public" or project in image["projects"]
        }
        if name not in usable:
            raise ImageNotFound(field, name, usable)
        return usable[name]


def build_request(hostvars, catalog, allow_disabled=False):
    """One instance's request: (spec, seed).

    ``hostvars`` are the variables of the instance's inventory host, with ``inventory_hostname``. The spec is complete
    but for what only the fleet knows: the members of the server group. The seed {hostname, ssh_keys, user_data,
    network_config} holds everything that may be secret and goes to the build only.
    """
    name = check_name(hostvars.get("inventory_hostname"), "inventory_hostname")
    given = {
        field: check.check(hostvars[field], field)
        for field, check in schema.INSTANCE.items()
        if hostvars.get(field) not in (None, "")
    }
    for field in ("berth_flavor", "berth_image"):
        if field not in given:
            raise InvalidInput(field, None, "this variable is required", hint="Set %s for %s" % (field, name))
    project = given.get("berth_project", DEFAULT_PROJECT)
    flavor = catalog.flavor(given["berth_flavor"], project, allow_disabled=allow_disabled)
    image = catalog.image(given["berth_image"], project)
    check_image_fits(flavor, image)
    own_uuid = instance_uuid(project, name)
    nics = [_nic(own_uuid, at, nic, catalog) for at, nic in enumerate(given.get("berth_networks", []))]
    zone, forced_host, forced_node = _zone(given.get("berth_availability_zone", ""))
    force_hosts = given.get("berth_force_hosts", []) + ([forced_host] if forced_host else [])
    target = given.get("berth_target_host")
    spec = {
        "schema": SPEC_SCHEMA,
        "uuid": own_uuid,
        "name": name,
        "project_id": project,
        "user_id": None,
        "flavor": _flavor_snapshot(flavor),
        "image": _image_snapshot(image),
        "networks": nics,
        "group": _group(given.get("berth_server_group"), project, catalog),
        "availability_zone": zone,
        "scheduler_hints": _hints(given.get("berth_hints", {}), project),
        "pool": given.get("berth_pool", DEFAULT_POOL),
        "ignore_hosts": given.get("berth_ignore_hosts", []),
        "force_hosts": force_hosts,
        "force_nodes": [forced_node] if forced_node else [],
        "requested_destination": {"host": target} if target else None,
        "num_instances": 1,
        "instance_uuids": [own_uuid],
        "numa_topology": None,
        "pci_requests": None,
        "metadata": given.get("berth_metadata", {}),
        "batch_id": None,
    }
    seed = {
        "hostname": name,
        "ssh_keys": given.get("berth_ssh_keys", []),
        "user_data": decode_user_data(hostvars.get("berth_user_data")),
        "network_config": _network_config(nics),
    }
    return spec, seed


def check_image_fits(flavor, image):
    """Refuse an image whose min_ram (MiB) or min_disk (GiB) the flavor does not reach; root_gb 0 takes the image's size."""
    if image["min_ram"] > flavor["memory_mb"]:
        raise FlavorMemoryTooSmall(
            "flavor %s has %d MiB, image %s needs %d MiB"
            % (flavor["name"], flavor["memory_mb"], image["name"], image["min_ram"]),
            field="berth_flavors.%s.memory_mb" % flavor["name"],
            value=flavor["memory_mb"],
            rule="at least min_ram of the image, %d MiB" % image["min_ram"],
        )
    if flavor["root_gb"] and image["min_disk"] > flavor["root_gb"]:
        raise FlavorDiskSmallerThanMinDisk(
            "flavor %s has a root disk of %d GiB, image %s needs %d GiB"
            % (flavor["name"], flavor["root_gb"], image["name"], image["min_disk"]),
            field="berth_flavors.%s.root_gb" % flavor["name"],
            value=flavor["root_gb"],
            rule="at least min_disk of the image, %d GiB" % image["min_disk"],
        )


def _flavor_snapshot(flavor):
    """What is kept of a flavor with the instance (C07); who may use it is not."""
    sizes = ("name", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
    return dict({part: flavor[part] for part in sizes}, extra_specs=dict(flavor["extra_specs"]))


def _image_snapshot(image):
    parts = ("name", "url", "src", "checksum", "disk_format", "min_disk", "min_ram")
    return dict({part: image[part] for part in parts}, id=image["name"], properties=dict(image["properties"]))


def _zone(text):
    """zone[:host[:node]] (A29) -> (zone, host, node), each None where it is not given."""
    parts = (text.split(":") + ["", ""])[:3]
    return tuple(part or None for part in parts)


def _group(name, project, catalog):
    if name is None:
        return None
    if name not in catalog.server_groups:
        raise ServerGroupNotFound("berth_server_group", name, catalog.server_groups)
    group = catalog.server_groups[name]
    # A project name has no "/", so this is never the uuid of an instance.
    own_uuid = str(uuid.uuid5(NAMESPACE, "server-group/%s/%s" % (project, name)))
    return {"name": name, "uuid": own_uuid, "policy": group["policy"], "rules": dict(group["rules"]), "members": []}


def _hints(hints, project):
    """same_host and different_host name instances; a name that is not a uuid is one of the same project's."""
    named = ("same_host", "different_host")
    return {
        hint: [_instance(one, project) for one in values] if hint in named else values for hint, values in hints.items()
    }


def _instance(name, project):
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return instance_uuid(project, check_name(name, "berth_hints"))


def _nic(own_uuid, at, nic, catalog):
    """A NIC with all that the host needs to make it; its MAC follows from the instance, so that it never changes."""
    field = "berth_networks[%d]" % at
    if nic["network"] not in catalog.networks:
        raise NetworkNotFound(field + ".network", nic["network"], catalog.networks)
    network = catalog.networks[nic["network"]]
    return {
        "network": network["name"],
        "address": _address(nic["address"], network, field + ".address"),
        "mac": (nic["mac"] or _mac(own_uuid, at)).lower(),
        **{part: network[part] for part in ("type", "source", "model", "mtu", "vlan", "nwfilter", "gateway")},
        "nameservers": list(network["nameservers"]),
    }


def _mac(own_uuid, at):
    """A locally administered unicast MAC address out of the instance's uuid and the NIC's place."""
    tail = uuid.uuid5(uuid.UUID(own_uuid), "nic/%d" % at).bytes[:5]
    return ":".join("%02x" % byte for byte in b"\x02" + tail)


def _address(text, network, field):
    """address/prefix, the prefix taken from the network where it is not given; None without an address."""
    if text is None:
        return None
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        raise InvalidInput(field, text, "an IP address such as 192.0.2.10 or 192.0.2.10/24")
    if network["cidr"]:
        cidr = ipaddress.ip_network(network["cidr"])
        if address.ip not in cidr:
            raise InvalidInput(field, text, "an address in %s, the cidr of network %s" % (cidr, network["name"]))
        return text if "/" in text else "%s/%d" % (address.ip, cidr.prefixlen)
    if "/" not in text:
        raise InvalidInput(field, text, "an address with prefix length, as network %s has no cidr" % network["name"])
    return text


def _network_config(nics):
    """cloud-init's network-config version 2: static where a NIC has an address, else DHCP; None without NICs."""
    if not nics:
        return None
    return {"version": 2, "ethernets": {"nic%d" % at: _ethernet(nic) for at, nic in enumerate(nics)}}


def _ethernet(nic):
    ethernet = {"match": {"macaddress": nic["mac"]}}
    if nic["mtu"]:
        ethernet["mtu"] = nic["mtu"]
    if nic["address"] is None:
        return dict(ethernet, dhcp4=True)
    ethernet["addresses"] = [nic["address"]]
    if nic["gateway"]:
        everywhere = "::/0" if ":" in nic["gateway"] else "0.0.0.0/0"
        ethernet["routes"] = [{"to": everywhere, "via": nic["gateway"]}]
    if nic["nameservers"]:
        ethernet["nameservers"] = {"addresses": nic["nameservers"]}
    return ethernet
