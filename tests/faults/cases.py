# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One move on the lab with one fault in it, and what must hold afterwards.

A fault is named operation:kind:task number, such as resize:crash-source:3. Its command runs before the task of that
number;
task numbers past the last are "after the run". Then the lab is made whole, the same playbook runs again, and once more.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "lab"))
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from client import CommandFailed, LabClient  # noqa: E402

from playbooks import catalog, vm, watched  # noqa: E402

NAME = "mover"
WRITER = "#cloud-config\n# lab-writer: on\n"
FLAVOR, BIGGER = "tiny", "two"
KINDS = (
    "controller",
    "libvirtd-source",
    "libvirtd-destination",
    "crash-source",
    "crash-destination",
    "cut-source",
    "cut-destination",
)
LOOK = r"""
cat /var/lib/berth/instances/*/record.json 2>/dev/null; echo
echo ---; for d in $(virsh -q list --uuid); do echo "$d $(virsh -q domstate $d)"; done
echo ---; pgrep -fa '^qemu-(nbd|img)' ; ls /run/berth/moves 2>/dev/null
echo ---; cd /var/lib/libvirt/berth/instances 2>/dev/null && find . -type f
"""


@dataclass(frozen=True)
class Operation:
    """``before``: playbooks that bring the instance to where it begins; ``end``: (phase, side of the owner)."""

    playbook: str
    sequence: str
    end: tuple
    before: tuple = ()
    variables: tuple = ()
    here: bool = False


RESIZE = ("resize", (("mover_flavor", BIGGER),))
OPERATIONS = {
    "resize": Operation("resize", "resize", ("resized", "destination"), variables=RESIZE[1]),
    "confirm": Operation("confirm_resize", "confirm", ("active", "destination"), (RESIZE,), RESIZE[1]),
    "revert": Operation("revert_resize", "revert", ("active", "source"), (RESIZE,), RESIZE[1]),
    "cold_migrate": Operation("cold_migrate", "resize", ("resized", "destination")),
    "live_migrate": Operation("live_migrate", "live_migrate", ("active", "destination")),
    "resize_here": Operation(
        "resize",
        "resize_here",
        ("resized", "source"),
        variables=(*RESIZE[1], ("berth_allow_resize_to_same_host", True)),
        here=True,
    ),
}


def task_names(operation):
    """The tasks of the sequence, in order, as the role has them."""
    text = (ROOT / "roles" / "move" / "tasks" / (operation.sequence + ".yml")).read_text()
    prepared = ["Claim"] if operation.sequence == "resize" else []
    return prepared + re.findall(r"^- name: (.*)$", text, re.MULTILINE)


def faults():
    """Every fault there is, in the form in which it is replayed."""
    return [
        "%s:%s:%d" % (name, kind, number)
        for name, operation in OPERATIONS.items()
        for kind in KINDS
        if not (operation.here and kind.endswith("destination"))
        for number in range(len(task_names(operation)))
    ]


class Violation(AssertionError):
    """An invariant does not hold."""


class Case:
    def __init__(self, lab, image, directory):
        self.lab = lab
        self.path = Path(directory) / "mover.yml"
        tree = {
            "all": {
                "vars": catalog(image),
                "children": {
                    "instances": {"hosts": {NAME: vm("{{ mover_flavor | default('tiny') }}", user_data=WRITER)}}
                },
            }
        }
        self.path.write_text(json.dumps(tree))

    # the playbooks

    def play(self, playbook, variables=(), env=None, check=True, timeout=300):
        return self.lab.ansible_playbook(
            "berth.kvm." + playbook,
            "--limit",
            NAME,
            inventory=[self.path],
            extra_vars=dict(variables),
            env=env,
            check=check,
            timeout=timeout,
        )

    def fresh(self, operation):
        """A new instance, brought to where the operation begins. -> (source, destination)"""
        self.play("create")
        source = self.owner()
        self.lab.guest_facts(NAME, source, timeout=120)
        for playbook, variables in operation.before:
            self.play(playbook, variables)
        others = [host for host in self.lab.hosts if host != source]
        variables = dict(operation.variables)
        if operation.here:
            variables["berth_target_host"] = source
        elif operation.playbook.endswith("migrate"):
            variables["berth_target_host"] = others[0]  # to be there is a state, to move on is not
        return source, others[0], variables

    # what there is

    def look(self, host):
        parts = self.lab.sh(host, LOOK, check=False).stdout.split("---\n")
        decoder, records, text = json.JSONDecoder(), [], parts[0].strip()
        while text:
            record, end = decoder.raw_decode(text)
            records.append(record)
            text = text[end:].strip()
        return {
            "records": records,
            "running": [line.split()[0] for line in parts[1].split("\n") if line.endswith(" running")],
            "active": [line.split()[0] for line in parts[1].split("\n") if line.strip()],
            "working": parts[2].split("\n")[:-1],
            "files": parts[3].split(),
        }

    def owner(self):
        owners = [host for host in self.lab.hosts for one in self.look(host)["records"] if one["role"] == "OWN"]
        if len(owners) != 1:
            raise Violation("I1 the owners are %s" % owners)
        return owners[0]

    # the fault

    def command(self, kind, source, destination):
        """The shell command of a fault."""
        lab = "%s/lab/lab --name %s" % (ROOT, self.lab.name)
        what, _dash, side = kind.partition("-")
        host = {"source": source, "destination": destination}.get(side)
        if what == "controller":
            return "kill -KILL 0"
        return "%s %s %s" % (lab, {"libvirtd": "libvirtd-kill", "crash": "crash", "cut": "cut"}[what], host)

    def heal(self):
        for row in self.lab.status()["hosts"]:
            if row["power"] == "down":
                self.lab.start(row["name"])
            self.lab.heal(row["name"])
            if self.lab.sh(row["name"], "virsh -q list", check=False).rc:
                self.lab.restart_libvirtd(row["name"])

    def run(self, name):
        """Run one fault. Raises Violation."""
        operation_name, kind, number = name.split(":")
        operation, number = OPERATIONS[operation_name], int(number)
        source, destination, variables = self.fresh(operation)
        nonce = self.lab.guest_facts(NAME, timeout=120)["nonce"]
        at = {task_names(operation)[number]: self.command(kind, source, destination)}
        process = self.lab.start_playbook(
            "berth.kvm." + operation.playbook,
            "--limit",
            NAME,
            inventory=[self.path],
            extra_vars=variables,
            env=watched(at=at),
        )
        first = process.communicate(timeout=400)[0]
        self.check_running()
        self.heal()
        self.check_running()
        again = self.play(operation.playbook, variables, check=False)
        self.check_running()
        if again.rc and not (operation_name == "live_migrate" and "power_state shutdown" in again.output):
            raise Violation("I4 the re-run failed:\n%s\nfirst run:\n%s" % (again.output[-3000:], first[-1500:]))
        quiet = self.play(operation.playbook, variables, check=False)
        if quiet.changed.get(NAME):
            raise Violation("I4 the run after that changed something:\n%s" % quiet.output[-3000:])
        self.check_end(operation, source, destination, nonce, bool(again.rc))

    # the invariants

    def check_running(self):
        """I1, on the hosts that are up."""
        seen = []
        for row in self.lab.status()["hosts"]:
            if row["power"] == "up":
                look = self.look(row["name"])
                seen += [row["name"]] * len(look["running"])
                roles = {one["uuid"]: one["role"] for one in look["records"]}
                wrong = [uuid for uuid in look["running"] if roles.get(uuid) != "OWN"]
                if wrong:
                    raise Violation("I1 %s runs on %s, which does not own it" % (wrong, row["name"]))
        if len(seen) > 1:
            raise Violation("I1 the guest runs on %s" % seen)

    def check_end(self, operation, source, destination, nonce, stayed):
        phase, side = operation.end
        expected = source if stayed else {"source": source, "destination": destination}[side]
        looks = {host: self.look(host) for host in (source, destination)}
        owner = self.owner()
        if owner != expected:
            raise Violation("I4 the owner is %s, not %s" % (owner, expected))
        record = looks[owner]["records"][0]
        if record["phase"] != phase and not stayed:
            raise Violation("I4 the phase is %s, not %s" % (record["phase"], phase))
        other = destination if owner == source else source
        kept = phase == "resized" and not operation.here
        if kept and [one["phase"] for one in looks[other]["records"]] != ["keep"]:
            raise Violation("I3 there is no way back: %s" % looks[other]["records"])
        if not kept and (looks[other]["records"] or looks[other]["files"]):
            raise Violation("I5 %s holds %s %s" % (other, looks[other]["records"], looks[other]["files"]))
        for host, look in looks.items():
            odd = [name for name in look["files"] if "incoming" in name or name.endswith(".tmp")]
            if look["working"] or odd:
                raise Violation("I5 %s was left with %s %s" % (host, look["working"], odd))
        if not looks[owner]["running"]:
            self.play("start") if phase == "active" else None
        facts = self.lab.guest_facts(NAME, owner, timeout=180)
        if facts["nonce"] != nonce:
            raise Violation("I3 the guest's data are others: %s, not %s" % (facts["nonce"], nonce))


def make(name, directory):
    """A lab of two hosts, prepared. -> Case"""
    lab = LabClient(name)
    lab.up(2, "1:disk=10G", "2:disk=10G")
    lab.extra_inventories = [ROOT / "examples" / "demo" / "catalog.yml"]
    lab.ansible_playbook("berth.kvm.prepare_hosts")
    checksum = (ROOT / ".cache" / "image" / "guest.qcow2.sha256").read_text().strip()
    image = {"url": "/srv/shared/images/guest.qcow2", "checksum": "sha256:" + checksum, "disk_format": "qcow2"}
    return Case(lab, image, directory)


__all__ = ["Case", "CommandFailed", "OPERATIONS", "Violation", "faults", "make"]
