# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last step of prepare_registry and of restore_registry, with a real member."""

from __future__ import annotations

import json
import os

import etcd_process
import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.action import set_up_registry
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryRefused
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact, Write
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys
from ansible_collections.berth.kvm.plugins.plugin_utils import registry_access, registry_members
from ansible_collections.berth.kvm.plugins.plugin_utils.authority import Authority

pytestmark = pytest.mark.long

OF_HOSTS = {"kvm1": {"ansible_host": "127.0.0.1"}}
LINE = "berth_registry: etcd://127.0.0.1"
needs_etcd = pytest.mark.skipif(not etcd_process.IS_HERE, reason="there is no etcd on this machine")


@pytest.fixture
def member(tmp_path, monkeypatch):
    with etcd_process.running_with_tls(tmp_path) as running:
        monkeypatch.setattr(registry_members, "members", lambda _at: running.members)
        yield running


def set_up(tmp_path, check_mode=False, **more):
    it = Controller({registry_members.GROUP: ["kvm1"]}, OF_HOSTS)
    return it.run("set_up_registry", {"directory": str(tmp_path / "ca"), **more}, check_mode=check_mode)


def meta(member, tmp_path):
    engine = registry_access.engine(member.members, str(tmp_path / "ca"))
    found = engine.transact(Transact(reads=(keys.META,)))["found"]
    return keys.document(keys.META, found.get(keys.META))


@needs_etcd
def test_the_registry_gets_its_users_once_and_the_line_for_the_inventory_is_told(member, tmp_path):
    first, second = set_up(tmp_path), set_up(tmp_path)
    assert (first["changed"], second["changed"]) == (True, False), (first, second)
    assert first["line"] == second["line"] == LINE
    assert meta(member, tmp_path) is None  # use_registry fills it


@needs_etcd
def test_a_restored_registry_is_another_one_each_time_and_takes_nothing(member, tmp_path):
    set_up(tmp_path)
    found = []
    for _each in range(2):
        assert set_up(tmp_path, restored=True)["changed"]
        found.append(meta(member, tmp_path))
    assert found[0]["incarnation"] != found[1]["incarnation"]
    assert [each["open"] for each in found] == [False, False]


@pytest.mark.follows("give_more_space")
@needs_etcd
def test_a_registry_that_was_full_takes_something_again_once_it_has_more_space(tmp_path, monkeypatch):
    def fill(engine):
        for number in range(100):
            engine.transact(Transact(writes=(Write("/berth/%d" % number, os.urandom(1 << 17)),)))

    with etcd_process.running_with_tls(tmp_path, "--quota-backend-bytes=4000000") as running:
        monkeypatch.setattr(registry_members, "members", lambda _at: running.members)
        set_up(tmp_path)
        with pytest.raises(RegistryRefused, match="space exceeded"):
            fill(registry_access.engine(running.members, str(tmp_path / "ca")))
        assert set_up(tmp_path)["changed"]  # it is full still, and says so again
    with etcd_process.running_with_tls(tmp_path, "--quota-backend-bytes=40000000") as running:
        monkeypatch.setattr(registry_members, "members", lambda _at: running.members)
        set_up(tmp_path)
        fill(registry_access.engine(running.members, str(tmp_path / "ca")))
        assert not set_up(tmp_path)["changed"]


def test_check_mode_asks_no_member_and_makes_no_authority(tmp_path):
    assert set_up(tmp_path, check_mode=True)["line"] == LINE
    assert set_up(tmp_path, check_mode=True, restored=True)["changed"] and not (tmp_path / "ca").exists()


@pytest.mark.follows("start_members")
@needs_etcd
def test_members_that_do_not_answer_in_time_are_told_with_where_to_look(tmp_path, monkeypatch):
    Authority(str(tmp_path / "ca"), registry_access.AUTHORITY)
    monkeypatch.setattr(set_up_registry, "WAIT", 0)
    [port] = etcd_process.free_ports(1)
    nobody = [registry_access.Member("127.0.0.1", port)]
    with monkeypatch.context() as away:
        away.setattr(registry_members, "members", lambda _at: nobody)
        result = set_up(tmp_path)
    assert result["error_code"] == "RegistryUnknown" and "journalctl -u berth-registry" in json.dumps(result["error"])
    with etcd_process.running_with_tls(tmp_path) as running:  # it is started, and run again
        monkeypatch.setattr(registry_members, "members", lambda _at: running.members)
        assert set_up(tmp_path)["line"] == LINE


@pytest.mark.parametrize("names", [[], ["a", "b"], ["a", "b", "c", "d"]])
def test_the_registry_has_one_member_or_three(names, tmp_path):
    it = Controller({registry_members.GROUP: names, "kvm_hosts": ["kvm1"]})
    result = it.run("set_up_registry", {"directory": str(tmp_path)}, check_mode=True)
    assert result["error_code"] == "InvalidInput" and "one member, or three" in result["msg"]


def test_the_address_of_a_member_is_the_one_given_for_it_or_that_of_its_moves_or_of_the_login():
    it = Controller(
        {registry_members.GROUP: ["a", "b", "c"]},
        {
            "a": {"berth_registry_address": "2001:db8::1", "berth_host_migration_address": "192.0.2.9"},
            "b": {"berth_host_migration_address": "192.0.2.2", "ansible_host": "b.example.org"},
        },
    )
    result = it.run("set_up_registry", {"directory": "/nowhere"}, check_mode=True)
    assert result["line"] == "berth_registry: etcd://[2001:db8::1],192.0.2.2,c"
