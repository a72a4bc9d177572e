# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of two copies the one that a person chose is the instance from then on, also if its host falls silent at once (I1)."""

from __future__ import annotations

import itertools

import pytest
from fleet_case import WEB, Fleet

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, gossip, keep_one, locate


def two_owners(top):
    """h2 has what was made anew when h1 was given up, and h1 is back; both are off."""
    fleet = Fleet(top)
    assert fleet.run() is None
    fleet.silence("h1")
    fleet.hosts["h1"].runs = False  # switched off, as the person said
    assert fleet.run(lost=["h1"]) is None and fleet.owners() == ["h2"]
    fleet.silence()
    fleet.hosts["h2"].runs = False
    return fleet


def raised(host, above):
    """compute/guest/set_aside.py has its own tests."""
    record = host.record()
    if record.generation[0] <= above[0]:
        host.store.compare_and_swap(record, record.replace(generation=[above[0] + 1, 0]))


def keep(fleet, stays, lost=()):
    """The playbook keep_one, one call at a time."""
    seen = fleet.read()
    choice = keep_one.choose(seen, "web1", WEB, stays, True, lost)
    if not (choice.others or choice.comes_back):
        return
    told = gossip.will_own(seen, WEB, stays, choice.above[0], "keep")
    for name in seen.documents:
        fleet.hosts[name].rescan((), told)
        yield
    others = [fleet.hosts[name] for name in choice.others]
    for host in others:
        host.runs = False
        yield
    raised(fleet.hosts[stays], choice.above)
    yield
    for host in others:
        aside = host.store.compare_and_swap(host.record(), host.record().next(phase="setting_aside"))
        host.store.compare_and_swap(aside, None)
        host.domain = False
        yield


@pytest.mark.parametrize("stays, other", [("h1", "h2"), ("h2", "h1")])
def test_a_copy_that_was_kept_is_not_made_anew_when_its_host_falls_silent_at_once(tmp_path, stays, other):
    """Who has set the other copy aside, and whoever remembers that one, knows of the copy that stayed."""
    fleet = two_owners(tmp_path)
    list(keep(fleet, stays))
    fleet.hosts[stays].runs = True
    fleet.silence(stays)
    assert fleet.run(prefer=("h3", other)) == "InstanceUnknown" and fleet.owners() == [stays]
    fleet.silence()
    assert fleet.run() is None and fleet.owners() == [stays]
    if stays == "h1":
        noted = whereabouts.recall(fleet.hosts["h3"].store, [WEB])[WEB]
        assert noted["planned"] == [] and noted["known"]["host"] == "h1", "a known owner is planned no more"


@pytest.mark.parametrize("stays, other", [("h1", "h2"), ("h2", "h1")])
def test_of_two_copies_at_most_one_runs_wherever_the_run_is_killed_that_keeps_one(tmp_path, stays, other):
    for stop in itertools.count():
        fleet = two_owners(tmp_path / str(stop))
        steps = list(itertools.islice(keep(fleet, stays), stop))
        copies = [host.record() for host in fleet.hosts.values() if host.record()]
        fleet.hosts[stays].runs = max(copies, key=lambda copy: copy.generation) == fleet.hosts[stays].record()
        fleet.silence(stays)
        for prefer in (("h3", other), (other, "h3")):
            fleet.run(prefer=prefer)
        fleet.silence()
        list(keep(fleet, stays))
        assert fleet.run() is None and fleet.owners() == [stays], stop
        if len(steps) < stop:
            return


def test_after_a_killed_run_the_other_copy_can_be_kept_and_later_runs_need_no_second_word(tmp_path):
    """The host whose copy was to stay answers, or is lost for good."""
    for lost in ([], ["h1"]):
        fleet = two_owners(tmp_path / str(len(lost)))
        list(itertools.islice(keep(fleet, "h1"), 3))
        fleet.silence(*lost)
        if lost:
            with pytest.raises(errors.InstanceUnknown):
                locate.locate(fleet.read(), "web1", WEB)
        list(keep(fleet, "h2", lost))
        fleet.silence("h1")
        assert locate.locate(fleet.read(), "web1", WEB) == ["h2"]
