# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who gives what is missing, as the hint says, is understood."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.action import ask_fleet
from ansible_collections.berth.kvm.plugins.module_utils.fleet import assertions
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.address_pool import choose
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.schema import Text


@pytest.mark.follows("add_quotes")
def test_a_number_in_quotes_is_text():
    with pytest.raises(InvalidInput) as caught:
        Text().check(2, "berth_flavor")
    assert caught.value.hint == input_hints.add_quotes()
    assert Text().check("2", "berth_flavor") == "2"


@pytest.mark.follows("write_assertions")
def test_a_list_of_assertions_as_the_hint_has_it_is_read():
    with pytest.raises(InvalidInput) as caught:
        assertions.read({"survive": 1}, "a.yml")
    assert caught.value.hint == fleet_hints.write_assertions()
    assert assertions.read([{"name": "any host may fail", "survive": 1}], "a.yml")


@pytest.mark.follows("enlarge_pool")
def test_a_range_more_gives_an_address():
    taken = {"192.0.2.200"}
    assert choose(["192.0.2.200-192.0.2.200"], taken, "web1/0") is None
    assert choose(["192.0.2.200-192.0.2.200", "192.0.2.201-192.0.2.201"], taken, "web1/0") == "192.0.2.201"


@pytest.mark.follows("give_hosts_of_question")
def test_a_host_to_be_gone_or_to_be_like_makes_a_question():
    asked = {"question": "what_if", "gone": [], "like": []}
    with pytest.raises(InvalidInput) as caught:
        ask_fleet._check_hosts(asked, ["h1"])
    assert caught.value.hint == fleet_hints.give_hosts_of_question()
    ask_fleet._check_hosts({**asked, "gone": ["h1"]}, ["h1"])
    ask_fleet._check_hosts({**asked, "like": ["h1"]}, ["h1"])
