# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a guest as files on this machine, and what libvirt says of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
OP = "ab" * 16
CHECKSUM = "sha256:" + "1" * 64
FLAVOR = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1, "swap": 1}


def record(**changes):
    spec = {"flavor": FLAVOR, "image": {"checksum": CHECKSUM}}
    parts = dict(
        uuid=UUID, name="web-1", project_id="default", role="OWN", generation=[1, 1], token="t", phase="active",
        vm_state="active", spec=spec, resources={},
    )  # fmt: skip
    return Record(**{**parts, **changes})


def overlay(path, base, form="qcow2"):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", form, "-b", str(base), "--", path], check=True)
    return str(path)


class Guest:
    """A guest's disks on this machine, and what libvirt says of them: {target: (path, format)}."""

    def __init__(self, pool):
        self.pool, self.directory = pool, Path(paths.instance(str(pool), UUID))
        self.directory.mkdir(parents=True)
        (pool / "images").mkdir()
        self.image = paths.image(str(pool), CHECKSUM)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", self.image, "1M"], check=True)
        overlay(self.file("root.qcow2"), self.image)
        for name in ("swap", "seed.iso"):
            Path(self.file(name)).write_bytes(b"x" * 512)
        own = {"vda": ("root.qcow2", "qcow2"), "vdb": ("swap", "raw"), "vdc": ("seed.iso", "raw")}
        self.live = {target: (self.file(name), form) for target, (name, form) in own.items()}
        self.at_rest = dict(self.live)
        self.devices = {}  # {target: cdrom, floppy}; the others are disks

    def file(self, name):
        return str(self.directory / name)

    def name(self):
        return UUID

    def use(self, target, path, form="qcow2"):
        """libvirt names another file, as after a snapshot."""
        for disks in (self.live, self.at_rest):
            if disks is not None:
                disks[target] = (str(path), form)

    def snapshot(self, target, path):
        form = self.at_rest[target][1]
        self.use(target, overlay(path, self.at_rest[target][0], form))

    def definitions(self, _found):
        return tuple(disks and xml(disks, self.devices) for disks in (self.live, self.at_rest))

    def found(self, difference=None):
        return disk_chain.differences(None, difference or record(), str(self.pool))


def xml(disks, kinds_of_device):
    root = ElementTree.Element("domain")
    devices = ElementTree.SubElement(root, "devices")
    for target, (path, form) in disks.items():
        element = ElementTree.SubElement(devices, "disk", type="file", device=kinds_of_device.get(target, "disk"))
        ElementTree.SubElement(element, "driver", name="qemu", type=form)
        ElementTree.SubElement(element, "source", **({"file": path} if "/" in path else {"protocol": path}))
        ElementTree.SubElement(element, "target", dev=target)
    return ElementTree.tostring(root, encoding="unicode")


def make_guest(pool, monkeypatch):
    fake = Guest(pool)
    monkeypatch.setattr(domain, "find", lambda connection, uuid: fake)
    monkeypatch.setattr(domain, "definitions", fake.definitions)
    return fake


def off(guest):
    guest.live = None
