# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power as the inventory names it, a reboot, and a lock that another controller keeps to."""

from __future__ import annotations

import json
import re

from playbooks import catalog, homes, vm


def test_power_follows_the_inventory_and_a_lock_is_kept_to_by_every_controller(lab, image, inventory, tmp_path):
    path = inventory({"web1": vm(state="active"), "web2": vm(state="stopped")}, catalog(image))
    other = inventory({"web1": vm()}, catalog(image), name="other.yml")

    def play(name, *words, check=True, **variables):
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], extra_vars=variables, check=check)

    events = tmp_path / "events"
    notify = {"ANSIBLE_CALLBACKS_ENABLED": "berth.kvm.notify", "BERTH_NOTIFY_FILE": str(events)}
    made = lab.ansible_playbook("berth.kvm.create", inventory=[path], env=notify)
    told = sorted((event["event"], event["instance"], event["state"]) for event in map(json.loads, events.open()))
    assert told == [
        ("instance.end", "web1", "active"), ("instance.end", "web2", "stopped"),
        ("instance.update", "web1", "building"), ("instance.update", "web1", "running"),
        ("instance.update", "web2", "building"), ("instance.update", "web2", "shutdown"),
    ]  # fmt: skip
    assert [made.changed[name] for name in ("web1", "web2")] == [1, 1] and "web2      stopped" in made.stdout
    where = homes(lab)
    assert lab.domains(where["web1"]) and lab.domains(where["web2"], every=True)
    assert "berth.kvm.create starts it again" in " ".join(play("stop", "--limit", "web1").stdout.split())
    again = play("create")
    assert (again.changed["web1"], again.changed.get("web2", 0)) == (1, 0)
    play("lock", "--limit", "web1", berth_lock_reason="its disk is looked at")
    for name in ("stop", "reboot"):
        refused = lab.ansible_playbook("berth.kvm." + name, "--limit", "web1", inventory=[other], check=False)
        assert refused.rc and "InstanceIsLocked" in refused.output and "its disk is looked at" in refused.output
    assert play("unlock", "--limit", "web1").changed["web1"] == 1
    pids = "cat /run/libvirt/qemu/*.pid"
    before = lab.sh(where["web1"], pids).stdout
    assert play("reboot", "--limit", "web1", berth_reboot="hard").changed["web1"] == 1
    assert lab.sh(where["web1"], pids).stdout != before
    said = play("show", "--limit", "web1", "-v").stdout
    events = [line.split() for line in said.splitlines() if re.search(r" r-[0-9a-f]{8}  ", line)]
    assert [words[1] for words in events] == [
        "claim", "build", "start", "stop", "start", "lock", "unlock", "reboot", "start",
    ]  # fmt: skip
    runs = [words[4] for words in events]
    assert runs[0] == runs[1] == runs[2] and runs[7] == runs[8] and len(set(runs)) == 6
