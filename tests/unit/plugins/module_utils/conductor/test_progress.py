# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a copy is, in a line."""

from __future__ import annotations

import json

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import progress

GIB, MIB = 1 << 30, 1 << 20


def line(state="copying", **numbers):
    return progress.line("web-1", json.dumps({"state": state, "bytes": 0, "total": 10 * GIB, "rate": 0, **numbers}))


@pytest.mark.parametrize(
    "said, expected",
    [
        ({"bytes": 1.25 * GIB, "rate": 118 * MIB}, "web-1: copying 1.2 GiB of 10.0 GiB, 12 %, 118.0 MiB/s, 1m16s left"),
        ({"bytes": 0}, "web-1: copying 0 B of 10.0 GiB, 0 %"),
        ({"bytes": 9 * GIB, "rate": 1 << 10}, "web-1: copying 9.0 GiB of 10.0 GiB, 90 %, 1.0 KiB/s, 291h16m left"),
        ({"bytes": 11 * GIB, "rate": 7}, "web-1: copying 10.0 GiB of 10.0 GiB, 100 %, 7 B/s, 0s left"),
        ({"state": "migrating", "bytes": 5 * GIB}, "web-1: copying 5.0 GiB of 10.0 GiB, 50 %"),
        ({"state": "comparing"}, "web-1: comparing 10.0 GiB with the copy"),
        (
            {"state": "stopped", "bytes": 5 * GIB, "rate": GIB},
            "web-1: the time limit is over, the guest is stopped until it has arrived: copying 5.0 GiB of 10.0 GiB, 50 %, "
            "1.0 GiB/s, 5s left",
        ),
        (
            {"state": "migrating", "bytes": 5 * GIB, "slowed": 30},
            "web-1: copying 5.0 GiB of 10.0 GiB, 50 %, auto-converge slows the guest by 30 %",
        ),
    ],
)
def test_a_line_has_amount_share_rate_and_what_is_left(said, expected):
    assert line(**said) == expected


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"bytes": 1}', '{"bytes": "{{ 7 }}", "total": 1, "rate": 1}',
     '{"bytes": NaN, "total": 1, "rate": 1}', '{"bytes": 0, "total": 0, "rate": 0}', "[" * 100000],
)  # fmt: skip
def test_what_says_nothing_of_use_gives_no_line(text):
    assert progress.line("web-1", text) is None


def test_two_lines_in_which_only_the_rate_changed_have_one_amount():
    first, slower, further = (
        line(**said) for said in ({"bytes": GIB, "rate": 9}, {"bytes": GIB, "rate": 8}, {"bytes": 2 * GIB})
    )
    assert first != slower and progress.amount_in(first) == progress.amount_in(slower) != progress.amount_in(further)
    assert progress.amount_in(line("comparing")) == line("comparing")


def test_no_text_of_the_host_is_shown():
    assert "{{" not in line(state="{{ lookup('pipe', 'id') }}", bytes=GIB)
