# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance with two disks, which are real qcow2 files, and what its QEMU does with snapshots inside them."""

from __future__ import annotations

import json
import subprocess
from xml.etree import ElementTree

import fake_libvirt
from instance_case import Case
from volume_case import make_house

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import layers
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import snapshots
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks


def qemu(*command):
    return subprocess.run([*command], check=True, capture_output=True, text=True).stdout


def is_so(path, look):
    return not subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", look, str(path)], capture_output=True, check=False
    ).returncode


def answer_as_qemu(monkeypatch):
    """What the QEMU of the guest was told. ``refuses``: a command that it refuses."""
    told = {"orders": [], "refuses": None}

    def ask(domain, text, _flags):
        asked = json.loads(text)
        command, arguments = asked["execute"], asked["arguments"]
        if command == "query-named-block-nodes":
            disks = ElementTree.fromstring(domain.xml).iterfind("devices/disk")
            files = [each.find("source").get("file") for each in disks if each.find("driver").get("type") == "qcow2"]
            found = [{"node-name": "file-" + path, "file": path, "drv": "file"} for path in files]
            found += [{"node-name": path, "file": path, "drv": "qcow2"} for path in files]
            return json.dumps({"return": found})
        assert not domain.closed, "QEMU would die of it"
        told["orders"].append(command)
        if command == told["refuses"]:
            return json.dumps({"error": {"class": "GenericError", "desc": "no space left"}})
        if command == "transaction":
            for action in arguments["actions"]:
                qemu("qemu-img", "snapshot", "-c", action["data"]["name"], action["data"]["device"])
            return json.dumps({"return": {}})
        if command == "blockdev-snapshot-delete-internal-sync":
            qemu("qemu-img", "snapshot", "-d", arguments["name"], arguments["device"])
        return json.dumps({"return": ""})

    monkeypatch.setattr(fake_libvirt.QemuPart, "qemuMonitorCommand", staticmethod(ask))
    monkeypatch.setattr(snapshots.block_jobs, "check_no_others_jobs", lambda *_: None)
    return told


class Web(Case):
    """web1 with a root disk of 1 GiB and a data disk of 2; the host has 10 GiB."""

    def write(self, pattern):
        for path in (self.root, self.data):
            qemu("qemu-io", "-f", "qcow2", "-c", "write -P %d 1M 64k" % pattern, str(path))

    def holds(self, pattern):
        look = "read -P %d 1M 64k" % pattern
        return [is_so(path, look) for path in (self.root, self.data)]

    @property
    def data(self):
        return self.root.parent / "data-logs.qcow2"

    def stop(self):
        return self.instance().stopped(1)

    def tags(self):
        return [layers.snapshots_in(str(path)) for path in (self.root, self.data)]

    def take(self, name="one", killed_at=None):
        return snapshots.snapshot(self.instance(killed_at), name)

    def revert(self, name="one", killed_at=None):
        return snapshots.revert(self.instance(killed_at), name)

    def delete(self, name="one", killed_at=None):
        return snapshots.delete(self.instance(killed_at), name)

    def gb(self):
        return self.record.resources["disk_gb"], (self.record.resources.get("resources") or {}).get("DISK_GB")


def made_web(prepared, wanted, monkeypatch):
    make_house(prepared, wanted, monkeypatch)
    one = Web(prepared, wanted("web1"))
    one.make()
    update_disks(one.instance(), [{"name": "logs", "size_gb": 2}])
    one.write(1)
    return one
