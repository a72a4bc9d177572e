# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vGPUs in claims and in moves: no two instances have one slot, and what a move leaves is free again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fake_gpus import FakeGpus
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts, mdev
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live_checks, moving_host
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim
from ansible_collections.berth.kvm.plugins.module_utils.model import migration, vgpus
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, KEEP, OUT, OWN
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationPreCheckError
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

GPU, KIND = "0000:84:00.0", "nvidia-35"
FOREIGN = "99999999-3c6e-5d59-9d0b-3a1c9d7f1e2a"


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    return FakeGpus(tmp_path, monkeypatch).add(GPU, nvidia_35=2)


@pytest.fixture
def host(prepared, gpus, monkeypatch):
    """Its facts are a few numbers, and what it tells of its GPUs."""

    def collect(_connection, settings, records, *_args, **_more):
        instances = [facts._own(record, {}) for record in records]
        offered = mdev.tell(settings, records)
        return {
            "host": "kvm1", "vcpus": 16, "memory_mb": 8192, "local_gb": 100, "instances": instances, "vgpus": offered,
        }  # fmt: skip

    monkeypatch.setattr(facts, "collect", collect)
    prepared.settings = HostSettings(
        uuid=prepared.uuid, prepared=True, enabled_mdev_types=({"type": KIND, "parents": [GPU]},)
    )
    return prepared


@pytest.fixture
def asked(wanted):
    def request(name, number=1):
        return wanted(name, extra_specs={"resources:VGPU": str(number), "trait:CUSTOM_NVIDIA_35": "required"})[0]

    return request


def claimed(host, *specs):
    return claim.claim_all(host, [{"spec": spec, "token": spec["name"]} for spec in specs])


def test_no_two_instances_get_one_slot_and_a_claim_that_goes_gives_it_back(host, asked):
    """C19, C27"""
    results = claimed(host, asked("a"), asked("b"), asked("c"))
    assert [result["claimed"] for result in results] == [True, True, False]
    assert "VGPU:0000:84:00.0: needs 1, 0 free" in results[2]["error"]["message"]
    assert claimed(host, asked("c"))[0]["claimed"] is False, "the next run sees the claims, of which no device is made"
    assert len({result["allocation"]["vgpus"][0]["uuid"] for result in results[:2]}) == 2
    (again,) = claimed(host, asked("a"))
    assert (again["changed"], again["allocation"]) == (False, results[0]["allocation"])
    claim.withdraw_all(host, [{"uuid": asked("a")["uuid"], "token": "a"}])
    assert claimed(host, asked("c"))[0]["claimed"]


def test_what_others_made_is_not_claimed(host, asked, gpus):
    gpus.make(FOREIGN)
    assert [result["claimed"] for result in claimed(host, asked("a"), asked("b"))] == [True, False]


def test_a_foreign_device_under_the_instances_uuid_fails_the_claim_before_anything_is_made(host, asked, gpus):
    spec = asked("a")
    gpus.add("0000:85:00.0", nvidia_36=1)
    gpus.make(vgpus.own_uuid(spec["uuid"], 0), "0000:85:00.0", "nvidia-36")
    (result,) = claimed(host, spec)
    assert (result["claimed"], result["error"]["code"], result["error"]["retryable"]) == (
        False,
        "VgpuUnavailable",
        True,
    )
    assert host.store.read(spec["uuid"]) is None


def test_a_gpu_that_is_named_for_no_type_is_claimed_by_nobody(host, asked):
    host.settings = HostSettings(uuid=host.uuid, prepared=True)
    assert "has no VGPU" in claimed(host, asked("a"))[0]["error"]["message"]


# ---- moves


@pytest.fixture
def mover(host):
    return moving_host.MovingHost(host)


def instance(spec, host, role=OWN, phase=ACTIVE):
    allocation = moving_host.MovingHost(host).effects.allocate(spec, {})
    return plant(host.store, Record(
        uuid=spec["uuid"], name=spec["name"], project_id="default", role=role, generation=[1, 0], token="t",
        phase=phase, spec=spec, resources=allocation, op=None if phase == ACTIVE else "op1", vm_state="active",
    ))  # fmt: skip


def told(host):
    ((_parent, used),) = [(each["parent"], each["used"]) for each in mdev.tell(host.settings, host.store.records())]
    return used


def test_the_room_of_a_move_is_claimed_with_its_vgpu(mover, asked):
    (vgpu,) = mover.effects.allocate(asked("a"), {})["vgpus"]
    assert (vgpu["parent"], vgpu["type"]) == (GPU, KIND)
    with pytest.raises(Exception, match="needs 3"):
        mover.effects.allocate(asked("a", 3), {})


def test_a_source_that_stopped_its_guest_has_no_device_and_keeps_the_claim_until_it_is_confirmed(
    mover, host, asked, gpus
):
    record = instance(asked("a"), host)
    mdev.make(host, record)
    mover.effects.stop(record.uuid, 1)
    assert (gpus.made(), told(host)) == ([], 1)
    kept = plant(host.store, record.replace(role=OUT, phase=KEEP, op="op1"))
    assert told(host) == 1, "a revert goes back to it"
    mover.effects.purge(kept)
    with host.store.instance_lock(kept.uuid):
        host.store.compare_and_swap(kept, None)
    assert told(host) == 0


def test_what_a_move_leaves_behind_on_its_destination_is_removed(mover, host, asked, gpus):
    record = instance(asked("a"), host)
    mdev.make(host, record)
    gpus.make(FOREIGN)
    mover.effects.purge(record)
    assert gpus.made() == [FOREIGN]


@pytest.mark.parametrize("phase", ["resized", "resizing"])
def test_a_move_that_starts_the_guest_makes_its_device_first(mover, host, asked, gpus, monkeypatch, phase):
    """On the destination, on a source that takes it back, and where a move is given up."""
    record = instance(asked("a"), host)
    monkeypatch.setattr(mover.effects, "define", lambda _record: None)
    monkeypatch.setattr(mover.effects, "define_unless_changed", lambda _record: None)
    monkeypatch.setattr(moving_host.precopy, "tidy", lambda *_: None)
    monkeypatch.setattr(moving_host.disks, "manifest", lambda *_, **__: [])
    made_at_start = []
    monkeypatch.setattr(moving_host.domain, "start", lambda *_: made_at_start.extend(gpus.made()))
    mover.effects.start(record.replace(phase=phase))
    assert made_at_start == [record.resources["vgpus"][0]["uuid"]]


def test_a_vgpu_is_not_resized_on_one_host():
    """Both would have to be held until it is confirmed, under the same uuid."""
    with_one = {"vgpus": [{"parent": GPU, "type": KIND, "uuid": FOREIGN}]}
    for old, new in ((with_one, {}), ({}, with_one), (with_one, with_one)):
        with pytest.raises(MigrationPreCheckError, match="vGPUs"):
            migration.check_same_host("u", old, new)


def test_a_guest_with_a_vgpu_is_not_moved_live(host, asked):
    """R30"""
    record = instance(asked("a"), host)
    found, text = SimpleNamespace(snapshotListNames=lambda _flags: []), "<domain><devices/></domain>"
    assert list(live_checks._guest_problems(found, record, text)) == ["the guest holds devices of the host"]
