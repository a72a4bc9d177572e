# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest on a real host whose boot sector is gone boots from another image, and from its own disk once that is repaired."""

from __future__ import annotations

from test_resize import BIG, cases, facts

ROOT = "/var/lib/libvirt/berth/instances/*/root.qcow2"
SAVE = "qemu-img convert -O raw %s /tmp/own && head -c 440 /tmp/own > /tmp/sector && rm /tmp/own" % ROOT
BREAK = "qemu-io -f qcow2 -c 'write -P 0 0 440' %s" % ROOT
REPAIR = "qemu-io -f qcow2 -c 'write -s /tmp/sector 0 440' %s" % ROOT
READ = "virsh domblkstat $(virsh -q list --name) %s | awk '/rd_bytes/ {print $3}'"
LIST = "virsh -q domblklist $(virsh -q list --all --name)"
RESCUE = {"berth_rescue_image": "rescue"}


def state(case, host):
    (record,) = case.look(host)["records"]
    return record["vm_state"], record["task_state"], record["power_state"]


def targets(lab, host):
    """Its disks, by their names and files."""
    return "\n".join(" ".join(each.split()) for each in lab.sh(host, LIST).stdout.splitlines())


def what_would_touch_its_disks_is_refused(case, told):
    for refused in ("stop", "reboot", "pause", "snapshot", "cold_migrate", "resize"):
        said = case.play(
            refused, {**told, "berth_snapshot": "one", **(BIG if refused == "resize" else {})}, check=False
        )
        assert said.rc and "berth.kvm.unrescue --limit mover" in " ".join(said.output.split()), said.output


def rescued_from_a_cd(lab, case, host, image, disks):
    as_cd = {"berth_images": {"guest": image, "rescue": {**image, "properties": {"hw_rescue_device": "cdrom"}}}}
    assert case.play("rescue", {**as_cd, **RESCUE}).changed["mover"] == 1
    (target,) = [each.split()[0] for each in targets(lab, host).splitlines() if "rescue.qcow2" in each]
    assert target.startswith("sd") and int(lab.sh(host, READ % target).stdout) > 0  # the firmware looked at it first
    assert case.play("doctor", as_cd, check=False).output.count("DomainDiffers") == 0
    assert case.play("unrescue", as_cd).changed["mover"] == 1 and targets(lab, host) == disks


def test_a_guest_that_does_not_boot_is_rescued_repaired_and_goes_back(lab, image, tmp_path):
    case, told = cases.Case(lab, image, tmp_path), {"berth_images": {"guest": image, "rescue": image}}
    case.play("create", told)
    host = case.owner()
    before, (was,), disks = (
        facts(case, host, lambda said: said["ack"] > 0),
        case.look(host)["records"],
        targets(lab, host),
    )
    case.play("stop", told)
    lab.sh(host, SAVE)
    lab.sh(host, BREAK)

    assert case.play("rescue", {**told, **RESCUE}).changed["mover"] == 1
    assert case.play("rescue", {**told, **RESCUE}).changed.get("mover", 0) == 0
    assert state(case, host) == ("rescued", None, "running")
    inside = facts(case, host, lambda said: said["nonce"] != before["nonce"] or said["boots"] != before["boots"])
    assert inside["ack"] >= 0
    (target,) = [each.split()[0] for each in targets(lab, host).splitlines() if "rescue.qcow2" in each]
    assert int(lab.sh(host, READ % target).stdout) > 1 << 20  # kernel and initrd came from it
    assert set(disks.splitlines()) < set(targets(lab, host).splitlines())

    what_would_touch_its_disks_is_refused(case, told)
    assert case.play("create", told).changed.get("mover", 0) == 0
    lab.sh(host, "virsh destroy $(virsh -q list --name); rm -rf /run/berth/permits/*")
    assert case.play("start_after_outage", told).changed["mover"] == 1
    assert state(case, host) == ("rescued", None, "running")

    lab.sh(host, "virsh destroy $(virsh -q list --name)")
    lab.sh(host, REPAIR)
    assert case.play("unrescue", told).changed["mover"] == 1
    assert case.play("unrescue", told).changed.get("mover", 0) == 0
    (now,) = case.look(host)["records"]
    assert (state(case, host), now["spec"], now["resources"]) == (
        ("active", None, "running"),
        was["spec"],
        was["resources"],
    )
    assert targets(lab, host) == disks and "rescue" not in lab.sh(host, "ls /var/lib/libvirt/berth/instances/*").stdout
    assert facts(case, host, lambda said: said["ack"] > 0)["verify"]["result"] == "ok"

    rescued_from_a_cd(lab, case, host, image, disks)
    case.play("delete", told)
