# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guest's QEMU does with snapshots inside its disks, which are real qcow2 files."""

from __future__ import annotations

import json
import subprocess
from xml.etree import ElementTree

import fake_libvirt

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import snapshots


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
