# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot gate: a managed guest starts only with a permit of this boot; guests of others pass (I1, I9)."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BootGateMissing
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.terms import NAMESPACE

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MANAGED = """<domain type='qemu'>
  <name>%s</name>
  <uuid>%s</uuid>
  <metadata>
    <berth:instance xmlns:berth="%s"/>
    <other:part xmlns:other="x">
      <uuid>99999999-3c6e-5d59-9d0b-3a1c9d7f1e2a</uuid>
    </other:part>
  </metadata>
</domain>
""" % (UUID, UUID, NAMESPACE)


BARE = """<domain type='kvm'>
  <uuid>%s</uuid>
  %s
</domain>
"""
FILES = ["/srv/berth/instances/%s/root.qcow2" % UUID, "/var/log/libvirt/qemu/%s-console.log" % UUID]


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "running", dict)  # whatever runs on the machine of the test
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


@pytest.mark.parametrize("name", ["web", "a" * 36, "99999999-3c6e-5d59-9d0b-3a1c9d7f1e2a"])
def test_a_guest_that_was_renamed_needs_the_permit_of_its_uuid(hook, run_dir, name):
    """virsh domrename changes the name alone: what has moved away would start here beside its new home."""
    renamed = MANAGED.replace("<name>%s<" % UUID, "<name>%s<" % name)
    status, said = hook(name=name, xml=renamed)
    assert status == 1 and "no permit to start instance " + UUID in said
    gate.permit(UUID, run_dir)
    assert hook(name=name, xml=renamed) == (0, "")


@pytest.mark.parametrize("file", FILES)
def test_a_guest_whose_metadata_somebody_removed_needs_the_permit_still(hook, run_dir, file):
    bare = BARE % (UUID, "<source file='%s'/>" % file)
    assert hook(xml=bare)[0] == 1
    gate.permit(UUID, run_dir)
    assert hook(xml=bare) == (0, "")


def test_a_copy_of_a_definition_with_another_uuid_does_not_start(hook, run_dir):
    gate.permit(UUID, run_dir)
    copied = MANAGED.replace("<uuid>%s<" % UUID, "<uuid>88888888-3c6e-5d59-9d0b-3a1c9d7f1e2a<")
    assert hook(xml=copied)[0] == 1
    assert hook(xml=MANAGED.replace("<uuid>%s</uuid>" % UUID, ""))[0] == 1


def test_a_refused_start_names_the_playbooks_that_start_the_guest_and_that_move_it(hook):
    """libvirt asks alike for virsh start here and for virsh migrate to here."""
    said = hook()[1]
    for playbook in ("berth.kvm.start", "berth.kvm.live_migrate", "berth.kvm.migrate"):
        assert playbook in said
    assert said.count("\n") == 1


OTHER = "88888888-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MARK = """<berth:instance xmlns:berth="%s">
      <berth:uuid>%s</berth:uuid>
      <berth:record>{"uuid": "x"}</berth:record>
    </berth:instance>""" % (NAMESPACE, UUID)


def test_a_copy_that_does_not_start_is_told_whose_copy_it_is_and_no_playbook_that_does_not_know_it(hook):
    marked = MANAGED.replace('<berth:instance xmlns:berth="%s"/>' % NAMESPACE, MARK)
    status, said = hook(xml=marked.replace("<uuid>%s<" % UUID, "<uuid>%s<" % OTHER))
    assert status == 1 and "domain %s is a copy of instance %s" % (OTHER, UUID) in said
    assert "berth.kvm.start" not in said and "disks and MAC addresses of its own" in said
    assert "is a copy" not in hook(xml=marked)[1]


def test_what_the_refusal_of_a_copy_says_lets_the_copy_start(hook):
    of_its_own = MANAGED.replace("<uuid>%s<" % UUID, "<uuid>%s<" % OTHER)
    assert hook(xml=of_its_own.replace('<berth:instance xmlns:berth="%s"/>' % NAMESPACE, "")) == (0, "")


def test_the_hook_of_an_earlier_version_lets_guests_start_until_it_is_replaced(tmp_path, run_dir, monkeypatch):
    path = tmp_path / "hooks" / "qemu.d" / "berth"
    gate.install(str(path), run_dir)
    path.write_text("the hook of before")
    monkeypatch.setattr(gate, "FORMER", (hashlib.sha256(b"the hook of before").hexdigest(),))
    gate.check("kvm2", str(path), run_dir)
    assert gate.install(str(path), run_dir) is True
    assert path.read_text() == gate.HOOK_TEXT


@pytest.fixture
def arriving(tmp_path, run_dir):
    """Prepares the host for a migration that brings the guest; ``former``: with the hook of an earlier version."""

    def permit(former=False):
        path = tmp_path / "installed" / "qemu.d" / "berth"
        gate.install(str(path), run_dir)
        if former:
            path.write_text("the hook of before")
        gate.permit_arrival(UUID, run_dir, str(path))

    return permit


def test_a_guest_that_is_to_arrive_is_started_by_a_migration_and_not_by_hand(hook, run_dir, arriving):
    """I1: its disks are here, empty or half copied, and it runs on the source."""
    arriving()
    assert hook()[0] == 1 and not gate.is_permitted(UUID, run_dir)
    assert [hook(event="migrate"), hook()] == [(0, ""), (0, "")], "libvirt asks twice"
    assert hook()[0] == 1, "that was for one start"


def test_what_a_migration_that_failed_asked_lets_nobody_start_the_guest_later(hook, run_dir, arriving):
    for renew in (arriving, lambda: gate.revoke(UUID, run_dir)):
        arriving()
        assert hook(event="migrate") == (0, "")
        renew()
        assert hook()[0] == 1
    assert os.listdir(os.path.join(run_dir, "permits")) == []


def test_a_guest_that_is_there_is_started_by_hand_and_by_a_migration_alike(hook, run_dir):
    gate.permit(UUID, run_dir)
    assert [hook(), hook(event="migrate"), hook()] == [(0, "")] * 3


def test_a_hook_whose_text_alone_is_older_still_knows_an_arriving_guest(run_dir, arriving, monkeypatch):
    monkeypatch.setattr(gate, "KNOW_ARRIVALS", (hashlib.sha256(b"the hook of before").hexdigest(),))
    arriving(former=True)
    assert not gate.is_permitted(UUID, run_dir)


def test_the_hook_before_this_one_knows_an_arriving_guest_and_counts_as_installed():
    assert set(gate.KNOW_ARRIVALS) < set(gate.FORMER)
    assert hashlib.sha256(gate.HOOK_TEXT.encode()).hexdigest() not in gate.FORMER


def test_to_the_hook_of_an_earlier_version_an_arriving_guest_is_like_any_other(run_dir, arriving):
    arriving(former=True)
    assert gate.is_permitted(UUID, run_dir)


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
    assert hook(name=name, xml=BARE % (UUID, "<source file='/var/lib/libvirt/images/web.qcow2'/>")) == (0, "")


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
    monkeypatch.setattr(gate, "running", lambda: {"17:4711": "libvirtd"})
    gate.install(str(tmp_path / "hooks" / "qemu.d" / "berth"), run_dir)
    assert gate.to_restart(run_dir) == ["libvirtd"]
    monkeypatch.setattr(gate, "running", lambda: {"17:9999": "libvirtd"})
    assert gate.to_restart(run_dir) == []
    monkeypatch.setattr(gate, "running", lambda: {"17:4711": "libvirtd"})
    assert gate.to_restart(run_dir) == []


def start_time(since):
    """A daemon of /proc that was started ``since`` seconds from now."""
    booted = time.clock_gettime(time.CLOCK_BOOTTIME)
    return "17:%d" % ((booted + since) * gate.TICK)


def process(proc, pid, command):
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "stat").write_text("%d (%s) S %s 77 0" % (pid, command, " ".join(["0"] * 18)))


def test_the_daemons_that_start_guests_and_the_one_that_listens_are_told_by_their_services(tmp_path):
    for pid, command in enumerate(["libvirtd", "virtqemud", "virtproxyd", "virtlogd", "qemu (libvirtd)"], 5):
        process(tmp_path, pid, command)
    (tmp_path / "version").write_text("")
    assert gate.running(str(tmp_path)) == {"5:77": "libvirtd", "6:77": "virtqemud", "7:77": "virtproxyd"}


def test_a_daemon_of_an_ordinary_users_session_is_none_of_the_host(tmp_path, monkeypatch):
    """It reads no hooks of the system, and no restart of a service ends it: the host would refuse every start."""
    process(tmp_path, 5, "virtqemud")
    monkeypatch.setattr(gate.os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert gate.running(str(tmp_path)) == {}


def test_the_daemon_that_listens_reads_certificates_and_no_hook(installed, monkeypatch):
    path, run_dir = installed
    monkeypatch.setattr(gate, "running", {start_time(5): "virtqemud", start_time(-60): "virtproxyd"}.copy)
    gate.check("kvm2", str(path), run_dir)
    gate.note_restart(run_dir)
    assert gate.to_restart(run_dir) == ["virtproxyd", "virtqemud"]


@pytest.fixture
def installed(tmp_path, run_dir, monkeypatch):
    """A hook that the libvirt that runs now has read -> (path, run directory)."""
    path = tmp_path / "hooks" / "qemu.d" / "berth"
    gate.install(str(path), run_dir)
    monkeypatch.setattr(gate, "running", {start_time(5): "libvirtd"}.copy)
    return path, run_dir


def test_a_gate_that_libvirt_has_read_is_in_force(installed):
    path, run_dir = installed
    gate.check("kvm2", str(path), run_dir)
    assert gate.install(str(path), run_dir) is False


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_text("#!/bin/sh\nexit 0\n"),
        lambda path: path.chmod(0o644),
        lambda path: path.rename(path.with_name("other")),
        lambda path: (path.rename(path.with_name("other")), path.symlink_to("other")),
        lambda path: (path.unlink(), path.parent.rmdir()),
    ],
    ids=["deleted", "changed", "not executable", "renamed", "a link", "no directory"],
)
def test_a_hook_that_is_not_as_it_was_installed_is_named_with_host_and_playbook(installed, spoil):
    path, run_dir = installed
    spoil(path)
    with pytest.raises(BootGateMissing) as refused:
        gate.check("kvm2", str(path), run_dir)
    assert "the boot gate of kvm2 is missing" in str(refused.value)
    assert "Run berth.kvm.prepare_hosts --limit kvm2" in refused.value.hint


@pytest.mark.follows("prepare_host")
def test_a_hook_that_was_put_back_by_hand_after_libvirt_had_started_without_it_is_not_trusted(installed, monkeypatch):
    """Its text, mode and even its time are as before, but that libvirt asks no hook."""
    path, run_dir = installed
    before = path.stat()
    monkeypatch.setattr(gate, "running", {start_time(-60): "libvirtd"}.copy)
    path.write_text(gate.HOOK_TEXT)
    os.utime(path, (before.st_atime - 3600, before.st_mtime - 3600))
    with pytest.raises(BootGateMissing, match="may be unknown to libvirt") as refused:
        gate.check("kvm2", str(path), run_dir)
    assert refused.value.hint.startswith("Run berth.kvm.prepare_hosts --limit kvm2")
    assert gate.install(str(path), run_dir) is True, "what the hint says mends it"
    assert gate.to_restart(run_dir) == ["libvirtd"]
    monkeypatch.setattr(gate, "running", {start_time(5): "libvirtd"}.copy)
    gate.check("kvm2", str(path), run_dir)


def test_one_of_several_libvirt_daemons_that_has_not_read_the_gate_is_enough_to_refuse(installed, monkeypatch):
    path, run_dir = installed
    monkeypatch.setattr(gate, "running", {start_time(5): "libvirtd", start_time(-60): "virtqemud"}.copy)
    with pytest.raises(BootGateMissing):
        gate.check("kvm2", str(path), run_dir)


def test_a_clock_that_was_set_back_is_named_and_prepare_hosts_ends_the_trouble(installed, monkeypatch):
    path, run_dir = installed
    now = gate.time.time
    monkeypatch.setattr(gate.time, "time", lambda: now() - 86400)
    with pytest.raises(BootGateMissing, match="or the clock was set back") as refused:
        gate.check("kvm2", str(path), run_dir)
    assert refused.value.hint.startswith("Run berth.kvm.prepare_hosts --limit kvm2")
    assert gate.install(str(path), run_dir) is True and gate.to_restart(run_dir) == ["libvirtd"]
