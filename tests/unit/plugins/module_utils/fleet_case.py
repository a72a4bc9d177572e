# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of create over three hosts, one call at a time: a host answers, or not, and tests choose what becomes of it.

The conductor, the records and the notes of the hosts are the real ones.
"""

from __future__ import annotations

import copy
import itertools
import os
import shutil

import procedure_case

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import summary
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import state_directory, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    majority,
    what_to_operate,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import (
    copies,
    create,
    delete,
    locate,
    operate,
    plan_create,
    remove_host,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.embedded import Embedded
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.modules import rescan

WEB = instance_uuid("default", "web1")
SPEC = {
    "uuid": WEB,
    "name": "web1",
    "project_id": "default",
    "group": None,
    "networks": [],
    "flavor": {"vcpus": 1, "memory_mb": 64},
}
NAMES = ("h1", "h2", "h3")


class Host:
    """What claim, rescan, host_facts and instance do on a host, without libvirt. ``runs``: its guest is on."""

    def __init__(self, top, name):
        self.uuid, self.up, self.runs, self.domain, self.full = "id-" + name, True, False, False, False
        self.hung = False
        self.store = Store(os.path.join(str(top), name))
        state_directory.establish(self.store)

    def record(self):
        return self.store.read(WEB)

    def facts(self, about=(WEB,), heard_of=False):
        """``about``: the instances of the inventory; ``heard_of``: of which ones it remembers anything."""
        if self.hung:
            raise RuntimeError("LibvirtTimeout: libvirt did not answer within 30 s")
        record, instances = self.record(), []
        if record:
            instances = [
                {"foreign": False, "flavor": {}, "group": None, "uuid": WEB, "name": "web1", "project_id": "default"}
                | {"vcpus": 1, "memory_mb": 64}
                | {key: getattr(record, key) for key in ("role", "phase", "vm_state", "task_state")}
                | {"power_state": "running" if self.runs else "shutdown"}
                | {"generation": list(record.generation), **summary.moved_to(record)}
            ]
        elif self.domain:
            instances = [{"foreign": True, "uuid": WEB, "name": WEB, "managed": True, "power_state": "running"}]
        document = {"uuid": self.uuid, "instances": instances, "state": state_directory.look(self.store)}
        notes, digests = whereabouts.recall(self.store, about), whereabouts.digests(self.store)
        more = {"heard_of": whereabouts.heard_of(self.store)} if heard_of else {}
        known = {"members": whereabouts.read_members(self.store.state_dir)}
        return {"document": document, "notes": notes, "digests": digests, **known, **more}

    def claim(self, claims, withdraw=()):
        state_directory.check(self.store)
        with self.store.host_lock():
            for entry in withdraw:
                record = self.record()
                self.store.bury(entry["token"])
                if record and record.role == "CLAIM" and record.token == entry["token"]:
                    self.store.compare_and_swap(record, None)
        with self.store.host_lock():
            return {"results": [self.claim_one(claim) for claim in claims]}

    def claim_one(self, claim):
        record = self.record()
        if self.full or record and record.role != "CLAIM" or self.store.is_buried(claim["token"]):
            error = {"code": "ClaimFailed", "message": "no", "retryable": not record}
            return {"uuid": WEB, "claimed": False, "error": error}
        epoch = max(claim["after"][0], whereabouts.epoch(self.store, WEB))
        new = Record(
            uuid=WEB, name="web1", project_id="default", role="CLAIM", generation=[epoch, 1], token=claim["token"],
            phase="claimed", spec=dict(SPEC), resources={},
        )  # fmt: skip
        if record:
            new = new.replace(generation=[max(epoch, record.generation[0]), record.generation[1] + 1])
        self.store.compare_and_swap(record, new)
        return {"uuid": WEB, "claimed": True, "token": claim["token"]}

    def rescan(self, about=(), told=None):
        return rescan.exchange(self.store, self.uuid, about, told or {})

    def build(self, token):
        state_directory.check(self.store)
        record = self.record()
        if record and record.role == "OWN":
            self.runs = self.domain = True
            return {"changed": False, "instance": {"generation": list(record.generation)}}
        if not record or record.token != token:
            return {"error": {"code": "ClaimRevoked", "message": "no", "retryable": False}}
        epoch = record.generation[0] + 1
        made = self.store.compare_and_swap(record, record.replace(role="OWN", phase="building", generation=[epoch, 0]))
        made = self.store.compare_and_swap(made, made.next(phase="active"))
        self.runs = self.domain = True
        return {"changed": True, "instance": {"generation": list(made.generation)}}

    def delete(self, after=None):
        self.runs = self.domain = False
        record = self.record()
        if record:
            self.store.compare_and_swap(self.store.compare_and_swap(record, record.next(phase="deleting")), None)
        if after:
            whereabouts.removed(self.store, WEB, after)
        return {"changed": True}

    def start(self, _after):
        self.runs = True
        return {"changed": True}

    def take_back(self, after):
        """compute/record/record_copy.py has its own tests."""
        taken = Record(
            uuid=WEB, name="web1", project_id="default", role="OWN", generation=[after[0] + 1, 0], token="t",
            phase="active", spec=dict(SPEC), resources={},
        )  # fmt: skip
        record = self.record()
        self.store.compare_and_swap(record, taken) if record else self.store.restore(taken)
        return {"changed": True}


ACTS = {"absent": "delete", "recorded": "take_back", "started": "start"}


def call(host, method, *args):
    """The host's answer as the controller sees it."""
    if not host.up:
        return {"reason": "UNREACHABLE"}
    try:
        return getattr(host, method)(*args)
    except Exception as error:  # an error of a module is an answer without a result
        return {"reason": str(error)}


class Fleet:
    """The hosts, and the inventory: name -> host. A run of create is a generator that stops after each call to a host."""

    def __init__(self, top):
        os.makedirs(str(top), exist_ok=True)
        self.hosts = {name: Host(top, name) for name in NAMES}
        self.inventory = dict(self.hosts)
        self.runs = itertools.count(1)
        self.error = None

    def create(self, prefer=NAMES, lost=(), without_majority=False):
        reports = {}
        for name, host in self.inventory.items():
            reports[name] = call(host, "facts")
            yield
        run = "r%d" % next(self.runs)
        fleet = read_fleet(copy.deepcopy(reports), dict)
        request = plan_create.Request(copy.deepcopy(SPEC))
        wanted = plan_create.Wanted(run, {"web1": request}, lost, needs_majority=not without_majority, rebuilt=["web1"])
        placed = plan_create.to_place(wanted, fleet)
        instance = placed.instances["web1"]
        if "state" not in instance:
            able = [name for name in prefer if name in fleet.documents]
            if not able:
                self.error = "NoValidHost"
                return
            others = [{"host": name, "host_uuid": fleet.documents[name]["uuid"]} for name in able[1:]]
            instance.update(
                state=rounds.CLAIMING, host=able[0], host_uuid=fleet.documents[able[0]]["uuid"], alternates=others
            )
        digests = {name: report.get("digests") for name, report in reports.items()}
        tokens = ("%s-%04d" % (run, number) for number in itertools.count())
        planning = plan_create.begin(wanted, placed, fleet, 3, lambda: next(tokens), digests)
        plan = yield from procedure_case.play(planning, self.ask)
        yield from self.carry_out(plan, tokens, digests, lost)
        error = plan["instances"]["web1"]["error"] or {}
        self.error, self.hint = error.get("code"), error.get("hint")

    def carry_out(self, plan, tokens, digests, lost):
        run = create.Run(
            new_token=lambda: next(tokens),
            build_of=lambda _name, entry: {"uuid": WEB, "token": entry.get("token")},
            registry=Embedded(digests, lost),
        )
        yield from procedure_case.play(create.create(plan, run), self.ask)

    def ask(self, name, module, given):
        host = self.inventory[name]
        if module == "instance":
            answer = call(host, ACTS[given["state"]], given.get("after"))
            yield
            return answer
        return (
            yield from procedure_case.ask(
                module,
                given,
                lambda method, *args: call(host, method, *args),
                lambda build: call(host, "build", build["token"]),
            )
        )

    def run(self, **more):
        """A run of create to its end; its error's code, or None."""
        for _step in self.create(**more):
            self.check()
        self.check()
        return self.error

    def read(self, *about):
        return read_fleet({name: call(host, "facts", *about) for name, host in self.inventory.items()}, dict)

    def agree(self):
        """The end of prepare_hosts."""
        seen = self.read()
        if not majority.is_missing(seen.member_lists, set(seen.uuids().values())):
            names = {uuid: name for name, uuid in seen.uuids().items()}
            told = {**majority.agreed(seen.member_lists), **majority.joined(seen.member_lists, names)}
            for name in seen.documents:
                self.inventory[name].rescan((), {"members": told})

    def remove(self, host):
        """The playbook remove_host, for a host that is lost."""
        removal = remove_host.Removal(host, {}, {}, lost=[host])
        procedure_case.run(procedure_case.play(remove_host.remove_host(removal, self.read()), self.ask))
        del self.inventory[host]

    def recover_record(self, lost=(), on=None):
        """The playbook of that name, with berth_recover_on; the hosts whose record was taken back."""
        return self._operate("recover_record", lambda task: copies.recover_record(task, {}, dry=False), lost, on)

    def start(self, lost=()):
        """The playbook of that name."""
        self._operate("start", lambda task: operate.operate("start", task, {}), lost)
        self.check()

    def delete(self, lost=()):
        """The playbook of that name; the hosts that it was deleted on."""
        return self._operate("delete", lambda task: delete.and_forget("delete", task, {}, self.inventory), lost)

    def _operate(self, operation, of_task, lost, on=None):
        """Find the instance and carry a procedure out, ``of_task``: {name: task} -> it. The hosts that it was to be done on;
        raises why it was not found."""
        run = locate.Run(operation, what_to_operate.Said("r%d" % next(self.runs), lost, recover_on=on))
        locating = locate.locate(run, self.read(), {"web1": locate.Wanted(WEB)})
        found = procedure_case.run(procedure_case.play(locating, self.ask))
        for error in found.errors.values():
            raise error
        procedure_case.run(procedure_case.play(of_task(found.tasks), self.ask))
        return found.tasks["web1"]["hosts"]

    def owners(self):
        return [name for name, host in self.hosts.items() if host.runs]

    def check(self):
        assert len(self.owners()) <= 1, "I1: %s" % self.owners()

    def silence(self, *names):
        for name, host in self.hosts.items():
            host.up = name not in names


def moved(fleet, source, destination, writes=0):
    """A move that is confirmed: only its two sides know of it. ``writes``: of the source after it let go."""
    here, there = fleet.hosts[source], fleet.hosts[destination]
    record, epoch = here.record(), here.record().generation[0] + 1
    whereabouts.handed_over(
        here.store, record.replace(generation=[epoch, writes]), {"uuid": there.uuid, "name": destination}
    )
    shutil.rmtree(os.path.join(here.store.state_dir, "instances", WEB))
    here.runs = here.domain = False
    there.store.restore(record.replace(generation=[epoch, 1]))
    there.runs = there.domain = True


SUBSETS = [names for size in (1, 2, 3) for names in itertools.combinations(NAMES, size)]


def removed(fleet, home):
    del fleet.inventory[home]


def renamed(fleet, home):
    fleet.inventory["other"] = fleet.inventory.pop(home)


def named_twice(fleet, home):
    fleet.inventory["other"] = fleet.inventory[home]


def another_uuid(fleet, home):
    """The same guest goes on, libvirt says another uuid of its host: as silent, since it is a host that was never prepared."""
    fleet.hosts[home].up = False
    fleet.inventory[home] = Host(os.path.dirname(fleet.hosts[home].store.state_dir), "new-" + home)


def copied(fleet, home):
    """A copy of all its disks answers under a name of its own, with its uuid and its records; it itself does not answer."""
    original = fleet.hosts[home]
    original.up = False
    copy_of_it = Host(os.path.dirname(original.store.state_dir), "copy-of-" + home)
    for path in ("state_dir", "identity_copy"):
        there = getattr(copy_of_it.store, path)
        (shutil.rmtree if os.path.isdir(there) else os.remove)(there)
        from_there = getattr(original.store, path)
        (shutil.copytree if os.path.isdir(from_there) else shutil.copy)(from_there, there)
    copy_of_it.uuid = original.uuid
    fleet.hosts["copy"] = fleet.inventory["copy"] = copy_of_it


def unmounted(fleet, home):
    state = fleet.hosts[home].store.state_dir
    os.rename(state, state + ".away")
    os.mkdir(state, 0o700)


def record_lost(fleet, home):
    shutil.rmtree(os.path.join(fleet.hosts[home].store.state_dir, "instances", WEB))


def record_and_domain_lost(fleet, home):
    record_lost(fleet, home)
    fleet.hosts[home].domain = False


HAPPENINGS = {
    removed: "InstanceUnknown",
    renamed: None,
    named_twice: "InstanceUnknown",
    another_uuid: "InstanceUnknown",
    copied: "InstanceUnknown",
    unmounted: "DomainWithoutRecord",
    record_lost: "DomainWithoutRecord",
    record_and_domain_lost: "RecordMissing",
}
