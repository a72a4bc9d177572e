# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One fault after the other in the life of one instance, and what must hold after each.

One re-run converges, the next changes nothing, nothing is lost. The end of one fault is where the next begins; a fault
that is replayed begins with a new instance.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import agreement
import cases
import ends
import found_guest
from hosts import HostFiles
from invariants import Violation, Watcher
from operations import BASE, END, OPERATIONS, OTHER, PREPARE
from whole import make_whole

CALLBACKS = Path(__file__).resolve().parent / "callbacks"
# As much as a resize of the ladder takes on its way: what counted twice, or was left behind, had the next refused (I7).
QUOTA = {"berth_quotas": {"default": {"instances": 1, "cores": 2, "ram": 128 + 160}}}
PATIENCE = 90  # seconds after which a run that has not ended gets its hosts and links back
ENVIRONMENT = {
    "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
    "ANSIBLE_CALLBACKS_ENABLED": "berth_fault",
    "ANSIBLE_TIMEOUT": "20",
}
# A run that is hit has hosts that say nothing: it need not wait for them long.
HIT = {
    "ANSIBLE_TIMEOUT": "4",
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=2 -o ServerAliveCountMax=2",
}
# Before a leg these leave no process and no module at work: what the hosts hold is all that is left of the run.
NOTHING_LEFT = ("controller", "cut-source", "cut-destination")
LAB_COMMANDS = {"libvirtd": "libvirtd-kill", "crash": "crash", "cut": "cut"}


class Chain:
    """``state`` is one of operations.py, None without an instance; ``source`` and ``destination`` are where the move
    that is under way, or the next one, goes from and to."""

    def __init__(self, case):
        self.case, self.lab = case, case.lab
        self.hosts = {name: HostFiles(case.lab, name) for name in case.lab.hosts}
        self.watcher = Watcher(list(self.hosts.values()), case.shared)
        self.state = self.source = self.destination = self.guest = None
        self.dead = None  # the host that an evacuation is about, until that has ended
        self.volume_gb = 1
        self.step = self.step_before = 1  # of the flavors; before the move that is not confirmed
        self.written_before = 0  # the block acknowledged last before that move

    # ---- without a fault

    def fresh(self, state="active"):
        """A new instance, at rest, with or without a volume, or below the ceilings of its flavor; or a guest to adopt."""
        self.wipe()
        ends.put_foreign(self.lab, self.hosts)
        self.step = self.step_before = self.volume_gb = 1
        self.case.describe(**({"berth_adopted": found_guest.UUID} if state == "found" else {}))
        if state == "found":
            self.watcher.forget(found_guest.UUID)
            found_guest.make(self.lab, self.lab.hosts[0], cases.WRITER, cases.LADDER["step1"]["memory_mb"])
            self._begin(state, found_guest.UUID)
            return
        flavor = "grows1" if state == "tight" else "step1"
        self.case.play("create", {**QUOTA, "mover_flavor": flavor, **self._volumes(state)}, env=ENVIRONMENT)
        self.watcher.forget()
        self._begin(state)

    def _begin(self, state, uuid=None):
        self.guest = ends.Guest(self.hosts, uuid)
        self._at_rest(self.guest.owner(), state)
        self.guest.expect(self.source, 0)

    def bring(self, begin):
        """To the state in which an operation begins."""
        if self.state == begin == "active" and self.step < cases.STEPS or self.state == begin != "active":
            return
        base = BASE.get(begin, "active")
        if self.state is None or self.step >= cases.STEPS or BASE.get(self.state, "active") != base:
            self.fresh(base)
        while self.state not in (base, begin):
            self.walk(END[self.state])
        if self.state != begin:
            self.bring(OPERATIONS[PREPARE[begin]].begin)
            self.walk(PREPARE[begin])

    def walk(self, name, legs=None):
        """An operation; ``legs`` is a file that gets the legs of its run."""
        operation, variables, written = self._enter(name)
        done = self._play(operation, variables, {"BERTH_FAULT_LEGS": str(legs)} if legs else {})
        if done.rc:
            raise Violation("I4 %s without a fault failed:\n%s" % (name, done.output[-3000:]))
        self._leave(operation, written, starts=operation.stops)

    def wipe(self):
        """All hosts whole and empty."""
        self.dead = None
        self.heal()
        make_whole(self.lab)
        self.state = None

    def heal(self):
        """Every host up, connected, with its libvirtd, but for one that is dead."""
        for host in self.hosts.values():
            if host.name == self.dead:
                continue
            host.make_well(self.lab, booted=self.case.mount)

    # ---- with one

    def suffer(self, fault):
        """One fault, from the state in which its operation begins. -> what came of it. Raises Violation."""
        step = self.step
        operation, variables, written = self._enter(fault.operation)
        before = ends.held(self.hosts)
        said = [self._run(operation, variables, fault)]
        self.heal()
        self.watcher.check()
        if (
            fault.kind in NOTHING_LEFT
            and not fault.delay_ms
            and not operation.loses
            and ends.held(self.hosts) == before
        ):
            self.step = step
            return "as it was"  # the next fault's first run is this one's re-run
        self._start_found(operation)
        said.append(self._again(operation, variables, fault, said[0], written))
        self._start_found(operation)
        quiet = self._play(operation, variables)
        changed = quiet.changed.get(cases.NAME) or quiet.changed.get(OTHER)
        if quiet.rc or (changed and not operation.repeats):
            raise Violation("I4 the run after the re-run changed something:\n%s" % quiet.output[-3000:])
        ends.check_secrets([*said, quiet.output])
        self._leave(operation, written, starts=operation.stops or (None if "crash" in fault.kind else False))
        if "crash" in fault.kind and operation.end == "resized_here_grown":
            self.state = (
                None  # it was resized while its host was down, so with a restart, and other things hold for its revert
            )
        return "converged"

    def _start_found(self, operation):
        """A power cut ended the guest, and libvirt alone has it."""
        views = {name: host.view() for name, host in self.hosts.items()}
        if "found" in (operation.begin, operation.end) and not any(view.records for view in views.values()):
            if not views[self.source].running():
                found_guest.start(self.lab, self.source)

    def _run(self, operation, variables, fault):
        """The run with the fault in it -> its output."""
        what, _dash, side = fault.kind.partition("-")
        host = self.source if side == "source" else self.destination
        command = "%s/lab/lab --name %s %s %s" % (cases.ROOT, self.lab.name, LAB_COMMANDS.get(what), host)
        shot = {"leg": fault.leg, "delay_ms": fault.delay_ms, "command": command if side else None}
        process = self.case.start(
            operation.playbook, variables, {**ENVIRONMENT, **HIT, "BERTH_FAULT": json.dumps(shot)}
        )
        try:
            return process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            self.heal()
        try:
            return process.communicate(timeout=2 * PATIENCE)[0]
        except subprocess.TimeoutExpired:
            raise Violation("I4 the run with the fault does not end:\n%s" % (process.kill() or "")[-3000:])

    def _again(self, operation, variables, fault, first, written):
        """The one re-run -> its output."""
        before = ends.held(self.hosts)
        again = self._play(operation, variables)
        if again.rc and "crash" in fault.kind and "power_state shutdown" in again.output:
            # A power cut ended the guest, and only a running one can be migrated live, paused or suspended.
            if ends.held(self.hosts) != before:
                raise Violation("I11 a refusal changed something:\n%s" % again.output[-3000:])
            self.case.play("start_after_outage" if operation.end == "paused" else "start", env=ENVIRONMENT)
            # else it is paused or suspended as it boots, and boots on after that
            self.guest.expect(self.source, written)
            again = self._play(operation, variables)
        if again.rc:
            raise Violation("I4 the re-run failed:\n%s\nfirst run:\n%s" % (again.output[-3000:], first[-3000:]))
        return again.output

    def _play(self, operation, variables, more=None):
        done = self.case.play(operation.playbook, variables, env={**ENVIRONMENT, **(more or {})}, check=False)
        self.watcher.check()
        return done

    # ---- where an operation begins and ends

    def _enter(self, name):
        """-> (operation, variables of its playbook, the block that must be there at its end)"""
        operation = OPERATIONS[name]
        written = self.guest.mark(self.guest.owner())
        variables = {**QUOTA, **operation.variables}
        if operation.playbook in ("resize", "cold_migrate", "revert_resize"):
            variables["berth_shutdown_timeout"] = 20
        self.volume_gb += name == "grow"
        variables.update(self._volumes(operation.end if operation.end in BASE else operation.begin))
        if operation.begin == "active" and operation.moves:
            self.written_before, self.step_before = written, self.step
            self.step += operation.playbook == "resize"
            if not (operation.empties or operation.loses):
                variables["berth_target_host"] = getattr(self, operation.owner)
        if operation.empties:
            variables["berth_kvm_host"] = getattr(self, operation.empties)
        if operation.loses:
            self.dead = variables["berth_lost_hosts"] = self.source
            self.lab.crash(self.dead)
        if operation.keeper:
            variables["berth_backup_host"] = self.destination
        if name == "rename_back":
            variables["berth_uuid"] = self.guest.uuid
        if operation.playbook == "restore":
            self.case.play("backup", variables, env=ENVIRONMENT)
        if name == "image":
            variables["berth_new_image"] = "sweep-%d" % time.time_ns()  # a lab that was left has those of before
        if name == "grow_here":
            variables["berth_target_host"] = self.source
        if name == "snapshot":
            self.written_before, self.step_before = written, self.step
        if operation.here and operation.moves:
            variables["berth_allow_resize_to_same_host"] = True
        variables.setdefault("mover_flavor", "step%d" % self.step)
        return operation, variables, self.written_before if operation.gives_up_writes else written

    def _leave(self, operation, written, starts):
        owner = getattr(self, operation.owner)
        if operation.loses:
            self.dead = None
            self.heal()
            self.case.play("start_after_outage", env=ENVIRONMENT)  # removes the outdated copy of the host that is back
        if operation.gives_up_writes:
            self.step = self.step_before
        if operation.end == "gone":
            ends.check_gone(self.hosts, self.source, self.guest.uuid)
            self.state = None
            return
        if operation.end == "found":
            found_guest.check_left({name: host.view() for name, host in self.hosts.items()}, owner)
            self.guest.expect(owner, written, starts)
            self._at_rest(owner, "found")
            return
        if operation.playbook == "clone":
            self._check_clone(owner)
        ends.check(operation, self.hosts, (self.source, owner), cases.LADDER["step%d" % self.step], self.case.shared)
        agreement.check(operation, self.hosts[owner].view(), self.guest.uuid, self.volume_gb)
        if operation.end == "locked":
            self._check_lock()
        if operation.anew:
            self.guest.forget()
            written = 0
        if self.hosts[owner].view().running():
            self.guest.expect(owner, written, starts)
        elif self._start(operation):
            self.guest.expect(owner, written, starts=True)
        self.watcher.check()
        self.state = operation.end
        if not self.state.startswith("resized"):
            self._at_rest(owner, self.state)

    def _start(self, operation):
        """A guest that a power cut ended before an operation that starts nothing is started now. -> whether it is; else the
        operation ends with the guest off"""
        if operation.end in ("stopped", "locked", "paused", "suspended", "snapped_off", "shelved", "renamed"):
            return False
        if operation.end.startswith("resized"):
            raise Violation("I4 the guest does not run after the re-run")
        self.case.play("start", env=ENVIRONMENT)
        return True

    def _check_clone(self, owner):
        """It is beside the instance, at rest, and can be deleted again."""
        records = self.hosts[owner].view().records
        uuids = [uuid for uuid, each in records.items() if each["name"] == OTHER]
        found = [records[uuid] for uuid in uuids]
        if [(each["phase"], each["task_state"], each["power_state"]) for each in found] != [
            ("active", None, "running")
        ]:
            raise Violation("I4 the clone is %s" % found)
        self.case.play("delete", {"berth_name": OTHER}, env=ENVIRONMENT)
        self.watcher.generations.pop(uuids[0], None)  # the next one begins anew

    def _check_lock(self):
        """A lock holds: nobody stops what is locked."""
        before = ends.held(self.hosts)
        refused = self.case.play("stop", env=ENVIRONMENT, check=False)
        if not refused.rc or "InstanceIsLocked" not in refused.output or ends.held(self.hosts) != before:
            raise Violation("I11 the lock does not hold:\n%s" % refused.output[-3000:])

    def _volumes(self, state):
        """What the inventory says of volumes in a state."""
        if state not in ("attached", "detached"):
            return {}
        there = {agreement.VOLUME: {"size_gb": self.volume_gb}}
        return {"berth_volumes_defined": there, "berth_volumes": [agreement.VOLUME] if state == "attached" else {}}

    def _at_rest(self, owner, state="active"):
        self.state, self.source = state, owner
        self.destination = next(name for name in self.hosts if name != owner)
