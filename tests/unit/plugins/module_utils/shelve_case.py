# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance that is shelved and unshelved: the procedures that ship, hosts on a fake libvirt, and a backup host or a directory. What
goes from host to host is copied by QEMU's tools."""

from __future__ import annotations

import itertools

from instance_case import Killed
from procedure_case import driven
from small_disks import web_off, write

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import acts as backup_acts
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import place, store
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host, rehearsal, transfer
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common, table
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import fail
from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import Move
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import move as moves
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import plan_moves
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import shelve as procedures
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.backup_host import Run
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask
from ansible_collections.berth.kvm.plugins.module_utils.model import reply
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import SAID, TAKING
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import NoValidHost

MIB = 1 << 20
KVM, STORE, KEY = "kvm1", "backup1", "5" * 64
MOVING = moves.Run({"key": KEY})
ON, SHELVED = ("active", None, "running", True), ("shelved_offloaded", None, "shutdown", False)
OF_INSTANCE = {
    **dict.fromkeys(("token", "after", "snapshot", "seed", "spec", "shelve_to")), "changed_disks": False, "snapshot_memory": False,
    "shutdown_timeout": 0, "mend": False,
}  # fmt: skip
OF_BACKUP = {
    "full": False, "chain": 30, "keep": None, "keep_days": None, "of": None, "backup": None, "discards": None, "deep": False,
    "newest": None, "spare": [], "parts": [], "targets": [], "key": None,
}  # fmt: skip


class Fleet:
    """web1, whose guest runs, on its KVM host, and where backups are kept: on backup1, or in a directory of the KVM hosts. ``host``:
    of the backups, or None; ``others``: KVM hosts beside its own."""

    def __init__(self, case, to, host, others=()):
        self.case, self.to, self.host, self.asked, self.before = case, to, host, [], {}
        self.on = {KVM: case, **{each.host.connection.getHostname(): each for each in others}}
        self.numbers = itertools.count()

    @property
    def owners(self):
        return [host for host, case in self.on.items() if case.record and case.record.role == "OWN"]

    @property
    def moving(self):
        return [case.record for case in self.on.values() if case.record and case.record.op]

    def run(self, operation, dry=False, killed_at=None, killed_after=None):
        """``killed_at``: the step of a KVM host, ``killed_after``: the number of the answer that never arrives."""
        self.asked, run = [], Run({STORE: None}, 4, lambda: KEY, dry)
        task = {"uuid": self.case.uuid, "hosts": [] if self.moving else self.owners, "project_id": "default"}
        given = {"web1": {"to": self.to, **({"host": self.host} if self.host else {}), "shutdown_timeout": 0}}

        def answers(step):
            if not isinstance(step, Ask):
                return None
            found = {}
            for name, said in step.arguments.items():
                found[name] = self._answer(step.module, step.host_of(name), said, dry, killed_at)
                if len(self.asked) == killed_after:
                    raise Killed(killed_after)
            return found

        if operation == "shelve":
            procedure = procedures.shelve({"web1": task}, given, run)
        elif operation == "unshelve":
            elsewhere = procedures.Elsewhere(["web1"] if self.moving else [], self._plan)
            procedure = procedures.unshelve({"web1": task}, run, elsewhere)
        else:
            return driven(self._moved(), answers)
        return driven(procedure, answers)["web1"]

    def _moved(self):
        """A migration by itself."""
        found, errors = yield from self._plan(["web1"])
        return (yield from found["web1"]) if found else errors

    def _plan(self, names):
        planned = yield from self._planned(names)
        found = {name: Move.from_plan(move) for name, move in planned.moves.items()}
        return {name: moves.operation(move, MOVING, self._again) for name, move in found.items()}, planned.errors

    def _again(self):
        planned = yield from self._planned(["web1"], {"web1": None})
        return Move.from_plan(planned.moves["web1"])

    def _planned(self, names, goals=None):
        """As plugin_utils/plan_moves.py does, with the host of this fleet that placement would choose."""
        documents = {name: {"uuid": each.host.uuid, "instances": [], "volumes": []} for name, each in self.on.items()}
        views = {}
        for name, each in self.on.items():
            view = common.view(moving_host.MovingHost(each.host), self.case.uuid)
            views[name] = {self.case.uuid: view} if view["role"] else {}
            documents[name]["instances"] = [
                {**one, "foreign": False, "group": None, "vcpus": 1, "memory_mb": 64} for one in views[name].values()
            ]
        fleet = read_fleet({name: {"document": document} for name, document in documents.items()}, dict)
        wanted = plan_moves.Wanted(
            action="cold_migrate", run="r", subject_of=lambda _name: plan_moves.Subject(self.case.uuid, None, None),
            choose=self._choose, new_token=lambda: "%032x" % next(self.numbers), goals=goals,
            dry=True,
        )  # fmt: skip
        return (yield from plan_moves.plan_moves(names, fleet, views, wanted))

    def _choose(self, instances, _resized):
        for instance in instances.values():
            hosts = [name for name in self.on if name not in instance["spec"]["ignore_hosts"]]
            chosen = [{"host": name, "host_uuid": self.on[name].host.uuid, "limits": {}} for name in hosts]
            if chosen:
                instance.update(chosen[0], alternates=chosen[1:])
            else:
                fail(instance, NoValidHost("no host is left"))

    def _answer(self, module, host, given, dry, killed_at):
        self.asked.append((host, given.get("state") or given.get("steps")))
        try:
            self.before.get(given.get("state"), lambda: None)()
            if host == STORE:
                done = {
                    "uuid": given["uuid"],
                    **store.outcome_of({**OF_BACKUP, "project_id": "default", "address": None, **given}, dry),
                }
            elif module == "migration":
                done = self._step(host, given, dry, killed_at)
            else:
                instance = self.on[host].instance(killed_at)
                of = acts if module == "instance" else backup_acts
                done = of.outcome_of(instance, {**(OF_INSTANCE if of is acts else OF_BACKUP), **given}, dry)
        except BerthError as error:
            return {"error": error.to_dict()}
        return (
            done if module == "migration" else reply.check(module, done, host, given)
        )  # the request here is not whole

    def _step(self, host, given, dry, killed_at):
        """What module migration does. Each host has its own ports."""
        moving, uuid, token, changed, said = (
            moving_host.MovingHost(self.on[host].host),
            given["uuid"],
            given["token"],
            False,
            {},
        )
        moving.identity["name"] = host
        options = {**given, "options": {}}
        steps, peer = [options.pop(part) for part in ("steps", "peer")]
        del options["uuid"], options["token"]
        if dry:
            changed, said, token = rehearsal.rehearse(moving, uuid, steps, token, peer, **options)
            return {"changed": changed, "move": said, "token": token, "took": {}}
        plain, transfer.RUN_DIR = transfer.RUN_DIR, "%s-%s" % (transfer.RUN_DIR, host)
        try:
            for step in steps:
                did, now = table.run(moving, uuid, step, token, peer, sent=said.get("sent"), **options)
                changed, said = changed or did, {**{part: said[part] for part in SAID if part in said}, **now}
                if step in TAKING:
                    token = {"op": token["op"], "attempt": now["attempt"]}
                if step == killed_at:
                    raise Killed(step)
        finally:
            transfer.RUN_DIR = plain
        return {"changed": changed, "move": said, "token": token, "took": {}}

    def good(self, operation, **more):
        done = self.run(operation, **more)
        assert not done.errors, done.errors
        return done

    def refused(self, operation, **more):
        errors = self.run(operation, **more).errors
        assert len(errors) == 1, errors
        return errors[0]

    def files(self, host=KVM):
        directory = self.on[host].host.pool / "instances" / self.case.uuid
        return sorted(path.name for path in directory.iterdir())


def make_room(host, monkeypatch, memory_mb=1024):
    host.connection.room, host.connection.host_uuid = memory_mb, host.uuid

    def collect(connection, _settings, records, *_args, **_kwargs):
        used = {
            part: sum(each.resources.get(part, 0) for each in records) for part in ("vcpus", "memory_mb", "disk_gb")
        }
        return {"host": connection.getHostname(), "uuid": connection.host_uuid, "vcpus": 4, "vcpus_used": used["vcpus"],
                "memory_mb": connection.room, "memory_mb_used": used["memory_mb"], "local_gb": 8, "local_gb_used": used["disk_gb"],
                "num_instances": len(records), "instances": [], "pool": "berth", "pools": {"berth": {"type": "dir"}}}  # fmt: skip

    monkeypatch.setattr(facts, "collect", collect)


def make_web(host, request, monkeypatch, tmp_path):
    """web1 runs, with a root disk that holds 1 and a data disk that holds 2."""
    monkeypatch.setattr(transfer, "RUN_DIR", str(tmp_path / "run" / "moves"))
    monkeypatch.setattr(store.address, "of_host", lambda configured, _name: configured or "127.0.0.1")
    make_room(host, monkeypatch)
    case = web_off(host, request, monkeypatch)
    write(case, 1)
    write(case, 2, MIB, "data-db.qcow2")
    acts.act(case.instance(), {**OF_INSTANCE, "state": "started"}, False)
    assert case.state() == ON
    return case


def closed(uuid):
    for each in (uuid, store.channel(uuid)):
        transfer.close(each)


def backups(web):
    """Those that are whole to their last byte."""
    where = place.Place(web.to, web.case.uuid)
    known = where.known()
    return [name for name, each in known.items() if not where.faults(each, known, deep=True)]
