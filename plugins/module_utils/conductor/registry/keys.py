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
from typing import Any, Dict, Iterable, List, Mapping, Optional, Type

from ...model import host_document, registry_documents
from ...model.errors import BerthError
from ...model.messages import Document
from ...model.shape import Check, Fault, anything, flag, list_of, map_of, mapping, number, object_of, show, text, uuid
from ..procedures.steps import Found, Write

PREFIX = "/berth/"  # of all of them
META, INSTANCES = registry_documents.META, registry_documents.INSTANCES
HOSTS, FACTS, QUOTAS, GROUPS = "/berth/host/", "/berth/facts/", "/berth/quota/", "/berth/group/"
NAMES, ADDRESSES, MACS, VOLUMES = "/berth/name/", "/berth/addr/", "/berth/mac/", "/berth/volume/"
SCHEMA = registry_documents.SCHEMA
MOST_FACTS = 1 << 24  # bytes of one host's document
AT_ONCE = 500  # documents that are read as one text, so that the names of their fields are there once
CREATE, MOVE, CHANGE = registry_documents.CREATE, registry_documents.MOVE, registry_documents.CHANGE
COUNT = registry_documents.COUNT


class RegistryDocumentInvalid(BerthError):
    """A document in the registry's engine breaks its schema: somebody else wrote it, or it is of another version."""


class RegistryDocumentRefused(BerthError):
    """What was to be written to the registry breaks its schema. Nothing was written."""


_CHECKS: Dict[str, Check] = {
    META: registry_documents.REGISTRY,
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
    INSTANCES: registry_documents.INSTANCE,
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
    """Raises RegistryDocumentRefused: no run could read it."""
    try:
        _check_of(key)(document)
    except Fault as fault:
        raise _invalid(RegistryDocumentRefused, key, fault.field(), show(fault.value), fault.rule) from None
    return Write(key, json.dumps(document, separators=(",", ":"), sort_keys=True).encode())


def written_facts(host_uuid: str, document: Document) -> Write:
    """Raises HostDocumentInvalid: what is there is sealed as checked."""
    checked = host_document.check(document)
    return Write(
        facts(host_uuid), zlib.compress(json.dumps(checked, separators=(",", ":"), sort_keys=True).encode(), 6)
    )


def document(key: str, found: Optional[Found]) -> Any:
    """The document, checked; None if there is none. Raises RegistryDocumentInvalid."""
    if found is None:
        return None
    try:
        return _check_of(key)(json.loads(found.value))
    except Fault as fault:
        raise _invalid(RegistryDocumentInvalid, key, fault.field(), show(fault.value), fault.rule) from None
    except ValueError:
        text = show(found.value[:80].decode("utf-8", "replace"))
        raise _invalid(RegistryDocumentInvalid, key, "value", text, "JSON") from None


def _check_of(key: str) -> Check:
    return next((check for prefix, check in _CHECKS.items() if key.startswith(prefix)), uuid)


def unpacked_facts(found: Mapping[str, Found]) -> Dict[str, Any]:
    """Key -> the document of a host: a Checked where it is sealed, else one that read_fleet checks."""
    sealed = [key for key in found if found[key].sealed]
    documents = {key: _loaded(key, _unpacked(key, found[key])) for key in found.keys() - sealed}
    for at in range(0, len(sealed), AT_ONCE):
        some = sealed[at : at + AT_ONCE]
        read = json.loads(b"[%s]" % b",".join(_unpacked(key, found[key]) for key in some))
        documents.update(zip(some, map(host_document.Checked, read)))
    return documents


def _unpacked(key: str, found: Found) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        read = unpacking.decompress(found.value, MOST_FACTS)
    except zlib.error:
        raise _invalid_facts(key, "packed JSON") from None
    if unpacking.unconsumed_tail:
        raise _invalid_facts(key, "at most %d bytes" % MOST_FACTS)
    return read


def _loaded(key: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise _invalid_facts(key, "packed JSON") from None


def _invalid_facts(key: str, rule: str) -> BerthError:
    return _invalid(RegistryDocumentInvalid, key, "value", None, rule)


def _invalid(error: Type[BerthError], key: str, field: str, value: Any, rule: str) -> BerthError:
    return error("%s in the registry: %s is not valid" % (key, field), field=field, value=value, rule=rule)


def is_of_cluster(meta: Document, cluster: str) -> bool:
    """Whether the engine is the one that META was written to."""
    return bool(meta.get("cluster", cluster) == cluster)


def intent(run: str, kind: str, host_uuid: str, op: Optional[str], claimed: bool = True) -> Document:
    """What a run is about to do. ``op``: a name for it, which no other has; ``claimed``: whether the host has it, or may have."""
    return {"run": run, "kind": kind, "host": host_uuid, "op": op, "claimed": claimed}


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


def epoch_of(told: Mapping[str, Any]) -> int:
    """The epoch of a record, or of what else has a generation."""
    epoch: int = (told.get("generation") or [0])[0]
    return epoch


def give_up(entry: Document, lost: Iterable[str]) -> None:
    """They are asked as long as the registry knows the instance: one that is back has an old copy of it."""
    entry["given_up"] = list(dict.fromkeys([*entry["given_up"], *lost]))


def hosts_of(entry: Document) -> List[str]:
    """The uuids of the hosts that have the instance, or may have it."""
    found = (entry["owner"], *(intent["host"] for intent in entry["pending"]))
    return [each for each in dict.fromkeys(found) if each]
