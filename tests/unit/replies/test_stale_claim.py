# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole playbook create when a killed one left a claim on another host than that of the instance: it is withdrawn by its
token after both hosts were read again."""

from __future__ import annotations

import json

import fake_fleet

NAME, TOKEN = "at-rest-h1", "ab" * 16


def replies(host):
    found = fake_fleet.replies(host)
    if host == "h2":
        own = fake_fleet.replies("h1")
        document = found["host_facts"]["ansible_facts"]["berth_host"]
        claimed = next(
            each for each in own["host_facts"]["ansible_facts"]["berth_host"]["instances"] if each["name"] == NAME
        )
        document["instances"].append({**claimed, "role": "CLAIM", "phase": "claimed", "generation": [0, 1]})
        document["num_instances"] += 1
        scanned = next(each for each in own["rescan"]["instances"] if each["name"] == NAME)
        left = {**scanned, "role": "CLAIM", "phase": "claimed", "generation": [0, 1], "token": TOKEN}
        found["rescan"]["instances"].append(left)
    return found


def test_the_claim_is_withdrawn_by_the_token_that_it_has_now(tmp_path):
    done = fake_fleet.play(tmp_path, ["create", "--limit", NAME], replies=replies)
    asked = {host: [json.loads(line) for line in lines] for host, lines in done["asked"].items()}
    claims = {host: [each["arguments"] for each in lines if each["module"] == "claim"] for host, lines in asked.items()}
    withdrawn = [entry for each in claims["h2"] for entry in each["withdraw"]]
    assert [entry["token"] for entry in withdrawn] == [TOKEN], done["said"][-3000:]
    assert not claims["h1"] and not claims["h3"] and done["rc"] == 0
