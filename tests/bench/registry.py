# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a registry costs, with a real etcd of one member, without TLS, without Ansible and without hosts.

    registry.py race 50 10          so many controllers at once, each a process, want the last slots of four hosts and a quota
    registry.py fleet 1000          a new process reads so many hosts with 20 instances each, places one more and reserves it

Each controller does what create does: it reads the registry and the fleet, places by the real filters and weighers, and reserves in
a transaction. In place of the chosen host a claim is answered with yes, so only the registry keeps the controllers apart.
"""

from __future__ import annotations

import argparse
import collections
import functools
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "unit" / "plugins" / "module_utils")]

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path
import etcd_process  # noqa: E402
import prepared_host  # noqa: E402
import simulated_fleet  # noqa: E402
from procedure_case import driven  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor import placing  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import plan_create  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import (  # noqa: E402
    Ask,
    Scan,
    Transact,
    Wait,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import engine, hosts, keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError  # noqa: E402
from ansible_collections.berth.kvm.plugins.plugin_utils import etcd  # noqa: E402
from ansible_collections.berth.kvm.plugins.plugin_utils.etcd import Seal  # noqa: E402

META = {"schema": keys.SCHEMA, "incarnation": "one", "kind": "etcd", "open": True}
Etcd = functools.partial(etcd.Etcd, seal=Seal(b"of all controllers"))
HOSTS = 4  # of the race
FLAVOR = {"memory_mb": 2048, "vcpus": 2, "root_gb": 20}


class Controller:
    """One run of create for one new instance."""

    def __init__(self, engine_of_run, names, quota=None):
        self.etcd, self.names, self.dice = engine_of_run, names, random.Random()
        self.quotas = {} if quota is None else {"default": {"instances": quota}}
        self.spec = prepared_host.request("new-%s" % uuid.uuid4().hex, **FLAVOR)[0]
        self.spec["pool"] = "berth"
        self.did = collections.Counter()  # questions to the registry, writes tried, hosts chosen

    def play(self, procedure):
        return driven(procedure, self._answer)

    def _answer(self, step):
        if isinstance(step, Transact):
            self.did.update(questions=1, writes=bool(step.writes))
            return self.etcd.transact(step)
        if isinstance(step, Scan):
            self.did.update(questions=1)
            return self.etcd.scan(step)
        if isinstance(step, Wait):  # as driving.py does
            return time.sleep(self.dice.uniform(0, step.longest))
        return {host: _claimed(given) for host, given in step.arguments.items()} if isinstance(step, Ask) else None

    def create(self):
        """Return the instance of the plan, with its state."""
        name = self.spec["name"]
        known = self.play(engine.whereabouts([self.spec["uuid"]]))
        fleet, seen = self.play(engine.fleet_of(self.names, known, {}, self._read))
        wanted = plan_create.Wanted(
            "run-" + name, {name: plan_create.Request(self.spec)}, used=known.used, quotas=self.quotas
        )
        placed = plan_create.to_place(wanted, fleet)
        self._place(placed.instances, fleet)
        plan = self.play(plan_create.begin(wanted, placed, fleet, 3, self._token, {}))
        plan["registry"] = engine.seen_by(known, plan["hosts"], seen)
        self.play(engine.OnEngine(self.quotas, self._place, self.names, self._read).reserve(plan, self._token))
        return plan["instances"].get(name) or placed.instances[name]

    def _place(self, instances, fleet):
        self.did.update(choices=1)
        placing.place(instances, fleet, {}, seed=self.dice.randrange(1 << 30), explained=False)

    @staticmethod
    def _read(reports):
        return read_fleet(reports, host_document.check)

    @staticmethod
    def _token():
        return uuid.uuid4().hex


def _claimed(given):
    told = [{"uuid": each["spec"]["uuid"], "claimed": True, "token": each["token"]} for each in given.get("claims", ())]
    return {"changed": True, "results": told, "withdrawn": []}


def fill(registry, count, instances, room=None):
    """``count`` hosts with ``instances`` each; ``room``: how many more each takes, if it is limited."""
    registry.transact(Transact(writes=(keys.written(keys.META, META),)))
    names = ["kvm%05d" % number for number in range(count)]
    setup = Controller(registry, names)
    for number, name in enumerate(names):
        held = ["%s-%02d" % (name.replace("kvm", "web"), at) for at in range(instances)]
        document = simulated_fleet.document_of(
            name, simulated_fleet.host_uuid(name), [simulated_fleet.instance_of(each) for each in held]
        )
        if room is not None:
            memory_mb = FLAVOR["memory_mb"] * room[number] + 512
            document.update(memory_mb=memory_mb, free_ram_mb=memory_mb - 512)
        setup.play(hosts.report(name, document, 0.0, still=True))
    return names


def race(there, controllers, slots):
    members = there.members
    room = [slots // HOSTS + (number < slots % HOSTS) for number in range(HOSTS)]
    names = fill(Etcd(members), HOSTS, 0, room)
    Controller(Etcd(members), names, 0).create()  # is refused, and the processes have all code loaded
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(controllers + 1), context.Queue()
    processes = [
        context.Process(target=_racer, args=(members, names, slots, barrier, queue)) for _each in range(controllers)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    began, of_etcd = time.monotonic(), cpu_of(there.processes[0].pid)
    results = [queue.get(timeout=300) for _each in processes]
    wall, of_etcd = time.monotonic() - began, cpu_of(there.processes[0].pid) - of_etcd
    for process in processes:
        process.join()
    found = Etcd(members).scan(Scan(keys.INSTANCES))["found"]
    made = [keys.document(key, each) for key, each in found.items()]
    taken = collections.Counter(intent["host"] for entry in made for intent in entry["pending"])
    ends = collections.Counter(state for state, *_rest in results)
    did = sum((each[1] for each in results), collections.Counter())
    print("%d controllers, %d slots: %s in %.2f s; CPU %.2f s of them all, %.2f s of etcd; %s; of one at most %s" % (
        controllers, slots, dict(ends), wall, sum(cpu for *_rest, cpu in results), of_etcd, dict(did),
        {part: max(each[1][part] for each in results) for part in did}))  # fmt: skip
    allowed = {simulated_fleet.host_uuid(name): many for name, many in zip(names, room)}
    assert ends["taken"] == sum(taken.values()) == slots, (ends, taken)
    assert all(many <= allowed[host] for host, many in taken.items()), taken


def _racer(members, names, quota, barrier, queue):
    controller = Controller(Etcd(members), names, quota)
    barrier.wait()
    try:
        code = (controller.create().get("error") or {"code": "taken"})["code"]
    except BerthError as error:
        code = error.code
    queue.put((code, controller.did, time.process_time()))


def cpu_of(pid):
    """CPU seconds that a process has used."""
    fields = Path("/proc/%d/stat" % pid).read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fleet(there, count):
    members = there.members
    names = fill(Etcd(members), count, 20)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_placed, args=(members, names, queue))
    process.start()
    print("%d hosts: %.2f s CPU, %.2f s, %d MiB, %s" % (count, *queue.get(timeout=600)))
    process.join()


def _placed(members, names, queue):
    began, cpu = time.monotonic(), time.process_time()
    instance = Controller(Etcd(members), names).create()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    queue.put(
        (
            time.process_time() - cpu,
            time.monotonic() - began,
            memory,
            instance.get("error") or "on %s" % instance["host"],
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("race", "fleet"))
    parser.add_argument("numbers", type=int, nargs="+")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as room,
        etcd_process.running(Path(room), 1, "--quota-backend-bytes=4294967296") as there,
    ):
        {"race": race, "fleet": fleet}[given.what](there, *given.numbers)


if __name__ == "__main__":
    main()
