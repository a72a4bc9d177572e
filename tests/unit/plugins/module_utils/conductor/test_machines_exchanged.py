# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two names of the inventory reach each other's machine: from some moment of a run on, as after new leases of DHCP or the
failover of an address, or for a while; or a machine has another name in the inventory than others know it by."""

from __future__ import annotations

import pytest
from fleet_case import renamed

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints

CALLS = 12  # of a run of create to hosts, at most; the plan is made after the first three


def exchanged(fleet):
    fleet.inventory["h1"], fleet.inventory["h2"] = fleet.inventory["h2"], fleet.inventory["h1"]


@pytest.mark.parametrize("lasting", [5, CALLS])
@pytest.mark.parametrize("before", range(6))
def test_a_create_during_which_two_machines_are_exchanged_leaves_no_owner_that_others_know_elsewhere(
    fleet, before, lasting
):
    for number, _call in enumerate(fleet.create()):
        if number in (before, before + lasting):
            exchanged(fleet)
        fleet.check()
    assert fleet.run() is None and len(fleet.owners()) == 1
    fleet.silence(*fleet.owners())
    assert fleet.run() == "InstanceUnknown" and len(fleet.owners()) == 1


@pytest.mark.follows("unlisted")
@pytest.mark.parametrize("has", ["a new name", "left the inventory"])
def test_of_an_instance_on_a_silent_host_that_was_renamed_nobody_is_told_to_give_up_the_old_name_first(fleet, has):
    """That name would give up the machine, which may be starting just now."""
    assert fleet.run() is None
    fleet.silence("h1")
    renamed(fleet, "h1") if has == "a new name" else fleet.inventory.pop("h1")
    assert fleet.run(prefer=("h2", "h3")) == "InstanceUnknown"
    assert fleet.hint == fleet_hints.unlisted("h1", ["other"] if has == "a new name" else [])
    assert ("bring other back first" in fleet.hint) == (has == "a new name")
    fleet.silence()
    fleet.inventory.setdefault("other", fleet.hosts["h1"])
    assert fleet.run() is None and fleet.owners() == ["h1"]


@pytest.mark.follows("replaced")
def test_while_an_exchanged_machine_is_silent_it_is_to_come_back_before_a_name_is_given_up(fleet):
    """Its old name answers with the other machine, and would give up the silent one, on which the guest may run."""
    assert fleet.run() is None
    exchanged(fleet)
    fleet.silence("h1")
    assert fleet.run(prefer=("h3",)) == "InstanceUnknown"
    assert fleet.hint == fleet_hints.replaced("h1", "id-h1", ["h2"])
    assert fleet.hint.startswith("If it has another name by now, bring h2 back first. ")
    fleet.silence()
    assert fleet.run() is None and fleet.owners() == ["h1"]
