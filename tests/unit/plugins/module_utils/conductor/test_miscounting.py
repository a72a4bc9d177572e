# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that says far more owners of an instance than all others have heard of is left out, with all that it says."""

from __future__ import annotations

import pytest
from fleet_case import WEB
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, keep_one, locate, miscounting
from ansible_collections.berth.kvm.plugins.module_utils.model import record, state_hints


def says_of_itself(fleet, liar, part, epoch, owner="h9"):
    number = {"after": epoch, "known": {"host": owner, "host_uuid": "id-" + owner, "generation": [epoch, 0]}}
    lie = {"known": None, "planned": [], "after": 0, "gone": None, "left": None, part: number.get(part, [epoch, 0])}
    host = fleet.hosts[liar]
    facts, rescan = host.facts, host.rescan
    host.facts = lambda *args: {**facts(*args), "notes": {WEB: lie}}
    host.rescan = lambda *args: {**rescan(*args), "notes": {WEB: lie}}


@pytest.mark.follows("take_out_miscounting")
@pytest.mark.parametrize("epoch", [miscounting.LEAP, record.MOST])
@pytest.mark.parametrize("lie", ["gone", "left", "after", "known"])
def test_a_host_that_counts_what_no_instance_reaches_is_left_out_and_named(fleet, lie, epoch):
    """The next owner would count on from there, until the replies of its honest host are refused."""
    says_of_itself(fleet, "h1", lie, epoch)
    seen = fleet.read()
    assert (
        set(seen.documents) == {"h2", "h3"}
        and "EpochImplausible: it says that instance %s" % WEB in seen.verdicts["h1"]
    )
    assert state_hints.take_out_miscounting("h1") in seen.verdicts["h1"]
    assert fleet.run(prefer=("h2",)) is None and fleet.hosts["h2"].record().generation[0] == 1
    del fleet.inventory["h1"]  # as the hint says
    assert fleet.run() is None and fleet.owners() == ["h2"]


def test_what_it_says_of_another_hosts_instance_stops_nothing_and_is_not_spread(fleet):
    assert fleet.run(prefer=("h2", "h3")) is None
    plant(fleet.hosts["h1"].store, fleet.hosts["h2"].record().replace(generation=[record.MOST, 0]))
    assert fleet.run() is None
    fleet.start()
    assert fleet.delete() == ["h2"]
    assert {fleet.read().notes_on(WEB).latest[0]} == {1}


def test_its_own_instances_are_out_of_reach_as_those_of_a_silent_host(fleet):
    assert fleet.run(prefer=("h1",)) is None
    home = fleet.hosts["h1"]
    home.store.compare_and_swap(home.record(), home.record().replace(generation=[record.MOST, 0]))
    for find in (locate.locate, locate.locate_to_delete):
        with pytest.raises(errors.InstanceUnknown, match="EpochImplausible"):
            find(fleet.read(), "web1", WEB)
    with pytest.raises(errors.HostNotLost):
        locate.locate(fleet.read(), "web1", WEB, ["h1"])


def test_the_copy_that_stays_does_not_count_on_from_it(fleet):
    assert fleet.run() is None
    plant(fleet.hosts["h2"].store, fleet.hosts["h1"].record().replace(generation=[record.MOST, 0]))
    with pytest.raises(errors.InstanceUnknown, match="h2"):
        keep_one.choose(fleet.read(), "web1", WEB, "h1", True, ())
    del fleet.inventory["h2"]
    assert keep_one.choose(fleet.read(), "web1", WEB, "h1", True, ()).others == []


def test_a_number_that_a_second_host_has_heard_of_leaves_nobody_out(fleet):
    """Each of them may be honest."""
    says_of_itself(fleet, "h1", "after", 2 * miscounting.LEAP)
    says_of_itself(fleet, "h2", "after", 2 * miscounting.LEAP + 1)
    assert fleet.read().verdicts == {}


def test_what_a_single_host_may_say_leaves_the_next_owner_of_use(fleet):
    """The highest number that is believed: what was made after it is used, deleted and made again."""
    says_of_itself(fleet, "h1", "gone", miscounting.LEAP - 1)
    for _time in range(3):
        assert fleet.run(prefer=("h2", "h3")) is None and fleet.run() is None
        fleet.start()
        assert fleet.delete() == ["h2"]


def test_no_host_writes_a_record_that_no_reply_may_have(fleet):
    """Whoever says so: the controller would refuse all that its host says."""
    h1, token = fleet.hosts["h1"], "r0-0001"
    assert h1.claim_one({"token": token, "after": [record.MOST, 0]})["claimed"]
    claim = h1.record()
    with pytest.raises(record.EpochImplausible, match="web1"):
        h1.build(token)
    assert h1.record() == claim and not h1.domain
