# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schemas of the catalog variables (berth_flavors, ...) and of an instance's (berth_disks, berth_volumes, ...)."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any, Dict, List, Optional

from . import data_disks, disk_formats, fleet_hints, input_hints, volumes
from .checksum import LIST, RULE, Checksum, ImageChecksum, of_file
from .cloud_init import FILES, NetworkConfig
from .errors import InvalidInput
from .fields_between import FieldsBetween
from .guest_features import ImageProperties
from .identity import OWN_UUIDS, UUID
from .messages import Document
from .networks import Network, nics_of
from .nics import guest_address
from .schema import Check, Fields, Flag, ListOf, MapOf, Named, OneOf, Secret, Text, Whole, Word, mapping_as_text
from .security_groups import SECURITY_GROUP

PROJECT = Text(volumes.PROJECT, "a project name of a-z, A-Z, 0-9, '.', '_' and '-'", longest=64)
HOST_NAME = Text(r"[^\s/:,]+\Z", "an inventory host name without spaces, commas, '/' and ':'")

# Far above what QEMU can do today, far below what overflows anything.
MOST_VCPUS = 4096
MOST_MEMORY_MB = 64 * 1024 * 1024
MOST_DISK_GB = 1024 * 1024
UNLIMITED = -1

FLAVOR = Fields(
    {
        "vcpus": Whole(1, MOST_VCPUS),
        "memory_mb": Whole(1, MOST_MEMORY_MB, "MiB"),
        "root_gb": Whole(0, MOST_DISK_GB, "GiB"),
        "ephemeral_gb": Whole(0, MOST_DISK_GB, "GiB"),
        "swap": Whole(0, MOST_MEMORY_MB, "MiB"),
        "extra_specs": MapOf(Word()),
        "disabled": Flag(),
        "projects": ListOf(PROJECT),
    },
    defaults={"ephemeral_gb": 0, "swap": 0, "extra_specs": {}, "disabled": False, "projects": []},
)


class Url:
    """The location of a file, as the KVM host reaches it."""

    text = Text(
        r"(https?://[^\s@]+|/[^\s]*[^\s/])\Z",
        "http://... or https://... without spaces, user and password, or an absolute path without .. on the KVM host, below its "
        "berth_host_image_directories",
        longest=2048,
    )
    rule = text.rule

    def check(self, value: Any, field: str) -> str:
        url = self.text.check(value, field)
        if url.startswith("/"):
            _check_plain(url, field)
        return url


class Upload:
    """A file on the controller, which is sent to the hosts that need it."""

    text = Text(
        r"/[^\n]*[^\n/]\Z",
        "an absolute path on the controller, such as {{ inventory_dir }}/debian.qcow2",
        longest=2048,
    )
    rule = text.rule

    def check(self, value: Any, field: str) -> str:
        path = self.text.check(value, field)
        _check_plain(path, field)
        return path


def _check_plain(path: str, field: str) -> None:
    if posixpath.normpath(path) != path:
        raise InvalidInput(field, path, "a path without .., . and //")


_SOURCE: Dict[str, Check] = {"url": Url(), "checksum": Checksum()}


_DISK_FORMAT = OneOf(*disk_formats.FORMATS)
_DISK_FORMAT.rule += "; qemu-img convert -O qcow2 FILE NEW.qcow2 converts others"


def _check_source(image: Document, field: str) -> None:
    if bool(image["url"]) == bool(image["upload"]):
        given = "both" if image["url"] else None
        hint = None if given else input_hints.add_field(field + ".url")
        raise InvalidInput(field + ".url", given, "either url or upload", hint=hint)


def _check_upload(image: Document, field: str) -> None:
    if image["upload"] and LIST.match(image["checksum"]):
        raise InvalidInput(field + ".checksum", image["checksum"], RULE + ", of a file on the controller")


class Image:
    """An image: its file, and what it needs."""

    fields = FieldsBetween(
        {
            "url": Url(),
            "checksum": ImageChecksum(),
            "upload": Upload(),
            "disk_format": _DISK_FORMAT,
            "min_disk": Whole(0, MOST_DISK_GB, "GiB"),
            "min_ram": Whole(0, MOST_MEMORY_MB, "MiB"),
            "properties": ImageProperties(),
            "kernel": Fields(_SOURCE),
            "initrd": Fields(_SOURCE),
            "visibility": OneOf("public", "private"),
            "projects": ListOf(PROJECT),
        },
        defaults={
            "url": None,
            "upload": None,
            "min_disk": 0,
            "min_ram": 0,
            "properties": {},
            "kernel": None,
            "initrd": None,
            "visibility": None,
            "projects": [],
        },
        between=((("url", "upload"), _check_source), (("upload", "checksum"), _check_upload)),
    )

    def check(self, value: Any, field: str) -> Document:
        image = self.fields.check(value, field)
        image["checksum"] = of_file(image["checksum"], image["url"])
        if image["visibility"] is None:
            image["visibility"] = "private" if image["projects"] else "public"
        return image


def _check_rules(group: Document, field: str) -> None:
    given = {name: rule for name, rule in group["rules"].items() if rule is not None}
    if given and group["policy"] != "anti-affinity":
        raise InvalidInput(field + ".rules", given, "max_server_per_host only with policy anti-affinity")


class ServerGroup:
    """A server group: a policy, and for anti-affinity how many members one host may hold (Nova's rules)."""

    fields = FieldsBetween(
        {
            "policy": OneOf("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"),
            "rules": Fields({"max_server_per_host": Whole(1, 10000)}, defaults={"max_server_per_host": None}),
        },
        defaults={"rules": {}},
        between=((("policy", "rules"), _check_rules),),
    )

    def check(self, value: Any, field: str) -> Document:
        group = self.fields.check(value, field)
        group["rules"] = {name: rule for name, rule in group["rules"].items() if rule is not None}
        return group


CELL = Text(r"[^\s:]+\Z", "the name of a cell without spaces and ':'")
AGGREGATE = Fields(
    {
        "hosts": ListOf(HOST_NAME, single=True),
        "groups": ListOf(Text(), single=True),
        "availability_zone": Text(r"[^\s:]+\Z", "a name without spaces and ':'"),
        "metadata": MapOf(Word()),
    },
    defaults={"hosts": [], "groups": [], "availability_zone": None, "metadata": {}},
)
_HEX4 = Text(r"[0-9a-fA-F]{4}\Z", "four hexadecimal digits", longest=4)
PCI_ALIAS = Fields(
    {
        "vendor_id": _HEX4,
        "product_id": _HEX4,
        "device_type": OneOf("type-PCI", "type-PF", "type-VF"),
        "numa_policy": OneOf("required", "preferred", "legacy", "socket"),
        "capability_type": OneOf("pci"),
        "resource_class": Text(r"[A-Z0-9_]+\Z", "a resource class of A-Z, 0-9 and _"),
        "traits": Text(),
    },
    defaults=dict.fromkeys(("device_type", "numa_policy", "capability_type", "resource_class", "traits")),
)
QUOTA_NAMES = ("instances", "cores", "ram", "server_group_members", "volumes", "gigabytes")
QUOTA = Fields(dict.fromkeys(QUOTA_NAMES, Whole(UNLIMITED, 2**31 - 1)), defaults=dict.fromkeys(QUOTA_NAMES, UNLIMITED))


class SshKey:
    """A public SSH key of one line; a private key is refused and not repeated."""

    line = Text(
        r"(ssh-|ecdsa-|sk-)[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+( [^\n]*)?\Z",
        "a public key of one line, such as ssh-ed25519 AAAA...",
        longest=16384,
    )

    def check(self, value: Any, field: str) -> str:
        if isinstance(value, str) and "PRIVATE KEY" in value:
            raise InvalidInput(field, "<a private key>", self.line.rule, hint=input_hints.public_key())
        if isinstance(value, str) and value[:1] in ("/", "~", "."):
            raise InvalidInput(field, value, self.line.rule, hint=input_hints.public_key())
        return self.line.check(value.strip() if isinstance(value, str) else value, field)


class KeyPair:
    """A public key by its name: {public_key}, or the key alone."""

    fields = Fields({"public_key": SshKey()})

    def check(self, value: Any, field: str) -> Document:
        return self.fields.check({"public_key": value} if isinstance(value, str) else value, field)


class AccessAddress:
    """An address at which people and programs reach the guest, for example a router's; the guest need not have it."""

    def __init__(self, version: int) -> None:
        self.version = version

    def check(self, value: Any, field: str) -> str:
        found = guest_address(value) if "/" not in str(value) else None
        if found is None or found.version != self.version:
            raise InvalidInput(field, value, "an IPv%d address of one machine, without a prefix length" % self.version)
        return str(found)


class Metadata:
    """A mapping of names to texts, small enough to travel in a move."""

    texts = MapOf(Word())

    def check(self, value: Any, field: str) -> Dict[str, str]:
        found = self.texts.check(value, field)
        size = len(json.dumps(found))
        if len(found) > 1000 or size > 65535:
            amount = "%d names, %d bytes" % (len(found), size)
            raise InvalidInput(field, amount, "at most 1000 names, 65535 bytes in JSON")
        return found


class PasswordHash:
    """A crypt hash of the two kinds that are slow to guess."""

    rule = "a sha512 or yescrypt hash, $6$... or $y$..., never the password itself"
    hash = re.compile(
        r"(\$6\$(rounds=[1-9][0-9]{3,8}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{86}|"
        r"\$y\$[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{1,86}\$[A-Za-z0-9./]{43})\Z"
    )

    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or not self.hash.match(value):
            raise InvalidInput(field, value, self.rule, hint=input_hints.hashed_password())
        return str(value)


class NoPassword:
    """A password is never taken."""

    def check(self, value: Any, field: str) -> str:
        rule = "not given; its hash in berth_admin_password_hash"
        raise InvalidInput(field, value, rule, hint=input_hints.hashed_password())


class Hints:
    """Scheduler hints: every value becomes a list; a JsonFilter ``query`` given as YAML becomes its JSON text."""

    def check(self, value: Any, field: str) -> Dict[str, List[str]]:
        if not isinstance(value, dict):
            rule = "a mapping of hint names to a value or a list of values"
            raise InvalidInput(field, value, rule, hint=mapping_as_text(value))
        hints: Dict[str, List[str]] = {}
        for name, hint in value.items():
            path = "%s.%s" % (field, name)
            Text().check(name, path)
            if name == "query" and isinstance(hint, (list, tuple)) and not str(hint[:1] and hint[0]).startswith("["):
                hint = json.dumps(hint)
            hints[str(name)] = ListOf(Word(longest=65535), single=True).check(hint, path)
        return hints


DISK = Fields({"size_gb": Whole(1, data_disks.MOST_GB, "GiB"), "bus": OneOf(*data_disks.BUSES)}, defaults={"bus": None})


class DataDisks:
    """Data disks by name, in their order: [{name, size_gb, bus}]."""

    named = Named(DISK, name=Text(data_disks.NAME + r"\Z", data_disks.NAME_RULE, longest=data_disks.LONGEST_NAME))

    def check(self, value: Any, field: str) -> List[Document]:
        disks = list(self.named.check(value, field).values())
        if len(disks) > data_disks.MOST:
            raise InvalidInput(field, len(disks), "at most %d data disks" % data_disks.MOST)
        return disks


_VOLUME_NAME = Text(data_disks.NAME + r"\Z", data_disks.NAME_RULE, longest=data_disks.LONGEST_NAME)
POOL_NAME = Text(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z", "the name of a storage pool", longest=63)
VOLUME = Fields(
    {"size_gb": Whole(1, data_disks.MOST_GB, "GiB"), "pool": POOL_NAME, "image": Text()},
    defaults={"pool": None, "image": None},
)
VOLUMES = Named(VOLUME, name=_VOLUME_NAME)


class BootIndex:
    """The place of a volume in the guest's boot order. As in Nova's block device mapping, -1 and none mean never."""

    known = {str(index): None if index < 0 else index for index in range(-1, volumes.MOST)}
    rule = "a whole number from 0, of the volume that the guest boots from, to %d; -1 or none: never" % (
        volumes.MOST - 1
    )

    def check(self, value: Any, field: str) -> Optional[int]:
        if isinstance(value, bool) or str(value) not in self.known:
            raise InvalidInput(field, value, self.rule)
        return self.known[str(value)]


class VolumesOfInstance:
    """The volumes of an instance, in their order: [{name, delete_on_termination, boot_index}]; names alone suffice."""

    named = Named(
        Fields(
            {"delete_on_termination": Flag(), "boot_index": BootIndex()},
            defaults={"delete_on_termination": False, "boot_index": None},
        ),
        name=_VOLUME_NAME,
    )

    def check(self, value: Any, field: str) -> List[Document]:
        value = [value] if isinstance(value, str) else value
        if isinstance(value, (list, tuple)):
            value = [{"name": item} if isinstance(item, str) else item for item in value]
        elif isinstance(value, dict):
            value = {name: {} if parts is None else parts for name, parts in value.items()}
        found = list(self.named.check(value, field).values())
        if len(found) > volumes.MOST:
            raise InvalidInput(field, len(found), "at most %d volumes" % volumes.MOST)
        _check_boot_order(found, field)
        return found


def _check_boot_order(entries: List[Document], field: str) -> None:
    """Refuse boot indexes with gaps, as Nova's block device mapping does; 0 may be that of the root disk."""
    indexes = volumes.boot_indexes(entries)
    if indexes not in ([*range(len(indexes))], [*range(1, len(indexes) + 1)]):
        given_indexes = ", ".join(
            "%s %d" % (entry["name"], entry["boot_index"]) for entry in entries if entry["boot_index"] is not None
        )
        rule = "boot indexes that follow each other, each once: from 0, or from 1 after the instance's own root disk"
        raise InvalidInput(field, given_indexes, rule)


FLAVORS = Named(FLAVOR)
IMAGES = Named(Image())
NETWORKS = Named(Network())
SECURITY_GROUPS = Named(SECURITY_GROUP)
SERVER_GROUPS = Named(ServerGroup())
KEYPAIRS = Named(KeyPair())
AGGREGATES = Named(AGGREGATE, name=Text())
PCI_ALIASES = MapOf(ListOf(PCI_ALIAS, single=True))
QUOTAS = MapOf(QUOTA, key=Text(r"(\*|[A-Za-z0-9][A-Za-z0-9._-]*)\Z", "a project name, or * for every other project"))

INSTANCE = {
    "berth_flavor": Text(rule="a name in berth_flavors"),
    "berth_image": Text(rule="a name in berth_images"),
    **{field: Text(UUID + r"\Z", rule) for field, rule in OWN_UUIDS.items()},
    "berth_networks": nics_of(),
    "berth_network_config": Secret(NetworkConfig()),
    "berth_security_groups": ListOf(Text(), single=True, longest=64),
    "berth_server_group": Text(rule="a name in berth_server_groups"),
    "berth_project": PROJECT,
    "berth_availability_zone": Text(r"[^\s:]*(:[^\s:]*){0,2}\Z", "a zone, or zone:host, or zone:host:node"),
    "berth_pool": POOL_NAME,
    "berth_disks": DataDisks(),
    "berth_volumes": VolumesOfInstance(),
    "berth_ssh_keys": ListOf(SshKey(), single=True, longest=256),
    "berth_hints": Hints(),
    "berth_target_host": HOST_NAME,
    "berth_ignore_hosts": ListOf(HOST_NAME, single=True),
    "berth_force_hosts": ListOf(HOST_NAME, single=True),
    "berth_metadata": Metadata(),
    "berth_key_names": ListOf(Text(), single=True, longest=256),
    "berth_files": FILES,
    "berth_admin_password_hash": Secret(PasswordHash()),
    "berth_admin_password": Secret(NoPassword()),
    "berth_disk_config": OneOf("auto", "manual"),
    "berth_state": OneOf("active", "stopped", hints=dict.fromkeys(("absent", "deleted"), fleet_hints.delete_it())),
    "berth_access_ip_v4": AccessAddress(4),
    "berth_access_ip_v6": AccessAddress(6),
}
