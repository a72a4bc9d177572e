# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Domains that berth did not make: read from inactive XML, counted at their full size, never asked through QEMU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from types import SimpleNamespace

import pytest
from instance_case import OTHER, Case
from packet_filter_case import nic

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domains, network
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.model import nics

XML = """<domain type='kvm'><name>db</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid>
<memory unit='KiB'>1048577</memory><currentMemory unit='KiB'>524288</currentMemory>
<vcpu placement='static' current='1'>4</vcpu>
<memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>
<numatune><memory mode='strict' nodeset='1'/></numatune>
<cputune><vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='3-4,^4'/></cputune>
<devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/a'/><target dev='vda'/></disk>
<disk type='block' device='lun'><source dev='/dev/b'/><target dev='vdb'/></disk>
<disk type='file' device='cdrom'><source file='/c.iso'/><target dev='hda'/></disk>
<disk type='network' device='disk'><source protocol='rbd' name='x'/><target dev='vdc'/></disk>
<disk type='file' device='disk'><target dev='vdd'/></disk>
<hostdev mode='subsystem' type='pci'><source>
<address domain='0x0000' bus='0x81' slot='0x10' function='0x1'/></source></hostdev>
<hostdev mode='subsystem' type='usb'><source><address bus='1' device='2'/></source></hostdev>
<interface type='hostdev'><source>
<address type='pci' domain='0x0000' bus='0x81' slot='0x10' function='0x2'/></source></interface>
</devices></domain>"""
PLAIN = "<domain><name>p</name><uuid>u</uuid><memory unit='KiB'>65536</memory><vcpu>1</vcpu><devices/></domain>"


def test_the_most_a_domain_may_use_counts_not_what_it_uses_now():
    domain = domains.parse(XML)
    assert (domain.vcpus, domain.memory_mb) == (4, 1025)


def test_disks_here_are_listed_with_the_format_the_domain_declares():
    assert domains.parse(XML).disks == (domains.Disk("/a", "qcow2"), domains.Disk("/dev/b", "raw"))


def test_pci_devices_of_both_notations_are_found():
    assert domains.parse(XML).pci_addresses == ("0000:81:10.1", "0000:81:10.2")


def test_pins_and_huge_pages_are_read():
    domain = domains.parse(XML)
    assert domain.pinned_cpus == {2, 3}
    assert (domain.huge_page_kb, domain.memory_nodes) == (2048, {1})


def foreign(domain):
    return facts._foreign(domain, {domain.uuid: (None, "running")}, {}, None, frozenset())


def test_a_guest_whose_record_was_lost_tells_of_its_addresses(prepared, wanted, monkeypatch):
    """Else another instance would get them before the record is taken back."""
    monkeypatch.setattr(network, "check", lambda *_: None)
    case = Case(prepared, wanted("web1"))
    case.spec["networks"] = [nic(address="192.0.2.7/24"), nic(mac="02:00:00:00:00:02")]
    case.make()
    text = case.domain.xml
    found = domains.parse(text)
    told = foreign(found)["nics"]
    assert sorted(told) == sorted(nics.taken(case.spec["networks"])) and len(told) == 3
    for edited in ('{"spec": 7}', "x", "null", '{"spec": {"networks": [7]}}'):
        copy = re.sub("(<[a-z0-9]*:?record>)[^<]*<", lambda found, edited=edited: found[1] + edited + "<", text)
        told = foreign(domains.parse(copy))["nics"]
        assert copy != text and sorted(told) == [
            word for word in sorted(nics.taken(case.spec["networks"])) if "MAC" in word
        ]


def test_a_copy_of_a_guest_under_another_uuid_is_somebody_elses_with_the_addresses_that_it_has(
    prepared, wanted, monkeypatch
):
    """virsh edit and virt-clone take berth's mark along; a record of that uuid was never lost."""
    monkeypatch.setattr(network, "check", lambda *_: None)
    case = Case(prepared, wanted("web1"))
    case.spec["networks"] = [nic(address="192.0.2.7/24")]
    case.make()
    copy = case.domain.xml.replace("<uuid>%s<" % case.uuid, "<uuid>%s<" % OTHER)
    for part in ("<name>%s<", "/%s-console.log"):
        copy = copy.replace(part % case.uuid, part % OTHER[::-1])
    copy = copy.replace(case.spec["networks"][0]["mac"], "52:54:00:00:00:01")
    assert domains.parse(case.domain.xml).managed and not domains.parse(copy).managed
    told = foreign(domains.parse(copy))
    assert (told["managed"], told["nics"]) == (False, ["MAC address 52:54:00:00:00:01"])


def test_a_plain_domain_has_none_of_it():
    domain = domains.parse(PLAIN)
    assert (domain.pinned_cpus, domain.huge_page_kb, domain.disks, domain.pci_addresses) == (frozenset(), None, (), ())


def test_disks_are_counted_by_file_system_and_an_unreadable_one_is_named(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(b"x" * 4096)
    domain = SimpleNamespace(name="db", disks=(domains.Disk(str(disk), "raw"), domains.Disk("/nonexistent", "raw")))
    warnings = []
    use = domains.disk_use(domain, warnings)
    assert use[os.stat(tmp_path).st_dev][0] == 4096
    assert warnings == ["the size of disk /nonexistent of domain db is unknown: No such file or directory"]


def test_all_domains_of_libvirts_test_driver_are_read():
    pytest.importorskip("libvirt")
    found = domains.states(connection.connect(uri="test:///default"))
    (domain, state) = found["6695eb01-f6a4-8304-79aa-97f2502e193f"]
    assert state == "running"
    assert domains.read(domain).memory_mb == 8192


class Guest:
    """A domain of libvirt's that answers controlInfo()."""

    def __init__(self, state, waited):
        self.info = [state, 0, waited]

    def controlInfo(self):
        return self.info

    def name(self):
        return "guest"


@pytest.mark.parametrize(
    ("state", "waited", "power_state", "hangs"),
    [(0, 0, "running", False), (2, 5000, "running", True), (2, 20, "running", False), (2, 5000, "shutdown", False)],
    ids=["idle", "QEMU is silent", "QEMU was asked just now", "not running"],
)
def test_a_guest_hangs_when_libvirt_waits_for_its_qemu(tmp_path, state, waited, power_state, hangs):
    """Hazard: a hung QEMU blocks everyone who asks it something for ever."""
    pytest.importorskip("libvirt")
    found = {"u": (Guest(state, waited), power_state)}
    assert bool(domains.hung(found, str(tmp_path))) is hangs


def test_a_guest_hangs_when_its_process_is_stopped(tmp_path):
    pytest.importorskip("libvirt")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            (tmp_path / "guest.pid").write_text("%d" % process.pid)
            assert domains.hung({"u": (Guest(0, 0), "running")}, str(tmp_path)) == {}
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            assert domains.hung({"u": (Guest(0, 0), "running")}, str(tmp_path)) == {"u": "its QEMU process is stopped"}
        finally:
            process.kill()
