# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that meet: of two that want the same, one gets it (I1, I2, C17, S45)."""

from __future__ import annotations

import json
import re

import pytest
from client import REPOSITORY

from playbooks import catalog, homes, left, records, vm, watched

FILL = """
virsh -q define /dev/stdin <<EOF
<domain type='qemu'><name>stranger</name><memory unit='MiB'>%d</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os></domain>
EOF
"""


def free_memory(lab, host):
    return lab.module(host, "berth.kvm.host_facts")["ansible_facts"]["berth_host"]["free_ram_mb"]


def test_claim_lost_in_a_race_goes_to_the_alternate(lab, image, inventory, tmp_path):
    """C17, S45: after the facts were read somebody else takes the chosen host's memory."""
    script = tmp_path / "fill.sh"
    script.write_text(FILL % free_memory(lab, lab.host(1)))
    command = "%s/lab/lab --name %s exec %s sh -s < %s" % (REPOSITORY, lab.name, lab.host(1), script)
    path = inventory({"a": vm()}, catalog(image))
    done = lab.ansible_playbook("berth.kvm.create", inventory=[path], env=watched(at={"Claim": command}))
    assert homes(lab) == {"a": lab.host(2)}
    assert "attempt 2, after ClaimFailed on %s" % lab.host(1) in " ".join(done.stdout.split())
    assert [role for _host, _name, role in records(lab)] == ["OWN"]


def test_two_playbooks_for_the_last_slot_make_one_instance(lab, image, inventory):
    """I2: both start at once; exactly one instance is there in the end, and the other run says why not."""
    for row in lab.status()["hosts"]:
        room = 2048 + 1024 if row["name"] == lab.host(3) else 1024
        lab.sh(row["name"], FILL % (free_memory(lab, row["name"]) - room))
    paths = [inventory({name: vm("half")}, catalog(image), name + ".yml") for name in ("a", "b")]
    runs = [lab.start_playbook("berth.kvm.create", inventory=[path]) for path in paths]
    outputs = [run.communicate(timeout=300)[0] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 2], "\n".join(outputs)
    assert len(homes(lab)) == 1
    assert len(records(lab)) == 1


def test_two_playbooks_for_the_same_instance_make_one(lab, image, inventory):
    """I1: whatever each says, there is one, and running again is no change."""
    path = inventory({"a": vm()}, catalog(image))
    runs = [lab.start_playbook("berth.kvm.create", inventory=[path]) for _number in range(2)]
    outputs = [run.communicate(timeout=300)[0] for run in runs]
    assert len(homes(lab)) == 1, "\n".join(outputs)
    again = lab.ansible_playbook("berth.kvm.create", inventory=[path])
    assert set(again.changed.values()) == {0}
    assert len(records(lab)) == 1


KILL = "(sleep %s; kill -9 $PPID) >/dev/null 2>&1 &"


@pytest.mark.parametrize("seconds", [0, 0.4, 0.8])
def test_controller_killed_and_run_again_converges(lab, image, inventory, seconds):
    """I4, I5: the run is killed so long after it began to claim; the histories in memory kill it after each call."""
    path = inventory({"a": vm(), "b": vm()}, catalog(image))
    killed = lab.ansible_playbook(
        "berth.kvm.create", inventory=[path], check=False, env=watched(at={"Claim room": KILL % seconds})
    )
    assert killed.rc != 0
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    again = lab.ansible_playbook("berth.kvm.create", inventory=[path])
    assert set(again.changed.values()) == {0}
    assert set(homes(lab)) == {"a", "b"}
    assert len(records(lab)) == 2
    lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
    assert left(lab) == {}


# All who come here wait for one another, as long as a minute.
MEET = "touch %s/$$; for _ in $(seq 600); do [ $(ls %s | wc -l) -ge %d ] && exit; sleep 0.1; done"


def meeting(directory, task, count):
    """The environment of runs that all wait at a task until so many have come there."""
    directory.mkdir()
    return watched(at={task: MEET % (directory, directory, count)})


def addresses(lab):
    """The last bytes of the addresses that the records have."""
    texts = [lab.sh(host, "cat /var/lib/berth/instances/*/record.json 2>/dev/null; true").stdout for host in lab.hosts]
    return [int(last) for text in texts for last in re.findall(r'"address": ?"[0-9.]+\.([0-9]+)/', text)]


def domains_and_records(lab, host):
    """The uuids of the guests and of the records of a host."""
    said = lab.sh(host, "virsh -q list --all --uuid; echo; ls /var/lib/berth/instances").stdout
    return [sorted(part.split()) for part in said.split("\n\n")]


def test_two_moves_at_once_never_put_an_anti_affine_pair_on_one_host(lab, image, inventory, tmp_path):
    """A pair on two hosts, and both are sent to the third: the claims meet there, and one stays where it was (I6)."""
    path = inventory({name: vm(server_group="pair", state="stopped") for name in ("a", "b")}, catalog(image))
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    before = homes(lab)
    (free,) = set(lab.hosts) - set(before.values())
    environment = meeting(tmp_path / "met", "Begin the move on its source", 2)
    runs = {
        name: lab.start_playbook(
            "berth.kvm.cold_migrate",
            "--limit",
            name,
            inventory=[path],
            extra_vars={"berth_target_host": free},
            env=environment,
        )
        for name in before
    }
    outputs = {name: run.communicate(timeout=300)[0] for name, run in runs.items()}
    assert len(list((tmp_path / "met").iterdir())) == 2, "they did not meet"
    after = homes(lab)
    (stayed,) = [name for name in after if after[name] == before[name]]
    (moved,) = set(after) - {stayed}
    assert after[moved] == free and (runs[moved].returncode, runs[stayed].returncode) == (0, 2), outputs
    assert "anti-affinity" in outputs[stayed], outputs[stayed]
    owned = sorted((host, name, "OWN") for name, host in after.items())
    assert records(lab) == sorted([*owned, (before[moved], moved, "OUT")])


SLOTS = {1: 4, 2: 3, 3: 3}
FIRST, LAST = 201, 210
REASONS = (
    "AddressTaken",
    "OverQuota",
    "QuotaExceeded",
    "NoValidHost",
    "AddressPoolExhausted",
    "ClaimFailed",
    "GroupPolicy",
    "MaxRetriesExceeded",
)


def test_many_creates_at_once_never_exceed_room_quota_group_and_addresses(lab, image, inventory, tmp_path):
    """Eight controllers want two instances each, where ten fit into memory, quota and pool, and three into the group: there are
    never more, no host holds a rest, and who got none is told why (I2, I6, I7)."""
    for number, slots in SLOTS.items():
        host = lab.host(number)
        lab.sh(host, FILL % (free_memory(lab, host) - 128 * slots - 64))
    lan = {"type": "bridge", "source": "br0", "cidr": "{{ lab_guest_cidr }}", "pool": {
        "ranges": ["{{ lab_guest_prefix }}.%d-{{ lab_guest_prefix }}.%d" % (FIRST, LAST)]}}  # fmt: skip
    variables = catalog(image, berth_networks_defined={"lan": lan}, berth_quotas={"default": {"instances": 10}})
    wanted = [
        {
            "c%d-%d" % (run, number): vm(
                state="stopped", **({"server_group": "pair"} if number == 0 and run < 4 else {})
            )
            for number in (0, 1)
        }
        for run in range(8)
    ]
    environment = meeting(tmp_path / "met", "Claim room", 8)
    runs = [
        lab.start_playbook(
            "berth.kvm.create",
            inventory=[inventory(ones, variables, "run%d.yml" % run)],
            extra_vars={"berth_report": str(tmp_path / ("run%d.json" % run))},
            env=environment,
        )
        for run, ones in enumerate(wanted)
    ]
    outputs = [run.communicate(timeout=600)[0] for run in runs]
    assert len(list((tmp_path / "met").iterdir())) == 8, "they did not meet"
    where = homes(lab)
    assert 0 < len(where) <= 10, outputs
    for number, slots in SLOTS.items():
        assert list(where.values()).count(lab.host(number)) <= slots
        domains, held = domains_and_records(lab, lab.host(number))
        assert len(domains) == len(held) + 1 and set(held) < set(domains), "an orphan"
    pair = [where[name] for name in ("c%d-0" % run for run in range(4)) if name in where]
    assert len(set(pair)) == len(pair)
    assert {role for _host, _name, role in records(lab)} == {"OWN"}
    found = addresses(lab)
    assert len(set(found)) == len(found) == len(where) and all(FIRST <= last <= LAST for last in found)
    for number, (run, ones, output) in enumerate(zip(runs, wanted, outputs)):
        missing = {name for name in ones if name not in where}
        assert bool(missing) == bool(run.returncode), output
        told = json.loads((tmp_path / ("run%d.json" % number)).read_text())
        reasons = {each["instance"]: each.get("error_code") for each in told["outcomes"]}
        assert {name for name in ones if reasons[name]} == missing, output
        assert all(reasons[name] in REASONS for name in missing), output
    print("made %d of 16, %s" % (len(where), [run.returncode for run in runs]))


ATTACH = "Update the data disks"


def holders(lab, host):
    """The uuids of the guests whose definition has a volume's file."""
    script = "for domain in $(virsh -q list --all --uuid); do virsh dumpxml --inactive $domain | grep -q berth/volumes/"
    return lab.sh(host, script + " && echo $domain; done; true").stdout.split()


@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_one_volume_is_never_attached_to_two_instances(lab, image, inventory, tmp_path, rounds):
    """Two controllers at once, again and again: one gets it, and the other is told that it is in use (I13)."""
    host, more = lab.host(2), {"berth_volumes_defined": {"data": {"size_gb": 1}}}
    paths = {
        holder: inventory(
            {name: vm(state="stopped", target_host=host, volumes=["data"] * (name == holder)) for name in ("a", "b")},
            catalog(image, **more),
            "with-%s.yml" % holder,
        )
        for holder in ("a", "b", "none")
    }
    lab.ansible_playbook("berth.kvm.create", inventory=[paths["none"]])
    lab.ansible_playbook("berth.kvm.update_disks", "-e", "berth_all=true", inventory=[paths["a"]])  # makes the volume
    wins = []
    for each in range(rounds):
        lab.ansible_playbook("berth.kvm.update_disks", "-e", "berth_all=true", inventory=[paths["none"]])
        assert holders(lab, host) == []
        environment = meeting(tmp_path / str(each), ATTACH, 2)
        runs = {
            name: lab.start_playbook(
                "berth.kvm.update_disks", "--limit", name, inventory=[paths[name]], env=environment
            )
            for name in ("a", "b")
        }
        outputs = {name: run.communicate(timeout=120)[0] for name, run in runs.items()}
        assert len(list((tmp_path / str(each)).iterdir())) == 2, outputs
        assert sorted(run.returncode for run in runs.values()) == [0, 2], outputs
        (winner,) = [name for name, run in runs.items() if run.returncode == 0]
        (loser,) = set(runs) - {winner}
        assert "VolumeInUse" in outputs[loser], outputs[loser]
        assert len(holders(lab, host)) == 1
        wins.append(winner)
    print("%d rounds: %s" % (rounds, "".join(wins)))
