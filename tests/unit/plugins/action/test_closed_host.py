# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that the inventory closed for maintenance, and that is off, is not taken for lost."""

from __future__ import annotations

import uuid

import pytest
from placement_case import VM, controller, facts

from ansible_collections.berth.kvm.plugins.module_utils.conductor import silence
from ansible_collections.berth.kvm.plugins.module_utils.conductor.outcome_of_create import creation, outcomes
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

H9 = {"host": "h9", "host_uuid": str(uuid.uuid4())}
OWNER = {"known": {**H9, "generation": [1, 4]}, "planned": [], "after": 0, "gone": None, "left": None}
PLANNED = {"known": None, "planned": [{**H9, "run": "r1"}], "after": 0, "gone": None, "left": None}
CLOSED = {"berth_host_disabled": True, "berth_host_disabled_reason": "new disks"}
POOLED = {"berth_networks_defined": {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24",
                                             "pool": {"ranges": ["192.0.2.8/30"]}}}}  # fmt: skip


def create(note="its owner", closed=None, variables=None, vm=None):
    note = OWNER if note == "its owner" else note
    it = controller({"web": vm or VM, "h9": CLOSED if closed is None else closed}, variables, silent=["h9"])
    told = {"ansible_facts": facts("h1"), "notes": {instance_uuid("default", "web"): note} if note else {}}
    silent = {"reason": "UNREACHABLE: no route to host"}
    it.register(
        "localhost", __berth_facts={"answers": {"h1": told, "h2": {"ansible_facts": facts("h2")}, "h9": silent}}
    )
    result = it.run("placement", {"instances": ["web"], "plan": True})
    return result, result["ansible_facts"]["berth_plan"]


@pytest.mark.parametrize("word", [True, "true", "yes"])
def test_an_instance_on_a_closed_host_that_is_off_is_no_failure_and_is_told_with_the_reason(word):
    result, plan = create(closed={**CLOSED, "berth_host_disabled": word})
    assert not result["failures"] and not plan["claims"] and plan["failed"] == []
    (row,) = outcomes(plan)
    assert (row.state, row.host) == ("away", "h9") and "closed by the inventory (new disks)" in row.why
    assert "berth_lost_hosts" not in "\n".join(creation(plan, outcomes(plan)))


@pytest.mark.parametrize("closed", [{}, {"berth_host_disabled": False}])
def test_an_instance_on_a_host_that_nobody_closed_is_not_passed_over(closed):
    result, _plan = create(closed=closed)
    assert result["failures"]["web"]["code"] == "InstanceUnknown"
    assert result["failures"]["web"]["hint"] == hints.bring_back_or_lost(["h9"])


def test_what_a_run_only_meant_to_make_on_a_closed_host_waits_for_it():
    result, _plan = create(PLANNED)
    assert result["failures"]["web"]["hint"] == hints.bring_back(["h9"])


@pytest.mark.follows("bring_back")
def test_no_advice_gives_up_a_host_that_was_closed():
    result, _plan = create(None, variables=POOLED, vm={**VM, "berth_networks": ["lan"]})
    error = result["failures"]["web"]
    assert error["code"] == "AddressesUnknown" and error["hint"] == hints.bring_back(["h9"])
    reasons = {"h9": silence.closed("UNREACHABLE: no route to host", "by the inventory", ""), "h8": "UNREACHABLE"}
    assert "berth_lost_hosts" not in silence.hint(["h8", "h9"], reasons)
    assert "berth_lost_hosts=h8" in silence.hint(["h8"], reasons)


def test_a_host_that_is_closed_and_answers_is_as_before():
    assert silence.is_there("LibvirtTimeout: x") and not silence.is_closed("LibvirtTimeout: x")
