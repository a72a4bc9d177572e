# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor learns from a real member."""

from __future__ import annotations

from types import SimpleNamespace

import etcd_process
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.plugin_utils import (
    doctor_case,
    registry_access,
    registry_members,
)

OPEN = {"schema": keys.SCHEMA, "incarnation": "one", "kind": "etcd", "open": True}


def codes(monkeypatch, directory, members):
    """What is found where berth_registry names these members."""
    monkeypatch.setattr(registry_access, "members_of_run", lambda _action, _vars: members)
    monkeypatch.setattr(registry_access, "directory_of_run", lambda _vars, _hosts: str(directory))
    return [finding.code for finding in doctor_case.registry_findings(SimpleNamespace(), {}, [])]


def test_a_run_over_the_hosts_alone_asks_nobody(monkeypatch):
    assert codes(monkeypatch, "/nowhere", []) == []


def test_a_controller_without_the_authority_is_told(monkeypatch, tmp_path):
    assert codes(monkeypatch, tmp_path / "ca", [registry_access.Member("192.0.2.1", 2379)]) == ["RegistryUnknown"]


@pytest.mark.skipif(not etcd_process.IS_HERE, reason="there is no etcd on this machine")
def test_a_member_with_users_tells_how_it_is(monkeypatch, tmp_path):
    with etcd_process.running_with_tls(tmp_path) as running:
        directory = str(tmp_path / "ca")
        nobody = registry_access.engine(running.members, directory, user=None)
        registry_members.set_up_users(nobody, registry_members.passwords(directory))
        assert codes(monkeypatch, directory, running.members) == ["RegistryEmpty", "RegistryCertificateEnds"]
        controller = registry_access.engine(running.members, directory)
        controller.transact(Transact(writes=(keys.written(keys.META, OPEN),)))
        assert codes(monkeypatch, directory, running.members) == ["RegistryCertificateEnds"]  # it is for a day
        away = registry_access.Member("127.0.0.1", etcd_process.free_ports(1)[0])
        found = codes(monkeypatch, directory, [away, *running.members])
        assert found == ["RegistryMemberSilent", "RegistryCertificateEnds"]
        running.kill()
        assert codes(monkeypatch, directory, running.members) == ["RegistryMemberSilent", "RegistryUnknown"]
