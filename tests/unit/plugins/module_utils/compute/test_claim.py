# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims on one host: capacity and group under the lock, one token one claim (C17, C19, S40, S41, S45)."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.host import Host
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import (
    claim,
    drained,
    failed_instances,
    registry_mark,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.ledger import Ledger
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import STAGES
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import ClaimFailed

VCPUS, MEMORY_MB, LOCAL_GB = 4, 2048, 20
POOLS = {"berth": LOCAL_GB, "fast": 9}


class FakeHost(Host):
    """A host of 4 CPUs, 2 GiB, 20 GiB that counts how often its facts are gathered."""

    gathered = 0

    def identify(self):
        return "host"


def document(records, foreign=()):
    instances = [facts._own(record, {}) for record in records]
    instances += [dict(instances[0] if instances else {}, **entry) for entry in foreign]
    return {
        "host": "kvm1",
        "vcpus": VCPUS,
        "vcpus_used": sum(instance.get("vcpus", 0) for instance in instances),
        "cpu_allocation_ratio": 1.0,
        "memory_mb": MEMORY_MB,
        "memory_mb_used": sum(instance.get("memory_mb", 0) for instance in instances),
        "reserved_host_memory_mb": 0,
        "local_gb": LOCAL_GB,
        "local_gb_used": sum(
            instance.get("disk_gb", 0) for instance in instances if instance.get("pool") in (None, "berth")
        ),
        "instances": instances,
        "pool": "berth",
        "pools": {name: pool(name, gib, records) for name, gib in POOLS.items()},
        "bridges": ["br0"],
        "networks": [],
    }


def pool(name, gib, records):
    promised = sum(record.resources["disk_gb"] for record in records if (record.spec.get("pool") or "berth") == name)
    return {"type": "dir", "storage": name, "capacity_gb": gib, "free_gb": gib, "promised_gb": promised}


@pytest.fixture
def host(tmp_path, monkeypatch):
    compute_host = FakeHost(store=Store(str(tmp_path / "berth")), settings=HostSettings(), connect=lambda: None)
    compute_host.foreign = []

    def collect(_connection, settings, records, *_args, **_kwargs):
        compute_host.gathered += 1
        return {**document(records, compute_host.foreign), **facts._declared(settings, records)}

    monkeypatch.setattr(facts, "collect", collect)
    return compute_host


def spec(name, group=None, vcpus=1, memory_mb=256, root_gb=1, project="default"):
    flavor = {
        "name": "m1",
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "root_gb": root_gb,
        "ephemeral_gb": 0,
        "swap": 0,
        "extra_specs": {},
    }
    return {
        "schema": 1,
        "uuid": instance_uuid(project, name),
        "name": name,
        "project_id": project,
        "flavor": flavor,
        "image": {"name": "guest", "properties": {}},
        "group": group,
    }


def anti(rules=None):
    return {"name": "web", "uuid": "web", "policy": "anti-affinity", "rules": rules or {}, "members": []}


@pytest.mark.parametrize("dry", [False, True])
def test_a_claim_for_another_machine_that_had_the_hosts_name_is_refused_and_the_next_host_is_tried(host, dry):
    wanted = {"spec": spec("web-1"), "token": "t1", "host_uuid": "other"}
    result = claim.claim_all(host, [wanted], dry=dry)[0]
    assert result["error"]["code"] == "HostIdentityChanged" and result["error"]["retryable"] and not result["claimed"]
    assert "other" in result["error"]["message"]
    assert host.store.records() == []
    assert claim.claim_all(host, [{**wanted, "host_uuid": "host"}], dry=dry)[0]["claimed"]


def claim_one(host, wanted, token="t1", **more):
    return claim.claim_all(host, [{"spec": wanted, "token": token, **more}])[0]


def test_a_resize_on_a_host_that_is_over_its_limit_is_claimed_where_it_lowers_that(host):
    """S15"""
    wanted = spec("web-1", memory_mb=1024)
    claim_one(host, wanted)
    claimed = host.store.read(wanted["uuid"])
    plant(host.store, claimed.replace(role="OWN", phase="active", resources={**claimed.resources, "memory_mb": 2560}))
    ledger = Ledger(host)
    assert ledger.allocate(RequestSpec.from_dict(wanted), {})["memory_mb"] == 1024
    with pytest.raises(ClaimFailed, match="MEMORY_MB"):
        ledger.allocate(RequestSpec.from_dict(spec("web-2", memory_mb=1)), {})


def test_a_claim_that_fits_is_a_record_in_role_claim(host):
    result = claim_one(host, spec("web-1"))
    assert (result["claimed"], result["token"], result["allocation"]["memory_mb"]) == (True, "t1", 256)
    record = host.store.read(result["uuid"])
    assert (record.role, record.phase, record.vm_state, record.task_state) == (
        "CLAIM",
        "claimed",
        "building",
        "scheduling",
    )


def test_what_is_claimed_is_no_longer_in_error(host):
    """C14."""
    wanted = spec("web-1")
    said = {
        "uuid": wanted["uuid"],
        "name": "web-1",
        "project_id": "default",
        "host": "h",
        "error": {"code": "C", "message": "m"},
    }
    failed_instances.note(host.store, [said])
    claim_one(host, dict(wanted, flavor=dict(wanted["flavor"], vcpus=99)))
    assert failed_instances.read(host.store.state_dir)
    claim_one(host, wanted)
    assert not failed_instances.read(host.store.state_dir)


def test_the_same_token_again_changes_nothing(host):
    first, again = claim_one(host, spec("web-1")), claim_one(host, spec("web-1"))
    assert (again["claimed"], again["changed"]) == (True, False)
    assert again["allocation"] == first["allocation"]


def test_another_token_adopts_the_claim(host):
    claim_one(host, spec("web-1"))
    assert claim_one(host, spec("web-1"), token="t2")["claimed"]
    assert host.store.read(spec("web-1")["uuid"]).token == "t2"


def test_an_adopted_claim_of_another_size_is_decided_anew(host):
    claim_one(host, spec("web-1", memory_mb=1500))
    assert claim_one(host, spec("web-1", memory_mb=1600), token="t2")["allocation"]["memory_mb"] == 1600


def test_an_adopted_claim_with_other_data_disks_is_decided_anew(host):
    """Else the room of a larger disk would be claimed by nobody."""
    data = [{"name": "logs", "size_gb": 2, "bus": "virtio"}]
    assert claim_one(host, dict(spec("web-1"), disks=data))["allocation"]["disk_gb"] == 3
    wanted = dict(spec("web-1"), disks=[dict(data[0], size_gb=5)])
    assert claim_one(host, wanted, token="t2")["allocation"]["disk_gb"] == 6


def test_without_a_token_one_is_made(host):
    result = claim.claim_all(host, [{"spec": spec("web-1")}])[0]
    assert len(result["token"]) == 32


def test_what_lacks_is_told_with_its_numbers_and_another_host_may_do(host):
    error = claim_one(host, spec("web-1", memory_mb=4096))["error"]
    assert (error["code"], error["retryable"]) == ("ClaimFailed", True)
    assert error["shortfalls"][0]["resource"] == "MEMORY_MB"
    assert host.store.records() == []


def test_many_claims_gather_the_facts_once_and_some_may_fail(host):
    claims = [{"spec": spec("web-%d" % number, memory_mb=600), "token": "t%d" % number} for number in range(5)]
    results = claim.claim_all(host, claims)
    assert [result["claimed"] for result in results] == [True, True, True, False, False]
    assert host.gathered == 1


@pytest.mark.parametrize("at_once", [True, False])
def test_disks_in_another_pool_count_against_that_pool_alone(host, at_once):
    wanted = [dict(spec("web-%d" % number, root_gb=6), pool="fast") for number in range(3)]
    wanted.append(spec("web-9", root_gb=20))
    batches = [wanted] if at_once else [[each] for each in wanted]
    claims = [[{"spec": each, "token": "t"} for each in batch] for batch in batches]
    results = [result for batch in claims for result in claim.claim_all(host, batch)]
    assert [result["claimed"] for result in results] == [True, False, False, True]
    assert results[0]["allocation"]["disk_gb"] == 6
    assert "3 free of (9 - 0 reserved)" in results[1]["error"]["message"]


@pytest.mark.parametrize(
    "lacking,reason",
    [
        ({"networks": [{"type": "bridge", "source": "br9"}]}, "has no bridge br9"),
        ({"networks": [{"type": "network", "source": "lan"}]}, "has no active libvirt network lan"),
        ({"pool": "nvme"}, "has no active storage pool nvme (active: berth, fast)"),
    ],
)
def test_a_network_or_pool_that_the_host_lacks_is_told_before_anything_is_held(host, lacking, reason):
    result = claim_one(host, dict(spec("web-1"), **lacking))
    assert not result["claimed"] and result["error"]["retryable"] and reason in result["error"]["message"]
    assert host.store.records() == []
    assert claim_one(host, dict(spec("web-2"), networks=[{"type": "bridge", "source": "br0"}]))["claimed"]


def test_limits_of_the_decision_are_tested_again(host):
    error = claim_one(host, spec("web-1", memory_mb=512), limits={"memory_mb": 256})["error"]
    assert error and error["code"] == "ClaimFailed"


def test_a_member_of_an_anti_affinity_group_on_this_host_forbids_another(host):
    claim_one(host, spec("web-1", anti()))
    error = claim_one(host, spec("web-2", anti()), token="t2")["error"]
    assert (error["code"], error["retryable"]) == ("GroupPolicyViolated", True)


def test_anti_affinity_holds_within_one_batch(host):
    claims = [{"spec": spec("web-%d" % number, anti()), "token": "t%d" % number} for number in range(3)]
    assert [result["claimed"] for result in claim.claim_all(host, claims)] == [True, False, False]


def test_max_server_per_host_allows_that_many(host):
    claims = [
        {"spec": spec("web-%d" % number, anti(rules={"max_server_per_host": 2})), "token": "t%d" % number}
        for number in range(3)
    ]
    assert [result["claimed"] for result in claim.claim_all(host, claims)] == [True, True, False]


def test_a_group_of_the_same_name_in_another_project_is_another_group(host):
    claim_one(host, spec("web-1", anti()))
    assert claim_one(host, spec("web-1", anti(), project="other"), token="t2")["claimed"]


@pytest.mark.parametrize("role, phase", [state for state in STAGES if state[0] != "CLAIM"])
def test_what_the_host_holds_in_any_other_role_is_never_claimed_over(host, role, phase):
    claim_one(host, spec("web-1"))
    record = host.store.read(spec("web-1")["uuid"])
    plant(host.store, record.next(role=role, phase=phase))
    error = claim_one(host, spec("web-1"), token="t2")["error"]
    assert error and (error["code"], error["retryable"]) == ("InstanceExists", False)


def test_whose_guest_was_given_back_is_told_how_to_have_it_again():
    for part in ("the domain is left alone", "After berth.kvm.leave, berth.kvm.adopt takes it again"):
        assert part in hints.another_name()


@pytest.mark.follows("another_name")
def test_a_foreign_domain_of_that_name_is_not_claimed_over_and_another_name_is_free(host):
    host.foreign = [
        {
            "uuid": "11111111-2222-3333-4444-555555555555",
            "name": "web-1",
            "foreign": True,
            "project_id": None,
            "group": None,
        }
    ]
    error = claim_one(host, spec("web-1"))["error"]
    assert error and (error["code"], error["hint"]) == ("InstanceExists", hints.another_name())
    left = copy.deepcopy(host.foreign)
    assert claim_one(host, spec("web-2"))["claimed"] and host.foreign == left


def test_an_instance_that_another_run_works_on_is_busy(host):
    claim_one(host, spec("web-1"))
    with Store(host.store.state_dir).instance_lock(spec("web-1")["uuid"]):
        error = claim_one(host, spec("web-1"), token="t2")["error"]
    assert error["code"] == "InstanceBusy"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../x"},
        {"name": "-rf"},
        {"name": "$(id)"},
        {"name": "x" * 64},
        {"uuid": instance_uuid("default", "web-2")},
        {"uuid": "../../etc"},
        {"uuid": None},
    ],
    ids=["path", "option", "shell", "long", "uuid of another", "path as uuid", "no uuid"],
)
def test_a_spec_that_is_not_who_it_says_is_refused(host, changes):
    changed = {**spec("web-1"), **changes}
    if "name" in changes:
        changed["uuid"] = instance_uuid("default", changes["name"])
    error = claim_one(host, changed)["error"]
    assert error and (error["code"], error["field"].split(".")[-1]) == ("InvalidInput", list(changes)[0])
    assert host.store.records() == []


def test_one_that_had_an_owner_and_was_renamed_keeps_its_uuid(host):
    """A host takes it over from a lost one, or makes it anew."""
    renamed = {**spec("web-2"), "uuid": instance_uuid("default", "web-1")}
    refused = claim_one(host, renamed, after=[0, 0])["error"]
    assert refused and refused["field"] == "spec.uuid"
    assert claim_one(host, renamed, after=[1, 4])["claimed"]
    (record,) = host.store.records()
    assert (record.uuid, record.name, record.generation[0]) == (renamed["uuid"], "web-2", 1)


def test_a_withdrawn_token_never_claims_again(host):
    claim_one(host, spec("web-1"))
    uuid = spec("web-1")["uuid"]
    assert claim.withdraw_all(host, [{"uuid": uuid, "token": "t1"}]) == [{"uuid": uuid, "withdrawn": True}]
    again = claim_one(host, spec("web-1"))
    assert not again["claimed"] and again["error"]["code"] == "ClaimRevoked"
    assert claim_one(host, spec("web-1"), token="t2")["claimed"]


def test_only_the_own_claim_is_withdrawn(host):
    claim_one(host, spec("web-1"), token="t2")
    uuid = spec("web-1")["uuid"]
    assert claim.withdraw_all(host, [{"uuid": uuid, "token": "t1"}]) == [{"uuid": uuid, "withdrawn": False}]
    assert host.store.read(uuid).token == "t2"


def test_a_claim_that_is_being_built_is_not_withdrawn(host):
    claim_one(host, spec("web-1"))
    uuid = spec("web-1")["uuid"]
    with Store(host.store.state_dir).instance_lock(uuid):
        withdrawn = claim.withdraw_all(host, [{"uuid": uuid, "token": "t1"}])
    assert withdrawn == [{"uuid": uuid, "withdrawn": False}]


def test_a_dry_run_writes_nothing(host):
    results = claim.claim_all(host, [{"spec": spec("web-1"), "token": "t1"}], dry=True)
    assert results[0]["claimed"]
    assert host.store.records() == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(64, 1500), st.integers(0, 12)), max_size=8))
def test_claims_never_exceed_the_host(host, sizes):
    """I2: whatever is asked, what holds fits, and a second pass gives the same."""
    for record in host.store.records():
        host.store.compare_and_swap(record, None)
    claims = [
        {"spec": spec("vm-%d" % at, vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb), "token": "t%d" % at}
        for at, (vcpus, memory_mb, root_gb) in enumerate(sizes)
    ]
    held = [result["uuid"] for result in claim.claim_all(host, claims) if result["claimed"]]
    totals = [
        sum(record.resources[part] for record in host.store.records()) for part in ("vcpus", "memory_mb", "disk_gb")
    ]
    assert totals[0] <= VCPUS and totals[1] <= MEMORY_MB and totals[2] <= LOCAL_GB
    assert [result["uuid"] for result in claim.claim_all(host, claims) if result["claimed"]] == held


NIC = {"type": "bridge", "source": "br0", "mac": "02:00:00:00:00:01", "address": "192.0.2.1/24"}


@pytest.mark.parametrize("nic", [dict(NIC, address=None), dict(NIC, mac="02:00:00:00:00:02")], ids=["MAC", "address"])
def test_of_two_claims_with_one_address_the_second_is_refused(host, nic):
    claims = [
        {"spec": dict(spec("web-1"), networks=[NIC]), "token": "t1"},
        {"spec": dict(spec("web-2"), networks=[nic]), "token": "t2"},
    ]
    results = claim.claim_all(host, claims)
    assert [result["claimed"] for result in results] == [True, False]
    assert results[1]["error"]["code"] == "AddressTaken" and "web-1" in results[1]["error"]["message"]
    assert claim_one(host, claims[1]["spec"], token="t3")["error"]["code"] == "AddressTaken", "nor in a later run"


def test_a_mac_address_of_a_domain_that_berth_does_not_manage_is_refused(host):
    foreign = {"uuid": "x", "name": "legacy", "foreign": True, "nics": ["MAC address " + NIC["mac"]], "group": None}
    host.foreign.append(foreign)
    assert "legacy" in claim_one(host, dict(spec("web-1"), networks=[NIC]))["error"]["message"]


# part of the request, what it is now, why it cannot be had here (None: it can)
CHANGED_ROOM = {
    "flavor": (spec("web-1", vcpus=2)["flavor"], None),
    "image": ({"name": "another", "properties": {}}, None),
    "group": (anti(), None),
    "pool": ("fast", None),
    "pci_requests": ([{"alias_name": "gpu", "count": 1, "spec": [{}], "numa_policy": "legacy"}], "ClaimFailed"),
    "numa_topology": ({"cells": [{"id": 0, "cpuset": [0], "pcpuset": [], "memory_mb": 256}]}, "ClaimFailed"),
}


@pytest.mark.parametrize("part", CHANGED_ROOM)
def test_a_claim_for_another_room_is_decided_anew(host, part):
    """What was set aside is not what is asked for now: nobody would hold the device, or the cell, that is built on."""
    wanted, refused = CHANGED_ROOM[part]
    claim_one(host, spec("web-1"))
    result = claim_one(host, {**spec("web-1"), part: wanted}, token="t2")
    now = host.store.read(result["uuid"])
    assert (result["claimed"], (result["error"] or {}).get("code")) == (not refused, refused)
    assert now is None if refused else (now.token, now.spec[part], len(now.history)) == ("t2", wanted, 1)


@pytest.mark.follows("usable_cpu_models")
def test_a_host_that_can_run_no_cpu_model_of_its_settings_refuses_a_claim_by_name(host):
    host.settings = HostSettings(cpu_models=("EPYC-Genoa",))
    host.guest_type = SimpleNamespace(usable_models=("Nehalem",))
    refused = claim_one(host, spec("web-1"))
    assert (refused["claimed"], refused["error"]["code"]) == (False, "CpuModelNotUsable")
    assert "EPYC-Genoa" in refused["error"]["message"] and not host.store.records()
    host.settings = HostSettings(cpu_models=("EPYC-Genoa", "Nehalem"))
    assert claim_one(host, spec("web-1"))["claimed"]


def licensed(name, amount):
    wanted = spec(name)
    wanted["flavor"]["extra_specs"] = {"resources:CUSTOM_LICENSE": str(amount)}
    return wanted


def test_a_claim_takes_the_hosts_custom_resources_and_no_more_than_there_are(host):
    """S25"""
    host.settings = HostSettings(custom_resources={"CUSTOM_LICENSE": 3})
    assert claim_one(host, licensed("web-1", 2))["claimed"]
    refused = claim_one(host, licensed("web-2", 2))
    assert not refused["claimed"] and "CUSTOM_LICENSE: needs 2, 1 free" in refused["error"]["message"], refused
    assert claim_one(host, licensed("web-3", 1))["claimed"]
    host.settings = HostSettings()
    refused = claim_one(host, licensed("web-4", 1))
    assert not refused["claimed"] and "has no CUSTOM_LICENSE" in refused["error"]["message"], (
        "none is declared any more"
    )
    assert facts._declared(host.settings, host.store.records()) == {
        "custom_resources": {"CUSTOM_LICENSE": {"total": 0, "used": 3}}
    }


def test_a_drained_host_refuses_a_claim_and_goes_on_with_what_it_has(host):
    """Also one that was decided before the drain."""
    [held] = claim.claim_all(host, [{"spec": spec("web-1")}])
    drained.drain(host.store, "new memory")
    [same, new] = claim.claim_all(host, [{"spec": spec("web-1")}, {"spec": spec("web-2")}])
    assert held["claimed"] and same["claimed"]
    assert not new["claimed"]
    assert (new["error"]["code"], new["error"]["retryable"]) == ("HostDrained", True)
    Ledger(host).allocate(RequestSpec.from_dict(spec("web-1", vcpus=2)), {})


@pytest.mark.parametrize("dry", [False, True])
def test_a_host_of_a_registry_refuses_a_claim_without_one_and_remembers_nothing(host, dry):
    mark = {"kind": "etcd", "incarnation": "one", "revision": 7}
    with host.store.host_lock():
        registry_mark.keep(host.store, mark)
    with pytest.raises(registry_mark.RegistryDiffers):
        claim.claim_all(host, [{"spec": spec("web-1")}], dry=dry)
    with host.store.host_lock(), pytest.raises(registry_mark.RegistryDiffers):
        Ledger(host)
    assert host.store.records() == [] and registry_mark.read(host.store.state_dir) == mark
