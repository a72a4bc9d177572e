# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance of a lost host is taken over, over a registry: who owns it before, while and after another host has it."""

from __future__ import annotations

import pytest
from test_over_registry import MARK, NAMES, WEB, Fleet, held, of_host

from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys


class Evacuated(Fleet):
    """web was on ``lost``, which is off. ``refuses``: of the other hosts those that see no disks of it; ``stops_at``: the run dies
    when a host is asked for this."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.lost, self.silent, self.refuses, self.stops_at = None, set(), set(), None
        assert "error" not in self.create()
        self.lost = next(iter(self.has))
        (self.copy,) = self.has.pop(self.lost)
        self.silent = {self.lost}
        self.asked.clear()

    def reply(self, name, module, given):
        if module == self.stops_at:
            raise KeyboardInterrupt
        if module == "rescan":
            return {"changed": False, "host_uuid": of_host(name), "instances": self.has.get(name, [])}
        return super().reply(name, module, given)

    def built(self, name, build):
        if build["state"] != "taken_over":
            return self.is_there(name, build) if self.has.get(name) else super().built(name, build)
        assert build["disks_of"] == of_host(self.lost) and self.others() == {self.lost, name}
        if name in self.refuses:
            error = {"code": "DisksNotHere", "message": "it sees no disks", "hint": None, "retryable": True}
            return {"uuid": build["uuid"], "reply": {"failed": True, "changed": False, "error": error}}
        self.has[name] = [held(WEB, generation=[2, 1])]
        return self.is_there(name, build)

    def is_there(self, name, build):
        instance = {"uuid": WEB, "generation": self.has[name][0]["generation"], "vm_state": "active"}
        return {"uuid": build["uuid"], "reply": {"changed": build["state"] == "taken_over", "instance": instance}}

    def others(self):
        """The hosts that a run asks about web."""
        return {name for name in NAMES if of_host(name) in keys.hosts_of(self.entry())}

    def evacuate(self, **variables):
        """What the last task of the run returns."""
        self.asked.clear()
        variables = {"berth_lost_hosts": self.lost, **variables}
        it, read = self.read("take_over", **variables)
        assert not read.get("failed"), read
        placed = it.run("placement", {"instances": ["web"], "plan": True, "take_over": True})
        plan = (placed.get("ansible_facts") or {}).get("berth_plan")
        if not plan or not plan["claims"] and not plan["build"]:
            return placed
        it.variable_manager.set_host_facts("localhost", placed["ansible_facts"])
        values = {**it.task_vars(), **it.hostvars.raw_get("web"), "inventory_hostname": "web"}
        return it.run("create_instances", {"may_fail": True}, values)


@pytest.fixture
def fleet(monkeypatch):
    return Evacuated(monkeypatch)


def claims(fleet):
    return [name for name, module in fleet.modules() if module == "claim"]


def test_another_host_owns_it_in_a_later_epoch_and_the_lost_one_is_given_up(fleet):
    before = fleet.entry()
    result = fleet.evacuate()
    assert "error" not in result, result
    (host,) = fleet.has
    entry = fleet.entry()
    assert host != fleet.lost and (entry["owner"], entry["epoch"], entry["pending"]) == (of_host(host), 2, [])
    assert entry["given_up"] == [of_host(fleet.lost)]
    assert [entry[part] for part in ("holds", "amounts")] == [before[part] for part in ("holds", "amounts")]
    quota = fleet.engine.keys[keys.quota("default")]
    assert keys.document(keys.quota("default"), quota)["instances"] == 1


def test_all_hosts_are_asked_who_sees_its_disks_and_the_new_one_over_the_registry(fleet):
    fleet.evacuate()
    assert {name for name, module in fleet.modules() if module == "host_facts"} == set(NAMES)
    (claim,) = [given for _name, module, given in fleet.asked if module == "claim"]
    assert {**MARK, "revision": claim["registry"]["revision"]} == claim["registry"]


def test_a_second_run_changes_nothing(fleet):
    fleet.evacuate()
    before = dict(fleet.engine.keys)
    result = fleet.evacuate()
    assert "error" not in result and fleet.engine.keys == before and claims(fleet) == []


def test_a_host_that_answers_is_not_lost(fleet):
    fleet.silent = set()
    fleet.has[fleet.lost] = [fleet.copy]
    result = fleet.evacuate()
    assert result.get("error_code") == "HostNotLost" and claims(fleet) == []


def test_it_stays_with_the_lost_host_where_no_other_can_have_it(fleet):
    before = fleet.entry()
    fleet.refuses = set(NAMES)
    result = fleet.evacuate()
    assert result["error"]["code"] == "MaxRetriesExceeded" and len(set(claims(fleet))) == 2
    assert fleet.entry() == before
    fleet.refuses = set()
    assert "error" not in fleet.evacuate() and fleet.others().isdisjoint({fleet.lost})


@pytest.mark.parametrize("stops_at", ["claim", "build_instances"])
def test_what_a_run_that_was_killed_had_begun_is_gone_on_with_by_the_next(fleet, stops_at):
    fleet.stops_at = stops_at
    with pytest.raises(KeyboardInterrupt):
        fleet.evacuate()
    begun = fleet.others() - {fleet.lost}
    assert fleet.entry()["owner"] == of_host(fleet.lost) and len(begun) == 1
    fleet.stops_at = None
    assert "error" not in fleet.evacuate()
    assert fleet.others() == set(fleet.has) and fleet.entry()["epoch"] == 2


def test_what_the_registry_did_not_hear_the_next_run_tells_it(fleet):
    """The engine goes away while the new host starts the guest."""
    built = fleet.built
    fleet.built = lambda *given: (built(*given), setattr(fleet.engine, "away", True))[0]
    fleet.evacuate()
    fleet.engine.away, fleet.built = False, built
    assert fleet.entry()["owner"] == of_host(fleet.lost)
    result = fleet.create()
    (host,) = fleet.has
    assert "error" not in result, result
    assert (fleet.entry()["owner"], fleet.entry()["given_up"]) == (of_host(host), [of_host(fleet.lost)])


@pytest.mark.parametrize("operation", ["take_over", "unshelve"])
def test_without_the_registry_no_host_is_asked_to_take_it(fleet, operation):
    fleet.engine.away = True
    fleet.asked.clear()
    _it, read = fleet.read(operation, berth_lost_hosts=fleet.lost)
    assert read.get("error_code") == "RegistryUnknown" and fleet.asked == []


def test_a_lost_host_that_is_back_does_not_start_it_while_the_host_that_may_have_it_is_silent(fleet):
    fleet.stops_at = "build_instances"
    with pytest.raises(KeyboardInterrupt):
        fleet.evacuate()
    (begun,) = fleet.others() - {fleet.lost}
    fleet.stops_at = None
    fleet.has[fleet.lost] = [{**fleet.copy, "vm_state": "stopped", "power_state": "shutdown"}]
    fleet.silent = {begun}
    fleet.asked.clear()
    result = fleet.operate("start")
    assert (fleet.lost, "instance") not in fleet.modules() and begun in result["msg"], result


def test_a_quota_that_is_full_keeps_nothing_from_being_taken_over(fleet):
    assert "error" not in fleet.evacuate(berth_quotas={"default": {"instances": 1}})
