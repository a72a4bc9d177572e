# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""host_facts over SSH on real hosts: true numbers, hung guests, full disks, foreign domains, a dead libvirt."""

from __future__ import annotations

import json
import time

import pytest

DOMAIN = """<domain type='qemu'><name>%(name)s</name><memory unit='MiB'>%(memory)d</memory><vcpu>%(vcpus)d</vcpu>
<os><type arch='x86_64'>hvm</type></os><devices>%(devices)s</devices></domain>"""
DISK = """<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='%s'/>
<target dev='vda' bus='virtio'/></disk>"""
POOL = "/var/lib/libvirt/berth"


def define(lab, host, name, memory=64, vcpus=1, devices=""):
    xml = DOMAIN % {"name": name, "memory": memory, "vcpus": vcpus, "devices": devices}
    lab.sh(host, "cat > /tmp/%s.xml <<'X'\n%s\nX\nvirsh -q define /tmp/%s.xml" % (name, xml, name))


def facts(lab, host, **arguments):
    return lab.module(host, "berth.kvm.host_facts", arguments)["ansible_facts"]["berth_host"]


@pytest.fixture
def host(lab):
    return lab.host(1)


def test_every_host_tells_its_own_size(lab):
    """S13: the sizes that the lab gave its hosts."""
    found = [facts(lab, lab.host(number)) for number in (1, 2, 3)]
    assert [(document["vcpus"], document["memory_mb"]) for document in found] == [(8, 16384), (4, 8192), (2, 4096)]
    assert [len(document["numa_topology"]["cells"]) for document in found] == [2, 1, 1]
    assert len({document["uuid"] for document in found}) == 3
    assert all(document["prepared"] and "qemu" in document["domain_types"] for document in found)


def test_a_foreign_domain_counts_and_is_left_alone(lab, host):
    """S20, I9: switched off, it counts at its full size all the same."""
    lab.sh(host, "qemu-img create -q -f qcow2 %s/foreign.qcow2 3G" % POOL)
    define(lab, host, "foreign", memory=512, vcpus=2, devices=DISK % (POOL + "/foreign.qcow2"))
    before = lab.sh(host, "virsh dumpxml --inactive foreign").stdout
    document = facts(lab, host)
    lab.sh(host, "rm %s/foreign.qcow2" % POOL)
    (instance,) = [instance for instance in document["instances"] if instance["name"] == "foreign"]
    assert (instance["foreign"], instance["power_state"]) == (True, "shutdown")
    assert (document["memory_mb_used"], document["vcpus_used"], document["local_gb_used"]) == (512, 2, 3)
    assert lab.sh(host, "virsh dumpxml --inactive foreign").stdout == before


def test_a_hung_qemu_is_named_and_holds_nobody_up(lab, host):
    """Hazard: asking a stopped QEMU for statistics blocks for ever."""
    define(lab, host, "hung")
    lab.sh(host, "virsh -q start hung")
    lab.hang(host, "hung")
    began = time.monotonic()
    document = facts(lab, host, timeout=10)
    assert time.monotonic() - began < 15
    assert any("hung" in warning and "stopped" in warning for warning in document["warnings"])
    lab.unhang(host, "hung")
    assert facts(lab, host)["warnings"] == []


def test_a_hung_qemu_that_libvirt_waits_for_is_named_too(lab, host):
    """Hazard: the same after somebody has walked into it."""
    define(lab, host, "hung")
    lab.sh(host, "virsh -q start hung")
    lab.hang(host, "hung")
    lab.sh(host, "timeout 3 virsh domstats hung", check=False)
    document = facts(lab, host, timeout=10)
    assert any("has not answered" in warning for warning in document["warnings"])


def test_a_full_disk_is_seen_at_once(lab, host):
    """Hazard: libvirt's numbers of a pool are those of its last refresh."""
    before = facts(lab, host)["pools"]["berth"]["free_gb"]
    lab.sh(host, "fallocate -l %dG %s/filler" % (before, POOL))
    try:
        pool = facts(lab, host)["pools"]["berth"]
    finally:
        lab.sh(host, "rm %s/filler" % POOL)
    assert pool["free_gb"] == 0


def test_a_libvirt_that_is_down_is_a_typed_failure_and_no_traceback(lab, host):
    lab.kill_libvirtd(host)
    result = lab.module(host, "berth.kvm.host_facts", check=False)
    lab.restart_libvirtd(host)
    assert result["error_code"] == "LibvirtUnavailable"
    assert "Traceback" not in json.dumps(result)


def test_a_libvirt_that_hangs_ends_within_the_timeout(lab, host):
    lab.sh(host, "pkill -STOP -x libvirtd")
    try:
        began = time.monotonic()
        result = lab.module(host, "berth.kvm.host_facts", {"timeout": 3}, check=False)
        assert time.monotonic() - began < 15
    finally:
        lab.sh(host, "pkill -CONT -x libvirtd")
    assert result["error_code"] == "LibvirtTimeout"


def test_the_generation_stays_while_nothing_changes_and_grows_when_something_does(lab, host):
    """S16"""
    first, second = facts(lab, host)["generation"], facts(lab, host)["generation"]
    define(lab, host, "new")
    assert (second, facts(lab, host)["generation"]) == (first, first + 1)
