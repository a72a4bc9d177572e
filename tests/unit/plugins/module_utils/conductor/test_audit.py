# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An audit says how the registry and the hosts differ, mends the registry where the hosts prove it, and opens a restored one."""

from __future__ import annotations

import os
import shutil

import pytest
from procedure_case import run as to_the_end
from registry_case import Site

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import HostUnknown, RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import audit, enrol, keys
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.transactions import RegistryClosed


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = Site(tmp_path, monkeypatch)
    assert site.playbook("create") == {}
    site.use()
    return site


def put(site, key, document):
    site.engine.transact(Transact(writes=(keys.written(key, document),)))


def changed(site, name, **parts):
    put(site, keys.instance(site.world.uuid(name)), {**site.entry(name), **parts})


def told(ended):
    return [(each.what, each.mends) for each in ended.differences]


def restored(site, backup):
    """What restore_registry leaves."""
    site.engine.restore(backup)
    put(site, keys.META, {**site.meta(), "incarnation": "restored", "open": False})


def test_where_both_agree_nothing_is_said_or_changed_also_after_runs(site):
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    assert site.playbook("create", mark=site.mark()) == {}
    before = site.all_keys()
    ended = site.audit()
    assert (ended.changed, ended.differences, ended.mended, ended.busy) == (False, [], [], [])
    assert site.all_keys() == before


def test_an_owner_that_the_registry_lacks_is_adopted_with_all_that_it_has(site):
    right = site.all_keys()
    for key in right:
        site.engine.keys.pop(key)
    ended = site.audit()
    assert ("web1", True) in told(ended) and ended.changed
    assert site.all_keys() == right
    assert not site.audit().changed


def test_an_epoch_is_raised_and_never_lowered(site):
    changed(site, "web1", epoch=0)
    assert told(site.audit()) == [("web1", True)] and site.entry("web1")["epoch"] == 1
    changed(site, "web1", epoch=7)
    ended = site.audit()
    assert told(ended) == [("web1", False)] and "epoch 7" in ended.differences[0].text
    assert site.entry("web1")["epoch"] == 7


def test_an_owner_is_adopted_only_if_no_other_host_may_have_the_instance(site):
    there = site.owner("web1")
    other = next(host for host in site.machines if host != there)
    site.machines[other].up = False
    changed(site, "web1", owner=site.host_uuid(other), epoch=0)
    ended = site.audit()
    assert ("web1", False) in told(ended) and (other, False) in told(ended)
    assert site.entry("web1")["owner"] == site.host_uuid(other)
    assert ("web1", True) in told(site.audit(lost=[other]))
    assert site.entry("web1")["owner"] == site.host_uuid(there)
    assert site.entry("web1")["given_up"] == [site.host_uuid(other)]


def test_a_record_that_is_not_later_than_what_the_registry_knows_is_not_adopted(site):
    """As that of a host from a backup, of an instance that was deleted since."""
    changed(site, "web1", owner=None, epoch=1)
    ended = site.audit()
    assert told(ended)[0] == ("web1", False) and site.entry("web1")["owner"] is None


def test_two_owners_are_left_to_a_person(site):
    there, other = site.owner("web1"), next(host for host in site.machines if host != site.owner("web1"))
    stores = [site.machines[host].host.store.state_dir for host in (there, other)]
    os.makedirs(stores[1] + "/instances", 0o700, exist_ok=True)
    shutil.copytree(*("%s/instances/%s" % (state, site.world.uuid("web1")) for state in stores))
    ended = site.audit()
    assert told(ended)[0] == ("web1", False) and all(host in ended.differences[0].text for host in (there, other))
    assert site.entry("web1")["owner"] == site.host_uuid(there)
    # a run that asked the owner alone would start its copy beside the other one
    assert set(keys.hosts_of(site.entry("web1"))) == {site.host_uuid(there), site.host_uuid(other)}
    assert site.playbook("start", "web1", mark=site.mark()) and "keep_one_copy" in site.hints["web1"]


def moved(site, name):
    """To another host, where it waits for a confirm. -> (source, destination)"""
    source = site.owner(name)
    assert site.playbook("cold_migrate", name, mark=site.mark()) == {}
    return source, site.owner(name)


def test_where_a_move_is_open_both_agree(site):
    moved(site, "web1")
    before = site.all_keys()
    assert site.audit().differences == [] and site.all_keys() == before


def test_a_move_that_the_registry_missed_is_known_to_it_again(site):
    before = site.all_keys()
    moved(site, "web1")
    right = site.all_keys()
    for key in right:
        put(site, key, before[key])
    assert ("web1", True) in told(site.audit())
    known = right[keys.instance(site.world.uuid("web1"))]
    assert keys.hosts_of(site.entry("web1")) == keys.hosts_of(known) and site.entry("web1")["owner"] == site.host_uuid(
        site.owner("web1")
    )
    assert site.playbook("confirm_resize", "web1", mark=site.mark()) == {} and site.entry("web1")["pending"] == []


def test_a_move_that_never_came_to_its_hosts_is_over(site):
    """Its run was killed before the first leg."""
    right, other = site.all_keys(), next(host for host in site.machines if host != site.owner("web1"))
    intent = {"run": "r", "kind": keys.MOVE, "host": site.host_uuid(other), "op": "op", "claimed": True}
    changed(site, "web1", pending=[intent], amounts={**site.entry("web1")["amounts"], "cores": 2})
    site.audit()
    assert site.all_keys() == right


def test_the_source_of_a_move_that_was_lost_is_given_up(site):
    before = site.all_keys()
    source, _there = moved(site, "web1")
    for key in site.all_keys():
        put(site, key, before[key])
    site.machines[source].up = False
    assert ("web1", True) in told(site.audit(lost=[source]))
    assert site.entry("web1")["given_up"] == [site.host_uuid(source)]


def test_what_its_owner_has_removed_is_gone_and_gives_back_all(site):
    before = site.all_keys()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    for key, document in before.items():
        put(site, key, document)
    assert ("web1", True) in told(site.audit())
    assert site.entry("web1")["owner"] is None and site.entry("web1")["holds"] == []
    assert site.document(keys.name("default", "web1")) is None
    assert site.document(keys.quota("default"))["instances"] == 1


def gone_since(site, *playbooks):
    """The registry is of before a move of web1, which then was confirmed, and what more is given. -> the host that it moved to"""
    before = site.all_keys()
    _source, there = moved(site, "web1")
    for playbook in ("confirm_resize", *playbooks):
        assert site.playbook(playbook, "web1", mark=site.mark()) == {}
    for key in site.all_keys():
        put(site, key, before[key])
    return there


def test_what_was_moved_and_removed_after_the_backup_of_the_registry_is_gone(site):
    gone_since(site, "delete")
    assert ("web1", True) in told(site.audit())
    assert site.entry("web1")["owner"] is None and site.entry("web1")["holds"] == []


def test_what_was_moved_after_the_backup_is_not_gone_where_the_last_owner_lost_its_record(site):
    there = gone_since(site)
    state = site.machines[there].host.store.state_dir
    shutil.rmtree("%s/instances/%s" % (state, site.world.uuid("web1")))
    assert told(site.audit()) == [("web1", False)] and site.entry("web1")["owner"]


def test_an_audit_that_is_cut_off_has_mended_an_instance_with_its_part_of_the_quota(site):
    before = site.all_keys()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    for key, document in before.items():
        put(site, key, document)
    transact = site.engine.transact

    def first_write_alone(step):
        done = transact(step)
        site.engine.away = site.engine.away or bool(step.writes)
        return done

    site.engine.transact = first_write_alone
    with pytest.raises(RegistryUnknown):
        site.audit()
    site.engine.transact, site.engine.away = transact, False
    assert site.entry("web1")["owner"] is None
    assert site.document(keys.quota("default"))["instances"] == 1


def test_a_record_that_was_lost_is_not_taken_for_a_delete(site):
    there = site.machines[site.owner("web1")].host.store.state_dir
    shutil.rmtree("%s/instances/%s" % (there, site.world.uuid("web1")))
    ended = site.audit()
    assert told(ended) == [("web1", False)] and site.entry("web1")["owner"]


def test_a_quota_a_name_and_an_address_that_are_wrong_are_said_by_name_and_mended(site):
    right = site.all_keys()
    put(site, keys.quota("default"), {"instances": 9})
    put(site, keys.name("default", "old"), site.world.uuid("web1"))
    ended = site.audit()
    assert set(told(ended)) == {("project default", True), ("name old in project default", True)}
    assert site.all_keys() == right


def test_volumes_that_a_silent_host_may_have_still_count_in_a_quota(site):
    right = site.document(keys.quota("default"))
    told_more = {**right, "volumes": 2, "gigabytes": 9}
    put(site, keys.quota("default"), told_more)
    silent = next(host for host in site.machines if host not in (site.owner("web1"), site.owner("web2")))
    site.machines[silent].up = False
    assert told(site.audit()) == [(silent, False)]
    assert site.document(keys.quota("default")) == told_more
    site.machines[silent].up = True
    assert told(site.audit()) == [("project default", True)]


def test_what_a_run_has_begun_is_left_to_it_while_the_registry_is_open(site):
    intent = {"run": "r9", "kind": keys.CREATE, "host": site.host_uuid("kvm1"), "op": "t", "claimed": False}
    entry = {**keys.new_instance("web9", "default"), "pending": [intent], "amounts": {"instances": 1}}
    put(site, keys.instance("0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"), entry)
    put(site, keys.quota("default"), {**site.document(keys.quota("default")), "instances": 3})
    assert site.audit().differences == []


@pytest.mark.parametrize("stop", range(1, 14))
def test_what_a_run_changes_meanwhile_is_that_runs(site, stop):
    """Whether it comes between any two steps of the audit."""
    changed(site, "web1", epoch=0)
    going = site.changing(audit.audit)
    for _step in range(stop):
        next(going)
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    to_the_end(going)
    assert site.entry("web1")["owner"] is None and site.document(keys.quota("default"))["instances"] == 1
    ended = site.audit()
    assert not ended.changed and ended.differences == []


@pytest.mark.parametrize("stop", (1, 3, 9, 12))
def test_a_host_that_a_run_asks_meanwhile_does_not_make_the_registry_an_old_one(site, stop):
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    going = site.changing(audit.audit)
    for _step in range(stop):
        next(going)
    put(site, keys.quota("other"), {})  # a run tells its hosts what revision there is after it has reserved
    assert site.playbook("create", mark=site.mark()) == {}
    ended = to_the_end(going)
    assert not ended.opened and site.meta()["incarnation"] == "i1" and site.meta()["open"]


def test_check_mode_only_tells(site):
    put(site, keys.quota("default"), {"instances": 9})
    before = dict(site.engine.keys)
    assert told(site.audit(dry=True)) == [("project default", True)]
    assert site.engine.keys == before


@pytest.mark.follows("compare_all_hosts")
def test_a_restored_registry_opens_once_all_hosts_were_seen(site):
    backup = site.engine.backup()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    owner, right = site.owner("web2"), site.all_keys()
    restored(site, backup)
    assert site.playbook("create", mark=site.mark())["web1"] == "RegistryClosed" and site.owner("web1") is None
    assert "berth.kvm.audit" in site.hints["web1"]
    site.machines["kvm3"].up = False
    with pytest.raises(HostUnknown, match="kvm3"):
        site.audit()
    assert not site.meta()["open"]
    site.machines["kvm3"].up = True
    ended = site.audit()
    assert ended.opened and ("web1", True) in told(ended)
    now = {"incarnation": "restored", "open": True, "cluster": site.engine.cluster}
    assert site.meta() == {"schema": 1, "kind": "etcd", **now}
    assert site.all_keys() == right
    assert site.playbook("create", mark=site.mark()) == {} and site.owner("web2") == owner
    assert site.entry("web1")["epoch"] == 2


def test_a_restored_registry_opens_with_a_host_that_was_enrolled_after_the_backup(site):
    for key in (keys.HOSTS, keys.FACTS):
        site.engine.keys.pop(key + site.host_uuid("kvm3"))
    restored(site, site.engine.backup())
    assert site.audit().opened
    assert {mark["incarnation"] for mark in site.marks()} == {"restored"}


def test_a_restored_registry_does_not_take_the_hosts_of_another_one(site):
    restored(site, site.engine.backup())
    site.engine.keys.pop(keys.HOSTS + site.host_uuid("kvm3"))
    site.machines["kvm3"].rescan((), {"registry": {"kind": "etcd", "incarnation": "another", "revision": 1}})
    with pytest.raises(enrol.RegistryOfOthers, match="kvm3 to another"):
        site.audit()


def test_a_restored_registry_forgets_what_a_run_had_begun_before_the_backup(site):
    entry = site.entry("web1")
    intent = {"run": "r9", "kind": keys.CREATE, "host": site.host_uuid("kvm1"), "op": "t", "claimed": False}
    new = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
    put(site, keys.instance(new), {**entry, "name": "web9", "owner": None, "pending": [intent], "holds": []})
    host = site.document(keys.host(site.host_uuid("kvm1")))
    put(site, keys.host(site.host_uuid("kvm1")), {**host, "reserved": {new: {"generation": [1, 0]}}})
    restored(site, site.engine.backup())
    site.audit()
    assert site.document(keys.instance(new))["pending"] == []
    assert site.document(keys.host(site.host_uuid("kvm1")))["reserved"] == {}


def test_a_registry_that_was_restored_by_hand_becomes_another_incarnation(site):
    backup = site.engine.backup()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    assert site.playbook("create", mark=site.mark()) == {}
    owner = site.owner("web1")
    before = site.mark()
    site.engine.restore(backup)
    ended = site.audit()
    assert ended.opened and site.meta()["incarnation"] == "i2" and site.meta()["open"]
    assert site.entry("web1")["owner"] == site.host_uuid(owner) and site.entry("web1")["epoch"] == 2
    assert site.playbook("create", mark=before) == {} or site.owner("web1") == owner
    assert {mark["incarnation"] for mark in site.marks()} == {"i2"}


def test_a_registry_that_was_restored_by_hand_and_that_no_host_has_seen_newer_is_known_by_its_cluster(site):
    """All that was written since the backup was about a host that was not asked again."""
    meta = site.meta()
    site.engine.cluster = "another"
    refused = site.playbook("create", mark=site.mark())
    assert set(refused.values()) == {"RegistryRestored"}
    assert site.audit(dry=True).opened and site.meta() == meta
    assert site.audit().opened and site.meta()["incarnation"] == "i2"
    assert site.playbook("create", mark=site.mark()) == {} and not site.audit().opened


@pytest.mark.follows("audit_registry")
def test_a_host_that_has_seen_more_refuses_an_older_registry_until_it_is_restored_and_audited(site):
    backup = site.engine.backup()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    assert site.playbook("create", mark=site.mark()) == {}
    site.engine.restore(backup)
    registry_mark.act_over(site.mark())
    with pytest.raises(registry_mark.RegistryBehind) as said:
        registry_mark.check(site.machines[site.owner("web1")].host.store)
    assert "restore_registry" in said.value.hint and "berth.kvm.audit" in said.value.hint
    restored(site, backup)
    assert site.audit().opened
    assert site.playbook("create", mark=site.mark()) == {}


@pytest.mark.follows("enrol_host")
def test_a_host_that_belongs_to_no_registry_is_told_of_and_its_instances_are_not_adopted(site):
    there = site.machines[site.owner("web1")]
    there.rescan((), {"registry": None})
    changed(site, "web1", owner=None)
    ended = site.audit()
    assert ended.differences[0].what == there.name and "use_registry" in ended.differences[0].text
    assert site.entry("web1")["owner"] is None
    changed(site, "web1", epoch=0)
    site.use()
    assert site.audit().differences == [] and site.entry("web1")["owner"] == there.host.uuid


@pytest.mark.follows("fill_registry")
def test_a_registry_that_no_fleet_uses_is_not_opened_by_an_audit(site):
    site.leave()
    with pytest.raises(RegistryClosed):
        site.audit()
    assert not site.meta()["open"]
    site.engine.keys.clear()
    with pytest.raises(RegistryClosed) as said:
        site.audit()
    assert "use_registry" in said.value.hint
    site.use()
    assert not site.audit().changed
