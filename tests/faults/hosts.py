# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of a lab hold, read from their files: no process, no libvirt, at any moment, also of a dead host."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import found_guest

STATUS = re.compile(r"<domstatus state='(\w+)' reason='[^']*' pid='(\d+)'")
VOLUME = re.compile(r"/volumes/([0-9a-f-]{36})/disk\.qcow2'")
MEMORY = re.compile(r"<memory unit='KiB'>(\d+)</memory>")
WORKERS = (b"qemu-nbd", b"qemu-img", b"qemu-storage-daemon")


@dataclass
class View:
    """One host: ``domains`` {uuid: (libvirt's state, MiB)} of live QEMUs; ``files`` of all instances."""

    up: bool
    records: dict = field(default_factory=dict)
    domains: dict = field(default_factory=dict)
    files: list = field(default_factory=list)
    permits: list = field(default_factory=list)
    defined: list = field(default_factory=list)
    filters: list = field(default_factory=list)  # of packets, the guests' own
    volumes: dict = field(default_factory=dict)  # their records
    volume_files: list = field(default_factory=list)
    has_volumes: dict = field(default_factory=dict)  # uuid of a live QEMU -> those that it has
    names_volumes: dict = field(default_factory=dict)  # uuid of a definition -> those that it names

    def running(self):
        return [uuid for uuid, (state, _memory) in self.domains.items() if state == "running"]


class HostFiles:
    def __init__(self, lab, name):
        self.name = name
        self.directory = lab.state / "hosts" / name

    @property
    def root(self):
        """Its file system as it sees it itself; None while it is down, and while it has not changed to its own."""
        try:
            root = Path("/proc") / (self.directory / "pid1").read_text() / "root"
            return root if root.stat().st_dev != Path("/").stat().st_dev else None
        except OSError:
            return None

    def make_well(self, lab, booted=lambda _name: None):
        """It is up, connected, with its libvirtd. ``booted`` is called if it had to be switched on."""
        if self.root is None:
            lab.start(self.name)
            booted(self.name)
        lab.heal(self.name)
        if lab.sh(self.name, "pidof libvirtd", check=False).rc:
            lab.restart_libvirtd(self.name)

    def view(self):
        root = self.root
        upper = root or self.directory / "upper"
        found = View(up=root is not None, records=records(upper / "var/lib/berth/instances"))
        found.defined = names(upper / "etc/libvirt/qemu", "*.xml")
        found.volumes = records(upper / "var/lib/berth/volumes")
        found.names_volumes = volumes_in(upper / "etc/libvirt/qemu")
        found.filters = names(upper / "etc/libvirt/nwfilter", "berth-*.xml")
        if root:
            found.domains = domains(root)
            found.has_volumes = {
                uuid: had
                for uuid, had in volumes_in(root / "run/libvirt/qemu").items()
                if found.domains.get(uuid, ("shutoff",))[0] != "shutoff"
            }
            found.volume_files = below(root / "var/lib/libvirt/berth/volumes")
            found.files = below(root / "var/lib/libvirt/berth/instances")
            found.permits = names(root / "run/berth/permits", "*")
        _by_uuid(found)
        # A host that died while it was read shows less than it holds.
        return found if self.root == root else self.view()

    def console(self, uuid):
        name = found_guest.NAME if uuid == found_guest.UUID else uuid
        return self.directory / "upper/var/log/libvirt/qemu" / (name + "-console.log")

    def log_of_console(self, uuid):
        """The console log and what of it the log daemon has open, in words: a log that stays empty is told from one that is gone."""
        try:
            size = "%d bytes" % self.console(uuid).stat().st_size
        except OSError:
            size = "no file"
        return "%s, virtlogd has open %s" % (size, opened(self.root, "virtlogd", uuid) or "nothing of it")

    def seconds_of_cpu(self, uuid):
        """What the QEMU of a guest has used so far: a guest that hangs uses none, or all of it."""
        try:
            pid = STATUS.search((self.root / "run/libvirt/qemu" / (uuid + ".xml")).read_text())[2]
            fields = (self.root / "proc" / pid / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, TypeError, AttributeError):
            return 0.0

    def working(self):
        """Processes that copy disks, and what transfers keep in /run."""
        root = self.root
        return [] if root is None else [*workers(root), *below(root / "run/berth/moves")]


def _by_uuid(view):
    """Libvirt names files as the domains, whose names are their uuids, but for the guest that libvirt alone made."""
    view.defined = [found_guest.UUID if name == found_guest.NAME else name for name in view.defined]
    for part in (view.domains, view.has_volumes, view.names_volumes):
        if found_guest.NAME in part:
            part[found_guest.UUID] = part.pop(found_guest.NAME)


def records(directory):
    """{uuid: record}; a file that goes while it is read was replaced or removed: the next look tells."""
    found = {}
    for path in directory.glob("*/record.json"):
        try:
            found[path.parent.name] = json.loads(path.read_text())
        except OSError:
            continue
    return found


def domains(root):
    found = {}
    for path in (root / "run/libvirt/qemu").glob("*.xml"):
        try:
            text = path.read_text()
        except OSError:
            continue
        status, memory = STATUS.search(text), MEMORY.search(text)
        if status and (root / "proc" / status[2]).exists():
            found[path.stem] = (status[1], int(memory[1]) >> 10)
    return found


def volumes_in(directory):
    """{name of a definition in a directory of libvirt: uuids of the volumes in it}"""
    found = {}
    for path in directory.glob("*.xml"):
        try:
            found[path.stem] = sorted(set(VOLUME.findall(path.read_text())))
        except OSError:
            continue
    return found


def below(directory):
    try:
        return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())
    except OSError:
        return []


def names(directory, pattern):
    try:
        return sorted(path.stem for path in directory.glob(pattern) if not path.is_dir())
    except OSError:
        return []


def opened(root, program, part):
    """The files with ``part`` in their path that processes of a program have open."""
    found = []
    for path in (root / "proc").glob("[0-9]*/fd/*") if root else ():
        try:
            if part in (file := os.readlink(path)) and (path.parents[1] / "comm").read_text().strip() == program:
                found.append(file)
        except OSError:
            continue
    return found


def workers(root):
    found = []
    for path in (root / "proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].rpartition(b"/")[2] in WORKERS:
            found.append(words[0].decode())
    return found
