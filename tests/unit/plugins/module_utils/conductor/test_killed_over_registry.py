# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What takes or gives back something in the registry is killed before and after each thing that it asks a host or the registry, over
both kinds of registry, or each answer of the engine to what it writes is lost. The next run finishes what was begun, and the one
after it changes nothing."""

from __future__ import annotations

import itertools

import pytest
import registry_case
from history_engine import carried_out, check
from history_found import NAMES, make
from history_volumes import Runs

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import drained
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import hosts, keys
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document

NAME, NEW_NAME, VOLUMES = "web1", "web9", ["db", "logs"]
FOUND = NAMES[0]  # a guest that somebody made
CREATED = ("create",)
BEFORE = {
    "create": (), "delete": CREATED, "update_disks": CREATED, "rename": CREATED, "adopt": (), "leave": ("adopt",), "shelve": CREATED,
    "unshelve": ("create", "shelve"),
}  # fmt: skip


class Killable(registry_case.Site):
    """``over``: "hosts", or "engine" where they belong to a registry there; ``kind``: of the run that is killed."""

    def __init__(self, top, monkeypatch, over, kind):
        self.name = FOUND if kind in ("adopt", "leave") else NAME
        super().__init__(top, monkeypatch, hosts=2, names=(self.name,))
        self.over, self.options = over, {"berth_volumes": VOLUMES}
        self.options.update({"berth_new_name": NEW_NAME} if kind == "rename" else {})
        if self.name == FOUND:
            make(self.world, next(iter(self.machines.values())), FOUND)
        if over == "engine":
            self.use()

    def killed(self, kind, after):
        """Whether a run of the playbook, which is killed ``after`` so many steps, had more to do."""
        self.world.engine = self.engine if self.over == "engine" else None
        run = Runs(self.world, list(self.machines), (self.name,), registry_case.Dice(), **self.options)
        run.mark = self.mark() if self.world.engine else None
        steps = getattr(run, kind)()
        cut = list(itertools.islice(steps, after))
        steps.close()
        self.world.check()
        return len(cut) == after

    def again(self, kind):
        return self.playbook(kind, mark=self.mark() if self.over == "engine" else None, **self.options)

    def check_finished(self, kind):
        """By a run, after which another one changes nothing of what the registry says."""
        assert self.again(kind) == {}
        before = self.all_keys()
        assert self.again(kind) == {} and self.all_keys() == before
        assert (self.owner(self.name) is not None) is (kind not in ("delete", "leave"))
        assert self.holds_room() is (kind not in ("delete", "shelve"))
        if self.over == "engine":
            self.world.engine = self.engine
            check(self.world)
            # A guest that is adopted has had its room before, and one that is left has it still: of these the registry hears nothing.
            assert kind in ("adopt", "leave") or self.room_in_registry() is self.holds_room()
            used = self.document(keys.quota("default"))
            names = [key for key in self.engine.keys if key.startswith(keys.NAMES)]
            called = {"delete": [], "leave": [], "rename": [NEW_NAME]}.get(kind, [self.name])
            assert names == [keys.name("default", name) for name in called]
            made = len(VOLUMES) if kind == "update_disks" else 0
            assert (used.get("volumes", 0), used.get("gigabytes", 0)) == (made, made)

    def holds_room(self):
        return any(machine.used_mb() for machine in self.machines.values())

    def room_in_registry(self):
        """Whether what the registry has of the hosts shows room taken there."""
        seen = carried_out(self.engine, hosts.hosts())
        fleet = read_fleet(hosts.reports(seen, list(self.machines), {}), host_document.check)
        return any(document["memory_mb_used"] for document in fleet.documents.values())


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """One after the other, each anew."""
    return (lambda *of, at=at: Killable(tmp_path / str(at), monkeypatch, *of) for at in itertools.count())


def begun(sites, over, kind):
    site = next(sites)(over, kind)
    for before in BEFORE[kind]:
        assert site.again(before) == {}
    return site


@pytest.mark.parametrize("kind", BEFORE)
@pytest.mark.parametrize("over", ["hosts", "engine"])
def test_what_a_run_that_was_killed_at_any_step_had_begun_is_finished_by_the_next(sites, over, kind):
    for after in itertools.count():
        site = begun(sites, over, kind)
        if not site.killed(kind, after):
            assert after > 2, "it took no steps"
            return
        site.check_finished(kind)


@pytest.mark.parametrize("done", [True, False], ids=["done", "never came"])
@pytest.mark.parametrize("kind", BEFORE)
def test_whether_a_write_was_done_whose_answer_is_lost_is_found_out(sites, kind, done):
    for before in itertools.count():
        site = begun(sites, "engine", kind)
        site.engine.lose(*[None] * before, done)
        assert site.again(kind) == {}
        if site.engine.lost:
            assert before > 0, "it wrote nothing"
            return
        site.check_finished(kind)


@pytest.mark.parametrize("kind", ["update_disks", "rename", "leave"])
def test_an_audit_ends_a_change_that_was_killed_at_any_step(sites, kind):
    for after in itertools.count():
        site = begun(sites, "engine", kind)
        if not site.killed(kind, after):
            assert after > 2, "it took no steps"
            return
        site.audit()
        assert site.entry(site.name)["pending"] == []
        assert site.audit().differences == []
        site.world.engine = site.engine
        check(site.world)


def refused_unshelve(site, meanwhile):
    """The code of its error. ``meanwhile``: what befalls after the run has found the instance."""
    site.world.engine = site.engine
    run = Runs(site.world, list(site.machines), (NAME,), registry_case.Dice())
    run.mark = site.mark()
    steps = run.unshelve()
    while not hasattr(run, "removes"):
        next(steps)
    meanwhile()
    assert list(steps), "it went on"
    assert not site.holds_room() and not site.room_in_registry()
    return run.errors[NAME]["code"]


def test_a_host_that_has_no_room_for_an_unshelve_is_shown_none_taken(sites, monkeypatch):
    site = begun(sites, "engine", "unshelve")

    def close():
        for machine in site.machines.values():
            drained.drain(machine.host.store, "maintenance")

    assert refused_unshelve(site, close) == "HostDrained"


def test_an_unshelve_takes_no_room_for_an_instance_that_another_run_has_changed_since(sites):
    site = begun(sites, "engine", "unshelve")
    key = keys.instance(site.world.uuid(NAME))
    written = keys.written(key, site.document(key))
    assert refused_unshelve(site, lambda: site.engine.transact(Transact(writes=(written,)))) == "ClaimConflict"


@pytest.mark.follows("free_name")
def test_a_name_that_a_killed_rename_has_taken_is_free_after_an_audit(sites):
    site = next(sites)("engine", "rename")
    assert site.again("create") == {}
    key = keys.name("default", NEW_NAME)
    for after in itertools.count():
        assert site.killed("rename", after)
        if key in site.engine.keys:
            break
    assert site.playbook("create", NEW_NAME, mark=site.mark()) == {NEW_NAME: "InstanceExists"}
    assert "berth.kvm.audit" in site.hints[NEW_NAME]
    site.audit()
    assert site.playbook("create", NEW_NAME, mark=site.mark()) == {}
