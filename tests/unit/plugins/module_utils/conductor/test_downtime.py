# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a guest was away is counted from the step that stops it to the end of the one that starts it."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import downtime
from ansible_collections.berth.kvm.plugins.module_utils.conductor.sequences import SEQUENCES


def test_from_the_stop_on_one_host_to_the_start_on_the_other():
    """presend, in which the guest runs, does not count; what passes between two answers does."""
    took = {"presend": 600.0, "freeze": 4.0, "send": 5.0, "release": 1.0}
    away = downtime.after({}, ("presend", "freeze", "send", "release"), took, 1000.0)
    assert away == {"since": 990.0}
    assert downtime.after(away, ("acquire", "start"), {"acquire": 1.0, "start": 2.0}, 1006.0) == {"seconds": 16.0}


def test_what_follows_the_start_does_not_count():
    took = {"reclaim": 1.0, "start": 2.0, "finish": 7.0}
    assert downtime.after({"since": 90.0}, ("reclaim", "start", "finish"), took, 110.0) == {"seconds": 13.0}


def test_on_one_host_it_is_what_the_steps_took():
    took = {"freeze": 4.0, "resize_here": 0.5, "start": 2.0}
    assert downtime.after({}, ("freeze", "resize_here", "start"), took, 100.0) == {"seconds": 6.5}


def test_a_run_that_did_not_see_the_stop_says_nothing():
    assert downtime.after({}, ("acquire", "start"), {"start": 2.0}, 100.0) == {}
    assert downtime.described({"away": None, "move": {"executing": True}}) is None


def test_of_a_live_migration_it_is_what_the_source_measured():
    assert downtime.measured({"downtime_ms": 431}) == {"seconds": 0.431}
    assert downtime.measured({"downtime_ms": None}) == downtime.measured({}) == {}


@pytest.mark.parametrize("view", [{"downtime_ms": 431, "executing": False}, {"executing": True}])
def test_it_is_said_whether_the_source_or_the_destination_had_the_last_word(view):
    """The source has no guest any more when the two ended it between them."""
    assert downtime.described({"away": 0.431, "move": view}) == "guest was away for 431ms"


@pytest.mark.parametrize(
    "seconds, words", [(-0.1, "0ms"), (0.0004, "0ms"), (0.9996, "1.0s"), (2.34, "2.3s"), (10.2, "11s"), (74.2, "1m15s")]
)
def test_a_short_time_is_told_with_its_fraction(seconds, words):
    assert downtime.described({"away": seconds, "move": {"executing": True}}) == "guest was away for " + words


@pytest.mark.parametrize("name", ["resize", "resize_here", "revert"])
def test_the_steps_that_stop_and_start_a_guest_are_those_of_the_sequences(name):
    away = {}
    for leg in SEQUENCES[name].legs:
        away = downtime.after(away, leg.steps, dict.fromkeys(leg.steps, 1.0), 0.0)
    assert set(away) == {"seconds"}
