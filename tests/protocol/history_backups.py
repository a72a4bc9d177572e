# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups, clones and images in a history: the host's code is the real one, what QEMU would copy is done here, file by file, so
that it can be killed in between.

A file that has changes alone says on which content of the disk they stand, as a bitmap of QEMU does without saying so.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
import re
import shutil
import struct
import types

from history_host import closed_on_failure, read_disk, write_disk
from memory_names import Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import (
    away,
    backup_chain,
    make,
    off,
    place,
    port,
    restore,
    running,
    store,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import room
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk.layers import BACKING_FORMAT, read_header
from ansible_collections.berth.kvm.plugins.module_utils.compute.paths import BITMAP, bitmap_of
from ansible_collections.berth.kvm.plugins.module_utils.conductor import cloning
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import (
    backup,
    backup_host,
    evacuate,
    operate,
    shelve,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import shelves as rooms
from ansible_collections.berth.kvm.plugins.module_utils.model import shelves
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

HOST = "backups1"
CLUSTER = 1 << 16
UTC = datetime.timezone.utc
SINCE = re.compile(rb"since (\d{8})\n")
MARK = 2048  # where in a file of a backup its content is
LONGEST_CHAIN = 3


class BackupHost:
    """It has neither libvirt nor guests, and answers always."""

    name, boot, up, on = HOST, HOST, True, True

    @staticmethod
    def used_mb():
        return 0

    @staticmethod
    def backup_store(**given):
        params = {"of": None, "backup": None, "full": False, "chain": LONGEST_CHAIN, "keep": None, "keep_days": None,
                  "deep": False, "parts": [], "key": None, "address": HOST, **given}  # fmt: skip
        return store.outcome_of(params, False)


class Storage:
    """The directories for backups, which all KVM hosts have mounted or the backup host has, and for images. ``bitmaps``:
    (inode, name of the disk) -> {bitmap: counter of the disk as it began}; ``newest``: of which backup each instance was whole."""

    def __init__(self, world, top, monkeypatch):
        self.world, self.bitmaps, self.newest, self.ports = world, {}, {}, {}
        self.of_shelved = set()  # (place, backup), of which records say, or said, that they have the disks
        self.mounted, self.kept, self.images = (str(top / name) for name in ("mounted", "kept", "images"))
        for path in (self.mounted, self.kept, self.images):
            os.mkdir(path)
        self.channels = str(top / "channels")
        for machine in world.machines.values():
            machine.host.settings = dataclasses.replace(machine.host.settings, image_directories=(self.images,))
        self._set_up(monkeypatch)

    def _set_up(self, monkeypatch):
        monkeypatch.setattr(place, "is_on_root", lambda _path: False)
        monkeypatch.setattr(place, "check_qcow2", lambda *_arguments: None)
        monkeypatch.setattr(room, "check", lambda *_arguments: None)
        monkeypatch.setattr(make, "PAUSE_SECONDS", 0)
        monkeypatch.setattr(backup_chain, "run", self._create)
        for part in (off, running):
            monkeypatch.setattr(part, "usable", self._usable)
            monkeypatch.setattr(part, "drop", self._drop)
        monkeypatch.setattr(off, "copy", self._copy)
        monkeypatch.setattr(
            running, "copy", lambda _guest, backup_id, since, parts, *_also: self._copy(backup_id, since, parts)
        )
        monkeypatch.setattr(restore, "_make", self._restore)
        monkeypatch.setattr(port.Port, "write_file", lambda target, path, _form: self._write_port(target, path))
        monkeypatch.setattr(port.Port, "read", lambda target, path, *_how: self._read_port(target, path))
        channel = types.SimpleNamespace(
            WRITABLE=None, close=self._close, make_directories=self._open_channel, write_key=self._open_channel,
            directory=self._directory, make_empty=lambda *_: None, serve=self._serve, check_address=lambda *_: None,
            closed_on_failure=functools.partial(closed_on_failure, self._close),
        )  # fmt: skip
        monkeypatch.setattr(store, "transfer", channel)
        monkeypatch.setattr(away, "transfer", channel)
        monkeypatch.setattr(store.shutil, "which", lambda name, **_how: name)

    # channels

    def _directory(self, uuid, *names):
        return os.path.join(self.channels, self.world.now.name, uuid, *names)

    def _open_channel(self, uuid, _key=None):
        os.makedirs(self._directory(uuid), exist_ok=True)

    def _close(self, uuid):
        here = self.world.now.name
        self.ports = {number: held for number, held in self.ports.items() if held[:2] != (here, uuid)}
        shutil.rmtree(self._directory(uuid), ignore_errors=True)

    def _serve(self, uuid, _disk, path, _at, _how):
        number = self.world.new_number()
        self.ports[number] = (self.world.now.name, uuid, path)
        return number

    def _behind(self, target):
        held = self.ports.get(target.at["port"])
        if held is None:
            raise TransferFailed("nobody listens on port %s of %s" % (target.at["port"], target.at["host"]))
        return held[2]

    def _write_port(self, target, path):
        self.world.fuse.burn()
        shutil.copyfile(path, self._behind(target))

    def _read_port(self, target, path):
        self.world.fuse.burn()
        shutil.copyfile(self._behind(target), path)

    # what QEMU does

    @staticmethod
    def _create(command, **_how):
        below = command[command.index("-b") + 1] if "-b" in command else None
        write_header(command[-2], int(command[-1]), below)

    def _of(self, path):
        known = read_disk(path)
        return (os.stat(path).st_ino, known[0]) if known else None

    def _usable(self, *given):
        return dict.fromkeys(self.bitmaps.get(self._of(given[-1]), ()), True)

    def _drop(self, *given):
        path, kept = given[-2:]
        self.world.fuse.burn()
        known = self.bitmaps.get(self._of(path), {})
        self.bitmaps[self._of(path)] = {
            name: at for name, at in known.items() if name == kept or not name.startswith(BITMAP)
        }

    def _copy(self, backup_id, previous, parts):
        for part in parts:
            name, counter = read_disk(part.path) or (None, 0)
            since = self.bitmaps[self._of(part.path)][bitmap_of(previous)] if part.kind == make.INCREMENT else None
            target = self._behind(part.port) if part.port else part.target
            if since is None and not part.port:
                write_header(target, part.size)
            self.world.fuse.burn()
            # of a clone or an image each is a disk of its own
            write_content(target, name if backup_id else self.world.new_disk_name(), counter, since)
        for part in parts if backup_id else ():
            self.world.fuse.burn()
            if self._of(part.path):
                self.bitmaps.setdefault(self._of(part.path), {})[bitmap_of(backup_id)] = read_disk(part.path)[1]
        return False

    def forget_bitmaps(self, path):
        self.bitmaps.pop(self._of(path), None)

    def _restore(self, target):
        path = self._behind(target.port) if target.port else target.source[-1]
        name, counter = content(path)
        write_header(target.made, target.size)
        self.world.fuse.burn()
        write_disk(target.made, name, counter)

    # rules

    def shelved(self):
        """{name of a disk: its counter} in the backups of instances that are shelved, whatever an old record says since."""
        for machine in self.world.machines.values():
            for record in machine.host.store.records():
                known = shelves.of(record.spec)
                self.of_shelved.update([(place.Place(known["to"], record.uuid), known["backup"])] if known else [])
        found = {}
        for where, backup_id in self.of_shelved:
            known = where.known()
            each = known.get(backup_id)
            for disk in each.disks if each and not where.faults(each, known) else ():
                name, counter = content(where.path(each.id, disk.file)) or (None, 0)
                found[name] = max(counter, found.get(name, -1))
        return found

    def places(self):
        for to in (self.mounted, self.kept):
            for uuid in os.listdir(to):
                yield place.Place(to, uuid)

    def counters(self, uuid):
        """{name of a disk: its counters in the backups of the instance}, and how many backups there are."""
        found, number = {}, 0
        for where in (each for each in self.places() if each.uuid == uuid):
            for known in where.known().values():
                number += 1
                for disk in known.disks:
                    name, counter = read_disk(where.path(known.id, disk.file)) or (None, 0)
                    found.setdefault(name, []).append(counter)
        return found, number

    def check(self):
        for where in self.places():
            known = where.known()
            whole = [each for each in known.values() if not where.faults(each, known)]
            for each in whole:
                for disk in each.disks:
                    content(where.path(each.id, disk.file))
            newest, before = max((each.id for each in whole), default=""), self.newest.get(where, "")
            if newest < before:
                raise Violation("H7 the newest whole backup in %s was %s and is %s" % (where.path(), before, newest))
            self.newest[where] = newest
        for name in os.listdir(self.images):
            if not name.startswith(".") and read_disk(os.path.join(self.images, name)) is None:
                raise Violation("H7 the image %s is empty" % name)


def write_header(path, size, below=None):
    """An empty qcow2 file, as far as its header is read."""
    head = bytearray(3 * CLUSTER)
    struct.pack_into(
        ">4sIQIIQIIQQII", head, 0, b"QFI\xfb", 3, 0, 0, 16, size, 0, -(-size >> 29), CLUSTER, 2 * CLUSTER, 1, 0
    )
    struct.pack_into(">II", head, 96, 4, 104)
    if below:
        struct.pack_into(">II8s", head, 104, BACKING_FORMAT, 5, b"qcow2")
        struct.pack_into(">QI", head, 8, 128, len(below))
        head[128 : 128 + len(below)] = below.encode()
    with open(path, "wb") as file:
        file.write(head)


def write_content(path, name, counter, since=None):
    with open(path, "r+b") as file:
        file.seek(MARK)
        file.write(b"disk %s %08d\n" % ((name or "none").encode(), counter))
        file.write(b"since %08d\n" % since if since is not None else b"")


def content(path):
    """(name, counter) of what a restore of the file would write."""
    with open(path, "rb") as file:
        since = SINCE.search(file.read(4096))
    known, below = read_disk(path), read_header(path).backing
    if known is None or (since is None) != (below is None):
        raise Violation("H7 %s, a part of a whole backup, is empty or stands on %s" % (path, below))
    if since and content(below) != (known[0], int(since.group(1))):
        raise Violation(
            "H7 %s has what changed since %d, and stands on %s" % (path, int(since.group(1)), content(below))
        )
    return known


class Backups:
    """The playbooks."""

    def _where(self, **given):
        """Half of the time to a backup host."""
        if self.dice.random() < 0.5:
            return {"to": self.world.storage.mounted, **given}
        return {"to": self.world.storage.kept, "host": HOST, **given}

    def _anywhere(self, operation, order, given):
        found = yield from self._located(operation)
        tasks = {name: {"project_id": "default", **task} for name, task in found.tasks.items()}
        given = {name: given(name) for name in tasks}
        yield from self._carry_out(order(tasks, given, self._backup_run(), *found.moving))

    def backup(self):
        wish = {"full": self.dice.random() < 0.2, "chain": LONGEST_CHAIN, "keep": self.dice.choice((1, 2))}
        where = self._where(**wish)

        def order(tasks, *given):
            has_disks = {name: task for name, task in tasks.items() if not task.get("shelved")}
            return backup.back_up(has_disks, *given, 60, lambda: 0.0)

        yield from self._anywhere("backup", order, lambda _name: where)

    def restore(self):
        where = self._where()
        for name in self.names:
            self.world.agrees_to_restore(name)
        yield from self.operate("stop")

        def order(*given):
            return backup_host.operate_anywhere("restore", *given)

        yield from self._anywhere("restore", order, lambda name: {**where, "discards": name})

    def shelve(self):
        where = self._where()

        def order(tasks, given, run):
            return self._over(rooms.RoomOnEngine(), tasks, functools.partial(shelve.shelve, given=given, run=run))

        yield from self._anywhere("shelve", order, lambda _name: where)

    def unshelve(self):
        def order(tasks, _given, run, *moving):
            if self.world.engine:
                takes = rooms.RoomOnEngine(self.removes.known) if tasks else None
                return self._over(takes, tasks, functools.partial(shelve.unshelve, run=run))
            for name in moving:
                del self.errors[name]
                tasks[name] = {"project_id": "default", "hosts": []}
            return shelve.unshelve(tasks, run, shelve.Elsewhere(moving, self._moves_to_unshelve))

        yield from self._anywhere("unshelve", order, lambda _name: {})

    def _moves_to_unshelve(self, names):
        moves = yield from self._plan("cold_migrate", names)
        errors = {name: self.errors.pop(name) for name in names if name in self.errors}
        acts = {name: move for name, move in moves.items() if move["sequence"]}
        return {name: self._procedure("cold_migrate", name, move, []) for name, move in acts.items()}, errors

    def _over(self, takes, tasks, carry_out):
        """As the action does it; none is found while the engine is away."""
        return operate.over(takes, tasks, carry_out, False) if tasks and self.world.engine else carry_out(tasks)

    def image_from_instance(self):
        for name in self.names:
            yield from self.operate("image_from_instance", image="golden-%s" % name, to=self.world.storage.images)

    def evacuate(self):
        """What a lost host alone had: no host sees the disks of another one."""
        yield from self.create()

    def wanted_from_backups(self, seen):
        """As the action reads them."""
        if not seen.documents:
            return {"takes_over": True}
        where, lister = self._where(), min(seen.documents)
        owned = {uuid for uuid, places in seen.places.items() if any(place["role"] != "CLAIM" for place in places)}
        uuids = {name: self.world.uuid(name) for name in self.names}
        tasks = {
            name: {"uuid": uuid, "hosts": [lister], "project_id": "default"}
            for name, uuid in uuids.items()
            if uuid not in owned
        }
        found = evacuate.newest_backups(
            tasks, dict.fromkeys(tasks, where), self._backup_run(), datetime.datetime.now(UTC)
        )
        backups, disks_of = (yield from self._play(found)), self.options.get("berth_disks_of")
        return {"takes_over": True, "from_backup": True, "backups": backups, "disks_of": disks_of}

    def and_restored(self, plan, creation):
        for name, instance in plan["instances"].items():
            if instance.get("from_backup"):
                self.world.agrees_to_restore(name)
        stay_off = self.names if self.options.get("berth_state") == "stopped" else ()
        takes = rooms.RoomOnEngine() if self.world.engine else None
        return evacuate.evacuate(plan, creation, self._backup_run(), stay_off, takes)

    def _backup_run(self):
        return backup_host.Run({HOST: HOST}, 2, self.token)

    def clone(self):
        """Mostly in the place of one that is deleted first."""
        (name,) = self.names
        if self.dice.random() < 0.7:
            yield from self.delete()
        source = self.dice.choice(self.world.names)

        def ask(seen):
            wanted = {"requested_destination": None, **self.world.request(name)[0]}
            self.cloned = {name: cloning.with_source(wanted, seen, source, self.world.uuid(source), self.lost)}

        yield from self.create_beside([source], ask)
