# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer scenarios about whole fleets with the collection's own planner: JSON lines in, JSON lines out.

A scenario is {kind, ask, hosts, aggregates, groups, instances}, an answer {waves, stays}, {survives, failing} or {count}. This
file only renames their parts to what the planner reads. Every line is answered; what is wrong with a scenario is its error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan, questions  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import check  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.fleet.state import Fleet, Instance  # noqa: E402

SHARED_GB = 1 << 40  # disks on storage that hosts share count on none of them


def fleet_of(scenario):
    groups = {group["uuid"]: group for group in scenario["groups"]}
    documents = {host["host"]: host_document(host) for host in scenario["hosts"]}
    instances = {}
    for each in scenario["instances"]:
        flavor, document = each["flavor"], documents[each["host"]]
        fixed = None if each["can_move"] else "%s may not move" % each["name"]
        request = request_of(flavor, groups.get(each["group"]), each["availability_zone"], each["name"], each["uuid"])
        instances[each["uuid"]] = Instance(each["uuid"], each["name"], each["host"], request, fixed)
        document["instances"].append(
            {
                "uuid": each["uuid"], "name": each["name"], "role": "OWN", "flavor": flavor, "vcpus": flavor["vcpus"],
                "memory_mb": flavor["memory_mb"], "disk_gb": flavor["root_gb"], "group": each["group"],
            }
        )  # fmt: skip
        document["vcpus_used"] += flavor["vcpus"]
        document["memory_mb_used"] += flavor["memory_mb"]
        document["local_gb_used"] += flavor["root_gb"]
    return Fleet(documents, instances, {}, scenario["aggregates"])


def host_document(host):
    used = {"vcpus_used": 0, "memory_mb_used": 0, "local_gb_used": 0, "instances": []}
    return {**host, **used, **({"local_gb": SHARED_GB} if host["storage"] else {})}


def request_of(flavor, group, zone, name, uuid):
    return {
        "uuid": uuid, "name": name, "flavor": flavor, "image": {}, "group": dict(group) if group else None,
        "availability_zone": zone, "num_instances": 1, "instance_uuids": [uuid],
    }  # fmt: skip


def answer(scenario):
    fleet, kind, ask = fleet_of(scenario), scenario["kind"], scenario["ask"]
    if kind == "survive":
        failing = questions.survive(fleet, ask["failures"])
        return {"survives": not failing.hosts, "failing": list(failing.hosts)}
    if kind == "capacity":
        group = next((group for group in scenario["groups"] if group["uuid"] == ask.get("group")), None)
        request = request_of(ask["flavor"], group, ask.get("availability_zone"), "one more", "one-more")
        return {"count": questions.capacity(fleet, request).count}
    goal = Goal(kind, frozenset(ask.get("hosts", ())), ask.get("max_moves"))
    plan = make_plan.make(fleet, goal)
    check(fleet, plan.waves, goal.hosts)
    return {"waves": [[list(move) for move in wave] for wave in plan.waves], "stays": plan.stays}


def main():
    for line in sys.stdin:
        if line.strip():
            try:
                print(json.dumps(answer(json.loads(line))), flush=True)
            except Exception as error:
                print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}), flush=True)


if __name__ == "__main__":
    main()
