# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Over which registry a run works, how it reaches that, and what it tells hosts of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import etcd_process
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "protocol"))
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (  # noqa: E402
    RegistryAuthorityMissing,
    RegistryRestored,
    RegistryUnknown,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import (  # noqa: E402
    Ask,
    Scan,
    Transact,
    Write,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput  # noqa: E402
from ansible_collections.berth.kvm.plugins.plugin_utils import authority, driving, registry_access  # noqa: E402

HOSTS = {"localhost": {}}


def meta(incarnation="one"):
    document = {"schema": keys.SCHEMA, "incarnation": incarnation, "kind": "etcd", "open": True}
    return Transact(writes=(keys.written(keys.META, document),))


@pytest.fixture
def memory():
    found = MemoryEngine()
    found.transact(meta())
    return found


def members(given):
    action = SimpleNamespace(own_variables=lambda _vars, _names: {} if given is None else {"berth_registry": given})
    return [str(each) for each in registry_access.members_of_run(action, {})]


@pytest.mark.parametrize("given", [None, "", "embedded"])
def test_without_members_a_run_works_over_the_hosts_alone(given):
    assert members(given) == []


def test_members_have_the_port_of_etcd_unless_they_name_one():
    assert members("etcd://kvm1,10.0.0.2:12379,[2001:db8::1]:4") == ["kvm1:2379", "10.0.0.2:12379", "2001:db8::1:4"]


@pytest.mark.parametrize("given", ["kvm1", "etcd://", "etcd://a b", "http://a", "etcd://a,", "etcd://a:b", ["kvm1"]])
def test_what_names_no_members_is_refused_by_the_variable(given):
    with pytest.raises(InvalidInput, match="berth_registry"):
        members(given)


@pytest.mark.follows("find_registry_authority")
def test_a_controller_without_the_authority_makes_none_and_says_what_does(tmp_path):
    authority.Authority(str(tmp_path), "libvirt")
    with pytest.raises(RegistryAuthorityMissing, match=str(tmp_path)) as error:
        registry_access.engine([], str(tmp_path))
    assert "prepare_registry" in error.value.hint and not (tmp_path / "registry-ca.key").exists()
    authority.Authority(str(tmp_path), registry_access.AUTHORITY)  # as that playbook does
    assert registry_access.engine([], str(tmp_path))


def test_hosts_are_told_the_newest_revision_that_the_registry_has(memory):
    access = registry_access.Access(memory)
    assert access.mark() == {"kind": "etcd", "incarnation": "one", "revision": 2}
    memory.transact(Transact(writes=(Write("/berth/quota/p", b"{}"),)))
    assert access.mark()["revision"] == 3


def test_a_registry_that_is_away_is_told_as_it_was_known_last(memory):
    access = registry_access.Access(memory)
    memory.away = True
    assert access.mark() is None
    memory.away = False
    access.scan(Scan(keys.META))
    memory.away = True
    assert access.mark() == {"kind": "etcd", "incarnation": "one", "revision": 2}


def test_a_run_writes_nothing_to_a_registry_that_was_restored_meanwhile(memory):
    access = registry_access.Access(memory)
    mark = access.mark()
    memory.transact(meta("two"))
    with pytest.raises(RegistryRestored, match="one when this run began, and is two now"):
        access.transact(Transact(reads=(keys.META,)))
    assert access.mark()["incarnation"] == mark["incarnation"]


def test_a_run_notices_a_registry_that_was_put_back_under_it_before_it_has_another_name(memory):
    access = registry_access.Access(memory)
    backup = memory.backup()
    memory.transact(Transact(writes=(Write("/berth/quota/p", b"{}"),)))
    access.scan(Scan("/berth/quota/"))
    memory.restore(backup)
    with pytest.raises(RegistryRestored, match="revision 3 .* revision 2"):
        access.transact(Transact(reads=(keys.META,)))
    with pytest.raises(RegistryRestored):
        access.scan(Scan("/berth/quota/"))


def test_a_run_does_not_believe_a_registry_that_was_restored_by_hand_before_it_began(memory):
    document = json.loads(memory.keys[keys.META].value)
    memory.transact(Transact(writes=(keys.written(keys.META, {**document, "cluster": memory.cluster}),)))
    registry_access.Access(memory).transact(Transact(reads=(keys.META,)))
    memory.cluster = "another"
    with pytest.raises(RegistryRestored, match="by hand") as error:
        registry_access.Access(memory).transact(Transact(reads=(keys.META,)))
    assert "berth.kvm.audit" in error.value.hint


# --- what hosts are asked


def asked(monkeypatch, access, module, answers):
    """What each host was asked in turn, and what it answered last. ``answers``: of each time that it is asked."""
    told = []

    def answer(_action, _vars, step):
        told.append(step.arguments)
        return {host: answers[host].pop(0) for host in step.arguments}

    monkeypatch.setattr(driving, "_asked", answer)
    step = Ask(module, {host: {"uuid": "u"} for host in answers})
    return told, driving._asked_over(access, None, {}, step)


def test_only_modules_that_a_host_fences_are_told_the_registry(monkeypatch, memory):
    access = registry_access.Access(memory)
    told, _found = asked(monkeypatch, access, "claim", {"kvm1": [{}]})
    assert told == [{"kvm1": {"uuid": "u", "registry": access.mark()}}]
    assert asked(monkeypatch, access, "rescan", {"kvm1": [{}]})[0] == [{"kvm1": {"uuid": "u"}}]
    assert asked(monkeypatch, None, "claim", {"kvm1": [{}]})[0] == [{"kvm1": {"uuid": "u"}}]


def test_a_host_that_has_seen_a_newer_revision_is_asked_again_with_the_newest(monkeypatch, memory):
    behind = {"error": {"code": "RegistryBehind"}}
    told, found = asked(
        monkeypatch,
        registry_access.Access(memory),
        "claim",
        {"kvm1": [{"claims": []}], "kvm2": [behind, {"claims": []}]},
    )
    assert [sorted(each) for each in told] == [["kvm1", "kvm2"], ["kvm2"]]
    assert found == {"kvm1": {"claims": []}, "kvm2": {"claims": []}}


def test_a_host_that_goes_on_to_have_seen_a_newer_revision_has_the_last_word(monkeypatch, memory):
    behind = {"error": {"code": "RegistryBehind"}}
    told, found = asked(monkeypatch, registry_access.Access(memory), "claim", {"kvm1": [behind] * 9})
    assert len(told) == driving.TRIES and found == {"kvm1": behind}


# --- TLS, with a real member


@pytest.fixture
def member(tmp_path):
    if not etcd_process.IS_HERE:
        pytest.skip("there is no etcd on this machine")
    with etcd_process.running_with_tls(tmp_path) as running:
        yield running


def test_a_controller_reaches_a_member_by_a_certificate_of_the_authority_and_no_other_does(member, tmp_path):
    own = registry_access.engine(member.members, str(tmp_path / "ca"))
    assert own.transact(meta())["succeeded"]
    authority.Authority(str(tmp_path / "other"), registry_access.AUTHORITY)
    stranger = registry_access.engine(member.members, str(tmp_path / "other"))
    with pytest.raises(RegistryUnknown):
        stranger.transact(Transact(reads=(keys.META,)))
