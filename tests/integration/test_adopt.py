# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that libvirt alone made become instances while they run, and guests again: with real QEMUs, each with its own kind of
machine, firmware and disks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
import yaml

from playbooks import records

PLAIN, WIDE, UEFI, CLONE = ("%d0adf7e1-3c6e-4d59-9d0b-3a1c9d7f1e2a" % at for at in (1, 2, 3, 4))
DOMAIN = """<domain type="qemu"><name>%(name)s</name><uuid>%(uuid)s</uuid><memory unit="MiB">128</memory><vcpu>%(vcpus)d</vcpu>
<os%(efi)s><type arch="x86_64" machine="%(machine)s">hvm</type>%(firmware)s</os><features><acpi/><apic/></features><devices>
%(disks)s<disk type="file" device="cdrom"><target dev="sdz" bus="sata"/><readonly/></disk>%(nics)s
<serial type="file"><source path="/var/log/libvirt/qemu/%(name)s-serial.log"/><target port="0"/></serial></devices></domain>"""
DISK = '<disk type="file" device="disk"><driver name="qemu" type="%s"/><source file="%s"/><target dev="%s" bus="virtio"/></disk>'
NIC = '<interface type="bridge"><mac address="52:54:00:0a:0d:%s"/><source bridge="br0"/><model type="virtio"/></interface>'
NO_SECURE_BOOT = '<firmware><feature enabled="no" name="secure-boot"/></firmware>'
FILES = """set -e; mkdir -p /var/lib/libvirt/other; cd /var/lib/libvirt/images
qemu-img convert -f qcow2 -O raw /srv/shared/images/guest.qcow2 plain.img
cp /srv/shared/images/guest.qcow2 wide.qcow2; qemu-img create -q -f qcow2 /var/lib/libvirt/other/data.qcow2 16M
qemu-img create -q -f qcow2 uefi.qcow2 1G
qemu-img create -q -f qcow2 -F qcow2 -b /srv/shared/images/guest.qcow2 clone.qcow2"""
IMAGES = "/var/lib/libvirt/images/"
GUESTS = (
    ("plain", PLAIN, "pc", 1, [DISK % ("raw", IMAGES + "plain.img", "vda")], ["01"]),
    (
        "Wide_1",
        WIDE,
        "q35",
        2,
        [DISK % ("qcow2", IMAGES + "wide.qcow2", "vda"), DISK % ("qcow2", "/var/lib/libvirt/other/data.qcow2", "vdb")],
        ["02", "03"],
    ),
    ("uefi", UEFI, "q35", 1, [DISK % ("qcow2", IMAGES + "uefi.qcow2", "vda")], ["04"]),
    ("clone", CLONE, "q35", 1, [DISK % ("qcow2", IMAGES + "clone.qcow2", "vda")], ["05"]),
)
INSTANCES = {
    "plain": {"berth_adopted": PLAIN, "berth_flavor": "plain", "berth_flavors": {"plain": {"vcpus": 1, "memory_mb": 128, "root_gb": 1}}},
    "wide": {"berth_adopted": WIDE, "berth_flavor": "wide", "berth_flavors": {"wide": {"vcpus": 2, "memory_mb": 128, "root_gb": 1}}},
    "uefi": {"berth_adopted": UEFI, "berth_flavor": "plain", "berth_flavors": {"plain": {"vcpus": 1, "memory_mb": 128, "root_gb": 1}}},
}  # fmt: skip


def define(lab, host):
    lab.sh(host, FILES)
    for name, uuid, machine, vcpus, disks, nics in GUESTS:
        efi = name == "uefi"
        xml = DOMAIN % {
            "name": name, "uuid": uuid, "machine": machine, "vcpus": vcpus, "disks": "".join(disks),
            "nics": "".join(NIC % nic for nic in nics), "efi": ' firmware="efi"' * efi,
            "firmware": NO_SECURE_BOOT * efi,
        }  # fmt: skip
        lab.sh(host, "cat > /tmp/adopt.xml <<'X'\n%s\nX\nvirsh define /tmp/adopt.xml && virsh start %s" % (xml, name))


def seen(lab, host, name):
    """(the process of the guest, what it sees by its definition)."""
    root = ElementTree.fromstring(lab.sh(host, "virsh dumpxml --inactive %s" % name).stdout)
    for metadata in root.findall("metadata"):
        root.remove(metadata)
    text = ElementTree.canonicalize(ElementTree.tostring(root, encoding="unicode"), strip_text=True)
    return lab.sh(host, "cat /run/libvirt/qemu/%s.pid" % name).stdout.strip(), text


@pytest.fixture
def guests(lab):
    """The host with the four guests, which are gone afterwards."""
    host = lab.host(1)
    define(lab, host)
    yield host
    for name, *_rest in GUESTS:
        lab.sh(host, "virsh destroy %s; virsh undefine %s --nvram; true" % (name, name))
    lab.sh(host, "rm -rf /var/lib/libvirt/other; rm -f /var/lib/libvirt/images/*")


@pytest.mark.slow
def test_guests_of_all_kinds_become_instances_as_they_run_and_leave_again(lab, guests, tmp_path):
    path = tmp_path / "vms.yml"
    path.write_text(yaml.safe_dump({"vms": {"hosts": INSTANCES}}), "utf-8")
    names = {"plain": "plain", "wide": "Wide_1", "uefi": "uefi"}
    before = {name: seen(lab, guests, domain) for name, domain in names.items()}

    listed = lab.ansible_playbook("berth.kvm.adopt").output
    assert all("-e berth_adopted=%s" % uuid in listed for uuid in (PLAIN, WIDE, UEFI, CLONE)) and records(lab) == []

    def play(playbook, *more, check=True):
        limit = ",".join(INSTANCES)
        return lab.ansible_playbook("berth.kvm." + playbook, "--limit", limit, *more, inventory=[path], check=check)

    assert play("adopt", "--check").changed and records(lab) == []
    assert set(play("adopt").changed) >= set(INSTANCES)
    assert {name: seen(lab, guests, domain) for name, domain in names.items()} == before
    assert records(lab) == sorted((guests, name, "OWN") for name in names)
    assert not any(play("adopt").changed.get(name) for name in names)
    assert not any(play("create").changed.get(name) for name in names)
    assert "Nothing was found" in lab.ansible_playbook("berth.kvm.doctor", inventory=[path]).output

    for playbook in ("live_migrate", "cold_migrate"):
        refused = play(playbook, check=False)
        assert refused.rc and "has a serial of type file" in refused.output, playbook
    assert {name: seen(lab, guests, domain) for name, domain in names.items()} == before

    play("stop", "-e", "berth_shutdown_timeout=10")
    assert re.search("no permit", lab.sh(guests, "virsh start plain", check=False).output)
    play("start")
    again = {name: seen(lab, guests, domain) for name, domain in names.items()}
    assert {name: text for name, (_pid, text) in again.items()} == {name: text for name, (_pid, text) in before.items()}

    lab.sh(guests, "virsh destroy plain && virsh undefine plain")
    play("start")
    assert seen(lab, guests, "plain")[1] == before["plain"][1]

    running = {name: seen(lab, guests, domain) for name, domain in names.items()}
    left = play("leave").output
    assert "/var/lib/libvirt/images/plain.img" in re.sub(r"\s+", "", left)
    assert {name: seen(lab, guests, domain) for name, domain in names.items()} == running and records(lab) == []
    lab.sh(guests, "for guest in plain Wide_1 uefi; do ! virsh dumpxml $guest | grep berth || exit 1; done")
    lab.sh(guests, "virsh destroy plain && virsh start plain")
    play("adopt")
    play("leave")
