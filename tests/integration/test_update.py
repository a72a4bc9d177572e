# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance that runs gets a NIC, limits and metadata by update, seen from outside, from its network, and by libvirt; it is not
restarted, and the second run changes nothing."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from playbooks import FLAVORS, catalog, homes, vm

# The hosts of the lab have no cgroups and no queueing disciplines, which limits of CPUs and NICs need.
LIMITS = {"quota:disk_total_iops_sec": "900"}
LIMITED = {"berth_flavors": {**FLAVORS, "tiny": {**FLAVORS["tiny"], "extra_specs": LIMITS}}}


def play(lab, path, playbook, *more, **options):
    every = ("-e", "berth_all=true") if playbook == "update" else ()
    return lab.ansible_playbook("berth.kvm." + playbook, *every, *more, inventory=[path], **options)


def told(run):
    """The output, whatever the width of the table."""
    return " ".join(run.output.split())


def running(lab, host):
    return ElementTree.fromstring(lab.sh(host, "virsh dumpxml $(virsh -q list --uuid)").stdout)


def iops(lab, host, root):
    target = root.find("devices/disk/target").get("dev")
    said = lab.sh(host, "virsh blkdeviotune $(virsh -q list --uuid) %s" % target).stdout
    return re.search(r"total_iops_sec *: *([0-9]+)", said)[1]


def macs(root):
    return [each.find("mac").get("address") for each in root.iterfind("devices/interface")]


def test_a_running_guest_gets_and_loses_a_nic_and_limits_and_the_second_run_changes_nothing(lab, image, inventory):
    one = inventory({"a": vm()}, catalog(image))
    play(lab, one, "create")
    first = lab.guest_facts("a", timeout=180)
    (host,) = homes(lab).values()
    before = macs(running(lab, host))

    two = inventory({"a": vm(networks=["lan", "lan"], metadata={"role": "db"})}, catalog(image, **LIMITED), "two.yml")
    assert "berth.kvm.update --limit a" in told(play(lab, two, "create"))
    planned = told(play(lab, two, "update", "--check", "--diff"))
    assert "added while the guest runs" in planned and macs(running(lab, host)) == before
    done = play(lab, two, "update")
    assert done.changed["a"] > 0, done.output
    root = running(lab, host)
    added = [mac for mac in macs(root) if mac not in before]
    assert len(added) == 1 and len(macs(root)) == 2
    assert iops(lab, host, root) == "900"
    second = play(lab, two, "update")
    assert second.changed.get("a", 0) == 0, second.output
    said = play(lab, two, "create")
    assert said.changed.get("a", 0) == 0 and "berth.kvm.update" not in told(said), said.output

    back = play(lab, one, "update")
    assert back.changed["a"] > 0, back.output
    assert macs(running(lab, host)) == before
    assert iops(lab, host, root) == "0"
    assert play(lab, one, "update").changed.get("a", 0) == 0
    assert lab.guest_facts("a", host, timeout=60)["nonce"] == first["nonce"], "it was not restarted"


def disks_of(lab, host):
    """(names of the disks of the running guest by their serials, those of the files in its directory)"""
    files = lab.sh(host, "ls /var/lib/libvirt/berth/instances/*/").stdout.split()
    serials = [each.text for each in running(lab, host).iterfind("devices/disk/serial")]
    return serials, sorted(file for file in files if file.startswith("data-"))


def test_a_running_guest_loses_the_data_disk_that_was_given_up_and_no_other(lab, image, inventory):
    both = inventory({"a": vm(disks={"scratch": {"size_gb": 1}, "logs": {"size_gb": 1}})}, catalog(image))
    play(lab, both, "create")
    first = lab.guest_facts("a", timeout=180)
    (host,) = homes(lab).values()
    one = inventory({"a": vm(disks={"logs": {"size_gb": 1}})}, catalog(image), "one.yml")
    discards = ("-e", "berth_update_discards=scratch")

    assert "berth_update_discards=scratch" in told(play(lab, one, "update"))
    planned = told(play(lab, one, "update", *discards, "--check", "--diff"))
    assert "data disk scratch of 1 GiB: removed while the guest runs" in planned
    assert disks_of(lab, host) == (["scratch", "logs"], ["data-logs.qcow2", "data-scratch.qcow2"])

    done = play(lab, one, "update", *discards)
    assert done.changed["a"] > 0 and "data disk scratch of 1 GiB" in told(done), done.output
    assert disks_of(lab, host) == (["logs"], ["data-logs.qcow2"])
    assert play(lab, one, "update", *discards).changed.get("a", 0) == 0
    assert "data disk" not in told(play(lab, one, "create"))

    play(lab, both, "update")
    assert sorted(disks_of(lab, host)[0]) == ["logs", "scratch"]
    play(lab, one, "live_migrate", "--limit", "a")
    (there,) = homes(lab).values()
    assert there != host and sorted(disks_of(lab, there)[0]) == ["logs", "scratch"]
    assert lab.guest_facts("a", there, timeout=60)["nonce"] == first["nonce"], "it was not restarted"
