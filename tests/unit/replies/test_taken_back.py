# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole playbook revert_resize when the destination is lost: the source takes the instance back alone."""

from __future__ import annotations

import json

import fake_fleet
import good
import pytest

NAME = "resized"


def h2_is_down(tree):
    fake_fleet.down(tree, "h2")
    tree["all"]["children"]["instances"]["hosts"][NAME] = {}


@pytest.mark.parametrize("refuses", [False, True], ids=["all take it", "one does not"])
def test_nothing_is_taken_back_from_a_lost_host_before_every_host_has_taken_that(tmp_path, refuses):
    """The host that does not know it would take the lost host, once that is back, for the owner."""

    def made(host):
        facts = {**good.host_facts(host)[1], "notes": {}, "digests": fake_fleet.digests()}
        found = {**fake_fleet.replies(host), "host_facts": facts}
        if refuses and host == "h3":
            found["rescan"] = fake_fleet.refusal(host)
        return found

    command = ["revert_resize", "--limit", NAME, "-e", "berth_lost_hosts=h2"]
    done = fake_fleet.play(tmp_path, command, change=h2_is_down, replies=made)
    asked = {host: [json.loads(line) for line in lines] for host, lines in done["asked"].items()}
    told = [each["arguments"].get("told", {}) for each in asked["h3"] if each["module"] == "rescan"]
    assert any(each.get("after") for each in told), done["said"][-3000:]
    steps = [each["arguments"]["steps"] for each in asked["h1"] if each["module"] == "migration"]
    assert steps == ([] if refuses else [["reclaim", "start", "finish"]]), done["said"][-3000:]
    if refuses:
        assert done["rc"] and "%s was left as it is: h3 did not accept" % NAME in " ".join(done["said"].split())
