# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory may have variables of others that are named as those of our roles: the playbooks give the roles their own."""

from __future__ import annotations

import json

import good
from fake_fleet import play

OTHER = "b6d96948-6d17-5672-b867-812a60ea7579"


def done(folder, *playbook, **variables):
    """What was done with these variables in the inventory: exit status, output, and host -> arguments of what it did."""

    def change(tree):
        tree["all"]["vars"].update(variables)

    said = play(folder, playbook, change=change)
    asked = {host: [json.loads(line) for line in lines] for host, lines in said["asked"].items()}
    acted = {
        host: [each["arguments"] for each in lines if each["module"] != "host_facts"] for host, lines in asked.items()
    }
    return said["rc"], said["said"], acted


def test_a_delete_is_about_the_selected_instance_whatever_the_inventory_calls_delete_uuid(tmp_path):
    """It asked the host for the other one, and said of the selected one that it was deleted."""
    rc, _said, acted = done(
        tmp_path, "delete", "--limit", "at-rest-h1", delete_uuid=OTHER, delete_hosts=["h3"], delete_after=[9, 9]
    )
    ((asked,), others) = acted["h1"], acted["h3"]
    assert rc == 0 and not others
    assert asked["uuid"] == good.spec("at-rest-h1")["uuid"] and asked["after"] != [9, 9]


def test_a_resize_has_its_own_plan_and_is_not_only_prepared(tmp_path):
    rc, said, _acted = done(
        tmp_path, "resize", "--limit", "at-rest-h1", move_plan={"token": {}}, move_only_prepare=True
    )
    assert rc == 0 and "resized h2 big" in " ".join(said.split())
