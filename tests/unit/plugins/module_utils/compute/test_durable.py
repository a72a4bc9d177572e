# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that a host keeps is written by one function, which outlives a power cut at any point."""

from __future__ import annotations

import os
import stat

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.certificates import PLACES
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.own_certificates import Certificates


@pytest.fixture
def calls(monkeypatch):
    """What is done to files, in order: ("file" or "directory" for an fsync, or "rename"; path)."""
    found, fsync, rename = [], os.fsync, os.rename

    def noted_fsync(fd):
        kind = "directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
        found.append((kind, os.readlink("/proc/self/fd/%d" % fd)))
        fsync(fd)

    def noted_rename(old, new, **directories):
        found.append(("rename", os.path.basename(new)))
        rename(old, new, **directories)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    return found


def install_hook(path, tmp_path):
    gate.install(str(path / "berth"), str(tmp_path / "run"))
    return "berth", 0o755


def install_certificate(path, tmp_path):
    Certificates(os.getegid(), pki=str(path))._put(PLACES["libvirt"], "cacert.pem", "text", secret=False)
    return "cacert.pem", 0o644


def install_key(path, tmp_path):
    Certificates(os.getegid(), pki=str(path))._put(PLACES["qemu"], "key.pem", "text", secret=True)
    return "key.pem", 0o640


def write_state(path, tmp_path):
    directory = durable.open_directory(str(path))
    try:
        durable.write(directory, "record.json", b"{}")
    finally:
        os.close(directory)
    return "record.json", 0o600


@pytest.mark.parametrize("write", [install_hook, install_certificate, install_key, write_state])
def test_the_content_and_then_the_name_of_a_file_reach_the_disk(write, tmp_path, calls):
    path = tmp_path / "hooks" / "qemu.d"
    path.mkdir(parents=True, mode=0o700)
    name, mode = write(path, tmp_path)
    renamed = calls.index(("rename", name))
    assert calls[renamed - 1][0] == "file"
    assert calls[renamed + 1 :] == [("directory", str(path))]
    assert stat.S_IMODE((path / name).stat().st_mode) == mode
    assert [file.name for file in path.iterdir()] == [name]
