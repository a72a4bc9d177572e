# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a simulated host does for the modules that change it: claims are granted and seen by the next rescan, builds succeed.

Run by simulated_host.c with the host's folder and the module's name; the module as Ansible sent it is the input.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path


def arguments(sent):
    begin = sent.rindex("params='") + len("params=")
    document = json.loads(ast.literal_eval(sent[begin : sent.index("',\n", begin) + 1]))
    return document.get("ANSIBLE_MODULE_ARGS", document)


def claim(folder, params):
    scan = json.loads((folder / "no-claims.json").read_text())
    granted = [granted_claim(claim["spec"], claim["token"]) for claim in params.get("claims") or ()]
    scan["instances"] += [record_of(claim["spec"], claim["token"]) for claim in params.get("claims") or ()]
    if granted:
        (folder / "rescan.json").write_text(json.dumps(scan))
    gone = [{"uuid": each["uuid"], "withdrawn": True} for each in params.get("withdraw") or ()]
    return {"changed": True, "results": granted, "withdrawn": gone}


def granted_claim(spec, token):
    flavor = spec["flavor"]
    room = {"vcpus": flavor["vcpus"], "pcpus": 0, "memory_mb": flavor["memory_mb"], "disk_gb": flavor["root_gb"]}
    return {
        "uuid": spec["uuid"], "name": spec["name"], "claimed": True, "token": token, "error": None,
        "allocation": {**room, "numa_topology": None, "pci_devices": []},
    }  # fmt: skip


def record_of(spec, token):
    flavor = spec["flavor"]
    return {
        "uuid": spec["uuid"], "name": spec["name"], "project_id": spec["project_id"], "role": "CLAIM",
        "generation": [0, 1], "phase": "claimed", "token": token, "power_state": None, "group": None, "pcpus": 0,
        "vcpus": flavor["vcpus"], "memory_mb": flavor["memory_mb"], "nics": [],
    }  # fmt: skip


def instance(_folder, params):
    """An instance whose claim has a token is made now, another one is there already."""
    shown = {
        "uuid": params["uuid"],
        "name": params["spec"]["name"],
        "state": "running",
        "role": "OWN",
        "phase": "active",
    }
    return {"changed": bool(params.get("token")), "instance": {**shown, "generation": [1, 4], "vm_state": "active"}}


def build_instances(folder, params):
    builds = [{"uuid": each["uuid"], "reply": instance(folder, each)} for each in params["builds"]]
    return {"changed": True, "builds": builds}


HANDLERS = {
    "build_instances": build_instances,
    "claim": claim,
    "instance": instance,
}

if __name__ == "__main__":
    print(json.dumps(HANDLERS[sys.argv[2]](Path(sys.argv[1]), arguments(sys.stdin.read()))))
