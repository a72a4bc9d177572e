# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host says with a plausible number that another host's instance is its own, gone or elsewhere: how far that goes
(docs/security.md). An honest destination of a move says the same, and only its source could confirm it."""

from __future__ import annotations

import pytest
from fleet_case import WEB
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, locate

OWNER, LIAR, OTHER = "h1", "h2", "h3"


def says_that_it_owns(fleet):
    plant(fleet.hosts[LIAR].store, fleet.hosts[OWNER].record().replace(generation=[2, 0]))


def created(fleet):
    """(error of a create, the hosts where the guest runs; what the liar runs is not the guest)"""
    for _call in fleet.create(prefer=(OTHER,)):
        pass
    return fleet.error, [name for name in fleet.owners() if name != LIAR]


@pytest.fixture
def believed(fleet):
    """While the owner is silent the liar was believed once, and what it said was told to the others."""
    assert fleet.run(prefer=(OWNER,)) is None
    fleet.silence(OWNER)
    says_that_it_owns(fleet)
    assert created(fleet) == (None, [OWNER])
    return fleet


def test_an_owner_that_answers_loses_its_instance_to_no_host_that_says_it_has_it(fleet):
    assert fleet.run(prefer=(OWNER,)) is None
    says_that_it_owns(fleet)
    assert created(fleet) == ("DuplicateInstance", [OWNER])
    for find in (locate.locate, locate.locate_to_delete):
        with pytest.raises(errors.DuplicateInstance):
            find(fleet.read(), "web1", WEB)
    del fleet.inventory[LIAR]
    assert created(fleet) == ("RecordOutdated", [OWNER])
    assert fleet.recover_record(lost=[LIAR]) == [OWNER]
    assert created(fleet) == (None, [OWNER])


def test_an_owner_that_was_silent_meanwhile_has_its_guest_and_a_person_chooses(believed):
    before = believed.hosts[OWNER].record()
    believed.silence()
    assert created(believed) == ("DuplicateInstance", [OWNER])
    with pytest.raises(errors.DuplicateInstance):
        locate.locate_to_delete(believed.read(), "web1", WEB)
    assert believed.hosts[OWNER].record() == before and believed.hosts[OWNER].domain


def test_once_believed_it_can_have_it_made_anew_while_the_owner_is_silent_and_no_longer(believed):
    """What docs/security.md says that one host can do: nobody else could tell it from a move and a delete."""
    before = believed.hosts[OWNER].record()
    believed.hosts[LIAR].delete((2, 9))
    assert created(believed) == (None, [OWNER, OTHER])
    believed.silence()
    assert created(believed)[0] == "DuplicateInstance"
    assert believed.hosts[OWNER].record() == before and believed.hosts[OWNER].domain


def test_a_host_that_nobody_knew_to_have_it_ends_nothing_by_saying_that_it_is_gone(fleet):
    assert fleet.run(prefer=(OWNER,)) is None
    fleet.silence(OWNER)
    whereabouts.removed(fleet.hosts[LIAR].store, WEB, (5, 0))
    assert created(fleet) == ("InstanceUnknown", [OWNER])


def test_what_it_says_of_a_later_owner_stops_the_instance_and_names_it_until_it_is_taken_out(fleet):
    assert fleet.run(prefer=(OWNER,)) is None
    whereabouts.remember(fleet.hosts[LIAR].store, {"hosts": {"id-h3": OTHER}, "known": {"id-h3": {WEB: [5, 0]}}})
    with pytest.raises(errors.RecordOutdated, match="by the notes of %s" % LIAR):
        locate.locate(fleet.read(), "web1", WEB)
    assert created(fleet) == ("RecordOutdated", [OWNER])
    del fleet.inventory[LIAR]
    assert created(fleet) == (None, [OWNER])
