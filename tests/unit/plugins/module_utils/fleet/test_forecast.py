# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a move takes is told by the moves that the hosts have made."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.fleet import forecast

SIZES = {"h2": {"instances": [{"uuid": name, "memory_mb": 1024, "disk_gb": 9} for name in ("web", "db", "mail")]}}
MOVE = {"to": "h2", "how": "live", "memory_mb": 1024, "disk_gb": 1}  # a fifth of what web, db and mail are


def arrived(uuid, seconds, kind="live-migration", **more):
    events = (("%s is claimed" % kind, 0), ("acquired", seconds))
    return {
        "uuid": uuid,
        "history": [
            {"event": event, "at": "2026-11-22T00:%02d:%02dZ" % divmod(at, 60), **more} for event, at in events
        ],
    }


def told(*histories, host="h2", move=None):
    return forecast.seconds(forecast.paces({host: histories}, SIZES), {**MOVE, **(move or {})})


def test_a_move_takes_as_long_as_one_of_its_size_to_that_host_has_taken():
    assert told(arrived("web", 50)) == 10


def test_the_median_counts_so_that_one_slow_move_does_not():
    assert told(arrived("web", 50), arrived("db", 60), arrived("mail", 3000)) == 12


def test_a_host_to_which_nothing_has_moved_is_taken_to_be_as_fast_as_the_others():
    assert told(arrived("web", 50), move={"to": "h3"}) == 10


@pytest.mark.parametrize(
    "history",
    [
        arrived("web", 50, kind="migration"),
        arrived("gone", 50),
        arrived("web", 50, on="h1"),
        {"uuid": "web", "history": [{"event": "acquired", "at": "2026-11-22T00:00:00Z"}]},
        {
            "uuid": "web",
            "history": [{"event": "live-migration is claimed", "at": "then"}, arrived("web", 9)["history"][1]],
        },
        {"uuid": "web", "history": []},
    ],
    ids=["of the other kind", "of unknown size", "by another clock", "without a beginning", "without a time", "none"],
)
def test_nothing_is_said_without_a_past_move_that_tells(history):
    assert told(history) is None
