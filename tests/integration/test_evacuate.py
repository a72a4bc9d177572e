# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host falls silent, its fence agent switches it off, and its instances run elsewhere with what they had written."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest
from client import REPOSITORY
from test_move_shared import POOL, SHARE
from whole import make_whole

from playbooks import catalog, records, vm, watched

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
    dry = play("start_after_outage", "--check").output
    assert dry.count("outdated copy would be removed") == 2 and len(records(lab)) == 4
    assert play("start_after_outage").output.count("outdated copy removed") == 2
    assert not lab.sh(lost, "virsh -q list --all --name").stdout.strip(), (
        "the host that is back starts and keeps nothing"
    )
    assert sorted(records(lab)) == sorted((host, name, "OWN") for name, host in now.items())
    assert set(play("start_after_outage").changed.values()) == {0}
    for name, host in now.items():
        assert lab.guest_facts(name, host, timeout=60)["boots"] == before[name]["boots"] + 1, "they ran all the time"


LAN = {"type": "bridge", "source": "br0", "cidr": "{{ lab_guest_cidr }}"}
POOLED = {**LAN, "pool": {"ranges": ["{{ lab_guest_prefix }}.60-{{ lab_guest_prefix }}.69"]}}
DATA = {"berth_networks_defined": {"lan": POOLED}, "berth_volumes_defined": {"data": {"size_gb": 1}}}
KILL = "kill -9 $PPID"
TASKS = ["Switch the host off and see that it is off", "Choose a host for each instance", "Claim room, build and start"]


@pytest.mark.slow
def test_an_evacuation_that_is_killed_at_each_step_brings_volume_and_address_along(shared, image, inventory, agent):
    """The agent, the choice, the claim and the start: each can be the last thing that the controller does."""
    lab = shared
    path = inventory({"one": vm(volumes=["data"], user_data=WRITES)}, catalog(image, **DATA))
    fence = {"agent": "fence_lab", "lab": lab.name, "plug": "{{ inventory_hostname }}", "password": "s3cret"}
    env = {"PATH": "%s:%s" % (agent.parent, os.environ["PATH"])}
    given = {"berth_fence": fence}

    def play(name, *words, at=None, check=True, **variables):
        more = {"env": {**env, **(watched(at=at) if at else {})}, "timeout": 600, "check": check}
        extra = {"extra_vars": {**given, **variables}} if given or variables else {}
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], **extra, **more)

    play("create")
    lost = owners(lab)["one"]
    before = lab.guest_facts("one", timeout=180, until=lambda said: said["ack"] > 0 and said["extra"] == "new")
    lab.cut(lost)
    for task in TASKS:
        assert play("evacuate", at={task: KILL}, check=False, berth_kvm_host=lost).rc == -9
        assert set(owners(lab).values()) <= {lost}, task
    for role in ("CLAIM", "OWN"):  # within the longest task, at what its hosts have written
        run = lab.start_playbook(
            "berth.kvm.evacuate", inventory=[path], extra_vars={**given, "berth_kvm_host": lost}, env=env
        )
        while run.poll() is None and not any(found == role for host, _name, found in records(lab) if host != lost):
            time.sleep(0.05)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    play("evacuate", berth_kvm_host=lost)
    play("create")
    now = {host for host, _name, role in records(lab) if role == "OWN" and host != lost}
    assert len(now) == 1 and len(records(lab)) == 1
    (host,) = now
    facts = lab.guest_facts("one", host, timeout=180, until=lambda said: said["verify"]["result"] != "none")
    assert facts["verify"]["result"] == "ok" and facts["ack"] >= before["ack"]
    assert (facts["extra"], facts["ip"], facts["mac"]) == (before["nonce"], before["ip"], before["mac"])
    assert set(play("create").changed.values()) == {0}
    shown = play("show", "-e", "berth_volume=data").output
    assert "%s (OWN)" % host in shown and "%s (" % lost not in shown

    lab.start(lost)
    lab.sh(lost, SHARE)
    lab.heal(lost)
    assert "outdated copy removed" in play("start_after_outage").output
    assert records(lab) == [(host, "one", "OWN")]
    assert not lab.sh(lost, "ls /var/lib/berth/volumes/*/record.json", check=False).stdout.strip()
    play("delete", "--limit", "one")
    assert play("delete_volume", berth_volume="data").rc == 0, "it is a volume like others"


BACKUPS = "/srv/shared/evacuated"


@pytest.fixture
def backed_up(lab):
    yield lab
    make_whole(lab)
    for host in lab.hosts:
        lab.sh(host, "rm -rf %s %s/set-aside /var/lib/berth/set-aside.json" % (BACKUPS, POOL), check=False)


def lost_after_backup(lab, play):
    """Create the instance, back it up and cut the power of its host. Return that host, and what the guest said last."""
    play("create")
    lost = owners(lab)["one"]
    lab.guest_facts("one", timeout=180, until=lambda said: said["ack"] > 0 and said["extra"] == "new")
    lab.sh(lost, "mkdir -p -m 700 " + BACKUPS)
    play("backup", "--limit", "one")
    before = lab.guest_facts("one")
    lab.crash(lost)
    return lost, before


@pytest.mark.slow
def test_what_only_the_lost_host_had_runs_elsewhere_from_its_newest_backup(backed_up, image, inventory):
    """Its volume, too. The host that is back starts nothing, and sets aside what was written last."""
    lab = backed_up
    path = inventory({"one": vm(volumes=["data"], user_data=WRITES, backup_to=BACKUPS)}, catalog(image, **DATA))

    def play(name, *words, check=True, **variables):
        more = {"extra_vars": variables} if variables else {}
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path], timeout=600, check=check, **more)

    lost, before = lost_after_backup(lab, play)
    refused = play("evacuate", check=False, berth_lost_hosts=lost).output
    assert "DisksNotShared" in refused and "berth_evacuate_from_backup=true" in refused
    asked = {"berth_lost_hosts": lost, "berth_evacuate_from_backup": True}
    assert "made again from its backup" in play("evacuate", "--check", **asked).output and records(lab) == []
    assert "made again from its backup" in play("evacuate", **asked).output
    ((host, name, role),) = records(lab)
    assert host != lost and (name, role) == ("one", "OWN")
    facts = lab.guest_facts("one", host, timeout=180, until=lambda said: said["verify"]["result"] != "none")
    assert facts["verify"]["result"] == "ok" and facts["nonce"] == before["nonce"] == facts["extra"]
    assert (facts["mac"], facts["boots"]) == (before["mac"], 2)
    assert set(play("create").changed.values()) == {0}

    lab.start(lost)
    assert "outdated copy would be set aside" in play("start_after_outage", "--check").output and len(records(lab)) == 2
    done = play("start_after_outage").output
    assert "outdated copy set aside" in done and POOL + "/set-aside/" in done
    assert records(lab) == [(host, "one", "OWN")]
    assert "root.qcow2" in lab.sh(lost, "ls %s/set-aside/*/" % POOL).stdout
    assert set(play("start_after_outage").changed.values()) == {0}


@pytest.mark.slow
def test_nothing_that_a_run_prints_or_keeps_has_a_secret_of_a_fence_agent(shared, image, inventory, agent, tmp_path):
    """Neither -vvv nor --check, --diff, a report, nor the history of who was evacuated."""
    lab = shared
    path = inventory({"one": vm()}, catalog(image))
    fence = {"agent": "fence_lab", "lab": lab.name, "plug": "{{ inventory_hostname }}", "password": "{{ vaulted }}"}
    secret = tmp_path / "group_vars.yml"
    secret.write_text("all: {vars: {vaulted: s3cret, berth_fence: %s}}\n" % json.dumps(fence))
    env = {"PATH": "%s:%s" % (agent.parent, os.environ["PATH"])}

    def play(name, *words, **more):
        return lab.ansible_playbook("berth.kvm." + name, *words, inventory=[path, secret], env=env, timeout=600, **more)

    play("create")
    lost, report = owners(lab)["one"], tmp_path / "report.json"
    lab.cut(lost)
    host = ("-e", "berth_kvm_host=" + lost)
    outputs = [play("evacuate", "-vvv", "--check", "--diff", *host).output]
    outputs.append(play("evacuate", "-vvv", "--diff", *host, "-e", "berth_report=%s" % report).output)
    outputs.append(play("evacuate", "-vvv", *host).output)
    outputs += [play("show", "--limit", "one", "-vvv").output, report.read_text()]
    outputs += [
        lab.sh(row, "cat /var/lib/berth/instances/*/record.json", check=False).stdout
        for row in lab.hosts
        if row != lost
    ]
    assert "fence_lab says that" in outputs[3] and not [text for text in outputs if "s3cret" in text]
    lab.start(lost)
    lab.heal(lost)


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
