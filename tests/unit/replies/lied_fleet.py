# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Honest hosts in memory, of which one may lie in one reply, and a controller in memory that asks them.

What hosts reply is from good.py; every reply goes through the check that all replies go through.
"""

from __future__ import annotations

import copy
import itertools
import sys

import fake_fleet
import fake_host
import good
import schema_lies

sys.path.insert(0, str(good.HERE.parent / "plugins" / "action"))
from controller import Controller  # noqa: E402 -- the path is set just above

from ansible_collections.berth.kvm.plugins.module_utils.model import reply  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid  # noqa: E402

LIAR = "h1"
SILENT = frozenset({LIAR})  # in place of a lie: hosts that do not answer at all
AT_REST = {"at-rest-%s" % host: host for host in good.HOSTS}
NAMES = [*AT_REST, "resized", "new-1", "new-2"]
IDS = {name: good.spec(name)["uuid"] for name in NAMES}
ENTITIES = list(zip(IDS.values(), IDS))
HOSTS = list(zip(good.UUIDS.values(), good.HOSTS))
VOLUMES = [(volume_uuid("default", "db-" + host), "db-" + host) for host in good.HOSTS]
SPARE = {host: volume_uuid("default", "spare-" + host) for host in good.HOSTS}
WORDS = (
    *itertools.chain(*HOSTS), "h9", *IDS.values(), *IDS, *VOLUMES[1], SPARE["h2"], "spare-h2", "default", "other", "web",
    "small", "192.0.2.9", good.OP, "c" * 32, "20260102T030405Z", "active", "deleting", "resizing", "error", "running",
    "shutdown", "no",
)  # fmt: skip
OF_NOTES = {"planned": [], "after": 0, "gone": None, "left": None}


def roomy(value):
    """A copy in which the server group keeps nobody away: the others would be compared with a run that is refused."""
    if isinstance(value, dict):
        return {key: 20 if key == "max_server_per_host" else roomy(part) for key, part in value.items()}
    return [roomy(part) for part in value] if isinstance(value, list) else value


def known(host, uuid):
    """What an honest host remembers of an instance that another one has."""
    owners = {**{IDS[name]: where for name, where in AT_REST.items()}, IDS["resized"]: "h2"}
    owner = owners.get(uuid)
    if owner in (None, host):
        return None
    numbers = [2, 3] if uuid == IDS["resized"] else [1, 4]
    return {"known": {"host": owner, "host_uuid": good.UUIDS[owner], "generation": numbers}, **OF_NOTES}


def notes(host, about):
    return {uuid: note for uuid in about or () for note in [known(host, uuid)] if note}


class Host:
    """An honest one: what it replies to each module, and the claims that it got."""

    def __init__(self, name):
        self.name, self.claimed = name, []
        self.replies = {module: make(name)[1] for module, make in good.KINDS.values() if make is not good.failure}
        facts = self.replies["host_facts"] = good.host_facts(name)[1]
        held = {record.uuid: record for record in good.held_by(name)}
        for instance in facts["ansible_facts"]["berth_host"]["instances"]:
            instance.update(generation=list(held[instance["uuid"]].generation), domain_differs={}, unfiltered=[])
            instance.update(access_ips=[], availability_zone=None)
        volumes = facts["ansible_facts"]["berth_host"]["volumes"]
        spare = {"uuid": SPARE[name], "name": "spare-" + name, "instance": None, "grows_from_gb": 20}
        volumes.append({**volumes[0], **spare})
        for view in facts["moves"]:
            view["confirm_in"] = None if view["confirm_in"] is None else 0
        facts["looks"] = [good.look(good.record("at-rest-" + name))]
        self.replies = roomy(self.replies)

    def answer(self, module, given):
        made = getattr(self, "of_" + module, None)
        return made(given) if made else self.replies[module]

    def of_host_facts(self, given):
        facts = {**self.replies["host_facts"], "looks": self.replies["host_facts"]["looks"]}
        facts.update(notes=notes(self.name, given.get("about")), digests=fake_fleet.digests(), addresses={})
        facts["checkup"] = {"clock": 1000.0, "findings": [dict(good.FOUND)], "notes": notes(self.name, IDS.values())}
        facts["heard_of"] = list(notes(self.name, IDS.values()))
        asked = {**given, "ansible_facts": True, "members": True, "notes": given.get("about")}
        return {"changed": False, **{part: value for part, value in facts.items() if asked.get(part)}}

    def of_rescan(self, given):
        scan = self.replies["rescan"]
        held = [each for each in scan["instances"] if each["role"] != "CLAIM"]
        return {**scan, "instances": held + self.claimed, "notes": notes(self.name, given.get("about"))}

    def of_claim(self, given):
        results = []
        for entry in given.get("claims") or []:
            spec, flavor = entry["spec"], entry["spec"]["flavor"]
            named = {part: spec[part] for part in ("uuid", "name", "project_id")}
            amounts = {"vcpus": flavor["vcpus"], "pcpus": 0, "memory_mb": flavor["memory_mb"]}
            of_claim = dict(role="CLAIM", generation=[0, 1], phase="claimed", token=entry["token"], power_state=None)
            self.claimed.append({**named, **amounts, **of_claim, "group": "web", "nics": []})
            held = {"uuid": spec["uuid"], "name": spec["name"], "claimed": True, "token": entry["token"], "error": None}
            results.append({**held, "allocation": {**amounts, "disk_gb": 1, "numa_topology": None, "pci_devices": []}})
        return {"changed": bool(results), "results": results, "withdrawn": []}

    def of_instance(self, given):
        return fake_host.of_instance(self.replies["instance"], given)

    def of_build_instances(self, given):
        made = [{"uuid": each["uuid"], "reply": self.of_instance(each)} for each in given["builds"]]
        return {"changed": True, "builds": made}

    def of_instance_info(self, given):
        if given.get("events_seconds") is not None:
            return {
                "changed": False,
                "instances": [],
                "foreign": [],
                "histories": self.replies["instance_info"]["histories"],
            }
        held = [good.shown(record) for record in good.held_by(self.name)]
        return {"changed": False, "instances": [each for each in held if each["uuid"] in given["uuids"]], "foreign": []}

    def of_migration(self, given):
        name = {uuid: name for name, uuid in IDS.items()}[given["uuid"]]
        said = fake_fleet.moving(self.name, name)["move"]
        op = (given.get("token") or {}).get("op")
        move = {**said, "op": op, "migration": {**said["migration"], "id": op}, "ended": False}
        return {"changed": True, "move": move, "token": {"op": op, "attempt": 1}, "took": {}}

    def of_volume(self, given):
        return {"changed": True, "uuid": given["uuid"]}

    def of_volume_info(self, given):
        told = self.replies["volume_info"]["volumes"]
        held = [each for each in told if each["uuid"] in given["uuids"]]
        return {"changed": False, "volumes": held, "deleted": []}


class Fleet:
    """``lie``: (module, (path, value)) of the liar's replies, or SILENT, or more hosts. ``asked``: [(host, module, arguments)]."""

    def __init__(self, lie=None):
        self.lie, self.asked = lie, []
        self.hosts = {name: Host(name) for name in good.HOSTS}
        self.honest = []  # what the liar would have said: [(module, arguments, reply)]

    def run_on(self, hosts, module, arguments, _task, _at_once, _seconds, at=None):
        """In place of plugin_utils/delegates.run_on."""
        name = module.rpartition(".")[2]
        return {host: self.ask((at or {}).get(host, host), name, arguments[host]) for host in hosts}

    def ask(self, host, module, given):
        self.asked.append((host, module, copy.deepcopy(given)))
        if isinstance(self.lie, frozenset) and host in self.lie:
            return {"unreachable": True, "msg": "no route"}
        said = self.hosts[host].answer(module, given)
        if host == LIAR:
            self.honest.append((module, given, said))
            said = self.told(module, said)
        try:
            return {"failed": False, **reply.check(module, said, host, given)}
        except BerthError as error:
            return {"failed": True, "changed": False, **error.to_result()}

    def told(self, module, said):
        if not isinstance(self.lie, tuple) or self.lie[0] != module:
            return said
        try:
            return schema_lies.told(said, self.lie[1])
        except (KeyError, IndexError, TypeError):  # this reply has no such part
            return said


def controller(more=None):
    """The inventory of fake_fleet.build, with a volume and an address for each instance at rest."""
    plain = {"berth_image": "guest", "berth_server_group": "web", "berth_flavor": "small"}
    named = {name: dict(plain) for name in NAMES}
    named["new-2"].pop("berth_server_group")
    for name, host in AT_REST.items():
        named[name].update(berth_volumes=["db-" + host])
    volumes = {"db-" + host: {"size_gb": 20} for host in good.HOSTS}
    shared = {**roomy(good.CATALOG), "berth_volumes_defined": volumes, **(more or {})}
    it = Controller({"kvm_hosts": good.HOSTS, "instances": list(named)}, {"all": shared, **named})
    it.named = list(named)
    return it
