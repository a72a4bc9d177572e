# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host notices a state directory that is not mounted, is another one, or comes from an older backup."""

from __future__ import annotations

import os
import shutil

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import preparation
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, state_directory
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.claim import claim_all
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.state_directory import StateDirectoryChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store


@pytest.fixture
def host(prepared):
    """A host as prepare_hosts leaves it, with an identity of its state directory."""
    assert state_directory.establish(prepared.store)
    return prepared


@pytest.fixture
def web(host, wanted):
    """The uuid of a running instance there."""
    spec, seed = wanted()
    make(host, spec, seed)
    return spec["uuid"]


def make(host, spec, seed):
    claim._write(host.store, spec, "t", {"vcpus": 1, "memory_mb": 64, "disk_gb": 1})
    Instance(host, spec["uuid"]).started("t", seed)


def unmount(host):
    os.rename(host.store.state_dir, host.store.state_dir + ".away")
    os.mkdir(host.store.state_dir, 0o700)


def remount(host):
    shutil.rmtree(host.store.state_dir)
    os.rename(host.store.state_dir + ".away", host.store.state_dir)


def another(host):
    unmount(host)
    with open(os.path.join(host.store.state_dir, "identity.json"), "w") as file:
        file.write('{"id": "%s", "serial": 99}' % ("0" * 32))
    os.chmod(file.name, 0o600)


def test_a_directory_that_is_as_it_was_left_has_no_fault(host, web):
    assert state_directory.look(host.store)["fault"] is None
    assert state_directory.look(host.store)["serial"] == 1
    assert not state_directory.establish(host.store)
    Instance(host, web).stopped(0)
    assert state_directory.look(host.store)["serial"] == 1
    Instance(host, web).absent()
    assert state_directory.look(host.store)["serial"] == 2


@pytest.mark.follows("mount_state_directory")
@pytest.mark.parametrize("damage, word", [(unmount, "is it mounted"), (another, "another one")])
def test_nothing_is_claimed_built_or_started_in_another_directory(host, web, wanted, damage, word):
    damage(host)
    assert word in (state_directory.look(host.store)["fault"] or "")
    for refused in (host.require_prepared, lambda: claim_all(host, [{"spec": wanted("web2")[0], "token": "t"}])):
        with pytest.raises(StateDirectoryChanged, match="Mount .* and run again"):
            refused()
    remount(host)
    host.require_prepared()
    assert not Instance(host, web).started()


@pytest.mark.follows("mount_state_directory")
@pytest.mark.parametrize("prepared_before", [True, False])
def test_a_directory_that_was_brought_from_another_host_owns_nothing_here(host, web, make_host, prepared_before):
    """rsync of /var/lib/berth to a new host, which was prepared before or not: the guest may still run where it was."""
    other = make_host("kvm2", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a")
    if prepared_before:
        state_directory.establish(other.store)
        shutil.rmtree(other.store.state_dir)
    shutil.copytree(host.store.state_dir, other.store.state_dir)
    for refused in (Instance(other, web).started, lambda: state_directory.establish(other.store)):
        with pytest.raises(StateDirectoryChanged, match="Mount .* and run again"):
            refused()
    assert web not in other.connection.domains
    assert state_directory.establish(other.store, accept=True), "where the old host is gone, a person says so"
    other.require_prepared()


def test_a_host_that_was_interrupted_while_it_was_first_prepared_is_prepared_by_the_next_run(host):
    os.unlink(host.store.identity_copy)
    assert state_directory.look(host.store)["fault"] is None
    assert state_directory.establish(host.store)


def test_a_directory_from_an_older_backup_starts_nothing(host, web, wanted):
    """The instance was made, and deleted, after the backup: what the backup says of it may be wrong."""
    shutil.copytree(host.store.state_dir, host.store.state_dir + ".backup")
    Instance(host, web).absent()
    shutil.rmtree(host.store.state_dir)
    os.rename(host.store.state_dir + ".backup", host.store.state_dir)
    assert "older" in (state_directory.look(host.store)["fault"] or "")
    with pytest.raises(StateDirectoryChanged):
        Instance(host, web).started()
    assert web not in host.connection.domains


def test_a_directory_with_a_fault_keeps_it_whatever_is_written_there(host, web):
    """Counted on, it would be as new as the one that it is a backup of."""
    shutil.copytree(host.store.state_dir, host.store.state_dir + ".backup")
    Instance(host, web).absent()
    shutil.rmtree(host.store.state_dir)
    os.rename(host.store.state_dir + ".backup", host.store.state_dir)
    before = state_directory.look(host.store)
    for _change in range(3):
        state_directory.advance(host.store)
    assert before["fault"] and state_directory.look(host.store) == before


def test_a_backup_of_the_same_state_is_no_fault(host, web):
    """Starts and stops change no owner: a backup from before them is as good."""
    shutil.copytree(host.store.state_dir, host.store.state_dir + ".backup")
    Instance(host, web).stopped(0)
    shutil.rmtree(host.store.state_dir)
    os.rename(host.store.state_dir + ".backup", host.store.state_dir)
    assert state_directory.look(host.store)["fault"] is None


@pytest.mark.parametrize("damage", [unmount, another])
def test_it_is_taken_as_it_is_only_by_a_persons_word(host, web, damage):
    damage(host)
    with pytest.raises(StateDirectoryChanged):
        state_directory.establish(host.store)
    assert state_directory.establish(host.store, accept=True)
    assert state_directory.look(host.store)["fault"] is None
    host.require_prepared()


def test_a_crash_between_the_directory_and_its_copy_is_no_fault(host, web, monkeypatch):
    real = state_directory.durable.write_in

    def dies(path, *args, **more):
        if path == os.path.dirname(host.store.identity_copy):
            raise OSError("power cut")
        return real(path, *args, **more)

    monkeypatch.setattr(state_directory.durable, "write_in", dies)
    with pytest.raises(OSError):
        state_directory.advance(host.store)
    monkeypatch.undo()
    assert state_directory.look(host.store)["fault"] is None


@pytest.mark.parametrize("text", ["{", "[]", '{"id": 1}', '{"id": "x", "serial": "many"}'])
def test_a_damaged_identity_is_a_fault(host, text):
    with open(os.path.join(host.store.state_dir, "identity.json"), "w") as file:
        file.write(text)
    assert "damaged" in state_directory.look(host.store)["fault"]


class NoDomain:
    @staticmethod
    def listAllDomains(_flags):
        return []


@pytest.mark.parametrize("part", ["instances", "volumes", "set-aside"])
def test_a_host_that_holds_disks_of_any_kind_is_no_new_host_whose_state_directory_may_be_another(tmp_path, part):
    assert not preparation.holds_anything(NoDomain, str(tmp_path))
    (tmp_path / part).mkdir()
    assert not preparation.holds_anything(NoDomain, str(tmp_path))
    (tmp_path / part / "5b2f8f0e-0000-4000-8000-000000000001").mkdir()
    assert preparation.holds_anything(NoDomain, str(tmp_path))
    assert not preparation.is_new(NoDomain, Store(str(tmp_path / "state")), str(tmp_path))


@pytest.mark.parametrize("kind", ["instances", "volumes"])
def test_records_of_a_backup_count_again_only_by_a_persons_word_also_where_the_host_holds_nothing_else(tmp_path, kind):
    store, pool = Store(str(tmp_path)), str(tmp_path / "pool")
    directory = tmp_path / kind / "5b2f8f0e-0000-4000-8000-000000000001"
    directory.mkdir(parents=True)
    (directory / "lock").touch()  # of one that was removed
    assert preparation.is_new(NoDomain, store, pool)
    (directory / "record.json").touch()
    assert not preparation.is_new(NoDomain, store, pool)
