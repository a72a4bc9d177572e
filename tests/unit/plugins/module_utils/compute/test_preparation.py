# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pool of a host that is prepared: one that somebody made is taken if it is a directory."""

from __future__ import annotations

import types

import pytest
from recorded_libvirt import record
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostNotPrepared
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import preparation
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import VolumeStore
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, CLAIM, CLAIMED, OWN


class Pool:
    """A pool that libvirt knows. Starting it mounts ``mounted`` at its path, over what is there."""

    def __init__(self, kind, path, active=True, mounted=None):
        self.kind, self.path, self.active, self.mounted, self.starts = kind, path, active, mounted, False

    def XMLDesc(self, _flags):  # noqa: N802 -- libvirt's own name
        return "<pool type='%s'><name>berth</name><target><path>%s</path></target></pool>" % (self.kind, self.path)

    def isActive(self):  # noqa: N802
        return self.active

    def autostart(self):
        return self.starts

    def setAutostart(self, starts):  # noqa: N802
        self.starts = bool(starts)

    def create(self, _flags):
        if self.mounted:
            self.path.rename(self.path.with_name("hidden"))
            self.mounted.rename(self.path)
        self.active = True


@pytest.fixture
def prepare(prepared, monkeypatch, tmp_path):
    """prepare(pool): the host is prepared, of whose parts only the pool counts here."""
    nothing = {"is_in_force": True, "install": None, "to_restart": []}
    for name, value in nothing.items():
        monkeypatch.setattr(preparation.gate, name, lambda value=value: value)
    monkeypatch.setattr(preparation.listening, "differs", lambda _address: False)
    monkeypatch.setattr(preparation, "is_uuid_kept", lambda _uuid: True)
    monkeypatch.setattr(preparation.host, "check_confinement", lambda *_: None)
    capabilities = types.SimpleNamespace(uuid=prepared.uuid, security_models=())
    monkeypatch.setattr(preparation.capabilities, "parse_host", lambda _text: capabilities)

    def run(pool, values=None, dry=False):
        connection = prepared.connection
        connection.getCapabilities = lambda: "<capabilities/>"
        connection.storagePoolLookupByName = lambda _name: pool
        path = str(tmp_path / "host.json")
        return preparation.prepare(connection, prepared.store, values or {}, dry=dry, settings_path=path)

    return run


@pytest.mark.parametrize("kind", ["dir", "fs", "netfs"])
def test_a_pool_that_somebody_made_is_taken_with_its_directory(prepare, tmp_path, kind):
    pool = Pool(kind, tmp_path / "given")
    assert "pool" in prepare(pool)["changed"]
    assert pool.starts and (tmp_path / "given" / "instances").is_dir() and (tmp_path / "given" / "images").is_dir()
    assert prepare(pool)["changed"] == []


def test_a_pool_that_is_no_directory_is_refused_and_nothing_is_changed(prepare, tmp_path):
    pool = Pool("logical", tmp_path / "given", active=False)
    with pytest.raises(HostNotPrepared, match="storage pool berth is of type logical"):
        prepare(pool)
    assert not pool.active and not (tmp_path / "given").exists() and not (tmp_path / "host.json").exists()


@pytest.mark.parametrize("kind", ["fs", "netfs"])
def test_what_a_pool_mounts_gets_the_directories_not_what_is_below_it(prepare, tmp_path, kind):
    (tmp_path / "given").mkdir()
    (tmp_path / "mounted").mkdir(0o711)
    prepare(Pool(kind, tmp_path / "given", active=False, mounted=tmp_path / "mounted"))
    assert sorted(entry.name for entry in (tmp_path / "given").iterdir()) == ["images", "instances"]
    assert list((tmp_path / "hidden").iterdir()) == []


@pytest.mark.follows("mount_pool")
@pytest.mark.parametrize("way", ["mounted", "made empty"])
def test_no_directories_are_made_below_the_mount_of_a_pool_that_has_disks_of_instances(
    prepare, prepared, tmp_path, way
):
    """Such as a bind mount that a reboot did not bring back: a delete would take the disks for gone."""
    web = plant(prepared.store, record(0))
    pool = Pool("dir", tmp_path / "given")
    pool.path.mkdir(0o711)
    with pytest.raises(
        HostNotPrepared, match="given/instances is not there, and %s has its disks in it" % web.name
    ) as caught:
        prepare(pool)
    directory = str(pool.path / "instances")
    assert (
        caught.value.hint == host_hints.mount_pool("kvm1", directory, web.name) and not (pool.path / "images").exists()
    )
    if way == "mounted":
        (pool.path / "images").mkdir(0o711)
    (pool.path / "instances").mkdir(0o711)
    prepare(pool)
    assert (pool.path / "images").is_dir()


@pytest.mark.parametrize("dry", [False, True])
def test_a_pool_that_is_not_mounted_is_refused_before_it_is_started_also_in_check_mode(
    prepare, prepared, tmp_path, dry
):
    plant(prepared.store, record(0))
    pool = Pool("dir", tmp_path / "given", active=False)
    with pytest.raises(HostNotPrepared, match="given/instances is not there"):
        prepare(pool, dry=dry)
    assert (pool.active, pool.starts, pool.path.exists()) == (False, False, False)


def test_a_pool_that_mounts_its_file_system_is_started_before_it_is_looked_at(prepare, prepared, tmp_path):
    plant(prepared.store, record(0))
    (tmp_path / "given").mkdir()
    (tmp_path / "mounted" / "instances").mkdir(0o711, parents=True)
    (tmp_path / "mounted").chmod(0o711)
    pool = Pool("netfs", tmp_path / "given", active=False, mounted=tmp_path / "mounted")
    prepare(pool, dry=True)
    prepare(pool)
    assert pool.active and (pool.path / "images").is_dir()


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("kind", ["instances", "volumes"])
def test_another_pool_is_refused_unless_it_has_the_disks_whatever_else_is_in_it(prepare, prepared, tmp_path, kind, dry):
    """Such as directories that a pool of another host, or of long ago, left there."""
    old, new = Pool("dir", tmp_path / "given"), Pool("dir", tmp_path / "fast")
    prepare(old)
    store = prepared.store if kind == "instances" else VolumeStore.beside(prepared.store)
    web = plant(store, record(0))
    (new.path / kind).mkdir(0o711, parents=True)
    new.path.chmod(0o711)
    with pytest.raises(HostNotPrepared, match="%s has its disks in the pool berth" % web.name):
        prepare(new, {"pool": "fast"}, dry)
    assert [entry.name for entry in new.path.iterdir()] == [kind]
    (new.path / kind / web.uuid).mkdir()  # the same directory by another name, or somebody moved what is in it
    prepare(new, {"pool": "fast"}, dry)


@pytest.mark.parametrize("spec", [{"pool": "slow"}, {}])
def test_another_pool_is_none_of_instances_that_name_theirs_or_have_no_disks_yet(prepare, prepared, tmp_path, spec):
    old, new = Pool("dir", tmp_path / "given"), Pool("dir", tmp_path / "fast")
    prepare(old)
    role, phase = (OWN, ACTIVE) if spec else (CLAIM, CLAIMED)
    plant(prepared.store, record(0, role, phase, **spec))
    assert "settings" in prepare(new, {"pool": "fast"})["changed"]


@pytest.mark.follows("keep_pool")
def test_a_host_with_instances_in_its_pool_is_not_told_to_mount_or_make_their_directory_in_another(
    prepare, prepared, tmp_path
):
    old, new = Pool("dir", tmp_path / "given"), Pool("dir", tmp_path / "fast")
    prepare(old)
    web = plant(prepared.store, record(0))
    new.path.mkdir(0o711)
    with pytest.raises(HostNotPrepared, match="%s has its disks in the pool berth" % web.name) as caught:
        prepare(new, {"pool": "fast"})
    assert caught.value.hint == host_hints.keep_pool("kvm1", "berth") and list(new.path.iterdir()) == []
    prepare(old, {"pool": "berth"})


def test_a_uuid_that_libvirt_would_make_up_again_is_kept_before_the_settings_pin_it(prepare, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(preparation, "is_uuid_kept", lambda uuid: uuid in kept)
    monkeypatch.setattr(preparation, "keep_uuid", kept.append)
    monkeypatch.setattr(preparation, "_write_settings", lambda *_: kept.append("pinned"))
    pool = Pool("dir", tmp_path / "pool")
    assert "uuid" in prepare(pool, dry=True)["changed"] and not kept
    done = prepare(pool)
    assert "uuid" in done["changed"] and kept == [done["uuid"], "pinned"]
    assert "uuid" not in prepare(pool)["changed"]


@pytest.mark.parametrize("dry, restart", [(True, ["libvirtd"]), (False, [])], ids=["check mode", "done"])
def test_check_mode_tells_which_services_a_new_gate_would_restart(prepare, tmp_path, monkeypatch, dry, restart):
    """Only a run that changes something notes what runs without it."""
    monkeypatch.setattr(preparation.gate, "is_in_force", lambda: False)
    monkeypatch.setattr(preparation.gate, "services", lambda: ["libvirtd"])
    assert prepare(Pool("dir", tmp_path / "given"), dry=dry)["restart"] == restart
