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
