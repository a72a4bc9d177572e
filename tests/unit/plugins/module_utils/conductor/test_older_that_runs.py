# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance runs, and another host has an old guest of it without a record, of which one host lies that it had it later."""

from __future__ import annotations

import pytest
from fleet_case import WEB

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, keep_one
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.counting import EpochImplausible


def remembers(fleet, generation):
    """h3 says that h2 had it later."""
    lie = {"hosts": {"id-h2": "h2"}, "known": {"id-h2": {WEB: generation}}}
    whereabouts.remember(fleet.hosts["h3"].store, lie)


def left_guest(fleet):
    """h1 owns the instance, which runs there, and h2 has a guest of it without a record, which is off."""
    assert fleet.run() is None
    fleet.hosts["h2"].domain = True


@pytest.mark.follows("stop_older")
@pytest.mark.parametrize("right, other", [("h1", "h2"), ("h2", "h1")])
def test_one_host_that_lies_of_a_later_owner_gives_no_record_to_an_old_guest_beside_one_that_runs(fleet, right, other):
    """With that record, while the host of the guest that runs is silent, a second one would be started."""
    left_guest(fleet)
    remembers(fleet, [9, 0])
    with pytest.raises(errors.DuplicateInstance, match="web1 runs on h1, and h2.* by the notes of h3") as told:
        fleet.recover_record()
    assert told.value.hint == fleet_hints.stop_older("web1", WEB, ["h1"], "h2")
    fleet.hosts["h1"].runs = False  # virsh shutdown
    assert fleet.recover_record() == ["h2"]
    assert keep_one.choose(fleet.read(), "web1", WEB, right, False, ()).others == [other]


def test_of_a_later_owner_no_host_is_believed_that_counts_what_no_instance_reaches(fleet):
    """The record would be older than what that host says, and refused for ever."""
    left_guest(fleet)
    remembers(fleet, [1 << 40, 0])
    with pytest.raises(EpochImplausible, match="h3"):
        fleet.recover_record()
