# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot gate: a managed guest starts only with a permit of this boot; guests of others pass (I1, I9)."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.domain_xml import NAMESPACE

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MANAGED = '<domain><metadata><berth:instance xmlns:berth="%s"/></metadata></domain>' % NAMESPACE


@pytest.fixture
def run_dir(tmp_path):
    return str(tmp_path / "run")


@pytest.fixture
def hook(tmp_path, run_dir):
    """Runs the hook as libvirt does -> (exit status, what it says)."""
    path = tmp_path / "hooks" / "qemu.d" / "berth"
    gate.install(str(path), run_dir)
    path.write_text(gate.HOOK_TEXT.replace(gate.RUN_DIR, run_dir))

    def run(name=UUID, event="prepare", xml=MANAGED):
        done = subprocess.run(
            [str(path), name, event, "begin", "-"], input=xml, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    return run


def test_without_a_permit_a_managed_guest_does_not_start(hook):
    status, said = hook()
    assert status == 1
    assert "no permit to start instance " + UUID in said


def test_with_this_boots_permit_it_starts(hook, run_dir):
    gate.permit(UUID, run_dir)
    assert hook() == (0, "")


def test_a_permit_of_another_boot_is_none(hook, run_dir):
    gate.permit(UUID, run_dir)
    with open(os.path.join(run_dir, "permits", UUID), "w", encoding="ascii") as stream:
        stream.write("11111111-2222-3333-4444-555555555555\n")
    assert hook()[0] == 1


def test_a_revoked_permit_is_none(hook, run_dir):
    gate.permit(UUID, run_dir)
    assert gate.revoke(UUID, run_dir) is True
    assert gate.revoke(UUID, run_dir) is False
    assert hook()[0] == 1


@pytest.mark.parametrize("event", ["started", "stopped", "release", "reconnect", "migrate", "restore"])
def test_only_the_start_is_gated(hook, event):
    assert hook(event=event) == (0, "")


@pytest.mark.parametrize("name", ["legacy", "web-1", "$(id)", "a b", UUID])
def test_guests_of_others_pass(hook, name):
    assert hook(name=name, xml="<domain><name>legacy</name></domain>") == (0, "")


def test_the_hook_is_installed_once_and_can_be_run(tmp_path, run_dir):
    path = str(tmp_path / "hooks" / "qemu.d" / "berth")
    assert gate.install(path, run_dir) is True
    assert gate.install(path, run_dir) is False
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o755
    assert os.listdir(os.path.dirname(path)) == ["berth"]


def test_a_changed_hook_is_put_right(tmp_path, run_dir):
    path = tmp_path / "hooks" / "qemu.d" / "berth"
    gate.install(str(path), run_dir)
    path.write_text("#!/bin/sh\nexit 0\n")
    assert not gate.is_installed(str(path))
    assert gate.install(str(path), run_dir) is True


def test_a_restart_is_needed_as_long_as_the_same_daemon_runs(tmp_path, run_dir, monkeypatch):
    """libvirt finds hooks only when it starts; a run that ended before the restart does not make it forgotten."""
    monkeypatch.setattr(gate, "daemons", lambda: ["17:4711"])
    gate.install(str(tmp_path / "hooks" / "qemu.d" / "berth"), run_dir)
    assert gate.needs_restart(run_dir) is True
    monkeypatch.setattr(gate, "daemons", lambda: ["17:9999"])
    assert gate.needs_restart(run_dir) is False
    monkeypatch.setattr(gate, "daemons", lambda: ["17:4711"])
    assert gate.needs_restart(run_dir) is False
