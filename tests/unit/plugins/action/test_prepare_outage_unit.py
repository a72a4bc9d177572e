# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host gets so that it starts its guests after a boot: the code once, and what reads the registry."""

from __future__ import annotations

import subprocess
import sys

import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.action import prepare_outage_unit
from ansible_collections.berth.kvm.plugins.plugin_utils import authority, registry_access, registry_members


class Machine:
    """The module on the host: it lacks the code until it was sent. ``told``: what it was told."""

    def __init__(self):
        self.told, self.digest = [], ""

    def run_module(self, _action, _name, arguments, _task_vars):
        self.told.append(arguments)
        lacks = "code" not in arguments and self.digest != arguments["digest"]
        self.digest = self.digest if lacks else arguments["digest"]
        return {"changed": "code" in arguments, "files": [], "lacks_code": lacks}


@pytest.fixture
def machine(monkeypatch):
    found, action = Machine(), prepare_outage_unit.ActionModule
    monkeypatch.setattr(prepare_outage_unit, "run_module", found.run_module)
    monkeypatch.setattr(action, "_make_tmp_path", lambda _self: "/tmp/x", raising=False)
    monkeypatch.setattr(action, "_remove_tmp_path", lambda _self, _path, force: None, raising=False)
    monkeypatch.setattr(action, "_transfer_data", lambda _self, path, data: (path, data), raising=False)
    return found


@pytest.fixture
def directory(tmp_path):
    """Of the authorities, as prepare_registry leaves it."""
    path = tmp_path / "ca"
    for kind in (registry_access.AUTHORITY, registry_access.HOSTS_AUTHORITY):
        authority.Authority(str(path), kind)
    registry_members.passwords(str(path))
    return path


def prepare(directory, **more):
    it = Controller({"kvm_hosts": ["kvm1"]})
    given = {"registry": "etcd://kvm1,kvm2:1234", "directory": str(directory)}
    return it.run("prepare_outage_unit", given, {**it.task_vars(), "inventory_hostname": "kvm1"}, **more)


def test_the_code_is_sent_once_and_the_same_certificate_is_kept(machine, directory):
    assert prepare(directory)["changed"] and not prepare(directory)["changed"]
    first, sent, second = machine.told
    assert "code" in sent and first == second == {key: sent[key] for key in first}
    assert [list(each) for each in first["settings"]["members"]] == [["kvm1", 2379], ["kvm2", 1234]]
    assert first["settings"]["password"] == registry_members.passwords(str(directory))[registry_access.HOST]


def test_hosts_get_no_certificate_of_the_members_authority(machine, directory):
    prepare(directory)
    certificate = authority.read_certificate(machine.told[0]["certificate"])
    of_members, of_hosts = (
        authority.Authority(str(directory), kind)
        for kind in (registry_access.AUTHORITY, registry_access.HOSTS_AUTHORITY)
    )
    assert of_hosts.has_signed(certificate) and not of_members.has_signed(certificate)
    assert machine.told[0]["settings"]["authority"] == of_members.text


def test_check_mode_sends_no_code_and_makes_no_certificate(machine, directory):
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    prepare(directory, check_mode=True)
    assert len(machine.told) == 1 and "code" not in machine.told[0]
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_without_the_registrys_authority_the_host_is_told_nothing(machine, tmp_path):
    assert prepare(tmp_path / "none")["error_code"] == "RegistryAuthorityMissing" and not machine.told


def test_the_code_has_all_that_it_imports_and_is_the_same_each_time(tmp_path):
    path = tmp_path / "code.pyz"
    path.write_bytes(prepare_outage_unit.packed_code())
    ended = subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, check=False, cwd="/")
    assert "main() missing 2 required positional arguments" in ended.stderr
    assert prepare_outage_unit.packed_code() == path.read_bytes()
