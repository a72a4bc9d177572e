# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold when an operation has ended: I3, I4, I5, I8, I9, I10."""

from __future__ import annotations

import re
import time
import urllib.request

import agreement
from guest_facts import events, guest_facts
from invariants import Violation

WORD = "foreign"
FOREIGN = "<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory><os><type>hvm</type></os></domain>" % WORD
SAME = ("host", "mac", "seed", "key", "nonce")  # what a guest says of itself that no move may change (I8)
SECRET = re.compile(r"(?<![0-9a-f:])[0-9a-f]{64}(?![0-9a-f])")  # as long as a transfer's key; checksums have a prefix
BOOTED = "berth-guest verify"  # what it says first; what a revert gave up was said before
MAYBE = "beside, if it was restarted"  # such as by a power cut: then the old disks are kept
BOOT = 90  # seconds that a guest has to write again
INSTANCES = "/var/lib/libvirt/berth/instances"


def held(hosts):
    """What the hosts hold of instances, to compare."""
    views = {name: (host.view(), host.working()) for name, host in hosts.items()}
    return {
        name: (view.records, view.domains, view.files, view.permits, working) for name, (view, working) in views.items()
    }


# ---- the hosts


def put_foreign(lab, hosts):
    """A domain and a directory that nobody here made (I9)."""
    for name in hosts:
        script = 'mkdir -p %s/%s; echo mine > %s/%s/disk; echo "%s" > /root/%s.xml; virsh -q define /root/%s.xml'
        lab.sh(name, script % (INSTANCES, WORD, INSTANCES, WORD, FOREIGN, WORD, WORD))


def check(operation, hosts, sides, flavor, shared):
    """The hosts at the end of an operation; ``sides``: names of the source and the owner. Raises Violation.

    ``shared``: the hosts have one storage.
    """
    source, owner = sides
    views = {name: host.view() for name, host in hosts.items()}
    mine, uuid = _owned(views, owner)
    phase = "resized" if operation.end.startswith("resized") else "active"
    if mine["phase"] != phase or mine["task_state"]:
        raise Violation("I4 the phase is %s, the task state %s" % (mine["phase"], mine["task_state"]))
    room_gb, claimed_gb = 0 if operation.end == "shelved" else flavor["root_gb"], mine["resources"].get("disk_gb", 0)
    if mine["spec"]["flavor"]["root_gb"] != flavor["root_gb"] or claimed_gb < room_gb or claimed_gb and not room_gb:
        raise Violation("I4 the flavor is %s, its claim %s" % (mine["spec"]["flavor"], mine["resources"]))
    for name, view in views.items():
        keeps = operation.end == "resized" and name == source
        has_disks = operation.end != "adopted" and (name == owner or keeps or shared)
        _check_disks(name, view, uuid, has_disks, _way_back(operation, name, sides, shared), operation.end)
        _check_left(name, view, hosts[name].working(), uuid, name == owner, keeps)
        if WORD not in view.defined or WORD + "/disk" not in view.files:
            raise Violation("I9 what is foreign on %s was touched" % name)


def _owned(views, owner):
    owners = [
        (name, uuid) for name, view in views.items() for uuid, record in view.records.items() if record["role"] == "OWN"
    ]
    if [name for name, _uuid in owners] != [owner]:
        raise Violation("I4 the owners are %s, not %s" % (owners, owner))
    return views[owner].records[owners[0][1]], owners[0][1]


def _way_back(operation, name, sides, shared):
    """Where the disks of before are on a host: beside the new ones, or its own, or (None) nowhere."""
    source, owner = sides
    if not operation.end.startswith("resized"):
        return None
    if shared:
        return "beside"
    ways = {"resized_here": {owner: "beside"}, "resized": {source: "its own"}, "resized_here_grown": {owner: MAYBE}}
    return ways[operation.end].get(name)


def _check_disks(name, view, uuid, has_disks, way_back, end=None):
    """I3 and I5 of the instance's directory."""
    files = {file.partition("/")[2] for file in view.files if file.startswith(uuid)}
    before = {file for file in files if ".pre-" in file}
    if way_back not in (None, MAYBE) and not (before if way_back == "beside" else "root.qcow2" in files):
        raise Violation("I3 there is no way back on %s: %s" % (name, sorted(files)))
    wanted = {"root.qcow2", "seed.iso", "owner", "attached.json"} if has_disks else set()
    wanted |= {"rescue.qcow2"} if has_disks and end == "rescued" else set()
    wanted -= {"root.qcow2"} if end == "shelved" else set()
    marks = {file for file in files if file.startswith("moving-")}
    if files - (before if way_back in ("beside", MAYBE) else set()) - (marks if way_back else set()) != wanted:
        raise Violation("I5 %s holds the files %s" % (name, sorted(files)))


def _check_left(name, view, working, uuid, owns, keeps):
    """I5 of all else."""
    if keeps and view.records.get(uuid, {}).get("phase") != "keep":
        raise Violation("I3 there is no way back on %s: %s" % (name, view.records))
    if working:
        raise Violation("I5 %s is left at work: %s" % (name, working))
    if not owns and (view.domains or view.permits):
        raise Violation("I5 %s has the domains %s and the permits %s" % (name, view.domains, view.permits))
    if not owns and not keeps and (view.records or uuid in view.defined):
        raise Violation("I5 %s holds %s and defines %s" % (name, view.records, view.defined))
    if not owns and not keeps and view.filters:
        raise Violation("I5 %s has the packet filters %s" % (name, view.filters))


def check_gone(hosts, home, uuid):
    """Nothing is left of a deleted instance, and its volume is kept."""
    for name, host in hosts.items():
        _check_disks(name, host.view(), uuid, False, None)
        _check_left(name, host.view(), host.working(), uuid, False, False)
        if WORD not in host.view().defined or WORD + "/disk" not in host.view().files:
            raise Violation("I9 what is foreign on %s was touched" % name)
    agreement.check_volume(hosts[home].view(), None)


def check_secrets(outputs):
    for text in outputs:
        if SECRET.search(text):
            raise Violation("I10 a run shows a key:\n%s" % text[-3000:])


# ---- the guest


def acknowledged(text):
    return max((said["n"] for event, said in events(text) if event == "ack"), default=0)


def acknowledged_over_the_network(address):
    """The block that the guest acknowledged last, by its own web server, or why it does not say."""
    try:
        with urllib.request.urlopen("http://%s/ack" % address.partition("/")[0], timeout=5) as reply:
            return "block %s" % reply.read(100).decode(errors="replace").strip()
    except (OSError, ValueError) as error:
        return "nothing (%s)" % error


class Guest:
    """What the guest says on its consoles, from ``mark`` on."""

    def __init__(self, hosts, uuid=None):
        self.hosts = hosts
        self.uuid = uuid or next(uuid for host in hosts.values() for uuid in host.view().records)
        self.marks = {name: (None, 0) for name in hosts}
        self.facts, self.address = {}, ""
        self.written = 0

    def owner(self):
        views = {name: host.view() for name, host in self.hosts.items()}
        return next(name for name, view in views.items() if self.uuid in view.records or self.uuid in view.defined)

    def mark(self, owner):
        """From here on. -> the highest block that it acknowledged so far"""
        self.written = max(self.written, acknowledged(self._text(owner).rpartition(BOOTED)[2]))
        self.marks = {name: self._mark(name) for name in self.hosts}
        return self.written

    def forget(self):
        """It is another one, which has written nothing."""
        self.facts, self.written = {}, 0

    def _mark(self, name):
        try:
            stat = self.hosts[name].console(self.uuid).stat()
        except OSError:
            return None, 0
        return stat.st_ino, stat.st_size

    def _text(self, name):
        """What it said on a host since the mark; a log that was made anew is read from its beginning."""
        try:
            with open(self.hosts[name].console(self.uuid), "rb") as file:
                inode, size = self._mark(name)
                file.seek(self.marks[name][1] if (inode == self.marks[name][0] and size >= self.marks[name][1]) else 0)
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def expect(self, host, written, starts=True):
        """It writes on after block ``written`` and finds all before it intact (I3); it is the one it was (I8).

        ``starts``: it must (true), may (none) or must not have been started since the mark. Only what it says from now on
        tells that it writes: before, a power cut may have ended it, and it boots still.
        """
        until = time.monotonic() + BOOT
        before = self._text(host)
        while (now := self._writes_after(host, written, starts, before)) is None:
            if time.monotonic() > until:
                now = self._writes_in_silence(host, written, starts)
                break
            time.sleep(0.2)
        if now is None:
            raise Violation("I3 the guest did not write on after %d: %s" % (written, self._evidence(host)))
        self.written = now
        text = self._text(host)
        verdicts = [said["result"].split(":") for event, said in events(text) if event == "verify"]
        if any(verdict[0] == "bad" or (verdict[0] == "ok" and int(verdict[1]) < written) for verdict in verdicts):
            raise Violation("I3 the guest acknowledged %d and found %s" % (written, verdicts))
        if verdicts and starts is False:
            raise Violation("I4 an operation that leaves it running started it anew: %s" % self._evidence(host))
        self._is_the_same(guest_facts(text))

    def _evidence(self, host):
        """Whether it stands still, or only its console is silent."""
        text, home = self._text(host), self.hosts[host]
        used = home.seconds_of_cpu(self.uuid)
        time.sleep(2)
        state = home.view().domains.get(self.uuid, ("not there",))[0]
        used = home.seconds_of_cpu(self.uuid) - used
        return (
            "it is %s (%.1f s of CPU in 2 s), %d characters on its console since (%s), over the network it says %s\n%s"
            % (
                state,
                used,
                len(text),
                home.log_of_console(self.uuid),
                acknowledged_over_the_network(self.address),
                text[-1500:],
            )
        )

    def _writes_after(self, host, written, starts, before):
        """The highest block acknowledged by the guest as it runs now, None before there is one after ``written`` that was
        not in the text ``before``."""
        text = self._text(host)
        _old, started, lived = text.rpartition(BOOTED)
        highest = acknowledged(lived)
        writes = highest > written and acknowledged(text.removeprefix(before))
        return highest if writes and (started or not starts) else None

    def _writes_in_silence(self, host, written, starts):
        """The block that a guest which was not to be started acknowledges over the network while nothing comes to the log of its
        console: a libvirtd that is killed as the guest arrives may lose the log, and the guest loses nothing by that."""
        said = re.fullmatch(r"block (\d+)", acknowledged_over_the_network(self.address))
        if starts or self._text(host) or not said or int(said.group(1)) <= written:
            return None
        log = self.hosts[host].log_of_console(self.uuid)
        print("note: the console log of the guest on %s says nothing (%s), over the network it writes on" % (host, log))
        return int(said.group(1))

    def _is_the_same(self, facts):
        self.address = facts.get("ip", self.address)
        known, self.facts = self.facts, {**self.facts, **{key: facts[key] for key in SAME if key in facts}}
        if known and any(known[key] != self.facts[key] for key in known):
            raise Violation("I8 the guest was %s and is %s" % (known, self.facts))
