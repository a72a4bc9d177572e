# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts for the tests of remove_host: what they tell, what they are asked and reply."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from held_case import WEB

HOST = json.loads((Path(__file__).parent / "host.json").read_text())
SILENT = {"reason": "UNREACHABLE: no route"}
UUIDS = {name: str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in ("kvm1", "kvm2", "kvm3")}


def up(name, *instances, volumes=(), seen=None):
    """A host that answers; ``seen``: the host on which it remembers web1."""
    own = {"uuid": UUIDS[name], "instances": list(instances), "num_instances": len(instances), "volumes": list(volumes)}
    known = seen and {"host": seen, "host_uuid": UUIDS[seen], "generation": [1, 4]}
    notes = {WEB: {"known": known, "planned": [], "after": 0, "gone": None}} if seen else {}
    return {"ansible_facts": {"berth_host": {**HOST, **own}}, "notes": notes}


CLEANED = {"removed": ["/etc/berth/host.json"], "left": [], "restart": []}
NOTHING = {"removed": ["/var/cache/berth"], "left": [], "restart": []}


class Hosts:
    """What hosts reply, and were asked: [(host, module, arguments)]. ``cleans``: of host_clean, in order; ``deaf``: whose only one;
    ``heard_of``: of what is in no inventory, host -> what it remembers."""

    def __init__(self):
        self.asked, self.cleans, self.deaf, self.heard_of = [], [], {}, {}

    def run_on(self, hosts, module, arguments, _task, _at_once, _seconds):
        name = module.rpartition(".")[2]
        self.asked += [(host, name, arguments[host]) for host in hosts]
        reply = {"changed": False}
        if name == "host_clean":
            reply = self.cleans.pop(0) if self.cleans else {"changed": True, **CLEANED}
        of_hosts = {host: {**reply, **self.remembered(host, name, arguments[host])} for host in hosts}
        return {host: self.deaf.get(host, of_hosts[host]) for host in hosts}

    def remembered(self, host, module, arguments):
        if module != "host_facts":
            return {}
        notes = self.heard_of.get(host, {})
        return {"heard_of": list(notes)} if arguments.get("heard_of") else {"notes": notes}

    def modules(self):
        return [module for asked, module, _arguments in self.asked if asked == "kvm3"]

    def told(self):
        return [(host, arguments["told"]) for host, module, arguments in self.asked if module == "rescan"]
