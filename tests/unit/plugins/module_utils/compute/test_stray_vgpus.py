# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vGPUs that were left behind by instances of which there is no record: the doctor finds them, and removes them where that is asked for."""

from __future__ import annotations

import os
import shutil

import pytest
from fake_gpus import FakeGpus

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.model import vgpus
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

GPU, OTHER = "0000:84:00.0", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
WEB, DB = (instance_uuid("default", name) for name in ("web1", "db"))
LEFT = vgpus.own_uuid(WEB, 0)
FOREIGN = vgpus.own_uuid("99999999-3c6e-5d59-9d0b-3a1c9d7f1e2a", 0)
RUNS = "<domain><name>copy</name><uuid>%s</uuid><devices><x uuid='%s'/></devices></domain>"


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_pool", lambda _host, _fix: ())
    return FakeGpus(tmp_path, monkeypatch).add(GPU, nvidia_35=4)


def strays(host, fix=False):
    found = [one for one in doctor.look(host, fix) if one["code"] == "VgpuWithoutRecord"]
    return [(one["uuid"], one["severity"], one["fixed"]) for one in found]


def known_by_its_disks(host):
    os.makedirs(os.path.join(host.pool_path(), "instances", WEB))


def known_elsewhere(host):
    whereabouts.remember(host.store, {"hosts": {OTHER: "kvm2"}, "known": {OTHER: {WEB: [1, 1]}}})


def known_as_gone(host):
    whereabouts.removed(host.store, WEB, (1, 1))


@pytest.mark.follows("doctor_fixes")
@pytest.mark.parametrize("heard_of", [known_by_its_disks, known_elsewhere, known_as_gone])
def test_a_vgpu_of_an_instance_without_a_record_is_found_and_removed_where_that_is_asked_for(prepared, gpus, heard_of):
    heard_of(prepared)
    gpus.make(LEFT)
    gpus.make(FOREIGN)
    assert strays(prepared) == [(WEB, "warning", False)]
    assert gpus.made() == sorted([LEFT, FOREIGN]), "without being asked for it the doctor changes nothing"
    assert not os.path.exists(os.path.join(prepared.store.state_dir, "instances", WEB))
    assert strays(prepared, fix=True) == [(WEB, "warning", True)]
    assert gpus.made() == [FOREIGN] and strays(prepared) == []


def test_two_devices_of_one_instance_are_both_removed(prepared, gpus):
    known_by_its_disks(prepared)
    gpus.make(LEFT)
    gpus.make(vgpus.own_uuid(WEB, 15))
    assert strays(prepared, fix=True) == [(WEB, "warning", True)] * 2
    assert gpus.made() == []


def test_a_device_of_nobody_that_this_host_knows_is_somebody_elses(prepared, gpus):
    gpus.make(FOREIGN)
    known_by_its_disks(prepared)
    assert strays(prepared, fix=True) == [] and gpus.made() == [FOREIGN]


def test_what_a_guest_runs_with_is_not_left_behind(prepared, gpus):
    known_by_its_disks(prepared)
    gpus.make(LEFT)
    prepared.connection.defineXMLFlags(RUNS % (DB, LEFT)).createWithFlags()
    assert strays(prepared, fix=True) == [] and gpus.made() == [LEFT]


def test_an_instance_that_got_its_record_while_the_host_was_looked_at_keeps_its_vgpu(prepared, gpus, monkeypatch):
    known_by_its_disks(prepared)
    gpus.make(LEFT)
    asked = iter([None, object()])
    monkeypatch.setattr(prepared.store, "read", lambda uuid: next(asked))
    assert strays(prepared, fix=True) == [] and gpus.made() == [LEFT]


def test_a_host_without_such_a_bus_has_none(prepared, gpus):
    known_by_its_disks(prepared)
    shutil.rmtree(gpus.top)
    assert strays(prepared, fix=True) == []
