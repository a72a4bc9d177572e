# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan moves what it says: live what runs, cold and confirmed what is off, also what no inventory has, once."""

from __future__ import annotations

import yaml

from playbooks import catalog, homes, vm


def test_a_plan_is_reviewed_carried_out_once_and_refused_when_the_fleet_has_changed(lab, image, inventory, tmp_path):
    path, file = inventory({"runs": vm(), "off": vm(state="stopped")}, catalog(image)), tmp_path / "plan.yml"
    named = {"berth_flavor": "tiny", "berth_image": "guest", "berth_networks": ["lan"]}

    def play(name, *words, check=True, **variables):
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], extra_vars=variables, check=check)

    play("create", "--limit", "runs")
    host = homes(lab)["runs"]
    play("create", "--limit", "off", berth_target_host=host)
    play("create", berth_name="unlisted", berth_target_host=host, **named)
    running = lab.guest_facts("runs", timeout=120)

    play("plan", berth_goal="drain", berth_kvm_host=host, berth_plan=str(file))
    planned = {move["instance"]: move for wave in yaml.safe_load(file.read_text())["waves"] for move in wave}
    assert {name: move["how"] for name, move in planned.items()} == {"runs": "live", "off": "cold", "unlisted": "live"}
    dry = play("apply_plan", "--check", berth_plan=str(file))
    assert "Would make 3 moves" in dry.stdout and set(homes(lab).values()) == {host}

    play("apply_plan", berth_plan=str(file))
    assert homes(lab) == {name: move["to"] for name, move in planned.items()}
    assert lab.guest_facts("runs", timeout=60)["nonce"] == running["nonce"]  # it was not restarted
    again = play("apply_plan", berth_plan=str(file))
    assert "All of it is done already." in again.stdout and set(again.changed.values()) <= {0}

    play("delete", "--limit", "off")
    stale = play("apply_plan", check=False, berth_plan=str(file))
    assert stale.rc and "off is gone" in " ".join(stale.output.split())
    assert "not one more" in play("capacity").stdout
    assert play("survive").rc == 0
    limited = play("apply_plan", "--limit", "runs", check=False, berth_plan=str(file))
    assert limited.rc and "the plan says what moves" in " ".join(limited.output.split())
    play("return", berth_kvm_host=host)
    assert homes(lab) == {"runs": host, "unlisted": host}
