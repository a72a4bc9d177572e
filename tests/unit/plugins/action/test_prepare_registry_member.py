# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller signs for a member of the registry, and what it tells it."""

from __future__ import annotations

import datetime
import os

import pytest
from controller import Controller
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.berth.kvm.plugins.action import prepare_registry_member
from ansible_collections.berth.kvm.plugins.plugin_utils import authority

KEY = ec.generate_private_key(ec.SECP256R1())
REQUEST = (
    x509.CertificateSigningRequestBuilder()
    .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")]))
    .sign(KEY, hashes.SHA256())
    .public_bytes(serialization.Encoding.PEM)
    .decode()
)


class Machine:
    """The module on the host: it keeps what it is told."""

    def __init__(self):
        self.held = {"request": REQUEST, "certificate": "", "authority": ""}
        self.told = []

    def run_module(self, _action, _name, arguments, _task_vars):
        self.told += [arguments] if arguments else []
        found = {"changed": bool(arguments.get("signed")), "held": dict(self.held), "restart": False}
        self.held.update(arguments.get("signed", {}))
        return found


@pytest.fixture
def machine(monkeypatch):
    found = Machine()
    monkeypatch.setattr(prepare_registry_member, "run_module", found.run_module)
    return found


def prepare(tmp_path, name="kvm1", check_mode=False, **more):
    hosts = {"kvm1": {"ansible_host": "192.0.2.1", "berth_registry_address": "10.0.0.1"}}
    it = Controller({"berth_registry_hosts": ["kvm1"], "others": ["kvm2"]}, hosts)
    given = {"directory": str(tmp_path / "ca"), "quota_gb": 4, "backup_directory": "/backups", "backups": 48, **more}
    here = {**it.task_vars(), "inventory_hostname": name}
    return it.run("prepare_registry_member", given, here, check_mode=check_mode)


def test_a_member_is_signed_once_for_its_names_and_no_name_counts_as_a_user(machine, tmp_path):
    first, second = prepare(tmp_path), prepare(tmp_path)
    assert (first["changed"], second["changed"], second["reasons"]) == (True, False, []), (first, second)
    certificate = x509.load_pem_x509_certificate(machine.held["certificate"].encode())
    assert authority.common_name(certificate) == ""
    assert [str(each.value) for each in authority._names(certificate)] == ["kvm1", "10.0.0.1", "192.0.2.1"]
    assert machine.told[1]["signed"] == {} and machine.told[0]["settings"]["members"] == {"kvm1": "10.0.0.1"}
    assert machine.told[0]["root_password"] == machine.told[1]["root_password"] != ""


@pytest.mark.follows("renew_members")
def test_a_certificate_that_ends_soon_is_renewed(machine, tmp_path, monkeypatch):
    now = authority.now()
    prepare(tmp_path)
    old = machine.held["certificate"]
    monkeypatch.setattr(authority, "now", lambda: now + datetime.timedelta(days=600))
    assert prepare(tmp_path)["changed"] and machine.held["certificate"] != old


def test_check_mode_signs_and_makes_nothing(machine, tmp_path):
    told = prepare(tmp_path, check_mode=True)
    assert told["changed"] and told["reasons"] == ["there is no authority"]
    assert not (tmp_path / "ca").exists() and machine.held["certificate"] == ""
    assert machine.told == [{**machine.told[0], "signed": {}}] and "root_password" not in machine.told[0]


def test_a_host_that_is_no_member_and_a_snapshot_that_is_no_file_are_refused(machine, tmp_path):
    assert prepare(tmp_path, name="kvm2")["error_code"] == "InvalidInput"
    assert prepare(tmp_path, snapshot=str(tmp_path / "none"))["error_code"] == "InvalidInput"
    assert not any("snapshot" in told for told in machine.told) and os.path.isdir(tmp_path)
