# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of a history, each a generator that stops after each call to a host, so that runs can be mixed and killed.

The conductor is the real one; only placement is dice, since any host that it chooses has to be safe.
``errors`` of a run: instance -> the error that its user reads; ``changed``: whether anything was; ``unconfirmed``: the
instances of which a create says that they wait for a confirm or a revert.
"""

from __future__ import annotations

import functools
import itertools
import json
from typing import ClassVar

import history_found
import history_names
import history_snapshots
import procedure_case
from history_host import Machine
from volume_fleet_case import answers_of

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark
from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    what_to_operate,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import (
    copies,
    create,
    locate,
    operate,
    plan_create,
    remove_host,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import (
    audit,
    engine,
    enrol,
    hosts,
    moves,
    which_operations,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.adopts import AdoptsOnEngine
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.changes import ChangesOnEngine
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.embedded import Embedded
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.leaves import LeavesEngine
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.transactions import RegistryClosed
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, host_document
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceNotFound
from ansible_collections.berth.kvm.plugins.plugin_utils import driving, registry_access

SILENT = {"reason": "UNREACHABLE"}


def sent(what):
    """As it arrives: the other side has no part of it."""
    return json.loads(json.dumps(what))


def _not_found(name):
    return InstanceNotFound("%s is on no host" % name, hint=hints.create_it(name))


class Run(history_snapshots.Snapshots, history_found.Found, history_names.Names):
    """``world`` gives the machines; ``inventory``: the names of the hosts that this run knows; ``cut``: of those that it does
    not reach, though others may; ``lost``: berth_lost_hosts."""

    numbers = itertools.count(1)
    quotas: ClassVar = {}

    def __init__(self, world, inventory, names, dice, lost=(), cut=(), **options):
        self.world, self.inventory, self.names, self.dice = world, list(inventory), list(names), dice
        self.lost, self.cut, self.options = list(lost), set(cut), options
        self.rebuilt = (options.get("berth_rebuild_lost") or "").split(",")
        self.run_id = "r%d" % next(self.numbers)
        self.tokens = itertools.count()
        self.errors, self.changed, self.unconfirmed = {}, False, []
        self.cloned = {}  # name -> its request as a clone
        self.registry = registry_access.Access(world.engine) if world.engine else None
        self.playbook = None
        self.mark = None  # of the registry over which it works, as a host wants it, if that does not say it

    def token(self):
        """One that no other claim or move has."""
        return "%s-%04d" % (self.run_id, next(self.tokens))

    # hosts

    def ask(self, host, method, *args, **more):
        machine = self.world.site(host)
        if not machine.up or not machine.on or host in self.cut:
            yield
            return dict(SILENT)
        with self.world.on(machine, method):
            registry_mark.act_over(self.mark or (self.registry and self.registry.mark()))
            try:
                reply = sent(getattr(machine, method)(*sent(args), **sent(more)))
            except BerthError as error:
                reply = {"error": error.to_dict(), "reason": str(error)}
        yield
        self.changed = self.changed or bool(reply.get("changed"))
        return reply

    def read(self, what="facts"):
        self.reports = {}
        for host in self.inventory:
            self.reports[host] = yield from self.ask(host, what, self.world.entries.uuids())
        return read_fleet({host: dict(report) for host, report in self.reports.items()}, self.world.entries.named)

    def digests(self):
        return {host: report.get("digests") for host, report in self.reports.items()}

    def failed(self, name, reply):
        """Note what a host refused; whether it did."""
        if "changed" not in reply:
            error = reply.get("error") or {"code": "HostUnreachable", "message": reply["reason"], "hint": None}
            self.errors.setdefault(name, error)
        return "changed" not in reply

    def refused(self, name, error):
        self.errors[name] = {**error.to_dict(), "message": str(error)}

    # create

    def request(self, name):
        return self.cloned.get(name) or self.world.request(name)[0]

    def create(self):
        yield from self.create_beside((), lambda _seen: None)

    def create_beside(self, others, ask):
        """``others``: the names of instances that are looked at, too; ``ask``: called with what was seen, before anything is made."""
        known = of_hosts = None
        try:
            if self.world.engine:
                known, live = yield from self.read_engine([*self.names, *others])
                seen, of_hosts = yield from self._play(engine.fleet_of(self.inventory, known, live, self._fleet_of))
                registry = engine.OnEngine({}, self.choose, self.inventory, self._fleet_of)
            else:
                seen = yield from self.read()
                registry = Embedded(self.digests(), self.lost)
            ask(seen)
        except BerthError as error:
            for name in self.names:
                self.refused(name, error)
            return
        yield from self._create(seen, registry, known, of_hosts)

    def read_engine(self, names=None, what="facts", asks_all=False):
        """What the registry knows, and what the hosts say of which it knows that they have one of the instances, or that these name
        as a side of a move."""
        new, uuids = self.options.get("berth_new_name"), [self.world.uuid(name) for name in names or self.names]
        known = yield from self._play(engine.whereabouts([*uuids, *([instance_uuid("default", new)] if new else [])]))
        self.reports, left = {}, set(self.inventory) if asks_all else known.asked()
        while left & set(self.inventory):
            for host in sorted(left & set(self.inventory)):
                self.reports[host] = yield from self.ask(host, what, self.world.uuids())
            views = (view for report in self.reports.values() for view in report.get("moves") or ())
            left = moves.named(views) - set(self.reports)
        return known, {host: dict(report) for host, report in self.reports.items()}

    @staticmethod
    def _fleet_of(reports):
        return read_fleet(reports, host_document.check)

    def _play(self, procedure, look=None):
        return procedure_case.play(procedure, self._ask_step, look, self.registry)

    def _create(self, seen, registry, known=None, of_hosts=None):
        evacuates = (yield from self.wanted_from_backups(seen)) if self.playbook == "evacuate" else {}
        wanted = plan_create.Wanted(
            run=self.run_id,
            requests={name: plan_create.Request(self.request(name)) for name in self.names},
            lost=self.lost,
            strict=self.options.get("strict", False),
            rebuilt=self.rebuilt,
            used=known.used_beside(self.lost) if known else None,
            ended=known.ended() if known else {},
            **evacuates,
        )
        placed = plan_create.to_place(wanted, seen)
        instances = placed.instances
        self.choose(instances, seen)
        planning = plan_create.begin(wanted, placed, seen, 3, self.token, self.digests())
        plan = yield from self._play(planning)
        if known:
            plan["registry"] = engine.seen_by(known, plan["hosts"], of_hosts, self.lost)
        run = create.Run(new_token=self.token, build_of=self._build_of, registry=registry)
        creation = create.create(plan, run)
        yield from self._play(self.and_restored(plan, creation) if evacuates else creation)
        for name, instance in instances.items():
            if instance["state"] == rounds.FAILED:
                self.errors[name] = instance["error"] or {"code": "?", "message": "?", "hint": None}
            if instance["state"] == rounds.UNCONFIRMED:
                self.unconfirmed.append(name)

    def choose(self, instances, seen):
        """In place of placement: dice, among the hosts that a request does not leave out."""
        for instance in instances.values():
            if "state" in instance:
                continue
            spec = instance["spec"]
            wanted = (spec.get("requested_destination") or {}).get("host")
            able = sorted(set(seen.documents) - set(spec.get("ignore_hosts") or ()))
            able = [host for host in able if wanted in (None, host)]
            self.dice.shuffle(able)
            if not able:
                instance.update(state=rounds.FAILED, error={"code": "NoValidHost", "message": "no host", "hint": None})
                continue
            chosen = [{"host": host, "host_uuid": seen.documents[host]["uuid"]} for host in able[:3]]
            instance.update(state=rounds.CLAIMING, **chosen[0], alternates=chosen[1:])

    def _build_of(self, name, instance):
        power = {"active": "running", "stopped": "shutdown"}.get(self.options.get("berth_state"))
        power = None if instance.get("from_backup") else power
        of_it = {"spec": instance["spec"], "seed": self.world.request(name)[1], "power_state": power}
        return {"uuid": instance["uuid"], "token": instance.get("token"), **of_it}

    def _ask_step(self, host, module, given):
        """A step of a procedure, of which each thing that the host does is a call of its own."""
        if module == "build_instances":
            return (yield from self._ask_to_build(host, given["builds"]))
        method, arguments = answers_of(module, given)
        for _again in range(driving.TRIES):
            reply = yield from self.ask(host, method, **arguments)
            if (reply.get("error") or {}).get("code") != driving.BEHIND:
                break
        return reply

    def _ask_to_build(self, host, builds):
        done = []
        for each in builds:
            reply = yield from self.ask(host, "build", each["spec"], each["token"], each["seed"], each["power_state"])
            if "error" in reply:
                reply.pop("reason")
            elif "reason" in reply:
                return reply  # of a host that falls silent nobody knows what else it built
            done.append({"uuid": each["uuid"], "reply": reply})
        return {"builds": done}

    def refresh(self):
        """Read a host into the registry; whoever read it before may write it afterwards."""
        host = self.options["host"]
        reply = yield from self.ask(host, "facts", [])
        if "document" in reply and self.world.engine:
            yield from self._play(hosts.report(host, reply["document"], reply["document"]["generation"]))

    def audit(self):
        """Of a person who knows which hosts are gone for good, and mostly gives up no other."""
        self.audited = yield from self._of_registry(audit.audit)

    def use_registry(self):
        yield from self._of_registry(enrol.use_registry)

    def _of_registry(self, procedure):
        change = enrol.Run(
            kind="etcd",
            hosts=self.inventory,
            about={uuid: (name, "default") for uuid, name in self.world.by_uuid.items()},
            read=lambda answers: self._fleet_of({host: dict(answer) for host, answer in answers.items()}),
            new_incarnation=self.token,
            now=lambda: float(next(Machine.readings)),
            lost=sorted({*self.world.dead(), *self.lost}),
        )
        try:
            return (yield from procedure_case.play(procedure(change), self._ask_step, engine=self.world.engine))
        except BerthError as error:
            for name in self.names:
                self.refused(name, error)

    # what finds an instance and acts on its host

    def operate(self, operation, **given):
        """Find the instances, and carry the operation out where they are."""
        tasks = yield from self._found(operation)
        yield from self._carry_out(operate.operate(operation, tasks, dict.fromkeys(tasks, given)))

    def _found(self, operation, names=None, more=lambda _name, _task: {}):
        found = yield from self._located(operation, names, more)
        return found.tasks

    def _located(self, operation, names=None, more=lambda _name, _task: {}):
        known = None
        if self.world.engine and which_operations.asks_where(operation):
            try:
                known, live = yield from self.read_engine(asks_all=which_operations.asks_all(operation))
            except (RegistryUnknown, RegistryClosed) as error:
                for name in names or self.names:
                    self.refused(name, error)
                self.seen, self.removes, self.changes = self._fleet_of({}), Embedded(), None
                return locate.Located()
            self.seen = engine.with_notes(self._fleet_of(known.heard(live)), known)
            if operation in which_operations.CHANGES and not which_operations.asks_all(operation):
                of_all = engine.fleet_of(self.inventory, known, live, self._fleet_of)
                self.seen = (yield from self._play(of_all))[0]
        else:
            self.seen = yield from self.read()
        self.removes = engine.RemovesOnEngine(known, self.lost) if known else Embedded()
        self.changes = None
        if known and operation in which_operations.CHANGES:
            changes = ChangesOnEngine(self.run_id, known, self.token, self.quotas)
            self.changes = AdoptsOnEngine(self.run_id, self.token) if operation == "adopt" else changes
        wanted = {name: locate.Wanted(self.world.uuid(name)) for name in names or self.names}
        for name in names or ():
            self.errors.pop(name, None)
        run = locate.Run(operation, self._said(), more, _not_found, over_registry=known is not None)
        found = yield from self._play(locate.locate(run, self.seen, wanted))
        for name, error in found.errors.items():
            self.refused(name, error)
        return found

    def _said(self):
        variables = ("keep_on", "keep_on_confirmed", "recover_on", "new_name")
        return what_to_operate.Said(
            self.run_id, self.lost, **{each: self.options.get("berth_" + each) for each in variables}
        )

    def _change(self, tasks, carry_out):
        """As the action does it."""
        yield from self._carry_out(
            operate.over(self.changes, tasks, carry_out, False) if self.changes else carry_out(tasks)
        )

    def _carry_out(self, procedure, look=None):
        done = yield from self._play(procedure, look)
        self._note_done(done)

    def _note_done(self, done):
        for name, each in done.items():
            if each.errors:
                self.errors.setdefault(name, each.errors[0])

    def start(self):
        yield from self.operate("start")

    def stop(self):
        yield from self.operate("stop")

    def pause(self):
        yield from self.operate("pause")

    def unpause(self):
        yield from self.operate("unpause")

    def suspend(self):
        yield from self.operate("suspend")

    def resume(self):
        yield from self.operate("resume")

    def unrescue(self):
        yield from self.operate("unrescue")

    def reboot(self):
        yield from self.operate("reboot", reboot=self.options.get("berth_reboot") or self.dice.choice(["hard", "soft"]))

    def recover(self):
        tasks = yield from self._found("recover")
        yield from self._carry_out(copies.recover(tasks, {}, dry=False))

    def recover_record(self):
        chosen = self.options.get("berth_recover_on")
        tasks = yield from self._found("recover_record")
        for name in tasks if chosen else ():
            if tasks[name]["hosts"]:
                self.world.continues_with(name, chosen)
        yield from self._choose(copies.recover_record(tasks, {}, dry=False), tasks)

    # copies

    def keep_one(self):
        tasks = yield from self._found("keep_one")
        look = functools.partial(self._found, "keep_one")
        yield from self._choose(copies.keep_one(tasks, {}, dry=False), tasks, look)

    def _choose(self, procedure, tasks, look=None):
        """The registry hears of it, as from the action."""
        told = engine.chosen(procedure, copies.counts_at(tasks)) if self.world.engine else procedure
        yield from self._carry_out(told, look)

    # hosts

    def remove_host(self):
        host = self.options["host"]
        names = {self.world.uuid(name): name for name in self.world.names}
        leaves = LeavesEngine() if self.world.engine else None
        try:
            seen = yield from self.read()
            yield from self._play(
                remove_host.remove_host(remove_host.Removal(host, names, {}, self.lost, leaves), seen)
            )
            self.world.take_out(host)
        except BerthError as error:
            self.refused(host, error)

    def prepare_hosts(self):
        """Over a registry, use_registry takes the host in afterwards."""
        host = self.options["host"]
        if not self.failed(host, (yield from self.ask(host, "prepare"))) and host not in self.world.inventory:
            self.world.inventory.append(host)
