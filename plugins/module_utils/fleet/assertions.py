# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assertions about where instances are, each with why it does not hold. One of

{name, instances: query, host: query}: each instance that the first selects is on a host for which the second holds
{name, instances: query, spread: key}: they are spread over the values of the key (host, zone, or of aggregates' metadata)
{name, survive: n}, {name, room: {flavor: n}}, {name, query: over {hosts, instances}}
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..model import fleet_hints, shape
from ..model.errors import BerthError, InvalidInput, joined, together
from ..model.host_state import HostState, merged_metadata, zones
from ..model.messages import Document
from ..model.unknown_names import meant, nearest
from ..placement.filters.query import document_of, host_form
from ..placement.jmespath_query import Query
from . import questions
from .state import Fleet, State

FIELD = "berth_assertions"
INSTANCE: Document = {
    "name": "web1",
    "uuid": "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a",
    "project": "default",
    "host": "kvm1",
    "flavor": {"name": "small", "vcpus": 2, "memory_mb": 2048, "root_gb": 20},
    "image": "debian-12",
    "group": "web",
    "zone": "east",
    "metadata": {},
}
KINDS = (("instances", "host"), ("instances", "spread"), ("survive",), ("room",), ("query",))
KEYS = {"name", *(key for kind in KINDS for key in kind)}
_TEXT = shape.text(4096)


def _room(value: Any) -> Document:
    """flavor -> how many more fit, at least one: an assertion of nothing would hold in any fleet."""
    if value == {}:
        raise shape.Fault(None, "flavors with numbers of instances, such as {small: 10}")
    return shape.map_of(shape.text(255), shape.whole(1, 1000000), 1000)(value)


_ENTRY = shape.object_of(
    {
        "name": shape.text(255), "instances": _TEXT, "host": _TEXT, "spread": _TEXT, "query": _TEXT,
        "survive": shape.whole(1, 3), "room": _room,
    },
    optional=("instances", "host", "spread", "query", "survive", "room"),
)  # fmt: skip
MOST = 1000


class Checked(NamedTuple):
    """``why``: why it does not hold, "" if it does."""

    name: str
    why: str


def read(document: Any, path: str) -> List[Document]:
    """Raises InvalidInput about each entry that cannot be meant."""
    field = "%s %s" % (FIELD, path)
    if not isinstance(document, list) or not 1 <= len(document) <= MOST:  # a file that lost them all must not pass
        value = document if document is None else shape.show(document)
        hint = fleet_hints.write_assertions()
        raise InvalidInput(field, value, "a list of 1 to %d assertions" % MOST, hint=hint)
    return together([functools.partial(_entry, entry, "%s: [%d]" % (field, at)) for at, entry in enumerate(document)])


def _entry(given: Any, field: str) -> Document:
    keys = sorted(set(given) - KEYS, key=str) if isinstance(given, dict) else []
    rule = "one of %s" % ", ".join(sorted(KEYS))
    errors: List[BerthError] = [
        InvalidInput("%s.%s" % (field, shape.shorten(key)), key, rule, hint=_meant(key)) for key in keys
    ]
    for part in _parts(given):
        try:
            _check_part(part, field)
        except BerthError as error:
            errors.append(error)
    if errors:
        raise joined(errors)
    entry: Document = _ENTRY(given)
    if tuple(sorted(set(entry) - {"name"})) not in [tuple(sorted(kind)) for kind in KINDS]:
        rule = "beside its name one of " + "; ".join(" and ".join(kind) for kind in KINDS)
        raise InvalidInput("%s: %s" % (field, entry["name"]), sorted(entry), rule)
    return entry


def _parts(given: Any) -> List[Any]:
    """An entry for each field, so that the fault of one does not hide that of another."""
    if not isinstance(given, dict):
        return [given]
    named = {key: given[key] for key in given if key == "name"}
    return [named, *({"name": "-", key: given[key]} for key in given if key in KEYS and key != "name")]


def _check_part(part: Any, field: str) -> None:
    try:
        entry = _ENTRY(part)
    except shape.Fault as fault:
        where = fault.field() if fault.path else ""
        raise InvalidInput(".".join(filter(None, [field, where])), fault.value, fault.rule)
    _check_queries(entry, field)


def _meant(key: Any) -> Optional[str]:
    near = nearest(key, KEYS)
    return near and meant(near)


def _forms() -> Document:
    """The form of what each query is about."""
    return {"instances": INSTANCE, "host": host_form(), "query": {"hosts": [host_form()], "instances": [INSTANCE]}}


def _check_queries(entry: Document, field: str) -> None:
    together(
        functools.partial(Query, entry[key], "%s.%s" % (field, key), form)
        for key, form in _forms().items()
        if key in entry
    )


def check(fleet: Fleet, entries: List[Document], flavors: Mapping[str, Document]) -> List[Checked]:
    """``flavors``: name -> a request of one instance with it. Raises InvalidInput for a query that cannot be meant."""
    asked = _Asked(fleet, flavors)
    found = together([functools.partial(asked.why_not, entry) for entry in entries])
    return [Checked(entry["name"], why) for entry, why in zip(entries, found)]


class _Asked:
    def __init__(self, fleet: Fleet, flavors: Mapping[str, Document]) -> None:
        self.fleet, self.flavors, self.state = fleet, flavors, State(fleet)
        self.zones = zones([each.to_dict() for each in self.state.scheduler.aggregates])
        self.instances = [self._document(uuid) for uuid in sorted(self.state.where, key=self._name)]

    def _name(self, uuid: str) -> str:
        return self.fleet.instances[uuid].name

    def _document(self, uuid: str) -> Document:
        request = self.fleet.instances[uuid].request
        flavor = request["flavor"]
        return {
            "name": self._name(uuid),
            "uuid": uuid,
            "project": request.get("project_id") or "",
            "host": self.state.where[uuid],
            "flavor": {part: flavor.get(part) for part in INSTANCE["flavor"]},
            "image": (request.get("image") or {}).get("name") or "",
            "group": (request.get("group") or {}).get("name") or "",
            "zone": request.get("availability_zone") or "",
            "metadata": dict(request.get("metadata") or {}),
        }

    def why_not(self, entry: Document) -> str:
        field = "%s: %s" % (FIELD, entry["name"])
        if "survive" in entry:
            return self._not_surviving(questions.survive(self.fleet, entry["survive"]))
        if "room" in entry:
            wanted = sorted(entry["room"].items())
            return "; ".join(filter(None, [self._no_room(name, number, field) for name, number in wanted]))
        if "query" in entry:
            query = Query(entry["query"], field, _forms()["query"])
            return "" if query.holds(self._all()) else "%s is not so" % entry["query"]
        query = Query(entry["instances"], field, INSTANCE)
        chosen = [each for each in self.instances if query.holds(each)]
        if not chosen:
            return "%s selects no instance" % entry["instances"]
        return (
            self._not_on(chosen, entry["host"], field) if "host" in entry else self._not_spread(chosen, entry["spread"])
        )

    def _all(self) -> Document:
        hosts = [document_of(host_form(), state) for _host, state in sorted(self.state.hosts.items())]
        return {"hosts": hosts, "instances": self.instances}

    @staticmethod
    def _not_surviving(found: questions.Survival) -> str:
        lost = "without %s no place was found for %s" % (", ".join(found.hosts), ", ".join(found.names))
        return lost if found.hosts else ""

    def _no_room(self, name: str, number: int, field: str) -> str:
        if name not in self.flavors:
            raise InvalidInput(field, name, "a flavor of the catalog")
        count = questions.capacity(self.fleet, self.flavors[name]).count
        return "" if count >= number else "%d more of %s fit, not %d" % (count, name, number)

    def _not_on(self, chosen: List[Document], text: str, field: str) -> str:
        query = Query(text, field, host_form())
        good = {host for host, state in self.state.hosts.items() if query.holds(document_of(query.names, state))}
        return ", ".join("%(name)s is on %(host)s" % each for each in chosen if each["host"] not in good)

    def _not_spread(self, chosen: List[Document], key: str) -> str:
        """As evenly as the hosts' values let: no value has more than one instance above its share."""
        value_of = {host: self._value(state, key) for host, state in self.state.hosts.items()}
        values = set(filter(None, value_of.values()))
        nowhere = ["%(name)s is on %(host)s" % each for each in chosen if not value_of[each["host"]]]
        if nowhere:
            return "%s, which has no %s" % (", ".join(nowhere), key)
        held: Dict[str, List[str]] = {}
        for each in chosen:
            held.setdefault(value_of[each["host"]], []).append(each["name"])
        most = -(-len(chosen) // len(values))
        full = ["%s has %s" % (value, ", ".join(names)) for value, names in sorted(held.items()) if len(names) > most]
        return "%s; at most %d of each %s is even" % ("; ".join(full), most, key) if full else ""

    def _value(self, state: HostState, key: str) -> str:
        if key == "host":
            return state.host
        if key == "zone":
            return self.zones.get(state.host, "")
        return ",".join(sorted(merged_metadata(state.aggregates).get(key, ())))
