# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host leaves a fleet that has a registry: not while anything is there, or may come, and then nothing comes there any more."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import registry_case
from history_engine import carried_out
from history_found import NAMES as FOUND
from history_found import make
from history_volumes import Runs

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import HostInUse, HostUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Scan
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import hosts, keys
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.leaves import LeavesEngine

HOST = "kvm1"  # on which the first instance is made


class Site(registry_case.Site):
    def remove(self, host=HOST, **options):
        return self.playbook("remove_host", mark=self.mark(), host=host, **options)

    def steps(self, kind, *names, **options):
        """A run over the registry, step by step."""
        self.world.engine = self.engine
        run = Runs(self.world, self.world.inventory, names, registry_case.Dice(), **options)
        run.mark = self.mark()
        return getattr(run, kind)()

    def cut(self, kind, *names, calls, **options):
        """A run that was killed after so many steps; whether it had more to do."""
        done = list(itertools.islice(self.steps(kind, *names, **options), calls))
        self.world.engine = None
        return len(done) == calls

    def kept(self, host=HOST):
        """What the registry keeps of the host, and what the host has of berth."""
        uuid = self.host_uuid(host)
        own = [key for key in (keys.host(uuid), keys.facts(uuid)) if key in self.engine.keys]
        return own, self.machines[host].host.settings.prepared

    def is_whole(self, host=HOST):
        own, prepared = self.kept(host)
        return len(own) == 2 and prepared

    def come_back(self, host=HOST):
        self.machines[host].prepare()
        self.world.inventory = list(self.machines)
        self.use()


GONE = ([], False)


@pytest.fixture
def site(tmp_path, monkeypatch):
    site = Site(tmp_path, monkeypatch)
    site.use()
    return site


def test_a_host_that_holds_nothing_leaves_and_comes_back_as_a_new_one(site):
    assert site.remove() == {} and site.kept() == GONE
    assert site.playbook("create", "web1", mark=site.mark()) == {} and site.owner("web1") not in (None, HOST)
    site.come_back()
    assert site.is_whole()
    assert site.playbook("create", "web2", mark=site.mark()) == {} and site.owner("web2") == HOST


def test_a_host_with_an_instance_stays(site):
    assert site.playbook("create", "web1", mark=site.mark()) == {}
    assert site.remove(site.owner("web1")) == {site.owner("web1"): "HostInUse"} and site.is_whole()


def test_a_host_with_files_of_which_nobody_knows_stays(site):
    """The registry keeps it, too."""
    left = Path(site.machines[HOST].host.pool) / "instances" / site.world.uuid("web1")
    left.mkdir(parents=True)
    assert site.remove() == {HOST: "HostInUse"} and site.is_whole()
    left.rmdir()
    assert site.remove() == {} and site.kept() == GONE


@pytest.mark.follows("end_what_was_begun")
def test_a_host_on_which_a_run_has_begun_an_instance_stays_until_that_is_given_up(site):
    calls = next(
        calls for calls in itertools.count(1) if site.cut("create", "web1", calls=calls) and site.entry("web1")
    )
    assert calls and not site.machines[HOST].host.store.records()
    assert site.remove() == {HOST: "HostInUse"} and site.is_whole()
    assert "berth.kvm.delete" in site.hints[HOST]
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    assert site.remove() == {} and site.kept() == GONE


def test_a_run_that_was_killed_anywhere_is_run_again(site):
    for calls in itertools.count(1):
        cut = site.cut("remove_host", host=HOST, calls=calls)
        assert site.remove() == {} and site.kept() == GONE
        site.come_back()
        assert site.is_whole()
        if not cut:
            assert calls > 5
            return


def test_a_host_that_has_left_and_was_not_cleaned_is_taken_in_again_by_use_registry_alone(site):
    """The run was killed."""
    carried_out(site.engine, LeavesEngine().leave(HOST, site.host_uuid(HOST), ()))
    assert HOST in site.refresh().failed and site.kept() == ([], True)
    assert [each.what for each in site.audit().differences] == [HOST] and site.kept() == ([], True)
    assert site.use().changed and site.is_whole()


def test_what_was_read_of_a_host_before_it_left_is_not_written_afterwards(site):
    document = site.machines[HOST].facts([])["document"]
    assert site.remove() == {}
    assert not carried_out(site.engine, hosts.report(HOST, document, 10.0**6)) and site.kept() == GONE


@pytest.mark.parametrize("kind, name", [("create", "web1"), ("adopt", FOUND[0])])
def test_what_another_run_brings_there_between_the_look_and_the_write_is_seen(site, kind, name):
    make(site.world, site.machines[HOST], FOUND[0])

    def answer_of(step):
        answer = site.engine.scan(step) if isinstance(step, Scan) else None
        if isinstance(step, Scan) and step.prefix == keys.INSTANCES and not site.entry(name):
            list(itertools.takewhile(lambda _step: not site.entry(name), site.steps(kind, name)))
        return answer or site.engine.transact(step)

    leaving = LeavesEngine().leave(HOST, site.host_uuid(HOST), ())
    with pytest.raises(HostInUse, match=name):
        registry_case.procedure_case.driven(leaving, answer_of)
    assert site.is_whole()


def test_what_was_chosen_for_a_host_that_has_left_since_goes_elsewhere(site):
    def has_claimed():
        return bool(site.entry("web1"))

    going = site.steps("create", "web1")
    for _step in range(4):
        next(going)
    assert not has_claimed()
    carried_out(site.engine, LeavesEngine().leave(HOST, site.host_uuid(HOST), ()))
    list(going)
    assert site.owner("web1") not in (None, HOST)


def test_a_guest_is_not_adopted_on_a_host_that_has_left(site):
    make(site.world, site.machines[HOST], FOUND[0])
    carried_out(site.engine, LeavesEngine().leave(HOST, site.host_uuid(HOST), ()))
    assert site.playbook("adopt", FOUND[0], mark=site.mark()) == {FOUND[0]: "ClaimConflict"}
    assert not site.entry(FOUND[0])


@pytest.mark.parametrize("made", [False, True])
def test_a_lost_host_leaves_by_its_name_unless_it_has_an_instance(site, made):
    if made:
        assert site.playbook("create", "web1", mark=site.mark()) == {}
    site.machines[HOST].up = False
    errors = site.remove(lost=[HOST])
    if made:
        assert errors == {HOST: "HostInUse"} and len(site.kept()[0]) == 2
        assert "berth.kvm.evacuate" in site.hints[HOST]
    else:
        assert errors == {} and site.kept()[0] == []


@pytest.mark.follows("end_moves_to_lost")
def test_a_lost_host_leaves_once_an_audit_has_ended_the_moves_to_it_that_no_host_heard_of(site):
    assert site.playbook("create", "web1", mark=site.mark()) == {}
    moving = site.steps("cold_migrate", "web1")
    assert any(site.entry("web1")["pending"] for _step in moving)
    moving.close()
    site.world.engine = None
    to = site.entry("web1")["pending"][0]["host"]
    lost = next(host for host in site.machines if site.host_uuid(host) == to)
    site.machines[lost].up = False
    assert site.remove(lost, lost=[lost]) == {lost: "HostInUse"}
    assert "berth.kvm.audit -e berth_lost_hosts=%s" % lost in site.hints[lost] and "create" not in site.hints[lost]
    site.audit()
    assert site.entry("web1")["pending"]  # it may come back
    assert site.audit(lost=[lost]).changed
    assert site.remove(lost, lost=[lost]) == {} and site.kept(lost)[0] == []
    assert (site.entry("web1")["owner"], site.entry("web1")["pending"]) == (site.host_uuid(site.owner("web1")), [])
    assert site.entry("web1")["given_up"] == [to]
    assert not site.audit().changed


@pytest.mark.parametrize("silent", [False, True])
def test_a_host_of_a_registry_is_removed_by_no_run_without_one(site, silent):
    site.machines[HOST].up = not silent
    assert site.playbook("remove_host", host=HOST, lost=[HOST] * silent) == {HOST: "RegistryOfOthers"}
    assert len(site.kept()[0]) == 2 and site.machines[HOST].host.settings.prepared


def test_a_lost_host_is_not_removed_over_a_registry_that_the_fleet_does_not_use_yet(tmp_path, monkeypatch):
    """What the other hosts remember decides there."""
    site = Site(tmp_path, monkeypatch)
    site.machines[HOST].up = False
    mark = {"kind": "etcd", "incarnation": "i1", "revision": 1}
    assert site.playbook("remove_host", mark=mark, host=HOST, lost=[HOST]) == {HOST: "RegistryClosed"}


def test_it_is_refused_before_anything_is_done_while_the_registry_gives_no_answer(site):
    site.engine.away = True
    mark = {"kind": "etcd", "incarnation": "i1", "revision": site.engine.revision}
    assert site.playbook("remove_host", mark=mark, host=HOST) == {HOST: "RegistryUnknown"}
    assert site.is_whole()


def test_a_transaction_whose_answer_is_lost_is_as_good_as_another(site):
    for done in (True, False):
        site.engine.lose(done)
        assert site.remove() == {} and site.kept() == GONE
        site.come_back()


def test_a_machine_that_answers_by_another_name_does_not_leave_with_a_lost_one(site):
    """The inventory has renamed it, and nobody has read it since."""
    carried_out(site.engine, LeavesEngine().leave(HOST, None, {site.host_uuid(HOST)}))
    assert site.is_whole()
    carried_out(site.engine, LeavesEngine().leave(HOST, None, ()))
    assert site.kept()[0] == []


def test_what_hosts_remembered_before_there_was_a_registry_does_not_keep_a_lost_host(tmp_path, monkeypatch):
    site = Site(tmp_path, monkeypatch)
    assert site.playbook("create", "web1") == {}
    at = site.owner("web1")
    site.use()
    assert site.playbook("delete", "web1", mark=site.mark()) == {}
    site.machines[at].up = False
    assert site.remove(at, lost=[at]) == {} and site.kept(at)[0] == []


def test_a_lost_host_that_was_removed_and_is_back_is_taken_in_though_the_registry_is_another_by_now(site):
    site.machines[HOST].up = False
    assert site.remove(lost=[HOST]) == {} and site.kept()[0] == []
    carried_out(site.engine, LeavesEngine().leave("kvm2", site.host_uuid("kvm2"), ()))
    site.world.inventory = [host for host in site.machines if host != HOST]
    before = site.mark()["incarnation"]
    for _again in range(2):  # each time another host is taken in, the registry gets another incarnation
        assert site.use(hosts=site.world.inventory).changed
        carried_out(site.engine, LeavesEngine().leave("kvm2", site.host_uuid("kvm2"), ()))
    assert site.mark()["incarnation"] != before
    site.machines[HOST].up = True
    site.world.inventory = list(site.machines)
    assert site.use().changed and site.is_whole()


def test_a_dead_machine_whose_name_another_one_has_is_given_up_by_its_uuid_and_leaves(site, monkeypatch):
    dead = site.host_uuid(HOST)
    assert site.remove() == {}
    new = site.machines[HOST]
    new.prepare()
    monkeypatch.setattr(new.host, "uuid", "11111111-2222-3333-4444-555555555555")
    carried_out(site.engine, hosts.report(HOST, {**new.facts([])["document"], "uuid": dead}, 1.0, still=True))
    with pytest.raises(HostUnknown, match=dead):
        site.use()
    assert site.use(lost=[dead]).changed and site.is_whole()
    assert not {keys.host(dead), keys.facts(dead)} & set(site.engine.keys)
    assert not site.use().changed
