# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One long history: operators, faults and hands at work on a few instances, and whether all is well at its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import ends
from acknowledged import Acknowledged
from invariants import DELETED, Violation, has_disk
from operator_runs import INSTANCES, OF_ALL, Command, chosen

PATIENCE = 300  # seconds within which a run ends
BROKEN = re.compile(r"Traceback|MODULE FAILURE|ModuleFailed|unhandled exception|Unexpected|is undefined|InternalError")
SHOWN = re.compile(r"^(?:INSTANCE .*(?:\n.*\S.*)+|\[(?:ERROR|WARNING)\].*)", re.M)
AS_ROOT = re.compile(r"As root on (\w+): ([^\"]*?); then run the same again")
BRINGS_BACK = re.compile(r"berth\.kvm\.(restore_record|keep_one_copy|start) --limit (\w+)((?: -e \w+=[\w,-]+)*)")
# Hosts that say nothing are not waited for long.
IMPATIENT = {
    "ANSIBLE_TIMEOUT": "5",
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=2 -o ServerAliveCountMax=3",
}
STEPS = {"operate": 12, "by_hand": 3, "heal_all": 3}
FAULTS = {"none": 10, "kill": 4, "crash": 3, "cut": 3, "libvirtd-kill": 2, "second": 4}  # while a playbook runs
HANDS = {"virsh destroy": 2, "virsh start": 2, "virsh undefine --nvram": 1, "snapshot": 1, "crash": 2, "restore": 2}
SNAPSHOT = "virsh -q snapshot-create-as --disk-only --no-metadata %s backup"
BACK_UP = "tar -C /var/lib -cf /root/berth.tar berth"
RESTORE = "rm -rf /var/lib/berth/* && tar -C /var/lib -xf /root/berth.tar"


class History:
    """``warm``: two of warm.Warm, for two runs at once; ``watcher``: soak.Several."""

    def __init__(self, lab, hosts, watcher, operator, warm):
        self.lab, self.hosts, self.watcher, self.operator, self.warm = lab, hosts, watcher, operator, warm
        self.random = operator.random
        self.acknowledged = Acknowledged(hosts)
        self.uuids = {}  # of the instances, by name
        self.broken, self.backed_up = set(), set()  # hosts

    def run(self, steps):
        self._finish(Command("create", None, {}))
        for number in range(steps):
            say("-- %d" % number)
            getattr(self, chosen(self.random, STEPS))()
        self._end()

    # ---- steps

    def operate(self):
        """A playbook, often with something that happens to it."""
        command, fault = self.operator.command(self._seen()), chosen(self.random, FAULTS)
        host, delay = self.random.choice(list(self.hosts)), self.random.uniform(0.2, 7)
        second = self.operator.command(self._seen()) if fault == "second" else None
        say("%s, %s %s after %.1f s" % (command, fault, second or host, delay))
        self._before([command, second])
        process = self._start(command)
        time.sleep(delay if fault != "none" else 0)
        if second:
            self._said(second, self._ended(self._start(second, 1), second))
        elif fault == "kill":
            kill(process.pid)
        elif fault != "none":
            self._harm(fault, host)
        self._said(command, self._ended(process, command, dies=fault == "kill"))

    def by_hand(self):
        """Something is done to a host, or to a guest there, past the product."""
        what, name = chosen(self.random, HANDS), self.random.choice(INSTANCES)
        host = self.random.choice([host for host in self.hosts if host not in self.broken] or [None])
        if host is None or name not in self.uuids:
            return
        say("by hand: %s, %s on %s" % (what, name, host))
        if what == "crash":
            self._harm("crash", host)
        elif what == "restore":
            self._restore(host)
        elif what == "snapshot":
            self.lab.sh(host, SNAPSHOT % self.uuids[name], check=False)
        else:
            self.lab.sh(host, "%s %s" % (what, self.uuids[name]), check=False)

    def heal_all(self):
        """Every host up, connected, with its libvirtd."""
        say("heal %s" % sorted(self.broken))
        for host in self.broken:
            self.hosts[host].make_well(self.lab)
        self.broken = set()

    def _harm(self, fault, host):
        if self.hosts[host].root is not None:
            self.lab.lab(fault, host, check=False)  # a libvirtd may be dead already
            self.broken.add(host)

    def _restore(self, host):
        """The state directory of a host is backed up, or comes back as it was at the last backup."""
        self.lab.sh(host, RESTORE if host in self.backed_up else BACK_UP)
        self.backed_up ^= {host}

    # ---- runs

    def _start(self, command, which=0):
        inventory, variables = self.operator.inventory(), ["%s=%s" % pair for pair in command.variables.items()]
        words = [*command.words(), *(word for pair in variables for word in ("-e", pair))]
        return self.warm[which].start(self.lab.ansible_argv(*words, inventory=[inventory]), IMPATIENT)

    def _ended(self, process, command, dies=False):
        """(exit status, output). Raises Violation for a run that does not end, or that ends as none should."""
        try:
            output = process.communicate(PATIENCE)[0]
        except subprocess.TimeoutExpired:
            raise Violation("I4 %s does not end:\n%s" % (command, process.kill()[-4000:])) from None
        self.watcher.check()
        ends.check_secrets([output])
        if not dies and BROKEN.search(output):
            raise Violation("%s says %r:\n%s" % (command, BROKEN.search(output)[0], output[-5000:]))
        return process.returncode, output

    def _said(self, command, ended):
        say("   rc %s %s\n%s" % (ended[0], command.playbook, "\n".join(SHOWN.findall(ended[1]))[:3000]))
        self._look()
        return ended

    def _finish(self, command):
        return self._said(command, self._ended(self._start(command), command))

    # ---- what is seen

    def _before(self, commands):
        """From here on a revert gives up what was written, and a deletion all."""
        self._look()
        for command in filter(None, commands):
            for name in INSTANCES if command.name is None else (command.name,):
                uuid = self.uuids.get(name)
                if command.playbook in ("resize", "cold_migrate", "live_migrate"):
                    self.acknowledged.moves(uuid)
                if command.playbook == "revert_resize":
                    self.acknowledged.reverts(uuid)
                if command.playbook == "delete" and uuid:
                    self.watcher.there.discard(uuid)
                    self.acknowledged.forget(uuid)
                    del self.uuids[name]

    def _look(self):
        views = self._views()
        for view in views:
            for uuid, record in view.records.items():
                if record.get("name") in INSTANCES and record.get("phase") not in DELETED:
                    self.uuids[record["name"]] = uuid
        for uuid in self.uuids.values():
            self.acknowledged.look(uuid)
            if has_disk(views, uuid) and any(view.records.get(uuid, {}).get("phase") == "active" for view in views):
                self.watcher.there.add(uuid)

    def _seen(self):
        views, found = self._views(), {}
        for name, uuid in self.uuids.items():
            resized = any(view.records.get(uuid, {}).get("phase") == "resized" for view in views)
            found[name] = {"resized": resized, "running": any(uuid in view.running() for view in views)}
        return found

    def _views(self):
        return [host.view() for host in self.hosts.values()]

    # ---- the end

    def _end(self):
        """All hosts are well, and what an operator would run then has each instance run once, as the inventory says."""
        self.broken = set(self.hosts)
        self.heal_all()
        for wanted in self.operator.wanted.values():
            wanted.state = "active"
        self.watcher.there.clear()  # a deletion that was interrupted goes on
        for playbook in ("create", "unlock", "confirm_resize", "create", "recover", "create"):
            variables = {"berth_mend": "true"} if playbook == "create" else {}
            command = Command(playbook, None if playbook in OF_ALL else "instances", variables)
            rc, output = self._finish(command)
            if self._follow(output):
                rc, output = self._finish(command)  # the same again
        if rc:
            raise Violation("I4 the last create failed:\n%s" % output[-5000:])
        for name in INSTANCES:
            runs = [host for host, files in self.hosts.items() if self.uuids[name] in files.view().running()]
            if len(runs) != 1:
                raise Violation("I4 %s runs on %s" % (name, runs))
        if self._finish(Command("doctor", None, {}))[0]:
            raise Violation("I4 the doctor finds errors")

    def _follow(self, output):
        """What a run says to do is done, word for word: on a host, and the playbooks that bring a copy back. -> whether
        there was any"""
        for host, command in sorted(set(AS_ROOT.findall(output))):
            say("as root on %s: %s\n%s" % (host, command, self.lab.sh(host, command, check=False).output))
        for playbook, name, more in sorted(set(BRINGS_BACK.findall(output))):
            variables = dict(word.split("=", 1) for word in more.split() if word != "-e")
            say("told to run %s --limit %s%s" % (playbook, name, more))
            self._finish(Command(playbook, name, variables))
        return AS_ROOT.search(output) or BRINGS_BACK.search(output)


def kill(pid):
    """End a run and all its processes at once, unless it has ended."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def say(text):
    print("%s %s" % (time.strftime("%H:%M:%S"), text), flush=True)
