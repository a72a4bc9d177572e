# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""create gives up no data by the name of a lost host alone, and says which it gives up where a person names the instance."""

from __future__ import annotations

import uuid

import pytest
from placement_case import VM, controller, facts

from ansible_collections.berth.kvm.plugins.module_utils.conductor.outcome_of_create import outcomes
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import place_instances

HOST = {"host": "h9", "host_uuid": str(uuid.uuid4())}
OWNER = {"known": {**HOST, "generation": [1, 4]}, "planned": [], "after": 0, "gone": None, "left": None}
PLANNED = {"known": None, "planned": [{**HOST, "run": "r1"}], "after": 0, "gone": None, "left": None}
WEB = {**VM, "berth_disks": [{"name": "db", "size_gb": 3}]}
LOST = {"berth_lost_hosts": "h9"}
SILENT = {"h9": {"reason": "UNREACHABLE: no route to host"}}


def create(variables=None, note="its owner", vm=None, check_mode=False, **args):
    note = OWNER if note == "its owner" else note
    it = controller({"web": vm or WEB}, {**LOST, **(variables or {})}, silent=["h9"])
    told = {"h1": {"ansible_facts": facts("h1"), "notes": {instance_uuid("default", "web"): note} if note else {}}}
    it.register("localhost", __berth_facts={"answers": {**told, "h2": {"ansible_facts": facts("h2")}, **SILENT}})
    return it.run("placement", {"instances": ["web"], "plan": True, **args}, check_mode=check_mode)


def planned(result):
    return result["ansible_facts"]["berth_plan"]["instances"]["web"]


@pytest.mark.follows("rebuild_lost")
@pytest.mark.parametrize("note", [OWNER, PLANNED], ids=["it was there", "a run meant to make it there"])
def test_naming_a_host_lost_makes_nothing_anew_that_the_host_may_have(note):
    failures = create(note=note)["failures"]
    assert list(failures) == ["web"]
    error = failures["web"]
    assert error["code"] == "DataWouldBeLost" and error["hint"] == fleet_hints.rebuild_lost("web", ["h9"])
    assert "what may be on h9: root disk 1 GiB, data disk db 3 GiB" in error["message"]
    assert "-e berth_rebuild_lost=web makes it again, empty" in error["hint"]
    assert planned(create({"berth_rebuild_lost": "web"}, note=note))["state"] == "claiming"


def test_who_names_another_instance_gives_up_nothing_of_this_one():
    assert create({"berth_rebuild_lost": "web2,db"})["failures"]["web"]["code"] == "DataWouldBeLost"


def test_what_nobody_remembers_on_the_lost_host_is_new_and_gives_up_nothing():
    found = planned(create(note=None))
    assert found["state"] == "claiming" and "gives_up" not in found


def test_a_volume_that_no_host_has_may_be_on_the_lost_one():
    data = {"berth_volumes_defined": {"data": {"size_gb": 2}}}
    vm = {**VM, "berth_volumes": ["data"]}
    error = create(data, note=None, vm=vm)["failures"]["web"]
    assert error["code"] == "DataWouldBeLost" and "h9: volume data 2 GiB" in error["message"]
    assert planned(create({**data, "berth_rebuild_lost": ["web"]}, note=None, vm=vm))["state"] == "claiming"


@pytest.mark.parametrize("check_mode", [True, False], ids=["--check", "a run"])
def test_the_run_says_before_and_the_table_after_what_is_given_up(check_mode, monkeypatch):
    said = []
    monkeypatch.setattr(place_instances, "warn", said.append)
    plan = create({"berth_rebuild_lost": "web"}, check_mode=check_mode)["ansible_facts"]["berth_plan"]
    given_up = "gives up what may be on h9: root disk 1 GiB, data disk db 3 GiB"
    assert any(given_up in line and "web is made empty" in line for line in said)
    plan["instances"]["web"]["state"] = "planned" if check_mode else "active"
    (row,) = outcomes(plan)
    assert "made empty; %s" % given_up in row.why


def test_a_take_over_keeps_the_disks_and_needs_no_such_word():
    assert planned(create(take_over=True, vm={**WEB, "berth_networks": []}))["state"] == "claiming"


def evacuate(note, fenced=("h9",)):
    it = controller({"web": {**VM, "berth_networks": []}}, {}, silent=["h9"])
    told = {"h1": {"ansible_facts": facts("h1"), "notes": {instance_uuid("default", "web"): note} if note else {}}}
    it.register("localhost", __berth_facts={"answers": {**told, "h2": {"ansible_facts": facts("h2")}, **SILENT}})
    it.register("localhost", __berth_fenced={"hosts": list(fenced), "evidence": "fence_x says so", "changed": True})
    done = it.run("placement", {"instances": ["web"], "plan": True, "take_over": True})
    return done["ansible_facts"]["berth_plan"]["instances"]


def test_what_was_on_a_host_that_the_run_has_fenced_is_taken_over_without_a_persons_word():
    assert evacuate(OWNER)["web"]["take_over"] == HOST["host_uuid"]


@pytest.mark.parametrize(
    "note", [None, {**OWNER, "known": {**OWNER["known"], "host": "h8"}}], ids=["unknown", "elsewhere"]
)
def test_what_was_not_on_that_host_is_no_business_of_the_evacuation(note):
    assert evacuate(note) == {}
