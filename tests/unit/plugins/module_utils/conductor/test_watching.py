# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a watch evacuates a host without a person, and when it never does."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import watching
from ansible_collections.berth.kvm.plugins.module_utils.conductor.watching import EVACUATE, NEVER, TELL, Limits

LIMITS = Limits(seconds=300, most=1, share=50)
KEPT = {"at": 1000.0, "down": {"kvm3": 700.0}, "evacuated": []}


def judge(down=("kvm3",), silent=None, hosts=4, kept=None, policy=EVACUATE, limits=LIMITS, now=1060.0):
    silent = len(down) if silent is None else silent
    return watching.judge(down, silent, hosts, kept or KEPT, dict.fromkeys(down, policy), limits, now)


def test_a_host_that_is_down_for_the_set_time_is_evacuated():
    found = judge()
    assert found.evacuate == ["kvm3"] and not found.told and found.kept == {**KEPT, "at": 1060.0}


def test_before_that_it_waits():
    found = judge(kept={**KEPT, "at": 900.0}, now=999.0)
    assert found.waits == {"kvm3": 299} and not found.evacuate


def test_the_first_pass_only_begins_to_count():
    found = judge(kept={**KEPT, "at": 0.0, "down": {}})
    assert found.waits == {"kvm3": 0} and found.kept["down"] == {"kvm3": 1060.0} and not found.evacuate


def test_a_host_that_answered_in_between_begins_anew():
    kept = judge(down=()).kept
    assert kept["down"] == {} and judge(kept=kept, now=1100.0).waits == {"kvm3": 0}


@pytest.mark.parametrize("now", [1300.0, 999.0])
def test_after_a_pause_or_with_a_clock_that_went_back_nothing_is_known(now):
    assert judge(now=now).waits == {"kvm3": 0}


@pytest.mark.parametrize("policy, told", [(TELL, {"kvm3"}), (NEVER, set())])
def test_its_policy_leaves_it_to_a_person_or_to_nobody(policy, told):
    found = judge(policy=policy)
    assert not found.evacuate and set(found.told) == told


def test_if_more_are_down_than_may_be_evacuated_none_is():
    kept = {**KEPT, "down": {"kvm2": 700.0, "kvm3": 700.0}}
    found = judge(down=("kvm2", "kvm3"), kept=kept)
    assert not found.evacuate and set(found.told) == {"kvm2", "kvm3"}
    more = Limits(300, 2, 50)
    assert judge(down=("kvm2", "kvm3"), kept=kept, limits=more).evacuate == ["kvm2", "kvm3"]


def test_if_too_many_are_silent_the_controller_is_cut_off_and_none_is_evacuated():
    found = judge(silent=3)
    assert found.cut_off and not found.evacuate
    assert not judge(silent=2).cut_off


BOTH = {"at": 1000.0, "down": {"kvm2": 700.0, "kvm3": 700.0}, "evacuated": []}


def test_a_host_that_was_evacuated_and_stays_off_is_left_alone_and_counts_for_no_limit():
    """Else the next host that fails would wait for a person for as long as the first one is being repaired."""
    found = judge(down=("kvm2", "kvm3"), kept=watching.evacuated(BOTH, ["kvm3"]), limits=Limits(300, 1, 34))
    assert (found.evacuate, found.done, found.told, found.cut_off) == (["kvm2"], ["kvm3"], {}, False)
    assert found.kept["evacuated"] == ["kvm3"], "the pass after that knows it, too"


def test_it_is_no_sign_that_the_controller_is_reached_either():
    """Of the two hosts that are left one is silent: half of all that could answer."""
    kept = watching.evacuated(BOTH, ["kvm3"])
    assert judge(down=("kvm2", "kvm3"), hosts=3, kept=kept, limits=Limits(300, 1, 49)).cut_off


def test_one_that_answered_since_is_a_host_like_others():
    back = judge(down=(), kept=watching.evacuated(KEPT, ["kvm3"])).kept
    assert back["evacuated"] == [] and judge(kept=back, now=1100.0).waits == {"kvm3": 0}


def test_after_a_pause_it_is_looked_at_anew():
    found = judge(kept=watching.evacuated(KEPT, ["kvm3"]), now=1300.0)
    assert (found.done, found.waits) == ([], {"kvm3": 0})
