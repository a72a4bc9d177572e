# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host falls silent, its fence agent switches it off, and its instances run elsewhere with what they had written."""

from __future__ import annotations

import os
import sys

import pytest
from client import REPOSITORY
from test_move_shared import POOL, SHARE
from whole import make_whole

from playbooks import catalog, records, vm

# Cuts the power of a host of the lab, by the interface of Debian's fence-agents.
AGENT = """#!%s
import json, subprocess, sys
given = dict(line.strip().split("=", 1) for line in sys.stdin if "=" in line)
assert given["password"] == "s3cret"
lab = [%r, %r, "--name", given["lab"]]
if given["action"] == "off":
    subprocess.run([*lab, "crash", given["plug"]], check=True, stdout=subprocess.DEVNULL)
    sys.exit(0)
hosts = json.loads(subprocess.run([*lab, "status", "--json"], check=True, stdout=subprocess.PIPE).stdout)["hosts"]
sys.exit(0 if {host["name"]: host["power"] for host in hosts}[given["plug"]] == "up" else 2)
"""
WRITES = "#cloud-config\n# lab-writer: on\n"


@pytest.fixture
def shared(lab):
    for host in lab.hosts:
        lab.sh(host, SHARE)
    yield lab
    make_whole(lab)
    for host in lab.hosts:
        lab.sh(host, "rm -rf %s/*; umount %s" % (POOL, POOL), check=False)


@pytest.fixture
def agent(tmp_path):
    path = tmp_path / "fence_lab"
    path.write_text(AGENT % (sys.executable, sys.executable, str(REPOSITORY / "lab" / "lab")))
    path.chmod(0o700)
    return path


def owners(lab):
    return {name: host for host, name, role in records(lab) if role == "OWN"}


def test_a_silent_host_is_fenced_and_what_it_had_runs_elsewhere(shared, image, inventory, agent):
    lab = shared
    path = inventory({"one": vm(user_data=WRITES), "two": vm(user_data=WRITES)}, catalog(image))
    fence = {
        "berth_fence": {"agent": "fence_lab", "lab": lab.name, "plug": "{{ inventory_hostname }}", "password": "s3cret"}
    }
    given = {**fence, "berth_watch_policy": "evacuate", "berth_watch_seconds": 1}

    def play(name, *words, check=True, **variables):
        env = {"PATH": "%s:%s" % (agent.parent, os.environ["PATH"])}
        more = {"extra_vars": {**given, **variables}, "check": check, "env": env, "timeout": 600}
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], **more)

    play("create", "--limit", "one")
    lost = owners(lab)["one"]
    play("create", "--limit", "two", berth_target_host=lost)
    before = {name: lab.guest_facts(name, timeout=180, until=lambda said: said["ack"] > 0) for name in ("one", "two")}
    refused = play("evacuate", check=False, berth_kvm_host=lost)
    assert refused.rc and "HostNotLost" in refused.output and "s3cret" not in refused.output

    lab.cut(lost)  # it runs on, and writes to the shared storage
    dry = play("evacuate", "--check", berth_kvm_host=lost)
    assert "would be switched off by fence_lab" in dry.output and set(owners(lab).values()) == {lost}
    done = play("evacuate", berth_kvm_host=lost)
    assert "fence_lab says that %s is off" % lost in done.output and "s3cret" not in done.output
    now = owners(lab)
    assert set(now) == {"one", "two"} and lost not in now.values()
    for name, host in now.items():
        facts = lab.guest_facts(name, host, timeout=180, until=lambda said: said["verify"]["result"] != "none")
        assert facts["verify"]["result"] == "ok" and facts["nonce"] == before[name]["nonce"]
        assert facts["ack"] >= before[name]["ack"]
    assert "fence_lab says that" in play("show", "--limit", "one", "-v").output

    lab.start(lost)
    lab.sh(lost, SHARE)
    lab.heal(lost)
    play("start_after_outage", check=False)
    assert not lab.sh(lost, "virsh list --name").stdout.strip(), "the host that is back starts nothing"
    for name, host in now.items():
        play("keep_one_copy", "--limit", name, berth_keep_on=host)
    assert sorted(records(lab)) == sorted((host, name, "OWN") for name, host in now.items())


def test_a_watch_evacuates_a_host_that_is_down_in_two_passes_and_none_that_answers(shared, image, inventory, agent):
    lab = shared
    path = inventory({"one": vm()}, catalog(image))
    fence = {"agent": "fence_lab", "lab": lab.name, "plug": "{{ inventory_hostname }}", "password": "s3cret"}
    given = {"berth_fence": fence, "berth_watch_policy": "evacuate", "berth_watch_seconds": 1, "berth_watch_share": 50}
    env = {"PATH": "%s:%s" % (agent.parent, os.environ["PATH"]), "XDG_STATE_HOME": str(agent.parent / "state")}

    def play(name, **variables):
        more = {"extra_vars": {**given, **variables}, "env": env, "timeout": 600}
        return lab.ansible_playbook("berth.kvm." + name, inventory=[path], **more)

    play("create")
    lost = owners(lab)["one"]
    assert "all hosts answer" in play("watch").output
    lab.cut(lost)
    first = play("watch").output
    assert "%s is down for 0 of 1 s; its policy: evacuate" % lost in first and owners(lab)["one"] == lost
    second = play("watch", berth_watch_seconds=60).output
    assert "of 60 s" in second and owners(lab)["one"] == lost
    play("watch")
    assert owners(lab)["one"] != lost
    lab.start(lost)
    lab.heal(lost)
