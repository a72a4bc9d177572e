# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of an engine, and the documents there. What is read is checked as a host's reply is.

/berth/meta                  the registry itself; /berth/host/UUID a host, /berth/facts/UUID what host_facts said of it, packed
/berth/inst/UUID             an instance: its owner and epoch, and what runs have begun with it. It stays when the instance is gone
/berth/name/PROJECT/NAME, /berth/addr/NETWORK/ADDRESS, /berth/mac/MAC, /berth/volume/UUID    the uuid of the instance that has it
/berth/quota/PROJECT         what the project uses; /berth/group/UUID the members of a server group, each with its hosts
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Dict, List, Optional

from ...model.errors import BerthError
from ...model.messages import Document
from ...model.shape import (
    Check,
    Fault,
    anything,
    choice,
    flag,
    list_of,
    map_of,
    mapping,
    number,
    object_of,
    or_null,
    show,
    text,
    uuid,
    whole,
)
from ..procedures.steps import Found, Write

PREFIX = "/berth/"  # of all of them
META = "/berth/meta"
HOSTS, FACTS, INSTANCES, QUOTAS, GROUPS = (
    "/berth/host/",
    "/berth/facts/",
    "/berth/inst/",
    "/berth/quota/",
    "/berth/group/",
)
NAMES, ADDRESSES, MACS, VOLUMES = "/berth/name/", "/berth/addr/", "/berth/mac/", "/berth/volume/"
SCHEMA = 1
MOST_FACTS = 1 << 24  # bytes of one host's document
CREATE, MOVE = "create", "move"  # what a run has begun
COUNT = whole(0, 1 << 40)


class RegistryDocumentInvalid(BerthError):
    """A document in the registry's engine breaks its schema: somebody else wrote it, or it is of another version."""


_PENDING = object_of({"run": text(), "kind": choice(CREATE, MOVE), "host": uuid, "op": text(), "claimed": flag})
_CHECKS: Dict[str, Check] = {
    # before: while the hosts change over, the incarnation that they come from, or an empty text if they had no registry
    META: object_of(
        {"schema": whole(SCHEMA, SCHEMA), "incarnation": text(64), "kind": text(32), "open": flag, "before": text(64)},
        optional=("before",),
    ),
    # reserved: what instances take there that the facts do not show yet, removed: epochs of those that they still show
    HOSTS: object_of(
        {
            "name": text(),
            "serial": COUNT,
            "generation": COUNT,
            "provider": COUNT,
            "read_at": number(0, float(1 << 40)),
            "trusted": flag,
            "reserved": map_of(uuid, mapping(anything), 10000),
            "removed": map_of(uuid, COUNT, 10000),
        }
    ),
    INSTANCES: object_of(
        {
            "name": text(),
            "project": text(),
            "owner": or_null(uuid),
            "epoch": COUNT,
            "pending": list_of(_PENDING, 10),
            "amounts": map_of(text(32), COUNT, 20),
            "group": or_null(uuid),
            "holds": list_of(text(1024), 1000),
            # hosts that were lost when the instance was made elsewhere or deleted: if they are back, they have an old copy
            "given_up": list_of(uuid, 100),
            # of the amounts, those of new volumes that outlive the instance
            "stays": map_of(text(32), COUNT, 20),
        },
        optional=("stays",),
    ),
    QUOTAS: map_of(text(32), COUNT, 20),
    GROUPS: map_of(uuid, list_of(uuid, 11), 10000),
}


def host(host_uuid: str) -> str:
    return HOSTS + host_uuid


def facts(host_uuid: str) -> str:
    return FACTS + host_uuid


def instance(instance_uuid: str) -> str:
    return INSTANCES + instance_uuid


def quota(project: str) -> str:
    return QUOTAS + project


def group(group_uuid: str) -> str:
    return GROUPS + group_uuid


def volume(volume_uuid: str) -> str:
    return VOLUMES + volume_uuid


def name(project: str, instance_name: str) -> str:
    return "%s%s/%s" % (NAMES, project, instance_name)


def of_nic(taken: str) -> str:
    """The key of an address or MAC address as nics.taken() writes it."""
    kind, _space, rest = taken.partition(" ")
    if kind == "MAC":
        return MACS + rest.removeprefix("address ")
    address, _on, network = rest.partition(" on ")
    return "%s%s/%s" % (ADDRESSES, network, address)


def nic_of(key: str) -> str:
    """The address as nics.taken() writes it, of a key of of_nic()."""
    if key.startswith(MACS):
        return "MAC address %s" % key.removeprefix(MACS)
    network, _slash, address = key.removeprefix(ADDRESSES).rpartition("/")
    return "address %s on %s" % (address, network)


def written(key: str, document: Any) -> Write:
    return Write(key, json.dumps(document, separators=(",", ":"), sort_keys=True).encode())


def written_facts(host_uuid: str, document: Document) -> Write:
    return Write(facts(host_uuid), zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6))


def document(key: str, found: Optional[Found]) -> Any:
    """The document, checked; None if there is none. Raises RegistryDocumentInvalid."""
    if found is None:
        return None
    kind = next((prefix for prefix in _CHECKS if key.startswith(prefix)), None)
    try:
        read = json.loads(found.value)
        return _CHECKS[kind](read) if kind else uuid(read)
    except Fault as fault:
        raise _invalid(key, fault.field(), show(fault.value), fault.rule) from None
    except ValueError:
        raise _invalid(key, "value", show(found.value[:80].decode("utf-8", "replace")), "JSON") from None


def unpacked_facts(key: str, found: Found) -> Any:
    """A host's document, which read_fleet checks."""
    try:
        unpacking = zlib.decompressobj()
        read = unpacking.decompress(found.value, MOST_FACTS)
        if unpacking.unconsumed_tail:
            raise _invalid(key, "value", None, "at most %d bytes" % MOST_FACTS)
        return json.loads(read)
    except (ValueError, zlib.error):
        raise _invalid(key, "value", None, "packed JSON") from None


def _invalid(key: str, field: str, value: Any, rule: str) -> RegistryDocumentInvalid:
    return RegistryDocumentInvalid(
        "%s in the registry: %s is not valid" % (key, field), field=field, value=value, rule=rule
    )


def new_instance(instance_name: str, project: str) -> Document:
    """Of one that the registry does not know yet."""
    nothing: Document = {
        "owner": None,
        "epoch": 0,
        "pending": [],
        "amounts": {},
        "group": None,
        "holds": [],
        "given_up": [],
    }
    return {"name": instance_name, "project": project, **nothing}


def hosts_of(entry: Document) -> List[str]:
    """The uuids of the hosts that have the instance, or may have it."""
    found = (entry["owner"], *(intent["host"] for intent in entry["pending"]))
    return [each for each in dict.fromkeys(found) if each]
