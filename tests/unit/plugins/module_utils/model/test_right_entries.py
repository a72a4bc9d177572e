# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a catalog that has wrong entries."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput, joined
from ansible_collections.berth.kvm.plugins.module_utils.model.right_entries import RightEntries
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import (
    AvailabilityZoneNotFound,
    FlavorNotFound,
)

RIGHT = {"vcpus": 1, "memory_mb": 64, "root_gb": 1}
WRONG = {**RIGHT, "vcpus": "two"}


def flavors(value):
    return RightEntries({"berth_flavors": value})


@pytest.mark.parametrize(
    "value", [{"a": RIGHT, "b": WRONG}, [{"name": "a", **RIGHT}, {"name": "b", **WRONG}]], ids=["mapping", "list"]
)
def test_the_right_entries_are_there_and_the_wrong_ones_are_not(value):
    assert list(flavors(value).catalog.flavors) == ["a"]


def test_a_wrong_entry_is_not_told_as_one_that_there_is_not():
    assert flavors({"a": RIGHT, "small": WRONG}).told(FlavorNotFound.named("berth_flavor", "small", ["a"])) is None


def test_a_misspelt_name_is_told_with_that_of_the_wrong_entry_that_was_meant():
    told = flavors({"a": RIGHT, "small": WRONG}).told(FlavorNotFound.named("berth_flavor", "smal", ["a"]))
    assert str(told) == "berth_flavor: there is no flavor smal. Did you mean small?"


def test_nothing_is_told_of_names_where_no_name_is_known():
    assert flavors("small").told(FlavorNotFound.named("berth_flavor", "smal", [])) is None


def test_a_flavor_that_is_withheld_keeps_its_own_words():
    withheld = FlavorNotFound.withheld("berth_flavor", "a", "is disabled", [])
    assert flavors({"a": {**RIGHT, "disabled": True}, "b": WRONG}).told(withheld) is withheld


def test_a_zone_is_unknown_only_where_each_aggregate_is_right():
    error = AvailabilityZoneNotFound.named("berth_availability_zone", "a", ["nova"])
    assert RightEntries({"berth_aggregates": {"a": {"hosts": 5}}}).told(error) is None
    assert RightEntries({"berth_aggregates": {"a": {"hosts": ["h1"]}}}).told(error) is error


def test_of_several_faults_those_stay_that_do_not_need_the_wrong_entries():
    own = InvalidInput("berth_disks", 1, "a list")
    told = flavors({"small": WRONG}).told(joined([FlavorNotFound.named("berth_flavor", "small", []), own]))
    assert told is own and not told.also
