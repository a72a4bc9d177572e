# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts own one instance, and a person has said which copy stays."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import keep_one
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    DuplicateRuns,
    InstanceMoving,
    InstanceUnknown,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, take_over_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def fleet(verdicts=None, **copies):
    """A fleet of h1 ...: what each has of the instance, {generation, ...}."""
    documents = {}
    for number, (host, changes) in enumerate(copies.items()):
        copy = {
            "uuid": WEB,
            "role": "OWN",
            "phase": "active",
            "vm_state": "active",
            "power_state": "shutdown",
            **changes,
        }
        documents[host] = {"uuid": "host-%d" % number, "instances": [copy]}
    return Fleet(documents, verdicts or {})


def choose(copies, stays="h1", confirmed=False, verdicts=None, lost=()):
    return keep_one.choose(fleet(verdicts, **copies), "web1", WEB, stays, confirmed, lost)


def test_the_copy_that_stays_passes_the_highest_of_all_others():
    """Whatever the others wrote, each of them is behind it from then on."""
    choice = choose({"h1": {"generation": [1, 9]}, "h2": {"generation": [2, 1]}, "h3": {"generation": [4, 0]}})
    assert (choice.stays, choice.others, choice.above) == ("h1", ["h2", "h3"], [4, 0])


def test_of_copies_that_run_none_is_set_aside_before_a_person_has_looked():
    copies = {
        host: {"generation": [1, 1], "power_state": power} for host, power in (("h1", "running"), ("h2", "paused"))
    }
    with pytest.raises(DuplicateRuns, match="h1 and on h2"):
        choose(copies)
    assert choose(copies, confirmed=True).others == ["h2"]


def test_one_that_runs_and_one_that_is_off_need_no_second_word():
    assert choose({"h1": {"generation": [1, 1], "power_state": "running"}, "h2": {"generation": [1, 1]}}).others == [
        "h2"
    ]


def test_a_host_that_does_not_own_it_is_not_where_it_stays():
    copies = {"h1": {"generation": [1, 1], "role": "OUT", "phase": "keep"}, "h2": {"generation": [2, 1]}}
    with pytest.raises(InvalidInput, match="h2"):
        choose(copies)


def test_what_is_no_owner_is_not_set_aside():
    copies = {"h1": {"generation": [1, 1]}, "h2": {"generation": [0, 1], "role": "CLAIM", "phase": "claimed"}}
    assert choose(copies) == keep_one.Choice("h1", [], [])


@pytest.mark.parametrize("reason", ["UNREACHABLE: no answer", "LibvirtUnavailable: libvirtd is off"])
def test_while_a_host_is_silent_nobody_says_that_there_is_one_copy(reason):
    copies, verdicts = {"h1": {"generation": [1, 1]}}, {"h2": reason}
    with pytest.raises(InstanceUnknown, match="another copy may be on h2"):
        choose(copies, verdicts=verdicts)
    assert choose(copies, verdicts=verdicts, lost=["h2"]).others == []
    copies["h3"] = {"generation": [2, 1]}
    assert choose(copies, verdicts=verdicts).others == ["h3"]  # that one is set aside all the same


@pytest.mark.parametrize("moving", ["h1", "h2"])
def test_a_copy_on_the_move_is_not_chosen_from(moving):
    copies = {host: {"generation": [1, 1]} for host in ("h1", "h2")}
    copies[moving].update(phase="resized")
    with pytest.raises(InstanceMoving, match=moving):
        choose(copies)


@pytest.mark.follows("keep_what_moves")
@pytest.mark.parametrize("phase", ["resizing", "resized"])
def test_the_later_copy_stays_though_it_is_in_a_move_and_is_set_aside_by_nobody(phase):
    """An older copy came back with a backup: without a way to put that away the move could never end."""
    copies = {"h1": {"generation": [1, 5]}, "h2": {"generation": [2, 2], "phase": phase}}
    with pytest.raises(InstanceMoving) as refused:
        choose(copies)
    assert refused.value.hint == take_over_hints.keep_what_moves("web1", "h2")
    assert choose(copies, "h2") == keep_one.Choice("h2", ["h1"], [1, 5])


def test_a_copy_in_a_move_that_is_not_the_later_one_is_not_kept():
    copies = {"h1": {"generation": [3, 1]}, "h2": {"generation": [2, 2], "phase": "resized"}}
    for stays in copies:
        with pytest.raises(InstanceMoving) as refused:
            choose(copies, stays)
        assert refused.value.hint == hints.confirm_or_revert_left("web1", "h2")
