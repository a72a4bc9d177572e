# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the Python of a KVM host: reads the module that Ansible sends, notes its arguments, and replies as recorded.

Run as DIRECTORY/python. DIRECTORY/good.json has the host's replies by module, and more in every reply if there is an extra.json.
The module that DIRECTORY/../halts.json names takes a minute, after DIRECTORY/../halted was made.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import time

CLAIMED, MET, HALTS, HALTED = "claimed.json", "../met", "../halts.json", "../halted"


def main(directory):
    text = sys.stdin.read()
    name = re.findall(r"module_fqn='[\w.]+\.(\w+)'", text)[-1]
    literal = text[text.rindex("params='") + 7 :]
    params = json.loads(ast.literal_eval(literal[: literal.index("',\n") + 1]))["ANSIBLE_MODULE_ARGS"]
    given = {key: value for key, value in params.items() if not key.startswith("_ansible_")}
    with open(os.path.join(directory, "asked.jsonl"), "a", encoding="utf-8") as log:
        log.write(json.dumps({"module": name, "arguments": given}, sort_keys=True) + "\n")
    if load(directory, HALTS) == name:
        with open(os.path.join(directory, HALTED), "w", encoding="utf-8"):
            time.sleep(60)
    reply = answer(directory, name, given, params.get("_ansible_check_mode"))
    extra = load(directory, "extra.json") or {}
    facts = {**extra.get("ansible_facts", {}), **reply.get("ansible_facts", {})}
    print(json.dumps({**extra, **reply, **({"ansible_facts": facts} if facts else {})}))


def load(directory, name):
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def answer(directory, name, given, check_mode):
    good = load(directory, "good.json")
    reply = good.get(name, {"changed": False})
    if name == "setup":
        return {"changed": False, "ansible_facts": {"ansible_service_mgr": "systemd", "ansible_pkg_mgr": "apt"}}
    if name == "claim":
        return claim(directory, given)
    if name == "rescan":
        claimed = load(directory, CLAIMED) or []
        return {**reply, "instances": reply["instances"] + claimed}
    if name == "host_facts":
        if os.path.exists(os.path.join(directory, MET)) or has_looked(directory):
            reply = load(directory, "after.json")
        beside = [each for each in reply.get("attached", ()) if each["uuid"] in given.get("about", ())]
        asked, reply = {**given, "ansible_facts": True, "notes": given.get("about")}, {**reply, "attached": beside}
        return {part: value for part, value in reply.items() if asked.get(part)}
    if name in ("instance", "instance_backup"):
        return of_instance(reply, given)
    if name == "build_instances":
        builds = [{"uuid": each["uuid"], "reply": of_instance(good["instance"], each)} for each in given["builds"]]
        return {"changed": True, "builds": builds}
    if name == "migration":
        return {**migrate(directory, reply, given), **({"changed": False} if check_mode else {})}
    return reply


def has_looked(directory):
    """Whether ended.json says that the move ends as soon as a run has looked, and one has."""
    if not (load(directory, "ended.json") or {}).get("looked"):
        return False
    with open(os.path.join(directory, "asked.jsonl"), encoding="utf-8") as log:
        return sum(json.loads(line)["module"] == "host_facts" for line in log) > 1


def of_instance(reply, given):
    """A reply of module instance, for the instance that was asked about. A start has repaired nothing."""
    if "instance" not in reply:
        return reply
    name = (given.get("spec") or {}).get("name") or "x"
    said = {**reply["instance"], "uuid": given["uuid"], "name": name}
    return {**reply, "instance": {**said, **({"mended": None} if given.get("state") == "started" else {})}}


def claim(directory, given):
    results, claimed = [], load(directory, CLAIMED) or []
    for entry in given.get("claims") or []:
        spec = entry["spec"]
        flavor = spec["flavor"]
        record = {part: spec[part] for part in ("uuid", "name", "project_id")}
        amounts = {"vcpus": flavor["vcpus"], "pcpus": 0, "memory_mb": flavor["memory_mb"]}
        claimed.append(
            {
                **record, **amounts, "role": "CLAIM", "generation": [0, 1], "phase": "claimed", "token": entry["token"],
                "power_state": None, "group": (spec.get("group") or {}).get("name"), "nics": [],
            }
        )  # fmt: skip
        held = {"uuid": spec["uuid"], "name": spec["name"], "claimed": True, "token": entry["token"], "error": None}
        results.append({**held, "allocation": {**amounts, "disk_gb": 1, "numa_topology": None, "pci_devices": []}})
    with open(os.path.join(directory, CLAIMED), "w", encoding="utf-8") as file:
        json.dump(claimed, file)
    return {"changed": bool(results), "results": results, "withdrawn": []}


def migrate(directory, reply, given):
    """Whatever the steps are, the move that was begun is where it was; refuse.json has the steps that fail here, and
    ended.json those that say, once or always, that the move has just ended: from then on after.json has the facts."""
    ended = load(directory, "ended.json") or {}
    if set(given.get("steps") or ()) & set(ended.get("steps", ())):
        with open(os.path.join(directory, MET), "a", encoding="utf-8") as met:
            if ended["always"] or not met.tell():
                met.write("met\n")
                error = {"code": "MigrationEnded", "message": "the move has just ended", "retryable": False}
                return {"failed": True, "msg": "MigrationEnded: " + error["message"], "error": error}
    if set(given.get("steps") or ()) & set(load(directory, "refuse.json") or ()):
        error = {"code": "TestRefuses", "message": "%s refuses" % os.path.basename(directory), "retryable": True}
        return {"failed": True, "msg": "TestRefuses: " + error["message"], "error": error}
    op = (given.get("token") or {}).get("op")
    said = reply.get("moves", {}).get(given["uuid"], reply["move"])
    move = {**said, "op": op, "migration": {**said["migration"], "id": op}}
    return {"changed": True, "move": move, "token": {"op": op, "attempt": 1}, "took": {}}
