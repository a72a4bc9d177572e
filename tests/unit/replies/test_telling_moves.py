# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole playbooks of moves tell the hosts where instances are: of a move, only its two sides know."""

from __future__ import annotations

import json

import fake_fleet
import good

MISSED = "h3"


def replies(host):
    """One host remembers nothing of where instances are."""
    made = fake_fleet.replies(host)
    return {**made, "host_facts": {**made["host_facts"], "digests": {}}} if host == MISSED else made


def test_a_confirm_tells_the_host_that_has_missed_it_where_the_instances_are(tmp_path):
    done = fake_fleet.play(tmp_path, ["confirm_resize", "--limit", "at-rest-h1"], replies=replies)
    told = {
        host: [said["arguments"]["told"]["known"] for said in map(json.loads, lines) if said["module"] == "rescan"]
        for host, lines in done["asked"].items()
    }
    assert [sorted(known) for known in told[MISSED]] == [sorted(good.UUIDS.values())], done["said"][-2000:]
    assert (told["h1"], told["h2"]) == ([], [])
