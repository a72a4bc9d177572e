# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A create of what only -e berth_name names, while the host that has it is silent."""

from __future__ import annotations

import fake_fleet
import good

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid


def replies(host):
    """Each host remembers that h1 has x."""
    made, uuid = fake_fleet.replies(host), instance_uuid("default", "x")
    known = {
        "host": "h1",
        "host_uuid": good.host_facts("h1")[1]["ansible_facts"]["berth_host"]["uuid"],
        "generation": [1, 3],
    }
    made["host_facts"] = {
        **made["host_facts"],
        "notes": {uuid: {**good.notes(uuid)[uuid], "known": known, "planned": []}},
    }
    return made


def test_where_it_may_be_is_told_before_its_flavor_is_asked_for(tmp_path):
    done = fake_fleet.play(
        tmp_path, ["create", "-e", "berth_name=x"], change=lambda tree: fake_fleet.down(tree, "h1"), replies=replies
    )
    said = " ".join(done["said"].split())
    assert done["rc"] == 2 and "InstanceUnknown" in said and "h1" in said, said
    assert "berth_flavor" not in said, said
