# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance on the lab and the playbooks that move it: what the tests of moves and the kill sweep share."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))
sys.path.insert(0, str(ROOT / "lab"))
sys.path.insert(0, str(ROOT / "tests" / "integration"))
sys.path.insert(0, str(ROOT / "tests" / "faults"))

from client import CommandFailed, Done, LabClient  # noqa: E402
from warm import Warm  # noqa: E402

from playbooks import catalog, vm  # noqa: E402

NAME = "mover"
WRITER = "#cloud-config\n# lab-writer: on\n# lab-writer-pause: 100\n"  # a guest without KVM is slow enough
POOL = "/var/lib/libvirt/berth"
SHARE = "mkdir -p -m 711 /srv/shared/pool; mountpoint -q %s || mount --bind /srv/shared/pool %s" % (POOL, POOL)
FLAVOR, BIGGER = "tiny", "two"
# Each has more disk than the one before and other memory, so that one instance can be resized again and again.
STEPS = 24
LADDER = {"step%d" % n: {"vcpus": 1, "memory_mb": 128 + 32 * (n % 2), "root_gb": n} for n in range(1, STEPS + 1)}
# From each to those after it a running guest grows; from the second it gives back what it got. QEMU emulates, so it keeps CPUs.
CEILINGS = {"berth:max_vcpus": "4", "berth:max_memory_mb": "1024"}
SIZES = {"grows1": (1, 128), "grows1m": (1, 256), "grows2": (2, 256), "grows3": (3, 384)}
GROWING = {
    name: {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 1, "extra_specs": CEILINGS}
    for name, (vcpus, memory_mb) in SIZES.items()
}
LOOK = r"""
cat /var/lib/berth/instances/*/record.json 2>/dev/null; echo
echo ---; for d in $(virsh -q list --uuid); do echo "$d $(virsh -q domstate $d)"; done
echo ---; pgrep -fa '^qemu-(nbd|img)' ; ls /run/berth/moves 2>/dev/null
echo ---; cd /var/lib/libvirt/berth/instances 2>/dev/null && find . -type f
"""


class Case:
    """``mover``, an instance whose guest writes numbered blocks; ``shared``: all hosts have one storage pool."""

    def __init__(self, lab, image, directory, shared=False, **more):
        self.lab, self.shared = lab, shared
        self.path = Path(directory) / (lab.name + "-mover.yml")
        variables = catalog(image)
        variables["berth_flavors"] = {**variables["berth_flavors"], **LADDER, **GROWING}
        self.variables = variables
        self.mover = vm("{{ mover_flavor | default('tiny') }}", **{"user_data": WRITER, **more})
        self.describe()

    def describe(self, **more):
        """What the inventory says of ``mover`` from now on."""
        keepers = dict.fromkeys(self.lab.hosts, {})
        groups = {"instances": {"hosts": {NAME: {**self.mover, **more}}}, "berth_backup_hosts": {"hosts": keepers}}
        self.path.write_text(json.dumps({"all": {"vars": self.variables, "children": groups}}))

    def mount(self, host):
        """What a host that was booted needs, in a lab with shared storage."""
        if self.shared:
            self.lab.sh(host, SHARE)

    def start(self, playbook, variables=(), env=None):
        """A playbook for ``mover`` without waiting -> subprocess.Popen or warm.Run"""
        given = dict(variables)
        chosen = {"berth_name", "berth_kvm_host"} & given.keys()
        playbook, limit = "berth.kvm." + playbook, () if chosen else ("--limit", NAME)
        if not self.lab.warm:
            return self.lab.start_playbook(playbook, *limit, inventory=[self.path], extra_vars=given, env=env)
        argv = self.lab.ansible_argv(playbook, *limit, "-e", json.dumps(given), inventory=[self.path])
        return self.lab.warm.start(argv, env or {})

    def play(self, playbook, variables=(), env=None, check=True, timeout=300):
        process, began = self.start(playbook, variables, env), time.monotonic()
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        done = Done(process.returncode, output, "", time.monotonic() - began)
        if check and done.rc:
            raise CommandFailed("%s: exit status %d\n%s" % (playbook, done.rc, output))
        return done

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
        owners = [host for host in self.lab.hosts for record in self.look(host)["records"] if record["role"] == "OWN"]
        assert len(owners) == 1, "I1 the owners are %s" % owners
        return owners[0]


def prepared(name, count):
    """A lab of so many hosts, prepared. -> LabClient"""
    lab = LabClient(name)
    lab.up(count, *("%d:disk=60G" % number for number in range(1, count + 1)))
    lab.extra_inventories = [ROOT / "examples" / "demo" / "catalog.yml"]
    lab.ansible_playbook("berth.kvm.prepare_hosts")
    return lab


def image():
    """The image of the lab's guest, for a catalog."""
    checksum = (ROOT / ".cache" / "image" / "guest.qcow2.sha256").read_text().strip()
    return {"url": "/srv/shared/images/guest.qcow2", "checksum": "sha256:" + checksum, "disk_format": "qcow2"}


def make(name, directory, shared=False):
    """A lab of two hosts, prepared. -> Case"""
    lab = prepared(name, 2)
    case = Case(lab, image(), directory, shared)
    lab.sh(lab.hosts[0], "mkdir -p /srv/shared/backups")
    lab.warm = Warm(lab.environment())
    for host in lab.hosts:
        case.mount(host)
    return case


__all__ = ["Case", "CommandFailed", "make"]
