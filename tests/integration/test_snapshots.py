# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What backup programs do to a guest's disks must not cost its newest data: snapshots at every moment of a resize, seen from
inside a guest that writes all the time (I3)."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest
from test_resize import BIG, cases, facts, mover, verified  # noqa: F401  pylint: disable=unused-import

from playbooks import homes, records

SNAPSHOT = "virsh snapshot-create-as $(virsh -q list --all --uuid) %s --disk-only --no-metadata"
SAVE = re.compile(r"as root on \S+: (virsh blockcopy .*?); then run the same again")
COMMANDS = re.compile(r"As root on \S+: (.*?); then run the same again")


def refused(case, playbook, variables=()):
    """The playbook's output; it has to refuse for the guest's disks."""
    done = case.play(playbook, variables, check=False)
    assert done.rc and "DiskChainChanged" in done.output, done.output
    return done.output


def follow(case, host, output):
    """Do word for word what the message says."""
    commands = COMMANDS.search(" ".join(output.split())).group(1)
    case.lab.sh(host, commands, timeout=120)


@pytest.mark.follows("take_disks_back", "delete_changed_disks")
def test_a_snapshot_before_and_after_a_resize_is_named_and_its_data_comes_along_when_the_message_is_followed(
    mover,  # noqa: F811
):
    case, source = mover
    case.lab.sh(source, SNAPSHOT % "one")
    written = facts(case, source)["ack"]
    facts(case, source, lambda said: said["ack"] > written + 20)
    before = records(case.lab)
    output = refused(case, "resize", BIG)
    assert records(case.lab) == before and len(case.look(source)["running"]) == 1, "I11"
    follow(case, source, output)
    acknowledged = facts(case, source)["ack"]
    case.play("resize", BIG)
    destination = homes(case.lab)[cases.NAME]
    inside = facts(case, destination, verified)
    assert inside["verify"]["result"] == "ok" and inside["ack"] >= acknowledged

    case.lab.sh(destination, SNAPSHOT % "two")
    assert "root.two" in refused(case, "confirm_resize", BIG)
    assert "root.two" in refused(case, "revert_resize", BIG)
    assert records(case.lab) == sorted([(source, cases.NAME, "OUT"), (destination, cases.NAME, "OWN")])
    case.play("delete", {"berth_delete_changed_disks": True})
    assert records(case.lab) == [] and not any(case.look(host)["files"] for host in case.lab.hosts)


@pytest.mark.slow
def test_a_snapshot_in_the_middle_of_the_copy_is_seen_before_the_source_lets_go(mover):  # noqa: F811
    """The guest goes on where it was, and can be resized when the layer is taken back, also while it is off."""
    case, source = mover
    given = {**BIG, "berth_copy_while_running": False, "berth_bandwidth": 2}
    process = case.lab.start_playbook(
        "berth.kvm.resize", "--limit", cases.NAME, inventory=[case.path], extra_vars=given
    )
    until = time.monotonic() + 90
    while '"copying"' not in case.lab.sh(source, "cat /run/berth/moves/*/progress.json", check=False).stdout:
        if time.monotonic() > until:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(process.communicate()[0])
        time.sleep(0.2)
    case.lab.sh(source, SNAPSHOT % "one")
    output = process.communicate(timeout=120)[0]
    assert process.returncode and "DiskChainChanged" in output, output
    assert records(case.lab) == [(source, cases.NAME, "OWN")] and len(case.look(source)["running"]) == 1
    acknowledged = facts(case, source, lambda said: said["verify"]["result"] == "ok")["ack"]

    case.play("stop")
    assert "root.one" in refused(case, "start")
    follow(case, source, refused(case, "resize", BIG))
    case.play("resize", BIG)
    case.play("confirm_resize", BIG)
    case.play("start", BIG)
    inside = facts(case, homes(case.lab)[cases.NAME], lambda said: said["boots"] > 2 and verified(said))
    assert inside["verify"]["result"] == "ok" and inside["ack"] >= acknowledged


WITH_A_DRIVE = """
qemu-img create -q -f qcow2 /var/lib/libvirt/images/theirs.qcow2 1M
truncate -s 1M /var/lib/libvirt/images/theirs.iso
virsh attach-disk $(virsh -q list --uuid) /var/lib/libvirt/images/theirs.iso sda --type cdrom --targetbus sata --config
virsh destroy $(virsh -q list --uuid) && virsh start $(virsh -q list --all --uuid)
"""
ATTACH = """
virsh attach-disk $(virsh -q list --uuid) /var/lib/libvirt/images/theirs.qcow2 vdz --subdriver qcow2
"""
# a guest lets go of a disk some seconds after it was told to
DETACHED = """
for second in $(seq 60); do virsh domblklist $(virsh -q list --uuid) | grep -q vdz || exit 0; sleep 1; done; exit 1
"""


@pytest.mark.follows("take_disks_back", "forget_snapshots")
def test_what_somebody_attached_or_noted_in_libvirt_is_undone_as_the_messages_say_and_the_guest_migrates(
    mover,  # noqa: F811
):
    """virsh attach-disk alone changes just the running guest, and a drive of a running guest cannot be detached."""
    case, source = mover
    case.lab.sh(source, WITH_A_DRIVE)
    facts(case, source, lambda said: said["boots"] > 1)
    case.lab.sh(source, ATTACH)
    follow(case, source, refused(case, "live_migrate"))
    case.lab.sh(source, DETACHED, timeout=90)
    case.lab.sh(source, "virsh snapshot-create-as $(virsh -q list --uuid) 'their own' --disk-only")
    follow(case, source, refused(case, "live_migrate"))
    done = case.play("live_migrate", check=False)
    assert done.rc and "MigrationPreCheckError" in done.output, done.output
    follow(case, source, done.output)
    case.play("live_migrate")
    assert homes(case.lab)[cases.NAME] != source


@pytest.mark.follows("save_removed_disks")
def test_a_disk_that_was_removed_under_its_running_guest_is_written_back_as_the_message_says(mover):  # noqa: F811
    case, source = mover
    case.lab.sh(source, "rm /var/lib/libvirt/berth/instances/*/root.qcow2")
    acknowledged = facts(case, source)["ack"]
    refused(case, "live_migrate")
    output = refused(case, "stop")
    assert len(case.look(source)["running"]) == 1, "it has the only copy"
    case.lab.sh(source, SAVE.search(" ".join(output.split())).group(1), timeout=120)
    case.play("stop")
    case.play("start")
    inside = facts(case, source, verified)
    assert inside["verify"]["result"] == "ok" and inside["ack"] >= acknowledged


KEEP = re.compile(r"To save them, as root on \S+: (.*?); then run the same again")
LOSE = re.compile(r"for example from a backup: (virsh destroy \S+) there")


@pytest.mark.follows("keep_or_restore")
@pytest.mark.parametrize("choice", [KEEP, LOSE], ids=["keep", "lose"])
def test_a_disk_that_was_restored_under_its_running_guest_is_kept_or_used_as_the_message_says(mover, choice):  # noqa: F811
    case, source = mover
    case.play("stop")
    case.lab.sh(source, "cp /var/lib/libvirt/berth/instances/*/root.qcow2 /root/backup")
    case.play("start")
    before = facts(case, source, verified)
    written = facts(case, source, lambda said: said["ack"] > before["ack"] + 20)["ack"]
    case.lab.sh(source, "cp /root/backup /root/new && mv /root/new /var/lib/libvirt/berth/instances/*/root.qcow2")
    assert "compare failed" not in refused(case, "resize", BIG)
    output = refused(case, "stop")
    assert len(case.look(source)["running"]) == 1, "it has the only copy"
    case.lab.sh(source, choice.search(" ".join(output.split())).group(1), timeout=120)
    if choice is KEEP:
        case.play("stop")
    case.play("start")
    inside = facts(case, source, lambda said: len(said["verdicts"]) > len(before["verdicts"]) and verified(said))
    assert inside["verify"]["result"] == "ok" and (inside["verify"]["last"] >= written) == (choice is KEEP)


# what a backup program does that reads the disk over a socket: the job is there until it is ended
BACKUP = """
cat > /root/backup.xml <<EOF
<domainbackup mode="pull"><server transport="unix" socket="/tmp/theirs.sock"/><disks>
<disk name="vda" backup="yes" type="file"><scratch file="/var/lib/libvirt/images/theirs"/></disk>
<disk name="vdb" backup="no"/></disks></domainbackup>
EOF
virsh backup-begin $(virsh -q list --uuid) /root/backup.xml
"""


@pytest.mark.slow
def test_a_backup_that_is_under_way_is_broken_off_by_no_move(mover):  # noqa: F811
    """It is refused by name before anything happens; a stop is what somebody asked for, and goes on."""
    case, source = mover
    case.lab.sh(source, BACKUP)
    before = records(case.lab)
    for playbook, variables in (("resize", BIG), ("live_migrate", {})):
        done = case.play(playbook, variables, check=False)
        assert done.rc and "DisksBusy" in done.output and "virsh domjobabort" in done.output, done.output
        case.lab.sh(source, "virsh backup-dumpxml $(virsh -q list --uuid)")
    assert records(case.lab) == before and len(case.look(source)["running"]) == 1, "I11"
    case.play("stop")
    assert case.look(source)["active"] == []
