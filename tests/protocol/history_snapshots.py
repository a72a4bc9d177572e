# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots inside the disks of a history: the host's code finds the table that QEMU would write, and each entry has the
counter that the disk had then. The file with a guest's memory says the counters of its disks: beside others it is never read."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

from fake_domain import FakeDomain
from fake_libvirt import FakeConnection
from history_host import read_disk, sources, write_disk
from memory_names import Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import inside, layers
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import qemu_nodes
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks

NAMES = ("one",)
COUNT, TABLE = 60, 8192  # where in the file
COUNTER = struct.Struct(">Q")
NO_NAME = ("", 0)


def set_up(world, monkeypatch):
    def back(path, tag):
        go_back(path, tag)
        world.storage.forget_bitmaps(path)

    def burning(change):
        def changed(path, tag):
            world.fuse.burn()
            change(path, tag)

        return changed

    def together(guest, files, tag):
        world.fuse.burn()
        check_open(guest)
        for path in files:
            make(path, tag)

    def of_running(guest, path, tag):
        burning(delete)(path, tag)
        check_open(guest)

    monkeypatch.setattr(inside, "make", burning(make))
    monkeypatch.setattr(inside, "delete", burning(delete))
    monkeypatch.setattr(inside, "go_back", burning(back))
    monkeypatch.setattr(qemu_nodes, "snapshot", together)
    monkeypatch.setattr(qemu_nodes, "delete_snapshot", of_running)
    keep_counters(monkeypatch)
    monkeypatch.setattr(disks, "check_container", lambda _path: None)


def check_open(guest):
    if guest.closed:
        raise Violation("H2 a file of %s is changed below its QEMU, which has given it up" % guest.uuid)


def keep_counters(monkeypatch):
    write_memory, bring_back = FakeDomain.snapshotCreateXML, FakeConnection.restoreFlags

    def counters(xml):
        return "<!-- %s -->" % sorted((path, read_disk(path)) for path in sources(xml) if path.endswith("qcow2"))

    def kept(guest, xml, flags):
        write_memory(guest, xml, flags)
        with open(ElementTree.fromstring(xml).find("memory").get("file"), "a", encoding="utf-8") as stream:
            stream.write(counters(guest.XMLDesc()))

    def back(connection, path, xml, flags):
        if not connection.saveImageGetXMLDesc(path).endswith(counters(xml)):
            raise Violation("H7 %s is read beside disks of another moment" % path)
        bring_back(connection, path, xml, flags)

    monkeypatch.setattr(FakeDomain, "snapshotCreateXML", kept)
    monkeypatch.setattr(FakeConnection, "restoreFlags", back)


def read(path):
    """{name in the file: counter} of the snapshots in it."""
    with open(path, "rb") as stream:
        data = stream.read()
    found, at = {}, TABLE
    for name in layers.snapshots_in(path):
        (counter,) = COUNTER.unpack_from(data, at + layers.ENTRY.size)
        found[name] = counter
        at += size_of(name)
    return found


def size_of(name):
    return -(-(layers.ENTRY.size + COUNTER.size + len(name)) // 8) * 8


def write(path, found):
    with open(path, "r+b") as stream:
        stream.seek(COUNT)
        stream.write(struct.pack(">IQ", len(found), TABLE if found else 0))
        stream.truncate(TABLE)
        stream.seek(TABLE)
        for name, counter in found.items():
            entry = layers.ENTRY.pack(0, 0, 0, len(name), 0, 0, 0, 0, COUNTER.size)
            stream.write((entry + COUNTER.pack(counter) + name.encode()).ljust(size_of(name), b"\0"))


def make(path, tag):
    write(path, {**read(path), tag: (read_disk(path) or NO_NAME)[1]})


def delete(path, tag):
    write(path, {name: counter for name, counter in read(path).items() if name != tag})


def go_back(path, tag):
    known = read_disk(path)
    if known:
        write_disk(path, known[0], read(path)[tag])


def oldest(path):
    """The lowest counter of a disk and its snapshots."""
    return min([read_disk(path)[1], *read(path).values()])


class Snapshots:
    """The playbooks; the option names a snapshot."""

    def _named(self, operation, **given):
        name = self.options.get("berth_snapshot") or self.dice.choice(NAMES)
        return self.operate(operation, snapshot=name, **given)

    def snapshot(self):
        yield from self._named("snapshot")

    def snapshot_with_memory(self):
        yield from self._named("snapshot", snapshot_memory=True)

    def delete_snapshot(self):
        yield from self._named("delete_snapshot")

    def revert_snapshot(self):
        for name in self.names:
            self.world.agrees_to_revert(name)
        yield from self.operate("stop")
        yield from self._named("revert_snapshot")
