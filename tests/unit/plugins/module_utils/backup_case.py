# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of an instance of instance_case.py, made and read by the host's own qemu-img."""

from __future__ import annotations

import shutil
import subprocess

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import acts, make, place
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

TOOLS = "qemu-img", "qemu-io", "qemu-storage-daemon"
needed = pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason="QEMU's tools are not installed")


def qemu(*arguments):
    return subprocess.run([str(each) for each in arguments], check=True, capture_output=True, text=True).stdout


def make_place(tmp_path, monkeypatch):
    """A directory for backups. In tests it may be on the root file system."""
    monkeypatch.setattr(place, "is_on_root", lambda path: path.endswith("on-root"))
    path = tmp_path / "backups"
    path.mkdir()
    return str(path)


def restart_libvirtd_in_a_copy(case, monkeypatch):
    """The guest runs, and the next copy of its disks loses libvirtd. Return the connections, in order, over which a copy is ended."""
    power.start(case.instance(), None, None)
    monkeypatch.setattr(make.block_jobs, "check_no_others_jobs", lambda *_arguments: None)
    ended = []

    class Gone:
        def getHostname(self):  # noqa: N802
            raise fake_libvirt.libvirtError(38, "client socket is closed")

    def restarted(*_arguments):
        case.host.connection = Gone()
        raise TransferFailed("client socket is closed")

    monkeypatch.setattr(make.left_backup, "forget", lambda _found: ended.append(vars(case.host)["connection"]))
    monkeypatch.setattr(make.running, "copy", restarted)
    monkeypatch.setattr(make, "PAUSE_SECONDS", 0)
    return ended


def make_disk(planned, path, _base):
    size = str(planned.size) if planned.kind == "data" else "16M"
    qemu("qemu-img", "create", "-q", "-f", planned.format, path, size)


def act(case, state, to, dry=False, killed_at=None, **more):
    params = {"state": state, "to": to, "full": False, "chain": 30, "keep": None, "keep_days": None, "of": None,
              "backup": None, "discards": None, "deep": False, **more}  # fmt: skip
    return acts.outcome_of(case.instance(killed_at), params, dry)


def back_up(case, to, **more):
    """Return the backup that was made, as it is told."""
    return act(case, "made", to, **more)["instance"]["backups"][0]


def restore(case, to, **more):
    return act(case, "restored", to, **{"discards": case.record.name, **more})


def listed(case, to, **more):
    return {each["id"]: each["faults"] for each in act(case, "listed", to, **more)["instance"]["backups"]}
