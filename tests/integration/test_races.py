# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that meet: of two that want the same, one gets it (I1, I2, C17, S45)."""

from __future__ import annotations

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


@pytest.mark.parametrize("task", ["Claim room", "Build and start", "Record the results"])
def test_controller_killed_and_run_again_converges(lab, image, inventory, task):
    """I4, I5: the run is killed where the named task begins."""
    path = inventory({"a": vm(), "b": vm()}, catalog(image))
    killed = lab.ansible_playbook(
        "berth.kvm.create", inventory=[path], check=False, env=watched(at={task: "kill -9 $PPID"})
    )
    assert killed.rc != 0
    lab.ansible_playbook("berth.kvm.create", inventory=[path])
    again = lab.ansible_playbook("berth.kvm.create", inventory=[path])
    assert set(again.changed.values()) == {0}
    assert set(homes(lab)) == {"a", "b"}
    assert len(records(lab)) == 2
    lab.ansible_playbook("berth.kvm.delete", "-e", "berth_delete_all=true", inventory=[path])
    assert left(lab) == {}
