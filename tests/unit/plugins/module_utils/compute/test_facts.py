# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host state document as a whole, from recorded answers of libvirt."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace

import pytest
from recorded_libvirt import UUIDS, Directory, Domain, Libvirt, Pool, collect, record

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostIdentityChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import network, summary
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import boot_time, facts, settings
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import counters
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document, lifecycle
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import SPAWNING
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import NetworkNotFound
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations


@pytest.fixture(scope="module")
def seed():
    """The host of the seeds' DumpFilter log: two shut-off instances of 64 MiB, ratios 16/1.5/1.0, QEMU 2.5."""
    domains = [Domain(UUIDS[0], name="instance-1"), Domain(UUIDS[1], name="instance-2")]
    ratios = {"cpu_allocation_ratio": 16.0, "ram_allocation_ratio": 1.5, "disk_allocation_ratio": 1.0}
    return collect(domains, [record(0), record(1)], ratios)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"reserved_host_memory_mb": 99999}, "berth_host_reserved_host_memory_mb keeps 99999 MiB, and there are 3934"),
        ({"cpu_shared_set": "40-50"}, "the host has no CPU of berth_host_cpu_shared_set"),
    ],
)
def test_a_setting_that_leaves_nothing_to_guests_is_told(seed, setting, said):
    warned = collect([], [], setting)["warnings"]
    assert any("no guest can run here: " in warning and said in warning for warning in warned), warned
    assert not any("no guest can run here" in warning for warning in seed["warnings"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory_mb", 3934),
        ("memory_mb_used", 128),
        ("free_ram_mb", 3294),
        ("local_gb", 18),
        ("local_gb_used", 2),
        ("free_disk_gb", 16),
        ("disk_available_least", 7),
        ("vcpus", 2),
        ("vcpus_used", 2),
        ("cpu_allocation_ratio", 16.0),
        ("ram_allocation_ratio", 1.5),
        ("disk_allocation_ratio", 1.0),
        ("hypervisor_type", "QEMU"),
        ("hypervisor_version", 2005000),
        ("num_instances", 2),
        ("num_io_ops", 0),
    ],
)
def test_the_host_of_the_seeds_log_has_its_numbers(seed, field, value):
    """S13, S14, S24"""
    assert seed[field] == value


def test_the_host_of_the_seeds_log_has_its_numa_cell(seed):
    (cell,) = seed["numa_topology"]["cells"]
    assert (cell["cpuset"], cell["memory_mb"]) == ([0, 1], 3934)


def test_the_host_of_the_seeds_log_reads_as_it_was_logged(seed):
    """S44: 7168 MiB of disk, 1024 x min(16, 7)."""
    assert repr(HostState.from_document(seed)) == "(kvm1, kvm1) ram: 3294MB disk: 7168MB io_ops: 0 instances: 2"


def test_the_document_passes_the_controllers_check_unchanged(seed):
    own = [{**told, "uuid": instance_uuid("default", told["name"])} for told in seed["instances"]]
    document = {**seed, "instances": own}
    assert host_document.check(document, "kvm1") == document


def test_memory_is_that_of_the_memory_statistics():
    """Hazard: on some hosts the node's info knows 10 of 24 GiB."""
    assert collect()["memory_mb"] == 3934


def test_a_foreign_domain_counts_running_or_not_and_is_listed_as_foreign():
    """S20, I9"""
    document = collect([Domain(UUIDS[5], memory_mb=1000, vcpus=2, name="db")])
    assert (document["memory_mb_used"], document["vcpus_used"], document["num_instances"]) == (1000, 2, 1)
    (instance,) = document["instances"]
    assert (instance["foreign"], instance["name"], instance["power_state"], instance["role"]) == (
        True,
        "db",
        "shutdown",
        None,
    )


def test_an_instance_with_a_record_and_a_domain_counts_once():
    assert collect([Domain(UUIDS[0], memory_mb=64)], [record(0)])["memory_mb_used"] == 64


@pytest.mark.parametrize("role", ["OWN", "IN", "OUT", "CLAIM"])
def test_every_role_of_a_record_counts(role):
    """I2"""
    document = collect(records=[record(0, role=role)])
    assert (document["memory_mb_used"], document["local_gb_used"], document["instances"][0]["role"]) == (64, 1, role)


def test_an_instance_says_the_zone_of_its_host_and_an_older_record_the_one_that_was_asked_for():
    """C20"""
    asked = {"availability_zone": "asked"}
    records = [record(0, **asked, host_zone="north"), record(1, **asked), record(2)]
    document = collect(records=records)
    host_document.check(document)
    assert [instance["availability_zone"] for instance in document["instances"]] == ["north", "asked", None]
    assert [summary.describe(each, None)["availability_zone"] for each in records] == ["north", "asked", None]


def test_an_instance_says_the_addresses_at_which_it_is_reached():
    """A20"""
    reached = record(0, access_ip_v4="203.0.113.7", access_ip_v6="2001:db8::7")
    document = collect(records=[reached, record(1, access_ip_v4=None), record(2)])
    host_document.check(document)
    told = [instance.get("access_ips") for instance in document["instances"]]
    assert told == [["203.0.113.7", "2001:db8::7"], None, None]
    assert (
        summary.describe(reached, None)["access_ips"] == told[0]
        and summary.describe(record(2), None)["access_ips"] == []
    )


def test_a_pinned_instance_says_which_cpus_of_which_cell_it_holds():
    """So that placement can tell what its leaving would free."""
    cell = {"id": 0, "cpuset": [], "pcpuset": [0], "memory_mb": 64, "pagesize": None, "cpu_policy": "dedicated"}
    cell = {**cell, "cpu_thread_policy": None, "cpu_pinning": {"0": 1}, "cpuset_reserved": []}
    topology = {"cells": [cell], "emulator_threads_policy": None}
    pinned = record(0)
    pinned.resources["numa_topology"] = topology
    document = collect(records=[pinned, record(1)], options={"cpu_dedicated_set": "1"})
    host_document.check(document)
    assert [instance.get("numa_topology") for instance in document["instances"]] == [topology, None]


def test_negative_rests_are_shown():
    """S15"""
    document = collect(records=[record(0, memory_mb=8000, disk_gb=100)])
    assert (document["free_ram_mb"], document["free_disk_gb"], document["disk_available_least"]) == (-4578, -82, -91)


def test_instances_that_are_built_or_moved_are_io_operations():
    """S21"""
    phases = ["claimed", "building", "active", "resizing", "resized", "deleting"]
    assert collect(records=[record(number, phase=phase) for number, phase in enumerate(phases)])["num_io_ops"] == 3


IDLE = {("OWN", "active", None), ("OUT", "keep", "resize_migrated"), ("OWN", "resized", None)}
STATES = [
    (*state, names[1])
    for state, stage in lifecycle.STAGES.items()
    for names in filter(None, [stage.cold, stage.live] if stage.cold or stage.live else [(None, None)])
]


@pytest.mark.parametrize("state", STATES)
def test_only_what_is_at_rest_or_waits_for_its_confirm_is_no_io_operation(state):
    """S21: Nova does not count resize_migrated."""
    role, phase, task_state = state
    it = dataclasses.replace(record(0, role=role, phase=phase), task_state=task_state)
    assert collect(records=[it])["num_io_ops"] == int(state not in IDLE)


def test_an_instance_that_starts_for_the_first_time_is_an_io_operation():
    """S21"""
    it = dataclasses.replace(record(0), task_state=SPAWNING)
    assert collect(records=[it])["num_io_ops"] == 1


def test_only_the_pool_for_instances_counts_as_local_disk():
    """S14: promised is told per pool."""
    records = [record(0, disk_gb=3), record(1, disk_gb=5, pool="slow")]
    document = collect(records=records, pools=(Pool(18, 9), Pool(100, 90, "slow")))
    assert (document["local_gb"], document["local_gb_used"]) == (18, 3)
    assert {name: pool["promised_gb"] for name, pool in document["pools"].items()} == {"berth": 3, "slow": 5}


def test_a_pool_that_others_fill_is_told_with_what_was_promised_there_and_what_is_free():
    """S14: 18 GiB, 9 free: 1 of the other 9 is an instance's."""
    document = collect(records=[record(0, disk_gb=1)])
    told = document["pools"]["berth"]
    assert (told["free_mb"], told["owed_gb"]) == (9 << 10, 1)
    assert any(
        "of the 18 GiB of storage pool berth 9 are free, and disks that were promised there may still take 1: 9 GiB are taken"
        in text
        for text in document["warnings"]
    )


def test_a_pool_whose_file_system_is_not_mounted_is_left_out_while_instances_have_their_disks_in_it(tmp_path):
    """What is built in the empty directory below the mount would be hidden once it is mounted."""
    pools, records = (Directory("berth", tmp_path), Directory("fast", tmp_path / "fast")), [record(0)]
    (tmp_path / "fast").mkdir()
    found = collect(records=records, pools=pools)
    assert list(found["pools"]) == ["fast"] and found["local_gb"] == 0
    said = "storage pool berth is left out: %s/instances is not there, and %s has its disks in it" % (
        tmp_path,
        records[0].name,
    )
    assert any(said in warning for warning in found["warnings"])
    (tmp_path / "instances").mkdir()
    found = collect(records=records, pools=pools)
    assert sorted(found["pools"]) == ["berth", "fast"] and not any(said in warning for warning in found["warnings"])


def test_an_instance_at_rest_tells_the_files_that_its_record_names_and_that_are_gone(tmp_path):
    """In whichever pool, mounted or not, and whether libvirt has a definition or not. In a move its steps make the files."""
    pools = (Directory("berth", tmp_path / "berth"), Directory("fast", tmp_path / "fast"))
    (tmp_path / "berth" / "instances").mkdir(parents=True)
    (tmp_path / "fast").mkdir()
    moving = dataclasses.replace(record(1), op="a move")
    told = {
        each["name"]: each.get("disks_missing")
        for each in collect(records=[record(0, pool="fast"), moving, record(2, pool="none")], pools=pools)["instances"]
    }
    directory = tmp_path / "fast" / "instances" / UUIDS[0]
    assert told == {
        "web-0": [str(directory / "root.qcow2"), str(directory / "seed.iso")], "web-1": None, "web-2": None,
    }  # fmt: skip


def test_an_empty_pool_in_which_nothing_is_yet_is_offered(tmp_path):
    assert list(collect(records=[], pools=(Directory("berth", tmp_path),))["pools"]) == ["berth"]


def test_pools_on_one_file_system_share_its_space_and_say_so(tmp_path):
    (tmp_path / "instances").mkdir()
    pools = (Directory("berth", tmp_path), Directory("archive", tmp_path), Pool(100, 90, "slow"))
    records = [record(0, disk_gb=3), record(1, disk_gb=5, pool="archive"), record(2, disk_gb=7, pool="slow")]
    found = collect(records=records, pools=pools)
    assert found["pool"] == "berth"
    assert {name: (pool["storage"], pool["promised_gb"]) for name, pool in found["pools"].items()} == {
        "berth": ("berth", 8),
        "archive": ("berth", 8),
        "slow": ("slow", 7),
    }
    assert found["local_gb_used"] == 8


def test_the_networks_that_guests_can_be_on_are_named():
    found = collect(networks=["lan", "{{ evil }}"])
    assert found["networks"] == ["lan"]
    assert found["network_filters"] == ["clean-traffic"]
    assert isinstance(found["bridges"], list)


def test_networks_that_libvirt_does_not_list_are_left_out_and_not_called_missing():
    found = collect(networks=None)
    assert "networks" not in found
    assert any("networks cannot be listed" in warning for warning in found["warnings"])


def test_a_bridge_is_what_the_kernel_calls_one(tmp_path):
    (tmp_path / "br0" / "bridge").mkdir(parents=True)
    (tmp_path / "eth0").mkdir()
    assert network.available(Libvirt(), [], str(tmp_path))["bridges"] == ["br0"]
    network.check(Libvirt(), [{"type": "bridge", "source": "br0"}], str(tmp_path))
    with pytest.raises(NetworkNotFound):
        network.check(Libvirt(), [{"type": "bridge", "source": "eth0"}], str(tmp_path))


def test_without_its_pool_a_host_offers_no_disk_and_says_so():
    document = collect(pools=())
    assert (document["local_gb"], document["free_disk_gb"]) == (0, 0)
    assert any("the pool berth for instances" in warning for warning in document["warnings"])


def test_only_guests_that_can_run_are_supported():
    """/dev/kvm may exist and fail: what libvirt has tried decides."""
    document = collect()
    assert document["domain_types"] == ["qemu"]
    assert document["supported_instances"] == [["i686", "qemu", "hvm"], ["x86_64", "qemu", "hvm"]]


def test_a_host_where_nothing_can_run_says_so():
    document = collect(options={"domain_type": "kvm"})
    assert (document["domain_types"], document["supported_instances"]) == ([], [])
    assert any("no guest can run here" in warning for warning in document["warnings"])


def test_traits_are_of_the_cpu_that_guests_see():
    """S37: the model's features, without those that host-model takes away."""
    found = collect(options={"traits": ["CUSTOM_GOLD"]})["traits"]
    assert "HW_CPU_X86_AVX2" in found and "CUSTOM_GOLD" in found
    assert "HW_CPU_X86_SHA" not in found


def test_a_disabled_host_says_why():
    service = collect(options={"disabled": True, "disabled_reason": "new disks"})["service"]
    assert service == {"disabled": True, "disabled_reason": "new disks", "up": True}


def test_another_host_uuid_than_the_pinned_one_is_an_error():
    with pytest.raises(HostIdentityChanged):
        collect(options={"uuid": UUIDS[9]})


def test_names_that_a_host_may_not_send_are_made_harmless():
    document = collect([Domain(UUIDS[5], name="{{ lookup('pipe', 'id') }}\u202e")])
    assert document["instances"][0]["name"] == "?{ lookup('pipe', 'id') }}?"
    host_document.check(document)


def test_a_libvirt_that_hangs_ends_in_time():
    """Hazard: a hung libvirt must not hang the play."""

    class Hung(Libvirt):
        def getCapabilities(self):
            threading.Event().wait(30)

    with pytest.raises(connection.LibvirtTimeout, match="gathering the facts"):
        facts.collect(Hung(), settings.HostSettings(), [], "/nonexistent", timeout=0.2)


def test_xml_that_cannot_be_read_is_a_typed_error():
    with pytest.raises(connection.LibvirtUnavailable):
        collect(capabilities="<capabilities>")


def test_the_generation_grows_with_a_record_and_not_with_time(tmp_path):
    """S16"""
    (tmp_path / "state").mkdir(mode=0o700)
    seen = [collect(records=records, tmp_path=tmp_path)["generation"] for records in ([], [], [record(0)], [])]
    assert seen == [1, 1, 2, 3]


def test_the_age_of_a_failed_build_is_told_and_makes_no_new_generation(tmp_path, monkeypatch):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setattr(boot_time, "uptime", lambda: 100.0)
    counters.add_failed_build(str(state))
    found = []
    for now in (130.0, 190.0):
        monkeypatch.setattr(boot_time, "uptime", lambda now=now: now)
        found.append(collect(tmp_path=tmp_path))
    assert [(one["failed_builds"], one["failed_build_age_s"]) for one in found] == [(1, 30), (1, 90)]
    assert [one["generation"] for one in found] == [1, 1]


def test_what_a_disk_has_taken_already_is_read_where_it_lies(monkeypatch):
    """An instance's disks and a volume lie in different directories of a pool."""
    taken = {"/pool/instances/web": 1 << 30, "/pool/volumes/db": 3 << 30}
    monkeypatch.setattr(facts.storage_pools, "allocated_below", lambda path: taken.get(path, 0))
    web = SimpleNamespace(uuid="web", spec={}, resources={"disk_gb": 4})
    db = SimpleNamespace(uuid="db", spec={"instance": None}, resources={"disk_gb": 8})
    uses = facts._disk_uses(
        {"berth": {"path": "/pool", "device": 1}},
        {"berth": "berth"},
        "berth",
        [web, db],
        {},
        SimpleNamespace(pool="berth"),
    )
    assert uses == {"promised": 12 << 30, "owed": (3 + 5) << 30}


@pytest.mark.parametrize(
    ("wanted", "model", "reason"),
    [
        ([], None, ""),
        (["Nehalem"], "Nehalem", ""),
        (["EPYC-Genoa"], None, "guests cannot have CPU model EPYC-Genoa here"),
    ],
)
def test_a_host_that_lacks_all_cpu_models_of_its_settings_gets_no_guests(monkeypatch, wanted, model, reason):
    asked = Libvirt.getDomainCapabilities
    custom = '<mode name="custom" supported="yes"><model usable="yes">Nehalem</model>'
    monkeypatch.setattr(
        Libvirt,
        "getDomainCapabilities",
        lambda *args: asked(*args).replace('<mode name="custom" supported="yes">', custom),
    )
    found = host_document.check(collect(options={"cpu_models": wanted}))
    assert found["guest_cpu"] == {"model": model, "usable": ["Nehalem"]}
    assert (found["service"]["disabled"], found["service"]["disabled_reason"]) == (bool(reason), reason)
    assert bool(reason) == any("EPYC-Genoa" in warning for warning in found["warnings"])


def test_novas_counts_of_the_instances_on_a_host_are_its_stats():
    """S13; a foreign guest is no instance, and what is only kept for a revert is no longer here."""
    records = [
        dataclasses.replace(record(0), vm_state="active"), dataclasses.replace(record(1), vm_state="building", task_state="spawning"),
        dataclasses.replace(record(2, role="OUT"), vm_state="active"),
    ]  # fmt: skip
    document = host_document.check(collect([Domain(UUIDS[5], name="db")], records))
    stats = {name: value for name, value in HostState(document).stats.items() if name.startswith("num_")}
    assert stats == {
        "num_instances": "4", "num_vm_active": "1", "num_vm_building": "1", "num_task_None": "1", "num_task_spawning": "1",
        "num_proj_default": "2", "num_os_type_None": "2",
    }  # fmt: skip


def test_what_is_declared_of_a_host_is_seen_by_flavors_and_filters():
    """S13, S25"""
    own = {"custom_resources": {"CUSTOM_GOLD": 2}, "stats": {"tier": "gold"}}
    found = host_document.check(collect(options=own))
    assert found["custom_resources"] == {"CUSTOM_GOLD": {"total": 2, "used": 0}} and found["stats"] == {"tier": "gold"}
    plain = collect()
    assert not {"custom_resources", "stats"} & set(plain)
    asks = [{"resources:CUSTOM_GOLD": "1"}, {"capabilities:tier": "gold"}, {"capabilities:tier": "s== iron"}]
    placed = []
    for number, extra in enumerate(asks):
        flavor = {"name": "m1", "vcpus": 1, "memory_mb": 1, "root_gb": 0, "extra_specs": extra}
        for document in (found, plain):
            result = select_destinations([document], [{"uuid": "vm%d" % number, "name": "vm", "flavor": flavor}])
            placed.append(bool(result.requests[0].hosts))
    assert placed == [True, False, True, False, False, False]
