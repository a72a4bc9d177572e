# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an instance returns to after a drain, and what the hosts remember of a host that is closed."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import maintenance, majority, moving

VIEW = {"spec": {"uuid": "u", "home": "k3"}}


@pytest.mark.parametrize(
    "spec, drains, home", [({}, True, "k1"), ({"home": "k3"}, True, "k3"), ({"home": "k3"}, False, None)]
)
def test_the_first_drain_says_the_home_and_any_other_move_ends_that(spec, drains, home):
    assert maintenance.home(spec, "k1", drains) == home


@pytest.mark.parametrize("home", [None, "k1"])
def test_the_request_of_a_move_has_the_home_that_was_decided_and_no_earlier_one(home):
    assert moving.request(VIEW, None, "migration", [], home=home).get("home") == home


def members(**closed):
    return {"k3": {"name": "kvm3", "changes": 2, **closed}, "k1": {"name": "kvm1", "changes": 1}}


def test_a_closed_host_is_one_that_two_of_the_hosts_that_answer_remember_so():
    told = members(closed="new memory")
    assert majority.closed({"a": told, "b": told, "c": members()}) == {"kvm3": "new memory"}
    assert majority.closed({"a": told, "b": members(), "c": members()}) == {}


def test_a_return_makes_all_forget_it():
    lists = dict.fromkeys("abc", members(closed="new memory"))
    assert majority.closing(lists, "k3", "kvm3", "new memory") == {}
    opened = majority.closing(lists, "k3", "kvm3", "")
    assert opened == {"k3": {"name": "kvm3", "changes": 3}}
    assert majority.closed(dict.fromkeys("abc", {**members(), **opened})) == {}
