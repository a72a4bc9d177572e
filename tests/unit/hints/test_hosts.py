# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about a host's set-up: after doing what each says the host is accepted."""

from __future__ import annotations

import errno
import json
import os
import time
import types

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection, run
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostIdentityChanged, HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import host, listening, preparation, settings
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, moving_host, storage, transfer
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, host_settings
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

OLD, NEW = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "1c7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2b"


def refusal(kind, function, *arguments, **more):
    with pytest.raises(kind) as refused:
        function(*arguments, **more)
    return refused.value


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A host of files: its hook, settings and /run are below tmp_path; one daemon runs."""
    monkeypatch.setattr(gate, "HOOK", str(tmp_path / "hooks/qemu.d/berth"))
    monkeypatch.setattr(gate, "running", lambda: {"17:1": "libvirtd"})
    return tmp_path


def here(place, **given):
    compute = host.Host(
        Store(str(place / "state")), host_settings.HostSettings(**given), run_dir=str(place / "run"), hook=gate.HOOK
    )
    compute.__dict__["connection"] = types.SimpleNamespace(getHostname=lambda: "kvm1")
    compute.__dict__["capabilities"] = types.SimpleNamespace(uuid=OLD, security_models=("apparmor",))
    return compute


def restarted():
    """A daemon that was started a moment from now."""
    return {"18:%d" % ((time.clock_gettime(time.CLOCK_BOOTTIME) + 5) * gate.TICK): "libvirtd"}


@pytest.mark.follows("prepare_host")
def test_a_host_is_prepared_by_what_prepare_hosts_installs(place, monkeypatch):
    assert refusal(HostNotPrepared, here(place).require_prepared).hint == host_hints.prepare_host("kvm1")
    gate.install(gate.HOOK, str(place / "run"))
    assert refusal(HostNotPrepared, here(place, prepared=True).require_prepared).hint == host_hints.prepare_host("kvm1")
    monkeypatch.setattr(gate, "running", restarted)  # the playbook restarts libvirt
    here(place, prepared=True).require_prepared()


@pytest.mark.follows("uuid_changed")
def test_without_the_old_settings_a_replaced_machine_is_prepared_under_its_own_uuid(place, monkeypatch):
    path = place / "host.json"
    path.write_text(json.dumps({"schema": host_settings.SCHEMA, "uuid": OLD}))
    refused = refusal(HostIdentityChanged, preparation._pin, settings.load(path), {}, NEW)
    assert refused.hint == host_hints.uuid_changed(settings.PATH, OLD) and path.exists()
    assert 'host_uuid = "%s"' % OLD in refused.hint and "/var/lib/berth and /etc/berth elsewhere" in refused.hint
    assert preparation._pin(settings.load(path), {}, OLD) == OLD  # as set in libvirtd.conf
    path.unlink()
    assert preparation._pin(settings.load(path), {}, NEW) == NEW


@pytest.mark.follows("write_settings_anew")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"cpu_allocation_ratio": "x"}'])
def test_damaged_settings_that_are_moved_away_are_written_anew(place, text):
    path = place / "host.json"
    path.write_text(text)
    kinds = (settings.SettingsUnreadable, settings.SettingsInvalid)
    assert refusal(kinds, settings.load, str(path)).hint == host_hints.write_settings_anew(str(path))
    path.rename(place / "elsewhere")
    before = settings.load(str(path))
    assert preparation._pin(before, {}, OLD) == OLD and not before.prepared


@pytest.mark.follows("confine_guests")
@pytest.mark.parametrize("done", [{"models": ["apparmor"]}, {"none_ok": True}])
def test_a_host_with_confinement_or_the_setting_that_waives_it_may_build(done):
    assert refusal(HostNotPrepared, host.check_confinement, ["dac"], False).hint == host_hints.confine_guests()
    host.check_confinement(done.get("models", ["dac"]), done.get("none_ok", False))


@pytest.mark.follows("install_package")
def test_a_program_that_was_installed_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "PATH", str(tmp_path))
    assert refusal(BerthError, run.run, ["qemu-img", "--version"]).hint == host_hints.install_package()
    (tmp_path / "qemu-img").write_text("#!/bin/sh\necho 9.0\n")
    (tmp_path / "qemu-img").chmod(0o755)
    assert run.run([str(tmp_path / "qemu-img"), "--version"]) == "9.0\n"


@pytest.mark.follows("install_binding")
def test_with_the_binding_installed_libvirt_is_reached(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", None)
    assert refusal(connection.LibvirtUnavailable, connection.connect).hint == host_hints.install_binding()
    monkeypatch.setattr(connection, "libvirt", Binding(up=True))
    monkeypatch.setattr(connection, "_event_loop_runs", True)
    assert connection.connect().alive


@pytest.mark.follows("start_libvirt")
def test_a_libvirt_that_was_started_is_reached(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", Binding(up=False))
    monkeypatch.setattr(connection, "_event_loop_runs", True)
    assert refusal(connection.LibvirtUnavailable, connection.connect).hint == host_hints.start_libvirt()
    monkeypatch.setattr(connection, "libvirt", Binding(up=True))
    assert connection.connect().alive


@pytest.mark.follows("switch_on_daemon")
def test_a_host_with_the_daemon_that_listens_for_others_is_accepted(tmp_path, monkeypatch):
    """Where each driver has a daemon; elsewhere libvirtd listens."""
    monkeypatch.setattr(listening, "MODULAR", str(tmp_path / "virtqemud-sock"))
    monkeypatch.setattr(listening, "PATH", str(tmp_path))
    listening.check()
    (tmp_path / "virtqemud-sock").touch()
    refused = refusal(HostNotPrepared, listening.check)
    assert refused.hint == host_hints.switch_on_daemon(os.uname().nodename, "virtproxyd", "libvirt-daemon-proxy")
    (tmp_path / "virtproxyd").touch(0o755)
    listening.check()


@pytest.mark.follows("switch_on_daemon")
def test_a_host_whose_daemon_for_storage_was_switched_on_is_asked_for_its_pool(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", Binding(up=True))
    error = Binding.libvirtError("no virtstoraged-sock")
    error.get_error_code, error.get_int1 = lambda: Binding.VIR_ERR_SYSTEM_ERROR, lambda: errno.ENOENT
    libvirt = types.SimpleNamespace(getHostname=lambda: "kvm1", storagePoolLookupByName=lambda _name: raised(error))
    refused = refusal(HostNotPrepared, preparation._existing_pool, libvirt, "berth")
    assert "on kvm1: systemctl enable --now virtstoraged.socket" in refused.hint
    error.get_error_code = lambda: Binding.VIR_ERR_NO_STORAGE_POOL
    assert preparation._existing_pool(libvirt, "berth") is None


def raised(error):
    raise error


class Binding:
    """As much of libvirt's binding as connect() calls."""

    VIR_ERR_NO_SUPPORT, VIR_ERR_SYSTEM_ERROR, VIR_ERR_NO_STORAGE_POOL = 3, 38, 49

    class libvirtError(Exception):
        """What the binding raises."""

    def __init__(self, up):
        self.up = up

    def registerErrorHandler(self, handler, context):
        """Nothing is printed here."""

    def open(self, uri):
        if not self.up:
            raise self.libvirtError("Failed to connect socket to '/var/run/libvirt/libvirt-sock'")
        return types.SimpleNamespace(alive=True, setKeepAlive=lambda interval, count: None)


@pytest.mark.follows("correct_migration_address")
@pytest.mark.parametrize("wrong", ["192.0.2.77", "2001:db8::77", None])
def test_a_host_receives_disks_at_an_address_of_its_own(tmp_path, monkeypatch, wrong):
    """With a wrong one it used to say that all ports are taken."""
    opened = []
    monkeypatch.setattr(transfer, "open_targets", lambda uuid, disks, key, at, attempt: opened.append(at))
    monkeypatch.setattr(disks, "expected", lambda *_any: [])
    monkeypatch.setattr(disks, "grown", lambda *_any: [])
    monkeypatch.setattr(storage, "check_shared_as_claimed", lambda *_any: None)
    monkeypatch.setattr(storage, "is_shared", lambda *_any: False)
    monkeypatch.setattr(moving_host.Effects, "pool_path", lambda *_any: str(tmp_path))
    effects = moving_host.Effects(types.SimpleNamespace(connection=None, identity={"name": "kvm1"}))
    record = types.SimpleNamespace(uuid=OLD, migration={"attempt": 1})
    monkeypatch.setattr(moving_host.Effects, "address", lambda _self: wrong)
    said = refusal(TransferFailed, effects.open_targets, record, [], "key")
    assert said.hint == host_hints.correct_migration_address("kvm1") and "kvm1" in str(said) and not opened
    monkeypatch.setattr(moving_host.Effects, "address", lambda _self: "127.0.0.1")  # the setting and the playbook
    effects.open_targets(record, [], "key")
    assert opened == ["127.0.0.1"]
