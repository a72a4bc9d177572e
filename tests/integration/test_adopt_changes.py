# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted guest that runs gets and loses a NIC by update, and has a snapshot without the disk that it only reads, with libvirt and
QEMU as they are; it is not restarted, and second runs change nothing."""

from __future__ import annotations

from xml.etree import ElementTree

from playbooks import catalog

UUID, MAC = "50adf7e1-3c6e-4d59-9d0b-3a1c9d7f1e2a", "52:54:00:0a:0d:11"
IMAGES = "/var/lib/libvirt/images/"
FILES = (
    """set -e; cd %s; cp /srv/shared/images/guest.qcow2 found.qcow2
qemu-img create -q -f raw only-read.img 1M"""
    % IMAGES
)
DOMAIN = """<domain type="qemu"><name>found</name><uuid>%s</uuid><memory unit="MiB">128</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="pc">hvm</type></os><features><acpi/></features><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="%sfound.qcow2"/><target dev="vda" bus="virtio"/></disk>
<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="%sonly-read.img"/><target dev="vdb" bus="virtio"/>
<readonly/></disk><disk type="file" device="cdrom"><target dev="hda" bus="ide"/><readonly/></disk>
<interface type="bridge"><mac address="%s"/><source bridge="br0"/><model type="e1000"/></interface>
</devices></domain>"""
FOUND = {
    "berth_adopted": UUID, "berth_flavor": "found", "berth_flavors": {"found": {"vcpus": 1, "memory_mb": 128, "root_gb": 1}},
}  # fmt: skip


def nics(lab, host, *options):
    """{MAC: card} of the guest."""
    text = lab.sh(host, "virsh dumpxml %s %s" % (" ".join(options), UUID)).stdout
    found = ElementTree.fromstring(text).iterfind("devices/interface")
    return {each.find("mac").get("address"): each.find("model").get("type") for each in found}


def test_an_adopted_guest_gets_and_loses_a_nic_and_its_snapshot_leaves_out_what_it_only_reads(lab, image, inventory):
    host = lab.host(1)
    lab.sh(host, FILES)
    lab.sh(
        host,
        "cat > /tmp/found.xml <<'X'\n%s\nX\nvirsh define /tmp/found.xml && virsh start found"
        % (DOMAIN % (UUID, IMAGES, IMAGES, MAC)),
    )
    process = lab.sh(host, "cat /run/libvirt/qemu/found.pid").stdout
    one = {"network": "lan", "mac": MAC}
    paths = {
        count: inventory(
            {"found": {**FOUND, "berth_networks": [one, {"network": "lan"}][:count]}}, catalog(image), "%d.yml" % count
        )
        for count in (1, 2)
    }

    def play(playbook, count, *more):
        return lab.ansible_playbook("berth.kvm." + playbook, "--limit", "found", *more, inventory=[paths[count]])

    play("adopt", 1)
    play("update", 2, "--check", "--diff")
    assert nics(lab, host) == {MAC: "e1000"}
    assert play("update", 2).changed["found"] > 0
    both = nics(lab, host)
    assert len(both) == 2 and both[MAC] == "e1000" and nics(lab, host, "--inactive") == both
    second = play("update", 2)
    assert second.changed.get("found", 0) == 0, second.output

    taken = play("snapshot", 2, "-e", "berth_snapshot=one")
    assert "its disk vdb (%sonly-read.img) is left out" % IMAGES in " ".join(taken.output.split()), taken.output
    assert "berth-one" in lab.sh(host, "qemu-img snapshot -U -l %sfound.qcow2" % IMAGES).stdout
    play("delete_snapshot", 2, "-e", "berth_snapshot=one")

    assert play("update", 1).changed["found"] > 0
    assert nics(lab, host) == nics(lab, host, "--inactive") == {MAC: "e1000"}
    assert lab.sh(host, "cat /run/libvirt/qemu/found.pid").stdout == process, "it was not restarted"
    play("delete", 1)
