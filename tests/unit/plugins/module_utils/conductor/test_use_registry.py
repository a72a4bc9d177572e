# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet goes from the hosts alone to a registry and back, with the same instances, also where a run is cut off at any step."""

from __future__ import annotations

import itertools

import pytest
import records
from procedure_case import run as to_the_end
from registry_case import Site

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    HostNotLost,
    HostUnknown,
    InstanceMoving,
    RecordOutdated,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import enrol, keys
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = Site(tmp_path, monkeypatch)
    assert site.playbook("create") == {}
    return site


def test_the_registry_says_what_the_hosts_have_and_they_belong_to_it(site):
    ended = site.use()
    assert (ended.changed, ended.hosts, ended.instances, ended.differences) == (True, 3, 2, [])
    told = {"incarnation": "i1", "open": True, "cluster": site.engine.cluster}
    assert site.meta() == {"schema": 1, "kind": "etcd", **told}
    assert {mark["incarnation"] for mark in site.marks()} == {"i1"}
    for name in site.world.names:
        entry = site.entry(name)
        assert (entry["owner"], entry["epoch"], entry["pending"]) == (site.host_uuid(site.owner(name)), 1, [])
        assert site.document(keys.name("default", name)) == site.world.uuid(name)
    assert site.document(keys.quota("default"))["instances"] == 2
    assert {key for key in site.engine.keys if key.startswith(keys.FACTS)} == {
        keys.facts(machine.host.uuid) for machine in site.machines.values()
    }


def test_runs_over_the_registry_go_on_with_the_same_instances_and_runs_without_one_are_refused(site):
    before = {name: site.owner(name) for name in site.world.names}
    site.use()
    assert site.playbook("create", mark=site.mark()) == {}
    assert {name: site.owner(name) for name in site.world.names} == before
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    assert site.playbook("create", "web1") == {"web1": "MaxRetriesExceeded"}
    assert site.owner("web1") is None
    assert site.playbook("create", "web1", mark=site.mark()) == {}
    assert site.entry("web1")["epoch"] == 2


def test_what_hosts_remember_beyond_what_an_owner_says_is_looked_at(site):
    """A record from a backup of its host: another host remembers a later one."""
    there = site.machines[site.owner("web1")]
    other = next(machine for machine in site.machines.values() if machine is not there)
    uuid = site.world.uuid("web1")
    whereabouts.remember(
        other.host.store, {"known": {there.host.uuid: {uuid: [5, 0]}}, "hosts": {there.host.uuid: there.name}}
    )
    with pytest.raises(RecordOutdated, match="web1"):
        site.use()
    assert site.meta() is None


def test_to_the_registry_again_changes_nothing(site):
    site.use()
    before = dict(site.engine.keys)
    assert not site.use().changed
    assert site.engine.keys == before


def test_hosts_that_are_alone_again_know_what_the_registry_knew(site):
    site.use()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    assert site.leave().changed and not site.leave().changed
    assert site.marks() == [None, None, None] and not site.meta()["open"]
    assert site.playbook("create", "web1", mark=site.mark()) == {"web1": "RegistryClosed"}
    assert "berth.kvm.use_registry" in site.hints["web1"]
    assert site.playbook("create") == {}
    machine = site.machines[site.owner("web1")]
    assert machine.host.store.read(site.world.uuid("web1")).generation[0] == 2


def test_what_only_the_registry_knew_is_told_to_the_hosts(site):
    """Where it was made over the registry, on a host that is lost then."""
    site.use()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    assert site.playbook("create", "web1", mark=site.mark()) == {}
    lost = site.machines[site.owner("web1")]
    lost.on = lost.up = False
    site.leave(lost=[lost.name])
    uuid = site.world.uuid("web1")
    for machine in site.machines.values():
        if machine is not lost:
            known = whereabouts.recall(machine.host.store, [uuid])[uuid]["known"]
            assert (known["host"], known["generation"]) == (lost.name, [2, 0])


def test_a_host_that_is_given_up_as_lost_stays_the_owner_of_what_it_had(site):
    """The hosts remember it, and then the registry, and then the hosts again."""
    lost = site.owner("web1")
    site.machines[lost].on = site.machines[lost].up = False
    with pytest.raises(HostUnknown, match=lost):
        site.use()
    assert site.marks() == [None, None, None] and site.meta() is None
    assert site.use(lost=[lost]).changed
    assert site.entry("web1")["owner"] == site.host_uuid(lost)
    assert site.playbook("create", "web1", mark=site.mark()) == {"web1": "InstanceUnknown"}
    site.leave(lost=[lost])
    assert site.playbook("create", "web1") == {"web1": "InstanceUnknown"}


def test_a_lost_host_that_answers_is_not_lost(site):
    with pytest.raises(HostNotLost):
        site.use(lost=["kvm1"])
    assert site.meta() is None


def begin_move(site):
    store, uuid = site.machines[site.owner("web1")].host.store, site.world.uuid("web1")
    records.plant(store, records.in_a_move(store.read(uuid).next(phase="resizing")))


def begin_move_meanwhile(site, procedure):
    """After the hosts were found at rest, while they get their marks. The change then goes on to its end."""
    before, going = site.marks(), site.changing(procedure)
    while site.marks() == before:
        next(going)
    begin_move(site)
    with pytest.raises(InstanceMoving, match="web1"):
        to_the_end(going)


def test_an_open_move_keeps_the_fleet_where_it_is(site):
    begin_move(site)
    with pytest.raises(InstanceMoving, match="web1"):
        site.use()
    assert site.meta() is None and site.marks() == [None, None, None]


@pytest.mark.parametrize("from_registry", [False, True])
def test_a_move_that_begins_meanwhile_has_the_change_undone(site, from_registry):
    if from_registry:
        site.use()
    marks = site.marks()
    begin_move_meanwhile(site, enrol.leave_registry if from_registry else enrol.use_registry)
    assert [mark and mark["incarnation"] for mark in site.marks()] == [mark and mark["incarnation"] for mark in marks]
    assert site.meta()["open"] is from_registry
    assert site.playbook("create", "web2", mark=site.mark() if from_registry else None) == {}


def test_a_registry_is_not_opened_again_once_a_host_may_have_left_it(site):
    """A leave is cut off among the hosts, one of which then makes an instance that the registry never hears of."""
    site.use()
    going = site.changing(enrol.leave_registry)
    while registry_mark.read(site.machines["kvm1"].host.store.state_dir):
        next(going)
    going.close()
    begin_move_meanwhile(site, enrol.leave_registry)
    assert not site.meta()["open"] and site.marks() == [None, None, None]


def test_in_check_mode_nothing_changes(site):
    assert site.use(dry=True).changed
    assert site.meta() is None and site.marks() == [None, None, None]
    site.use()
    before = dict(site.engine.keys)
    assert site.leave(dry=True).changed
    assert site.engine.keys == before


@pytest.mark.follows("name_its_registry")
def test_hosts_of_another_registry_are_not_taken_away_from_it(site):
    site.use()
    there = site.engine
    site.engine = type(there)()
    of_others = {"schema": 1, "kind": "etcd", "incarnation": "others", "open": True}
    site.engine.transact(Transact(writes=(keys.written(keys.META, of_others),)))
    before = dict(site.engine.keys)
    with pytest.raises(enrol.RegistryOfOthers, match="kvm1 to i1") as said:
        site.use()
    assert site.engine.keys == before and "kvm1, kvm2, kvm3" in said.value.hint
    site.engine = there
    assert not site.use().changed


def test_an_empty_registry_takes_over_from_one_that_is_lost_with_all_its_backups(site):
    """Only with all hosts there: of what a lost one had nobody else knows."""
    site.use()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    site.engine = type(site.engine)()
    away = next(host for host in site.machines if host != site.owner("web2"))
    site.machines[away].up = False
    with pytest.raises(enrol.RegistryOfOthers):
        site.use(lost=[away])
    site.machines[away].up = True
    assert site.use().changed and {mark["incarnation"] for mark in site.marks()} == {"i2"}
    assert site.playbook("create", mark=site.mark()) == {}
    assert site.entry("web1")["epoch"] == 2


def test_hosts_that_do_not_come_to_an_empty_registry_after_all_stay_with_theirs(site):
    site.use()
    there, marks = site.engine, site.marks()
    site.engine = type(there)()
    begin_move_meanwhile(site, enrol.use_registry)
    assert site.marks() == marks and not site.meta()["open"]


def test_a_host_of_the_fleet_that_the_inventory_lacks_keeps_it_where_it_is(site):
    away = site.machines.pop("kvm3")
    with pytest.raises(HostUnknown, match="kvm3"):
        site.use()
    assert site.meta() is None and registry_mark.read(away.host.store.state_dir) is None


def test_a_host_that_joins_is_taken_in_with_what_it_has(site):
    joins = site.machines.pop(site.owner("web1"))
    for machine in site.machines.values():
        told = {joins.host.uuid: {"name": None, "changes": 2}}
        whereabouts.take_in_members(machine.host.store, told)
    site.use()
    site.machines[joins.name] = joins
    assert site.use().changed
    assert site.entry("web1")["owner"] == joins.host.uuid
    assert site.document(keys.quota("default"))["instances"] == 2
    assert site.playbook("create", "web1", mark=site.mark()) == {}


def _steps(site, procedure):
    """One by one; whoever closes it is cut off there."""
    return site.changing(procedure)


@pytest.mark.long
@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_run_that_is_cut_off_at_any_step_is_finished_by_the_next(tmp_path, monkeypatch, direction):
    """And in between no two runs make one instance: one over the registry and one without it."""
    procedure = enrol.use_registry if direction == "to" else enrol.leave_registry
    for cut in itertools.count():
        with monkeypatch.context() as patch:
            site = Site(tmp_path / str(cut), patch, hosts=2)
            assert site.playbook("create", "web1") == {}
            if direction == "from":
                site.use()
            owners = {name: site.owner(name) for name in site.world.names}
            going = _steps(site, procedure)
            steps = list(itertools.islice(going, cut))
            going.close()
            made = [site.playbook("create", "web2", mark=mark) == {} for mark in (None, _mark(site))]
            site.world.check()
            assert made.count(True) <= 1 or site.owner("web2"), "a run on each side went on after step %d" % cut
            if made.count(True):
                owners["web2"] = site.owner("web2")
            to_the_end(_steps(site, procedure))
            assert {name: site.owner(name) for name in site.world.names} == owners
            assert site.playbook("create", mark=site.mark() if direction == "to" else None) == {}
            _check_end(site, direction)
            if len(steps) < cut:
                break
    assert cut > 15


def _mark(site):
    return site.mark() if site.meta() else {"kind": "etcd", "incarnation": "i1", "revision": 1}


def _check_end(site, direction):
    for name in site.world.names:
        assert site.owner(name)
        if direction == "to":
            assert site.entry(name)["owner"] == site.host_uuid(site.owner(name))
    if direction == "to":
        assert site.document(keys.quota("default"))["instances"] == 2
        assert site.meta()["open"] and {mark["incarnation"] for mark in site.marks()} == {"i1"}
    else:
        assert not site.meta()["open"] and site.marks() == [None, None]


def test_all_that_is_raised_has_a_hint(site):
    site.machines["kvm1"].up = False
    with pytest.raises(BerthError) as said:
        site.use()
    assert said.value.hint
