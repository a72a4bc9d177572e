# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One command empties a host for maintenance, also of what no inventory has, and one brings it all home."""

from __future__ import annotations

from playbooks import catalog, homes, vm


def test_a_drained_host_is_empty_takes_nothing_and_gets_back_what_it_had(lab, image, inventory):
    path = inventory({"runs": vm(), "off": vm(state="stopped")}, catalog(image))
    named = {"berth_flavor": "tiny", "berth_image": "guest", "berth_networks": ["lan"]}

    def play(name, *words, check=True, **variables):
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], extra_vars=variables, check=check)

    play("create", "--limit", "runs")
    host = homes(lab)["runs"]
    play("create", "--limit", "off", berth_target_host=host)
    play("create", berth_name="unlisted", berth_target_host=host, **named)
    assert set(homes(lab).values()) == {host}
    running = lab.guest_facts("runs", timeout=120)

    dry = play("drain", "--check", berth_kvm_host=host)
    assert set(homes(lab).values()) == {host} and "off, runs, unlisted" in dry.stdout
    drained = play("drain", berth_kvm_host=host, berth_drain_reason="new memory")
    assert "What is to leave it: off, runs, unlisted." in drained.stdout
    assert host not in homes(lab).values() and set(homes(lab)) == {"runs", "off", "unlisted"}
    assert lab.guest_facts("runs", timeout=60)["nonce"] == running["nonce"]  # it was not restarted
    assert "new memory" in play("host_facts").stdout
    refused = play("create", check=False, berth_name="more", berth_target_host=host, **named)
    assert refused.rc and "drained for maintenance" in " ".join(refused.output.split())
    again = play("drain", berth_kvm_host=host)
    assert "What is to leave it: nothing." in again.stdout and set(again.changed.values()) <= {0}

    back = play("return", berth_kvm_host=host)
    assert "What is to come home to it: off, runs, unlisted." in back.stdout
    assert set(homes(lab).values()) == {host}
    assert lab.guest_facts("runs", timeout=60)["nonce"] == running["nonce"]
    assert "What is to come home to it: nothing." in play("return", berth_kvm_host=host).stdout


def test_an_affinity_group_leaves_a_host_together_and_the_questions_say_so(lab, image, inventory, tmp_path):
    members = {name: vm(server_group="close") for name in ("one", "two")}
    path = inventory(members, catalog(image))

    def play(name, *words, check=True, **variables):
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], extra_vars=variables, check=check)

    play("create")
    (host,) = set(homes(lab).values())
    running = {name: lab.guest_facts(name, timeout=120)["nonce"] for name in members}
    moves = play("movability").stdout
    assert "one" in moves and "live" in moves and "MOVES" in moves
    assert "find a place" in play("what_if", berth_hosts_gone=host).stdout
    file, junit = tmp_path / "placement.yml", tmp_path / "junit.xml"
    file.write_text("- {name: together, instances: group=='close', on: host=='%s'}\n" % host)
    play("assert", berth_assertions=str(file), berth_junit=str(junit))
    assert 'failures="0"' in junit.read_text()

    play("drain", berth_kvm_host=host)
    (other,) = set(homes(lab).values())
    assert other != host and {name: lab.guest_facts(name, timeout=60)["nonce"] for name in members} == running
    failed = play("assert", check=False, berth_assertions=str(file), berth_junit=str(junit))
    assert failed.rc and 'failures="1"' in junit.read_text() and "one is on %s" % other in junit.read_text()
    play("return", berth_kvm_host=host)
    assert set(homes(lab).values()) == {host}
    assert "decisions on" in play("backtest").stdout
