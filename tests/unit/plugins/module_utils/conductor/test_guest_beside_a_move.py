# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest without a record, while both sides of a move have theirs and neither owns the instance yet."""

from __future__ import annotations

import pytest
from fleet_case import WEB
from records import OP, in_a_move, plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, locate
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import RESIZE, new_migration

UUID = "%s2222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def in_a_move_to_h2(fleet, generation):
    """h1 let go of the instance for h2, which has not taken it over; h3 has a guest without a record."""
    assert fleet.run() is None
    record = fleet.hosts["h1"].record()
    for number, host in enumerate(fleet.hosts.values(), 1):
        host.uuid = UUID % number
    left = record.replace(role="OUT", phase="keep", op=OP, generation=generation)
    there = {"uuid": UUID % 2, "name": "h2"}
    migration = new_migration(OP, RESIZE, {"uuid": UUID % 1, "name": "h1"}, there, record, record.spec, 0)
    plant(fleet.hosts["h1"].store, left.replace(migration=migration))
    fleet.hosts["h2"].store.restore(in_a_move(left.replace(role="IN", phase="incoming", generation=[1, 9])))
    fleet.hosts["h1"].runs = False
    fleet.hosts["h3"].domain = True


@pytest.mark.follows("undefine_copies")
@pytest.mark.parametrize("known", [None, [1, 9]])
def test_a_guest_without_a_record_beside_both_sides_of_a_later_move_goes_as_the_hint_says(fleet, known):
    """Neither side owns the instance in that moment, and a record of that guest would be of no use."""
    in_a_move_to_h2(fleet, [2, 0])
    if known:
        whereabouts.remember(fleet.hosts["h1"].store, {"hosts": {UUID % 3: "h3"}, "known": {UUID % 3: {WEB: known}}})
    with pytest.raises(errors.DomainWithoutRecord) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert told.value.hint == state_hints.undefine_copies(WEB, ["h3"], True)


def test_but_not_where_hosts_remember_that_it_was_there_after_that_move(fleet):
    in_a_move_to_h2(fleet, [2, 0])
    whereabouts.remember(fleet.hosts["h1"].store, {"hosts": {UUID % 3: "h3"}, "known": {UUID % 3: {WEB: [3, 0]}}})
    with pytest.raises(errors.DomainWithoutRecord) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert told.value.hint == state_hints.restore_record("web1", "h3")
