# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host tells with its facts which instances are as their records say; what create passes over then is what a run on each would leave."""

from __future__ import annotations

import re
import types

import pytest
from instance_case import Case, Killed, made_with_nic

from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import LibvirtTimeout
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import differences
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, mend, settled
from ansible_collections.berth.kvm.plugins.module_utils.conductor import unchanged

NIC = {"network": "lan", "type": "bridge", "source": "br0", "mac": "02:00:00:00:00:01", "address": None}


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    nic = {**NIC, "security": {"groups": [], "rules": None, "allowed": []}}
    return made_with_nic(prepared, wanted("web1"), monkeypatch, nic)


def looks(*cases):
    """What the host says of them with its facts."""
    facts = [{"uuid": case.uuid, "domain_differs": mend.differing(case.instance(), case.record)} for case in cases]
    return settled.look(cases[0].host, facts, [case.uuid for case in cases])


def passed_over(case, power_state=None, spec=None, mends=False):
    """Whether create leaves it without a run of its own."""
    told = {"h1": looks(case)}
    state = {"running": "active", "shutdown": "stopped"}.get(power_state)
    wanted = {"uuid": case.uuid, "name": "web1", "host": "h1", "state": "existing", "spec": spec or case.spec}
    plan = {"build": ["web1"], "instances": {"web1": {**wanted, "berth_state": state, "mend": mends}}}
    unchanged.pass_over_unchanged(plan, told)
    assert (plan["instances"]["web1"]["state"] == "active") is not bool(plan["build"])
    return not plan["build"]


def own_run(case, power_state=None, dry=True):
    params = {
        "token": None,
        "seed": None,
        "spec": case.spec,
        "power_state": power_state,
        "shutdown_timeout": 1,
        "state": "present",
    }
    return acts.act(case.instance(), params, dry)


def test_the_address_that_the_host_knows_is_told_with_it_or_that_nobody_knows_one(web):
    assert looks(web)[0]["address"] is None
    lease = {"mac": NIC["mac"], "ipaddr": "192.0.2.20"}
    web.host.connection.networks.append(types.SimpleNamespace(DHCPLeases=lambda: [lease]))
    assert looks(web)[0]["address"] == "192.0.2.20"


@pytest.mark.parametrize("file", ["root.qcow2", "seed.iso"])
def test_an_instance_whose_files_are_gone_is_told_by_its_host_and_not_passed_over(web, file, tmp_path):
    """Its own run says what is missing; else the table would say to start it."""
    path = web.host.pool / "instances" / web.uuid / file

    def facts():
        return differences.reported_missing(web.record, web.host.pool_path)

    def told():
        return settled.look(web.host, [{"uuid": web.uuid, **facts()}], [web.uuid])

    assert "disks_missing" not in facts() and told()
    path.rename(tmp_path / "away")
    assert facts()["disks_missing"] == [str(path)] and told() == []
    assert web.instance().summary()["disks_missing"] == [str(path)]


def test_what_is_as_its_record_says_is_shown_and_left_as_it_is(web):
    before = web.record
    (told,) = looks(web)
    assert (told["uuid"], told["converged"], told["compared"]) == (web.uuid, True, True)
    assert told["instance"] == web.instance().summary() and web.record.version() == before.version()


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("power_state", [None, "running", "shutdown"])
def test_it_says_what_the_run_of_the_instance_would_say(web, running, power_state):
    if not running:
        web.instance().stopped(1)
    same = passed_over(web, power_state)
    assert same is not own_run(web, power_state)
    assert same is not own_run(web, power_state, dry=False)


@pytest.mark.parametrize("mends", [False, True])
def test_one_without_a_filter_that_is_asked_for_gets_a_run_of_its_own_where_that_is_to_be_followed(
    prepared, wanted, web, mends
):
    old = Case(prepared, wanted("web2"))
    old.spec["networks"] = [{**NIC, "mac": "02:00:00:00:00:02"}]
    old.make()
    wish = {**old.spec["networks"][0], "security": web.spec["networks"][0]["security"], "port_security": True}
    assert passed_over(old, spec={**old.spec, "networks": [wish]}, mends=mends) is not mends
    asked = {**web.spec["networks"][0], "port_security": True}
    assert passed_over(web, spec={**web.spec, "networks": [asked]}, mends=mends) is True, "it has one"


@pytest.mark.parametrize("step", ["build begin", "build disks", "build define", "build active", "start permit"])
def test_a_build_that_was_cut_off_is_not_unchanged(prepared, wanted, step):
    case = Case(prepared, wanted("web1"))
    with pytest.raises(Killed):
        case.make(killed_at=step)
    assert passed_over(case, "running") is False and passed_over(case) is False


def test_one_that_another_run_is_about_to_stop_is_left_to_a_run_of_its_own(web):
    web.host.store.compare_and_swap(web.record, web.record.next(power_state="shutdown", task_state="powering-off"))
    assert passed_over(web, "shutdown") is False


def test_one_that_moves_is_left_to_a_run_of_its_own_which_says_why(web):
    web.host.store.compare_and_swap(web.record, web.record.next(op="a" * 32))
    assert looks(web) == []


def test_only_those_are_told_that_were_asked_about_or_all_where_none_was(web, wanted):
    other = Case(web.host, wanted("web2"))
    other.make()
    for uuids, told in (([web.uuid], {web.uuid}), ([], {web.uuid, other.uuid})):
        assert {each["uuid"] for each in settled.look(web.host, [], uuids)} == told


def edit(case):
    """virsh edit"""
    case.domain.xml, count = re.subn(r"<vcpu[^<]*<", "<vcpu>7<", case.domain.xml)
    assert count == 1


@pytest.mark.parametrize("mends", [False, True])
def test_a_guest_that_somebody_changed_in_libvirt_is_left_to_a_run_of_its_own_which_tells_and_mends_it(web, mends):
    assert passed_over(web, mends=mends)
    edit(web)
    assert looks(web) == []
    assert web.domain.xml.count("<vcpu>7<") == 1


def test_what_a_run_would_mend_is_not_unchanged_though_its_record_names_no_hardware_to_compare(web):
    """As of an older version: only with ``mend`` is its guest's own hardware taken for what it is to be."""
    record = web.record
    spec = {part: value for part, value in record.spec.items() if part != "hardware"}
    web.host.store.compare_and_swap(record, record.next(spec=spec))
    edit(web)
    assert passed_over(web) and own_run(web) is False
    assert mend.mend(web.instance(), dry=True) and passed_over(web, mends=True) is False


def test_a_seed_that_is_gone_is_made_anew_only_where_that_is_asked_for(web):
    web.root.with_name("seed.iso").unlink()
    assert passed_over(web) and not passed_over(web, mends=True)


def test_other_disks_than_the_record_names_are_as_much_in_the_way_as_in_a_run_of_its_own(web):
    web.instance().stopped(1)
    web.root.rename(web.root.with_name("moved.qcow2"))
    with pytest.raises(DiskChainChanged):
        own_run(web, "running")
    assert passed_over(web, "running") is False
    for power_state in (None, "shutdown"):
        assert passed_over(web, power_state) is not own_run(web, power_state)


@pytest.mark.parametrize("power_state", ["running", "shutdown"])
def test_a_locked_instance_is_left_as_it_is_found(web, power_state):
    web.host.store.compare_and_swap(web.record, web.record.next(lock={"by": "ann", "reason": "", "at": 1}))
    assert passed_over(web, power_state) and own_run(web, power_state, dry=False) is False


HAS = {"groups": [], "rules": None, "allowed": []}
FILTERS = {
    "the same": {**NIC, "security": HAS},
    "with rules": {**NIC, "security": {"groups": ["web"], "rules": [], "allowed": []}},
    "with another address": {**NIC, "security": {**HAS, "allowed": [{"address": "192.0.2.7/32"}]}},
    "switched off": {**NIC, "security": None},
    "of a request that knows no filters": NIC,
    "of another card": {**NIC, "mac": "02:00:00:00:00:02", "security": None},
}


@pytest.mark.parametrize("nic", FILTERS.values(), ids=FILTERS)
def test_other_packet_filters_than_it_has_are_brought_by_a_run_of_its_own(web, nic):
    spec = {**web.spec, "networks": [nic]}
    assert passed_over(web, spec=spec) is not web.instance().filtered(spec, dry=True)


def test_the_members_of_a_security_group_are_no_reason_for_a_run_of_its_own(web):
    """The run that follows them is another, see update_filters.py."""
    rule = {"direction": "in", "protocol": "tcp", "ports": "80-80", "remote_group": "web"}
    security = {"groups": ["web"], "rules": [rule], "allowed": []}
    has = {**NIC, "security": {**security, "members": {"web": {web.uuid: ["address 192.0.2.9 on bridge br0"]}}}}
    web.host.store.compare_and_swap(web.record, web.record.next(spec={**web.record.spec, "networks": [has]}))
    spec = {**web.spec, "networks": [{**NIC, "security": security}]}
    settled.packet_filter.define(web.host.connection, web.record)
    assert passed_over(web, spec=spec) and not web.instance().filtered(spec, dry=True)


def test_a_packet_filter_that_somebody_removed_is_brought_back_by_a_run_of_its_own(web):
    web.instance().stopped(1)
    web.host.connection.nwfilterLookupByName(settled.packet_filter.name(web.uuid, 0)).undefine()
    assert looks(web) == [] and web.instance().filtered(web.spec, dry=True)


def test_a_record_that_changes_between_look_and_run_is_the_runs_to_judge(web):
    """A guest that was started after the look: its own run finds nothing to do."""
    web.instance().stopped(1)
    assert passed_over(web, "running") is False
    web.instance().started()
    assert own_run(web, "running", dry=False) is False


def test_libvirt_that_does_not_answer_is_not_waited_for_with_each_instance(web, wanted, monkeypatch):
    asked = []

    def hangs(_connection, record):
        asked.append(record.uuid)
        raise LibvirtTimeout("hangs")

    Case(web.host, wanted("web2")).make()
    monkeypatch.setattr(settled.packet_filter, "missing", hangs)
    assert settled.look(web.host, []) == [] and len(asked) == 1


def test_a_damaged_record_hides_no_other(web, wanted, monkeypatch):
    other, describe = Case(web.host, wanted("web2")), settled.summary.describe
    other.make()

    def shown(record, power):
        return describe(record, power) if record.uuid == other.uuid else {}["damaged"]

    monkeypatch.setattr(settled.summary, "describe", shown)
    assert [each["uuid"] for each in looks(web, other)] == [other.uuid]
