# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The create playbook against hosts in memory, one step after the other, so that tests can mix the steps of several runs."""

from __future__ import annotations

import procedure_case

from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import create

HOSTS = ("h1", "h2", "h3")


class Host:
    """What a KVM host does for claim, rescan and build, each under its lock and so in one piece."""

    def __init__(self, name, capacity=9):
        self.name, self.capacity, self.records, self.notes, self.up = name, capacity, {}, {}, True

    def claim(self, claims, withdraw=()):
        if not self.up:
            return {"reason": "UNREACHABLE"}
        for entry in withdraw:
            record = self.records.get(entry["uuid"])
            if record and record["role"] == "CLAIM" and record["token"] == entry["token"]:
                del self.records[entry["uuid"]]
        results = []
        for entry in claims:
            uuid = entry["spec"]["uuid"]
            record = self.records.get(uuid)
            if record and record["role"] != "CLAIM":
                results.append(
                    {
                        "uuid": uuid,
                        "claimed": False,
                        "error": {"code": "InstanceExists", "message": "there", "retryable": False},
                    }
                )
            elif not record and len(self.records) >= self.capacity:
                results.append(
                    {
                        "uuid": uuid,
                        "claimed": False,
                        "error": {"code": "ClaimFailed", "message": "full", "retryable": True},
                    }
                )
            else:
                group = entry["spec"].get("group") or {}
                self.records[uuid] = {
                    "uuid": uuid,
                    "role": "CLAIM",
                    "token": entry["token"],
                    "group": group.get("name"),
                    "project_id": "p",
                }
                results.append({"uuid": uuid, "claimed": True, "token": entry["token"]})
        return {"results": results}

    def rescan(self, about=(), told=None):
        if not self.up:
            return {"reason": "UNREACHABLE"}
        notes = dict(self.notes)
        return {"host_uuid": self.name, "instances": [dict(record) for record in self.records.values()], "notes": notes}

    def build(self, uuid, token):
        record = self.records.get(uuid)
        if record and record["role"] == "OWN":
            return {"changed": False, "instance": {}}
        if not record or record["token"] != token:
            return {"error": {"code": "ClaimRevoked", "message": "not yours", "retryable": False}}
        record["role"] = "OWN"
        return {"changed": True, "instance": {}}


def instance(name, host="h1", alternates=("h2", "h3"), group=None, **more):
    return {
        "uuid": "u-" + name,
        "name": name,
        "project": "p",
        "spec": {"uuid": "u-" + name, "name": name, "project_id": "p", "group": group},
        "state": rounds.CLAIMING,
        "host": host,
        "alternates": [{"host": other, "host_uuid": "uuid-" + other} for other in alternates],
        **more,
    }


def a_plan(*instances, max_attempts=3, hosts=HOSTS, run="r1"):
    return rounds.new_plan(
        run, {entry["name"]: entry for entry in instances}, {host: {"uuid": host} for host in hosts}, max_attempts
    )


def steps(plan, hosts, tokens, most=rounds.MAX_ROUNDS):
    """A run of create as a generator: it yields after each thing done to one host."""

    def ask(name, module, given):
        host = hosts[name]
        return procedure_case.ask(
            module,
            given,
            lambda method, *args: getattr(host, method)(*args),
            lambda build: host.build(build["uuid"], build["token"]),
        )

    rounds.prepare_round(plan, lambda: next(tokens))
    run = create.Run(
        new_token=lambda: next(tokens),
        build_of=lambda _name, entry: {"uuid": entry["uuid"], "token": entry["token"]},
    )
    yield from procedure_case.play(create.create(plan, run), ask)
