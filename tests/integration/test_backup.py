# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of a guest that writes all the time: full, increments, across moves, killed, and restored elsewhere."""

from __future__ import annotations

import json
import re
import time

import pytest
from test_migrate_refused_or_broken_off import other_host
from test_resize import cases, facts, mover, verified  # noqa: F401  pylint: disable=unused-import

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from playbooks import homes

TO = "/srv/shared/backups"
MADE = re.compile(r"backup (\d{8}T\d{6}Z) of mover, (full|increment)")
BLOCKS = """cd %s/*/ && last=$(ls -d 2* | tail -1) && qemu-img compare -f qcow2 -F qcow2 $last/root.qcow2 \
/var/lib/libvirt/berth/instances/*/root.qcow2"""
NOTES = "virsh -q list --all --name | grep . | xargs -r -n 1 virsh checkpoint-list --name"
OTHER = "other"
ROOT_DISK = "virsh -q domblklist $(virsh -q list --name) | grep root.qcow2"
OURS = """<domainbackup mode="pull"><server transport="unix" socket="%s/berth-backup.sock"/><disks>
<disk name="%s" backup="yes" type="file"><scratch file="%s.scratch"/></disk></disks></domainbackup>"""
NOTED = """<domaincheckpoint><name>berth-backup-2020010%dT000000Z</name><disks>
<disk name="%s" checkpoint="bitmap"/></disks></domaincheckpoint>"""
KEPT = """for file in berth/instances/{uuid}/nvram.fd swtpm/{uuid}/tpm2/tpm2-00.permall
do sha256sum < /var/lib/libvirt/$file | cut -d' ' -f1; done"""


@pytest.fixture
def case(mover):  # noqa: F811
    """The mover, with an empty directory for backups that both hosts have, and the variables for it."""
    found, host = mover
    found.lab.sh(host, "rm -rf %s; mkdir %s" % (TO, TO))
    yield found
    found.lab.sh(host, "rm -rf %s" % TO)


def back_up(case, check=True, **more):  # noqa: F811
    """(id, kind) of the backup that was made."""
    said = case.play("backup", {"berth_backup_to": TO, **more}, check=check).output
    return MADE.search(said).groups() if check else said


def backups_of(case):  # noqa: F811
    """{id: the line that tells it}. All is read."""
    said = case.play("backups", {"berth_backup_to": TO, "berth_backup_deep": True}).output
    return {line.split()[0]: line for line in said.splitlines() if re.match(r"    2\d{7}T", line)}


def test_increments_of_a_writing_guest_are_its_blocks_also_across_live_and_reverted_moves(case):
    source = case.owner()
    target = other_host(case, source)
    kinds = [back_up(case)[1]]
    facts(case, source, lambda said: said["ack"] > 20)
    kinds.append(back_up(case)[1])
    assert case.lab.sh(source, NOTES).stdout.strip() == ""  # libvirt would move no guest with one
    case.play("live_migrate", {"berth_target_host": target})
    kinds.append(back_up(case)[1])
    case.play("cold_migrate", {"berth_target_host": source})
    case.play("revert_resize")
    kinds.append(back_up(case)[1])
    case.play("stop")
    kinds.append(back_up(case)[1])
    assert kinds[:2] == ["full", "increment"] and kinds[-1] == "increment", kinds
    assert "identical" in case.lab.sh(target, BLOCKS % TO).stdout
    assert not [line for line in backups_of(case).values() if "CANNOT" in line]


def restored_under_a_new_name(case, tmp_path, source, acknowledged, **given):  # noqa: F811
    """The newest backup becomes another instance on another host, with all that was acknowledged; then that is deleted."""
    tree = json.loads(case.path.read_text())
    tree["all"]["children"]["instances"]["hosts"][OTHER] = tree["all"]["children"]["instances"]["hosts"][cases.NAME]
    path = tmp_path / "two.yml"
    path.write_text(json.dumps(tree))
    more = {**given, "berth_backup_of": cases.NAME, "berth_restore_discards": OTHER}
    for playbook, variables in (
        ("create", {"berth_state": "stopped", "berth_target_host": other_host(case, source)}),
        ("restore", more),
        ("start", {}),
    ):
        case.lab.ansible_playbook("berth.kvm." + playbook, "--limit", OTHER, inventory=[path], extra_vars=variables)
    there = homes(case.lab)[OTHER]
    inside = case.lab.guest_facts(OTHER, there, timeout=180, until=verified)
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] >= acknowledged
    assert inside["mac"] != facts(case, source)["mac"]
    case.lab.ansible_playbook("berth.kvm.delete", "--limit", OTHER, inventory=[path])


@pytest.mark.follows("restore_into_another")
def test_a_backup_of_a_running_guest_goes_on_elsewhere_under_a_new_name_with_all_that_was_acknowledged(case, tmp_path):
    source = case.owner()
    back_up(case)
    acknowledged = facts(case, source, lambda said: said["ack"] > 30)["ack"]
    back_up(case)
    restored_under_a_new_name(case, tmp_path, source, acknowledged, berth_backup_to=TO)


def test_a_backup_in_place_gives_back_what_was_there_and_what_came_later_is_gone(case):
    source = case.owner()
    back_up(case)
    before = facts(case, source)
    later = facts(case, source, lambda said: said["ack"] > before["ack"] + 20)["ack"]
    case.play("stop")
    said = case.play("restore", {"berth_backup_to": TO}, check=False)
    assert said.rc and "RestoreDiscards" in said.output
    case.play("restore", {"berth_backup_to": TO, "berth_restore_discards": cases.NAME})
    case.play("start")
    inside = facts(case, source, verified)
    assert inside["verify"]["result"] == "ok" and inside["verify"]["last"] < later


@pytest.mark.parametrize("who", ["module", "libvirtd", "guest"])
@pytest.mark.slow
def test_a_backup_that_is_killed_leaves_the_last_one_whole_and_moves_go_on(case, who):
    source = case.owner()
    first = back_up(case)[0]
    process = case.start("backup", {"berth_backup_to": TO, "berth_backup_full": True})
    until = time.monotonic() + 60
    while not case.lab.sh(source, "ls -d %s/*/.partial-*" % TO, check=False).stdout:
        assert time.monotonic() < until
    if who == "module":
        case.lab.sh(source, "pkill -9 -f [A]nsiballZ_instance_backup; true")
    elif who == "libvirtd":
        case.lab.restart_libvirtd(source)
    else:
        case.lab.sh(source, "virsh destroy $(virsh -q list --name | head -1); true")
    process.communicate(timeout=120)
    found = backups_of(case)
    assert "CANNOT" not in found[first] and len(found) <= 2
    if who == "guest":
        case.play("start")
    case.play("live_migrate", {"berth_target_host": other_host(case, source)})
    back_up(case)
    assert not [line for line in backups_of(case).values() if "CANNOT" in line]
    assert case.lab.sh(source, "ls -A %s/*/" % TO).stdout.count(".partial") == 0


def leave_backup(case, host, day):  # noqa: F811
    """As a run leaves it that is killed while it reads the disks."""
    disk, target = case.lab.sh(host, ROOT_DISK).stdout.split()[::-1]
    number = case.lab.sh(host, "virsh -q list --id").stdout.strip()
    directory = case.lab.sh(host, "ls -d /var/lib/libvirt/qemu/domain-%s-*/" % number).stdout.strip()
    files = {"backup": OURS % (directory, target, disk), "checkpoint": NOTED % (day, target)}
    for name, text in files.items():
        case.lab.sh(host, "echo '%s' > /tmp/%s.xml" % (text, name))
    case.lab.sh(host, "virsh backup-begin $(virsh -q list --name) /tmp/backup.xml /tmp/checkpoint.xml")


def is_left(case, host):  # noqa: F811
    return case.lab.sh(host, "virsh backup-dumpxml $(virsh -q list --name)", check=False).rc == 0


@pytest.mark.slow
def test_whatever_is_done_after_a_killed_backup_ends_what_it_left(case):
    source = case.owner()
    done = (
        ("snapshot", {"berth_snapshot": "one"}),
        ("delete_snapshot", {"berth_snapshot": "one"}),
        ("pause", {}),
        ("unpause", {}),
        ("suspend", {}),
        ("reboot", {}),
        ("live_migrate", {"berth_target_host": other_host(case, source)}),
        ("cold_migrate", {"berth_target_host": source}),
        ("revert_resize", {}),
        ("stop", {}),
    )
    for day, (playbook, more) in enumerate(done):
        host = case.owner()
        leave_backup(case, host, day)
        assert is_left(case, host)
        case.play(playbook, more)
        assert not is_left(case, host) and "berth-backup" not in case.lab.sh(host, NOTES).stdout, playbook
        assert not case.lab.sh(host, "ls /var/lib/libvirt/berth/instances/*/*.scratch", check=False).stdout, playbook
        if playbook == "suspend":
            case.play("resume")


@pytest.mark.slow
def test_variables_and_tpm_of_a_backup_go_on_under_a_new_name_on_another_host(case, image, inventory):
    """libvirt gives the files to QEMU and swtpm, which go on with what the other guest had written."""
    source, target = case.lab.hosts[:2]
    firmware = {"properties": {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}}
    flavor = {"vcpus": 1, "memory_mb": 256, "root_gb": 1, "extra_specs": {"hw:tpm_version": "2.0"}}
    variables = {"berth_images": {"efi": {**image, **firmware}}, "berth_flavors": {"tpm": flavor}}
    path = inventory({name: {"berth_flavor": "tpm", "berth_image": "efi"} for name in ("efi1", "efi2")}, variables)

    def play(playbook, name, **given):
        given = {"berth_backup_to": TO, "berth_shutdown_timeout": 1, **given}
        return case.lab.ansible_playbook("berth.kvm." + playbook, "--limit", name, inventory=[path], extra_vars=given)

    def kept(host, name):
        uuid = instance_uuid("default", name)
        return case.lab.sh(host, KEPT.format(uuid=uuid)).stdout.split()

    play("create", "efi1", berth_target_host=source)
    play("stop", "efi1")
    assert "with UEFI variables; with the state of its TPM" in play("backup", "efi1").output
    play("create", "efi2", berth_target_host=target, berth_state="stopped")
    play("restore", "efi2", berth_backup_of="efi1", berth_restore_discards="efi2")
    assert kept(target, "efi2") == kept(source, "efi1")
    play("start", "efi2")
    assert case.lab.domains(target) == [instance_uuid("default", "efi2")]
    for name in ("efi1", "efi2"):
        play("delete", name)
