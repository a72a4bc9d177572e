# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which backups a wish keeps."""

from __future__ import annotations

import pytest
from backups_of_days import CHAINS, NOW, of_day

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup.backup_chain import needed, removable


@pytest.mark.parametrize(
    "keep, days, gone",
    [
        (None, None, []),
        (1, None, [5, 4, 3, 2, 1]),
        (2, None, [3, 2, 1]),  # the fifth stands on the fourth
        (4, None, []),
        (None, 5, [3, 2, 1]),
        (None, 1, [5, 4, 3, 2, 1]),  # the last one always stays
        (1, 7, []),  # the third is kept, with all below
        (100, 1, []),
    ],
)
def test_what_no_wish_keeps_goes_newest_first_and_never_what_stands_under_one_that_stays(keep, days, gone):
    assert [int(each[6:8]) for each in removable(CHAINS, keep, days, NOW)] == gone


def test_an_increment_whose_full_one_is_gone_is_no_reason_to_keep_others():
    assert removable([of_day(2, 1), of_day(3)], 1, None, NOW) == ["20260102T000000Z"]


def test_what_may_stand_under_one_that_stays_stays_if_nobody_can_read_what_lies_between():
    found = [of_day(1), of_day(2, 1), of_day(4, 3), of_day(5)]  # the third does not describe itself
    assert removable(found, 2, None, NOW) == []
    assert [int(each[6:8]) for each in removable(found, 1, None, NOW)] == [4, 2, 1]


def named(*days):
    return ["202601%02dT000000Z" % day for day in days]


@pytest.mark.parametrize(
    "going, stand",
    [
        ([6], {}),
        ([3], {}),
        ([3, 2], {}),
        ([1], {1: [2, 3]}),
        ([2, 4], {2: [3], 4: [5]}),
        ([1, 3], {1: [2]}),
        ([1, 2, 3, 4, 5, 6], {}),
    ],
)
def test_a_backup_goes_only_with_all_that_stand_on_it(going, stand):
    assert needed(CHAINS, named(*going)) == {named(below)[0]: named(*days) for below, days in stand.items()}


def test_one_that_does_not_describe_itself_and_all_that_may_be_below_it_do_not_go_while_another_stands_on_it():
    found = [of_day(1), of_day(4, 3)]  # the third may be there
    assert needed(found, named(3)) == {"20260103T000000Z": named(4)}
    assert needed(found, named(1)) == {"20260101T000000Z": named(4)}
    assert needed(found, named(1, 3, 4)) == {}
