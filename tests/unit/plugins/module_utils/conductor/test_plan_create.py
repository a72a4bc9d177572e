# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a create, before a host is asked to claim anything."""

from __future__ import annotations

import copy

import pytest
from fleet_case import SPEC, Fleet

from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import CLAIMING, PLANNED
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.plan_create import (
    Request,
    Wanted,
    begin,
    to_place,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

# h1 and h2 remember nothing, h3 does not say what it does.
DIGESTS = {"h1": {}, "h2": {}, "h3": None}


def planned(seen, requests, dry=False):
    """(what the hosts are asked, the plan); what is to be placed goes to h1."""
    wanted = Wanted("r9", {name: Request(spec) for name, spec in requests.items()}, needs_majority=False, dry=dry)
    placed = to_place(wanted, seen)
    for instance in placed.instances.values():
        if "state" not in instance:
            instance.update(state=CLAIMING, host="h1", host_uuid="id-h1", alternates=[])
    procedure, asked = begin(wanted, placed, seen, 3, lambda: "t", DIGESTS), []
    while True:
        try:
            asked.append(procedure.send({} if asked else None))
        except StopIteration as ended:
            return [(step.module, sorted(step.arguments)) for step in asked], ended.value


@pytest.fixture
def seen(tmp_path):
    fleet = Fleet(tmp_path)
    assert fleet.run() is None
    return fleet.read()


def test_a_run_that_claims_nothing_tells_the_hosts_that_missed_who_owns_what(seen):
    assert planned(seen, {})[0] == [("rescan", ["h1", "h2"])]


def test_in_check_mode_nobody_is_told(seen):
    assert planned(seen, {}, dry=True)[0] == []


OTHER = {**copy.deepcopy(SPEC), "uuid": instance_uuid(SPEC["project_id"], "web2"), "name": "web2"}


def test_what_is_to_be_claimed_is_told_with_the_claims_and_not_before(seen):
    asked, plan = planned(seen, {"web2": OTHER})
    assert asked == [] and list(plan["claims"]) == ["h1"]
    known = plan["rescan"]["told"]["known"]
    assert [uuid for owned in known.values() for uuid in owned] == [SPEC["uuid"]]


def test_in_check_mode_nothing_is_claimed_and_the_plan_says_where_it_would_be(seen):
    _asked, plan = planned(seen, {"web2": OTHER}, dry=True)
    assert plan["claims"] == {} and plan["instances"]["web2"]["state"] == PLANNED
