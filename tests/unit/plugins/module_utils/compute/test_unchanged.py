# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run on a host says which of its instances are there as they are wanted; it decides as a run on each of them does."""

from __future__ import annotations

import re

import pytest
from instance_case import Case, Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import LibvirtTimeout
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import mend, network, unchanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.modules import instance as module

NIC = {"network": "lan", "type": "bridge", "source": "br0", "mac": "02:00:00:00:00:01", "address": None}


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    monkeypatch.setattr(network, "check", lambda *_: None)
    prepared.connection.complete_as("pc-q35-7.2", 3)
    case = Case(prepared, wanted("web1"))
    case.spec["networks"] = [{**NIC, "security": {"groups": [], "rules": None, "allowed": []}}]
    case.make()
    return case


def look(case, power_state=None, spec=None, mends=False):
    wanted = {"uuid": case.uuid, "spec": spec or case.spec, "power_state": power_state, "mend": mends}
    (found,), warnings = unchanged.look(case.host, [wanted])
    assert found["uuid"] == case.uuid
    return found["unchanged"], found["instance"], warnings


def own_run(case, power_state=None, dry=True):
    params = {
        "token": None,
        "seed": None,
        "spec": case.spec,
        "power_state": power_state,
        "shutdown_timeout": 1,
        "state": "present",
    }
    return module.act(case.instance(), params, dry)


def test_what_is_as_it_is_wanted_is_shown_and_left_as_it_is(web):
    before = web.record
    same, shown, warnings = look(web)
    assert same and warnings == []
    assert shown == web.instance().summary() and web.record.version() == before.version()


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("power_state", [None, "running", "shutdown"])
def test_it_says_what_the_run_of_the_instance_would_say(web, running, power_state):
    if not running:
        web.instance().stopped(1)
    same, _shown, _warnings = look(web, power_state)
    assert same is not own_run(web, power_state)
    assert same is not own_run(web, power_state, dry=False)


@pytest.mark.parametrize("step", ["build begin", "build disks", "build define", "build active", "start permit"])
def test_a_build_that_was_cut_off_is_not_unchanged(prepared, wanted, step):
    case = Case(prepared, wanted("web1"))
    with pytest.raises(Killed):
        case.make(killed_at=step)
    assert look(case, "running")[0] is False


def test_an_instance_that_the_host_does_not_have_is_not_unchanged(prepared, wanted):
    assert look(Case(prepared, wanted("web1"))) == (False, None, [])


def test_one_that_another_run_is_at_is_left_to_a_run_of_its_own_which_waits_for_that(web, monkeypatch):
    waits = []
    monkeypatch.setattr(
        unchanged, "Instance", lambda *given, timeout: waits.append(timeout) or Instance(*given, timeout)
    )
    with Store(web.host.store.state_dir).instance_lock(web.uuid, timeout=0):
        assert look(web) == (False, None, [])
    assert look(web)[0] is True and waits == [0, 0]


def test_one_that_moves_is_left_to_a_run_of_its_own_which_says_why(web):
    web.host.store.compare_and_swap(web.record, web.record.next(op="a" * 32))
    assert look(web) == (False, None, [])


def test_one_that_cannot_be_told_hides_no_other(web, wanted):
    other = Case(web.host, wanted("web2"))
    asked = [{"uuid": case.uuid, "spec": case.spec, "power_state": None} for case in (other, web)]
    found, _warnings = unchanged.look(web.host, asked)
    assert [(each["uuid"], each["unchanged"]) for each in found] == [(other.uuid, False), (web.uuid, True)]


def test_what_the_inventory_says_otherwise_is_warned_of(web):
    spec = {**web.spec, "flavor": {**web.spec["flavor"], "name": "large"}}
    same, _shown, warnings = look(web, spec=spec)
    assert same and "the inventory says large" in warnings[0]


def test_more_warnings_than_a_reply_may_have_are_left_to_runs_of_their_own(web, monkeypatch):
    spec = {**web.spec, "flavor": {**web.spec["flavor"], "name": "large"}, "image": {**web.spec["image"], "name": "x"}}
    monkeypatch.setattr(unchanged, "MOST_WARNINGS", 1)
    assert look(web, spec=spec) == (False, None, [])


def edit(case):
    """virsh edit"""
    case.domain.xml, count = re.subn(r"<vcpu[^<]*<", "<vcpu>7<", case.domain.xml)
    assert count == 1


@pytest.mark.parametrize("mends", [False, True])
def test_a_guest_that_somebody_changed_in_libvirt_is_left_to_a_run_of_its_own_which_tells_and_mends_it(web, mends):
    assert look(web, mends=mends)[0] is True
    edit(web)
    assert look(web, mends=mends) == (False, None, [])
    assert web.domain.xml.count("<vcpu>7<") == 1


def test_what_a_run_would_mend_is_not_unchanged_though_its_record_names_no_hardware_to_compare(web):
    """As of an older version: only with ``mend`` is its guest's own hardware taken for what it is to be."""
    record = web.record
    spec = {part: value for part, value in record.spec.items() if part != "hardware"}
    web.host.store.compare_and_swap(record, record.next(spec=spec))
    assert look(web, mends=True)[0] is True
    edit(web)
    assert look(web)[0] is True and own_run(web) is False
    assert mend.mend(web.instance(), dry=True) and look(web, mends=True)[0] is False


def test_other_disks_than_the_record_names_are_as_much_in_the_way_as_in_a_run_of_its_own(web):
    web.instance().stopped(1)
    web.root.rename(web.root.with_name("moved.qcow2"))
    with pytest.raises(DiskChainChanged):
        own_run(web, "running")
    assert look(web, "running") == (False, None, [])
    for power_state in (None, "shutdown"):
        assert look(web, power_state)[0] is not own_run(web, power_state)


@pytest.mark.parametrize("power_state", ["running", "shutdown"])
def test_a_locked_instance_is_left_as_it_is_found(web, power_state):
    web.host.store.compare_and_swap(web.record, web.record.next(lock={"by": "ann", "reason": "", "at": 1}))
    same, shown, _warnings = look(web, power_state)
    assert same and shown["locked"] and own_run(web, power_state, dry=False) is False


def test_other_packet_filters_are_brought_by_a_run_of_its_own(web):
    nic = {**NIC, "security": {"groups": ["web"], "rules": [], "allowed": []}}
    assert look(web, spec={**web.spec, "networks": [nic]}) == (False, None, [])


def test_a_record_that_changes_between_look_and_run_is_the_runs_to_judge(web):
    """A guest that was started after the look: its own run finds nothing to do."""
    web.instance().stopped(1)
    assert look(web, "running")[0] is False
    web.instance().started()
    assert own_run(web, "running", dry=False) is False


def test_libvirt_that_does_not_answer_is_not_waited_for_with_each_instance(web, wanted, monkeypatch):
    asked = []

    def hangs(instance, *_args):
        asked.append(instance.uuid)
        raise LibvirtTimeout("hangs")

    other = Case(web.host, wanted("web2"))
    monkeypatch.setattr(unchanged.power, "would_converge", hangs)
    two = [{"uuid": case.uuid, "spec": case.spec} for case in (web, other)]
    assert unchanged.look(web.host, two) == ([], []) and asked == [web.uuid]


def test_a_damaged_record_hides_no_other(web, wanted, monkeypatch):
    other = Case(web.host, wanted("web2"))
    other.make()
    summary = Instance.summary
    monkeypatch.setattr(Instance, "summary", lambda self: summary(self) if self.uuid == web.uuid else {}["damaged"])
    two = [{"uuid": case.uuid, "spec": case.spec} for case in (other, web)]
    found, _warnings = unchanged.look(web.host, two)
    assert [each["unchanged"] for each in found] == [False, True]
