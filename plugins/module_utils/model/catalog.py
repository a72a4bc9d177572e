# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog: flavors, images, networks, groups and the rest as the user's variables define them; and whether an image
fits a flavor or a volume (min_disk, min_ram).

``Catalog.from_variables(variables)`` checks every catalog variable. Input and output are plain data. Faults are raised
together, as an InvalidInput or a similar error that names the field, its value, the rule and what was probably meant.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional, Set, Type

from . import catalog_schema as schema
from . import disk_formats, input_hints, rescues, volumes
from .errors import BerthError, InvalidInput, together
from .messages import Document
from .schema import Check
from .security_groups import check_remote_groups
from .unknown_names import FlavorNotFound, ImageNotFound, KeypairNotFound, VolumeNotDefined, did_you_mean

Named = Dict[str, Document]  # things by their names

# Nova's zone for hosts that are in no other (default_availability_zone).
DEFAULT_ZONE = "nova"
NOT_FOR = "is not for project %s"


def defined_volume(name: str, defined: Named) -> Document:
    """Return the entry of a volume in berth_volumes_defined."""
    if name not in defined:
        raise VolumeNotDefined.named("berth_volumes", name, defined)
    return defined[name]


class FlavorDiskSmallerThanMinDisk(BerthError):
    """The flavor's root disk is smaller than the image's min_disk."""


class FlavorMemoryTooSmall(BerthError):
    """The flavor's memory is smaller than the image's min_ram."""


# What a flavor has, what an image needs of it, how that is told, and the error.
LEAST = (
    ("memory_mb", "min_ram", "", "MiB", FlavorMemoryTooSmall),
    ("root_gb", "min_disk", "a root disk of ", "GiB", FlavorDiskSmallerThanMinDisk),
)


@dataclasses.dataclass(frozen=True)
class Catalog:
    """The checked catalog: ``flavors``, ``images``, ``networks``, ``server_groups``, ``security_groups``, ``keypairs``,
    ``volumes``, ``aggregates`` by name, ``pci_aliases`` (Nova's alias entries), ``quotas`` by project, ``placement``
    (scheduler options, which placement checks)."""

    flavors: Named
    images: Named
    networks: Named
    server_groups: Named
    keypairs: Named
    aggregates: Named
    pci_aliases: List[Document]
    quotas: Named
    placement: Document
    security_groups: Named
    volumes: Named

    @classmethod
    def from_variables(cls, variables: Mapping[str, Any]) -> Catalog:
        """Read berth_flavors, berth_images, ... out of ``variables``; an absent one is empty."""

        def checked(name: str, check: Check) -> Any:
            value = variables.get(name)
            return check.check({} if value is None else value, name)

        def placement() -> Document:
            value = variables.get("berth_placement")
            if value is not None and not isinstance(value, dict):
                raise InvalidInput("berth_placement", value, "a mapping of scheduler options")
            return dict(value or {})

        def security_groups() -> Named:
            found: Named = checked("berth_security_groups_defined", schema.SECURITY_GROUPS)
            check_remote_groups(found, "berth_security_groups_defined")
            return found

        checks: Dict[str, Callable[[], Any]] = {
            "flavors": functools.partial(checked, "berth_flavors", schema.FLAVORS),
            "images": functools.partial(checked, "berth_images", schema.IMAGES),
            "networks": functools.partial(checked, "berth_networks_defined", schema.NETWORKS),
            "server_groups": functools.partial(checked, "berth_server_groups", schema.SERVER_GROUPS),
            "keypairs": functools.partial(checked, "berth_keypairs_defined", schema.KEYPAIRS),
            "aggregates": functools.partial(checked, "berth_aggregates", schema.AGGREGATES),
            "pci_aliases": functools.partial(checked, "berth_pci_aliases", schema.PCI_ALIASES),
            "quotas": functools.partial(checked, "berth_quotas", schema.QUOTAS),
            "placement": placement,
            "security_groups": security_groups,
            "volumes": functools.partial(checked, "berth_volumes_defined", schema.VOLUMES),
        }
        parts = dict(zip(checks, together(checks.values())))
        parts["pci_aliases"] = [
            dict({part: value for part, value in entry.items() if value is not None}, name=name)
            for name, entries in parts["pci_aliases"].items()
            for entry in entries
        ]
        return cls(**parts)

    def aggregate_documents(self, groups: Mapping[str, Iterable[str]]) -> List[Document]:
        """The aggregates as placement takes them: [{name, hosts, metadata}].

        ``groups`` is Ansible's mapping of inventory groups to host names; ``groups`` of an aggregate add their hosts.
        """
        together(
            functools.partial(_check_group, "berth_aggregates.%s.groups[%d]" % (name, at), group, groups)
            for name, aggregate in self.aggregates.items()
            for at, group in enumerate(aggregate["groups"])
        )
        documents = []
        for name, aggregate in self.aggregates.items():
            hosts = [*aggregate["hosts"], *(host for group in aggregate["groups"] for host in groups[group])]
            metadata = dict(aggregate["metadata"])
            if aggregate["availability_zone"]:
                metadata["availability_zone"] = aggregate["availability_zone"]
            documents.append({"name": name, "hosts": list(dict.fromkeys(hosts)), "metadata": metadata})
        return documents

    def unknown_hosts(self, hosts: Collection[str]) -> List[str]:
        """A line for each host of an aggregate that the inventory, which has ``hosts``, does not have: it may be of another one."""
        return [
            "berth_aggregates.%s: there is no host %s. %s" % (name, host, did_you_mean(host, hosts))
            for name, aggregate in sorted(self.aggregates.items())
            for host in aggregate["hosts"]
            if host not in hosts
        ]

    @property
    def zones(self) -> Set[str]:
        """The availability zones of the aggregates, and the default zone."""
        named = {
            aggregate["availability_zone"] or aggregate["metadata"].get("availability_zone")
            for aggregate in self.aggregates.values()
        }
        return {DEFAULT_ZONE} | (named - {None})

    def flavor(self, name: Any, project: str, allow_disabled: bool = False) -> Document:
        """Return the flavor ``name`` if ``project`` may use it; ``allow_disabled``: a move keeps its flavor."""
        usable = {
            known: flavor
            for known, flavor in self.flavors.items()
            if (not flavor["projects"] or project in flavor["projects"]) and (allow_disabled or not flavor["disabled"])
        }
        if name in self.flavors and name not in usable:
            why = "is disabled" if self.flavors[name]["disabled"] else NOT_FOR % project
            raise FlavorNotFound.withheld("berth_flavor", name, why, usable)
        if name not in usable:
            raise FlavorNotFound.named("berth_flavor", name, usable)
        return usable[name]

    def image(self, name: Any, project: str, field: str = "berth_image") -> Document:
        """Return the image ``name`` if ``project`` may use it."""
        usable = {
            known: image
            for known, image in self.images.items()
            if image["visibility"] == "public" or project in image["projects"]
        }
        if name in self.images and name not in usable:
            raise ImageNotFound.withheld(field, name, NOT_FOR % project, usable)
        if name not in usable:
            raise ImageNotFound.named(field, name, usable)
        if usable[name]["disk_format"] == disk_formats.CD and field != rescues.FIELD:
            raise InvalidInput(field, name, "an image of a disk, no ISO", hint=input_hints.take_cloud_image())
        return usable[name]

    def volume_image(self, name: str, project: str) -> Optional[Document]:
        """Return the parts of the volume's image that a host needs; None for an empty volume."""
        defined = defined_volume(name, self.volumes)
        if defined["image"] is None:
            return None
        field = "berth_volumes_defined.%s.image" % name
        image = self.image(defined["image"], project, field)
        check_image_fits_volume(name, defined, image)
        return {**{part: image[part] for part in volumes.SOURCE}, **uploaded(image)}

    def public_keys(self, names: Iterable[str]) -> List[str]:
        def key(at: int, name: str) -> str:
            if name not in self.keypairs:
                raise KeypairNotFound.named("berth_key_names[%d]" % at, name, self.keypairs)
            return str(self.keypairs[name]["public_key"])

        return together(functools.partial(key, at, name) for at, name in enumerate(names))


def _check_group(field: str, group: str, groups: Collection[str]) -> None:
    if group not in groups:
        raise InvalidInput(field, group, "a group of the inventory", hint=did_you_mean(group, groups))


def uploaded(image: Document) -> Document:
    """Return {upload: the image's path on the controller} for a request; {} for an image with a url."""
    return {"upload": image["upload"]} if image["upload"] else {}


def check_image_fits_volume(name: str, defined: Document, image: Document) -> None:
    if defined["size_gb"] < image["min_disk"]:
        rule = "at least min_disk of image %s, %d GiB" % (image["name"], image["min_disk"])
        raise InvalidInput("berth_volumes_defined.%s.size_gb" % name, defined["size_gb"], rule)


def check_image_fits(flavor: Document, image: Document) -> None:
    """Refuse an image whose min_ram (MiB) or min_disk (GiB) the flavor does not reach.

    A flavor with root_gb 0 takes the image's own size, as in Nova.
    """
    together(functools.partial(_check_reaches, flavor, image, *each) for each in LEAST)


def _check_reaches(
    flavor: Document, image: Document, part: str, least: str, has: str, unit: str, error: Type[BerthError]
) -> None:
    size, needs = flavor[part], image[least]
    if size and needs > size:
        text = "flavor %s has %s%d %s, image %s needs %d %s"
        raise error(
            text % (flavor["name"], has, size, unit, image["name"], needs, unit),
            field="berth_flavors.%s.%s" % (flavor["name"], part),
            value=size,
            rule="at least %s of the image, %d %s" % (least, needs, unit),
        )
