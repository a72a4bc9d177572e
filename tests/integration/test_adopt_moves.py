# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that libvirt alone made are adopted, resized, moved and backed up: one that writes, which loses nothing of what it
acknowledged, and one with all that virt-install gives by default."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import seed
from playbooks import homes, records

NAME, UUID = "writer", "70adf7e1-3c6e-4d59-9d0b-3a1c9d7f1e2a"
IMAGES = "/var/lib/libvirt/images/"
DOMAIN = """<domain type="qemu"><name>Old_Writer</name><uuid>%(uuid)s</uuid><memory unit="MiB">128</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="pc">hvm</type><boot dev="hd"/></os>
<features><acpi/><apic/></features><clock offset="utc"/><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="%(images)swriter.qcow2"/>
<target dev="vda" bus="virtio"/><serial>OLD-1</serial></disk>
<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="%(images)sseed.img"/><target dev="vdb" bus="virtio"/></disk>
<disk type="file" device="cdrom"><target dev="sda" bus="sata"/><readonly/></disk>
<interface type="bridge"><mac address="52:54:00:0a:0d:77"/><source bridge="br0"/><model type="virtio"/></interface>
<serial type="pty"><log file="/var/log/libvirt/qemu/Old_Writer-console.log" append="on"/><target port="0"/></serial>
<rng model="virtio"><backend model="random">/dev/urandom</backend></rng></devices></domain>"""
DEFAULTS_UUID = "80adf7e1-3c6e-4d59-9d0b-3a1c9d7f1e2a"
# As virt-install 4.1 --boot uefi --tpm none --osinfo debian11 writes it.
DEFAULTS = """<domain type="qemu"><name>defaults</name><uuid>%(uuid)s</uuid>
<metadata><o:libosinfo xmlns:o="http://libosinfo.org/xmlns/libvirt/domain/1.0"><o:os id="http://debian.org/debian/11"/></o:libosinfo></metadata>
<memory>131072</memory><currentMemory>131072</currentMemory><vcpu>1</vcpu>
<os firmware="efi"><type arch="x86_64" machine="q35">hvm</type><boot dev="hd"/></os>
<features><acpi/><apic/><vmport state="off"/></features>
<clock offset="utc"><timer name="rtc" tickpolicy="catchup"/><timer name="pit" tickpolicy="delay"/><timer name="hpet" present="no"/></clock>
<pm><suspend-to-mem enabled="no"/><suspend-to-disk enabled="no"/></pm><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="%(images)sdefaults.qcow2"/>
<target dev="vda" bus="virtio"/></disk>
<disk type="file" device="cdrom"><target dev="sda" bus="sata"/><readonly/></disk>
<controller type="usb" model="qemu-xhci" ports="15"/><controller type="pci" model="pcie-root"/>
<controller type="pci" model="pcie-root-port"/><controller type="pci" model="pcie-root-port"/>
<interface type="bridge"><mac address="52:54:00:0a:0d:78"/><source bridge="br0"/><model type="virtio"/></interface>
<interface type="bridge"><mac address="52:54:00:0a:0d:79"/><source bridge="br0"/><model type="virtio"/></interface>
<console type="pty"/><channel type="unix"><source mode="bind"/><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
<channel type="spicevmc"><target type="virtio" name="com.redhat.spice.0"/></channel><input type="tablet" bus="usb"/>
<graphics type="spice" port="-1" tlsPort="-1" autoport="yes"><image compression="off"/></graphics><sound model="ich9"/>
<video><model type="virtio"/></video><redirdev bus="usb" type="spicevmc"/><redirdev bus="usb" type="spicevmc"/>
<memballoon model="virtio"/><rng model="virtio"><backend model="random">/dev/urandom</backend></rng></devices></domain>"""
FLAVORS = {
    "old": {"vcpus": 1, "memory_mb": 128, "root_gb": 1},
    "big": {"vcpus": 2, "memory_mb": 192, "root_gb": 2},
}
GONE = ("metadata", "name", "title", "resource", "seclabel")


def define(lab, host):
    iso = seed.iso_image(
        "cidata",
        {
            "meta-data": b"instance-id: x\nlocal-hostname: writer\n",
            "user-data": b"#cloud-config\n# lab-writer: on\n# lab-writer-pause: 100\n",
        },
    )
    xml = DOMAIN % {"uuid": UUID, "images": IMAGES}
    lab.sh(host, "base64 -d > %sseed.img <<'X'\n%s\nX" % (IMAGES, base64.encodebytes(iso).decode()))
    lab.sh(host, "cp /srv/shared/images/guest.qcow2 %swriter.qcow2" % IMAGES)
    lab.sh(host, "cat > /tmp/w.xml <<'X'\n%s\nX\nvirsh define /tmp/w.xml && virsh start Old_Writer" % xml)


def seen(lab, host):
    """What the guest sees by its definition: without what is of its host."""
    root = ElementTree.fromstring(lab.sh(host, "virsh dumpxml --inactive %s" % UUID).stdout)
    for part in GONE:
        for element in root.findall(part):
            root.remove(element)
    for element in (*root.iterfind("devices/disk/source"), *root.iterfind("devices/*/log")):
        element.attrib.pop("file", None)
    return ElementTree.canonicalize(ElementTree.tostring(root, encoding="unicode"), strip_text=True)


def written(lab, host, after=0):
    """Until it has acknowledged more -> how much. What it finds at a start of all that, it says then; None: it was not started."""
    said = lab.guest_facts(NAME, host, timeout=240, until=lambda said: said["ack"] > after)
    assert (said["verify"] or {"result": "ok"})["result"] in ("ok", "none")
    return said["ack"]


@pytest.mark.slow
def test_what_a_guest_wrote_before_it_was_adopted_and_since_is_there_after_every_move(lab, tmp_path):
    source, other = lab.host(1), lab.host(2)
    define(lab, source)
    path = tmp_path / "vms.yml"

    def play(playbook, *more, flavor="old", check=True):
        told = {"berth_adopted": UUID, "berth_flavor": flavor, "berth_flavors": FLAVORS}
        path.write_text(yaml.safe_dump({"vms": {"hosts": {NAME: told}}}), "utf-8")
        words = ["--limit", NAME, "-e", "berth_target_host=" + more[0]] if more else ["--limit", NAME]
        return lab.ansible_playbook("berth.kvm." + playbook, *words, inventory=[path], check=check, timeout=600)

    try:
        ack = written(lab, source)
        play("adopt")
        before = seen(lab, source)

        play("live_migrate", other)
        assert homes(lab) == {NAME: other} and seen(lab, other) == before
        assert lab.sh(source, "ls -A " + IMAGES).stdout == ""
        lab.sh(source, "rm /var/log/libvirt/qemu/Old_Writer-console.log")  # else its facts are read as the newest
        ack = written(lab, other, ack)

        play("cold_migrate", source)
        assert homes(lab)[NAME] == source
        ack = written(lab, source, ack)
        play("revert_resize")
        assert homes(lab)[NAME] == other and seen(lab, other) == before
        written(lab, other)

        play("resize", flavor="big")
        assert homes(lab)[NAME] == source
        inside = lab.guest_facts(NAME, source, timeout=240, until=lambda said: said["vcpus"] == 2)
        assert (inside["vcpus"], inside["disk"]) == (2, 2 << 30) and inside["verify"]["result"] == "ok"
        play("confirm_resize", flavor="big")
        assert records(lab) == [(source, NAME, "OWN")]
        assert not play("create", flavor="big").changed.get(NAME)
        play("delete", flavor="big")
        assert records(lab) == [] and UUID not in lab.sh(source, "virsh list --all --uuid").stdout
    finally:
        for host in (source, other):
            lab.sh(host, "virsh destroy %s; virsh undefine %s --nvram; rm -f %s*; true" % (UUID, UUID, IMAGES))


@pytest.mark.slow
def test_an_adopted_guest_that_writes_is_backed_up_by_increments_and_its_backup_is_its_disk(lab, tmp_path):
    source, other, to = lab.host(1), lab.host(2), "/srv/shared/backups"
    define(lab, source)
    path = tmp_path / "vms.yml"
    told = {"berth_adopted": UUID, "berth_flavor": "old", "berth_flavors": FLAVORS, "berth_backup_to": to}
    path.write_text(yaml.safe_dump({"vms": {"hosts": {NAME: told}}}), "utf-8")

    def play(playbook, **more):
        return lab.ansible_playbook("berth.kvm." + playbook, "--limit", NAME, inventory=[path], timeout=600, **more)

    try:
        lab.sh(source, "rm -rf %s; mkdir %s" % (to, to))
        ack = written(lab, source)
        play("adopt")
        assert "of %s, full" % NAME in play("backup").output
        written(lab, source, ack)
        assert "of %s, increment" % NAME in play("backup").output
        play("stop")
        assert "CANNOT" not in play("backup").output
        last = "$(ls -d %s/*/2* | tail -1)" % to
        same = lab.sh(source, "qemu-img compare -f qcow2 -F qcow2 %s/vda.qcow2 %swriter.qcow2" % (last, IMAGES)).stdout
        assert "identical" in same
        play("start")
        play("live_migrate")
        play("backup")
        assert "AdoptedNotSupported" in play("restore", check=False).output
        play("stop")
        play("backup")
    finally:
        lab.sh(source, "rm -rf " + to)
        for host in (source, other):
            lab.sh(host, "virsh destroy %s; virsh undefine %s --nvram; rm -f %s*; true" % (UUID, UUID, IMAGES))


def variables_of(lab, host):
    """Where the running guest has its UEFI variables."""
    return ElementTree.fromstring(lab.sh(host, "virsh dumpxml %s" % DEFAULTS_UUID).stdout).findtext("os/nvram")


@pytest.mark.slow
def test_what_virt_install_gives_by_default_moves_and_comes_back_with_its_uefi_variables(lab, tmp_path):
    source, other = lab.host(1), lab.host(2)
    xml = DEFAULTS % {"uuid": DEFAULTS_UUID, "images": IMAGES}
    lab.sh(source, "qemu-img create -q -f qcow2 %sdefaults.qcow2 1G" % IMAGES)
    lab.sh(source, "cat > /tmp/d.xml <<'X'\n%s\nX\nvirsh define /tmp/d.xml && virsh start defaults" % xml)
    path = tmp_path / "vms.yml"
    told = {
        "berth_adopted": DEFAULTS_UUID,
        "berth_flavor": "old",
        "berth_flavors": FLAVORS,
        "berth_shutdown_timeout": 5,
    }
    path.write_text(yaml.safe_dump({"vms": {"hosts": {"defaults": told}}}), "utf-8")

    def play(playbook):
        return lab.ansible_playbook("berth.kvm." + playbook, "--limit", "defaults", inventory=[path], timeout=600)

    try:
        found = variables_of(lab, source)
        play("adopt")
        play("cold_migrate")
        there = variables_of(lab, other)
        assert there.endswith("/instances/%s/nvram.fd" % DEFAULTS_UUID)
        play("revert_resize")
        assert homes(lab) == {"defaults": source} and variables_of(lab, source) == found

        play("live_migrate")
        assert homes(lab) == {"defaults": other} and variables_of(lab, other) == there
        play("cold_migrate")
        play("revert_resize")
        assert homes(lab) == {"defaults": other} and variables_of(lab, other) == there
        play("delete")
        assert records(lab) == []
    finally:
        for host in (source, other):
            domain = DEFAULTS_UUID
            lab.sh(host, "virsh destroy %s; virsh undefine %s --nvram; rm -f %s*; true" % (domain, domain, IMAGES))
