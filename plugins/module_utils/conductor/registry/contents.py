# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all keys of the registry are to say by what the hosts say, beside those about the hosts themselves: who owns each
instance, and what follows from that: names, addresses, volumes, groups and quotas."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ...model.identity import group_uuid
from ...model.messages import Document
from ...model.quota import usage
from ..procedures.steps import Found, Procedure, Scan
from . import holdings, keys
from .owners import Difference, Seen, decided

INSTANCE_AMOUNTS = ("instances", "cores", "ram")
# Those that follow from the instances, and change only with one of them. Read after these: one that is newer is left alone.
FOLLOWING = (keys.NAMES, keys.ADDRESSES, keys.MACS, keys.VOLUMES, keys.GROUPS, keys.QUOTAS)


class Kept(NamedTuple):
    """What the registry has. ``revision``: as of which it had these instances."""

    found: Dict[str, Found]
    revision: int

    def entries(self) -> Dict[str, Document]:
        """By uuid."""
        return {
            key[len(keys.INSTANCES) :]: keys.document(key, found)
            for key, found in self.found.items()
            if key.startswith(keys.INSTANCES)
        }


class Wanted(NamedTuple):
    """``documents``: by key, None where it is to be removed, of those that differ."""

    entries: Dict[str, Document]
    documents: Dict[str, Any]
    differences: List[Difference]


def kept() -> Procedure[Kept]:
    answer = yield Scan(keys.INSTANCES)
    found = dict(answer["found"])
    for prefix in FOLLOWING:
        found.update((yield Scan(prefix))["found"])
    return Kept(found, answer["revision"])


def wanted(known: Kept, seen: Seen) -> Wanted:
    before = known.entries()
    entries: Dict[str, Document] = {}
    differences: List[Difference] = []
    volumes = _volumes(seen)
    for uuid in sorted({*before, *seen.records, *_remembered(seen)}):
        entry, difference = decided(uuid, before.get(uuid), seen)
        entry = _with_amounts(uuid, entry, seen, volumes.get(uuid, []))
        differences += [difference] if difference else []
        if entry["epoch"] or keys.hosts_of(entry):
            entries[uuid] = entry
    holders = _holders(entries, differences)
    following = {**holders, **_groups(entries), **_quotas(entries, seen, known)}
    found: Dict[str, Any] = {}
    for key in sorted({*following, *known.found} - set(map(keys.instance, before))):
        has = keys.document(key, known.found.get(key))
        if _plain(has) != _plain(following.get(key)):
            found[key] = following.get(key)
            differences.append(_difference(key, has, following.get(key), entries))
    found.update({keys.instance(uuid): entry for uuid, entry in entries.items() if entry != before.get(uuid)})
    return Wanted(entries, found, differences)


def _remembered(seen: Seen) -> Iterable[str]:
    return {uuid for notes in seen.fleet.notes.values() for uuid in notes}


def _with_amounts(uuid: str, entry: Document, seen: Seen, volumes: List[str]) -> Document:
    """With what it holds, by its hosts. What no host shows stays as it was, and what has no host gives back all."""
    records = [record for _host, record in seen.records.get(uuid, ())]
    if not keys.hosts_of(entry):
        rest = {part: value for part, value in entry.items() if part != "stays"}
        return {**rest, "amounts": {}, "group": None, "holds": []}
    if not records:
        return entry
    project, name = records[0]["project_id"], records[0].get("own_name") or records[0]["name"]
    used = usage([{"instances": records}])[project]
    amounts = {**entry["amounts"], **{part: used[part] for part in INSTANCE_AMOUNTS}}
    group = next((record["group"] for record in records if record["group"]), None)
    nics = [taken for record in records for taken in record.get("nics") or ()]
    holds = holdings.held_of({"nics": nics}, project, name, volumes)
    return {
        **entry,
        "name": name,
        "project": project,
        "amounts": amounts,
        "group": group_uuid(project, group) if group else None,
        "holds": entry["holds"] if set(entry["holds"]) == set(holds) else list(dict.fromkeys(holds)),
    }


def _volumes(seen: Seen) -> Dict[str, List[str]]:
    """Instance -> the keys of its volumes."""
    found: Dict[str, List[str]] = {}
    for _host, volume in seen.fleet.volumes():
        if volume["instance"]:
            found.setdefault(volume["instance"]["uuid"], []).append(keys.volume(volume["uuid"]))
    return found


def _holders(entries: Mapping[str, Document], differences: List[Difference]) -> Dict[str, str]:
    holders: Dict[str, str] = {}
    for uuid, entry in entries.items():
        for key in entry["holds"]:
            other = holders.setdefault(key, uuid)
            if other != uuid:
                text = "%s and %s both have it" % (entries[other]["name"], entry["name"])
                differences.append(Difference(described(key), text, mends=False))
    return holders


def _groups(entries: Mapping[str, Document]) -> Dict[str, Dict[str, List[str]]]:
    groups: Dict[str, Dict[str, List[str]]] = {}
    for uuid, entry in entries.items():
        hosts = keys.hosts_of(entry)
        if entry["group"] and hosts:
            groups.setdefault(keys.group(entry["group"]), {})[uuid] = hosts
    return groups


def _quotas(entries: Mapping[str, Document], seen: Seen, known: Kept) -> Dict[str, Dict[str, int]]:
    """Of instances what each takes, and all volumes of the hosts, whoever has them. While a host is silent, volumes are no fewer
    than the registry says."""
    used: Dict[str, Dict[str, int]] = {}
    for uuid, entry in entries.items():
        shown = uuid in seen.records
        for part, amount in entry["amounts"].items():
            if part in INSTANCE_AMOUNTS or not shown:
                _add(used.setdefault(entry["project"], {}), part, amount)
    documents = [{"volumes": document.get("volumes")} for document in seen.fleet.documents.values()]
    for project, amounts in usage(documents).items():
        for part, amount in amounts.items():
            _add(used.setdefault(project, {}), part, amount)
    if not seen.still and set(seen.names) - seen.answering - set(seen.lost):
        for key in [key for key in known.found if key.startswith(keys.QUOTAS)]:
            amounts = used.setdefault(key[len(keys.QUOTAS) :], {})
            for part, amount in keys.document(key, known.found[key]).items():
                if part not in INSTANCE_AMOUNTS:
                    amounts[part] = max(amount, amounts.get(part, 0))
    return {keys.quota(project): amounts for project, amounts in used.items()}


def _add(amounts: Dict[str, int], part: str, amount: int) -> None:
    amounts[part] = amounts.get(part, 0) + amount


def _plain(document: Any) -> Any:
    """What is nothing is as what is not there."""
    if isinstance(document, dict):
        return {part: value for part, value in document.items() if value} or None
    return document


def described(key: str) -> str:
    """What a key is about, for people."""
    for prefix, word in ((keys.QUOTAS, "project"), (keys.GROUPS, "server group"), (keys.VOLUMES, "volume")):
        if key.startswith(prefix):
            return "%s %s" % (word, key[len(prefix) :])
    if key.startswith(keys.NAMES):
        project, _slash, name = key[len(keys.NAMES) :].partition("/")
        return "name %s in project %s" % (name, project)
    return keys.nic_of(key)


def _difference(key: str, has: Any, want: Any, entries: Mapping[str, Document]) -> Difference:
    if key.startswith(keys.QUOTAS):
        return Difference(described(key), "it uses %s, the registry says %s" % (_amounts(want), _amounts(has)))
    if key.startswith(keys.GROUPS):
        text = "it has %d members, the registry says %d"
        changed = {uuid for uuid in {*(has or {}), *(want or {})} if (has or {}).get(uuid) != (want or {}).get(uuid)}
        named = ", ".join(sorted(_named(uuid, entries) for uuid in changed))
        return Difference(described(key), "%s: %s" % (text % (len(want or {}), len(has or {})), named))
    text = "%s has it, the registry says %s" % (_named(want, entries), _named(has, entries))
    return Difference(described(key), text)


def _amounts(amounts: Optional[Mapping[str, int]]) -> str:
    shown: List[Tuple[str, int]] = [(part, amount) for part, amount in sorted((amounts or {}).items()) if amount]
    return ", ".join("%d %s" % (amount, part) for part, amount in shown) or "nothing"


def _named(uuid: Optional[str], entries: Mapping[str, Document]) -> str:
    if uuid is None:
        return "nobody"
    return str(entries[uuid]["name"]) if uuid in entries else uuid
