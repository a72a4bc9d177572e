# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the destination of a live migration is told of the guest."""

from __future__ import annotations

from xml.etree import ElementTree

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live

# as libvirt 9 gives it after it was started anew under a running guest
GUEST = """
<domain type='kvm'><name>guest</name><devices>
  <disk type='file' device='disk'>
    <driver name='qemu' type='qcow2'/><source file='/pool/root.qcow2'/>
    <backingStore type='file'><format type='qcow2'/><source file='/pool/images/457f'/><backingStore/></backingStore>
    <target dev='vda' bus='virtio'/>
  </disk>
  <disk type='file' device='cdrom'><source file='/pool/seed.iso'/><backingStore/><target dev='vdb'/></disk>
  <interface type='bridge'><source bridge='br0'/></interface>
</devices></domain>
"""


def test_the_destination_is_not_told_of_backing_images_and_of_all_else():
    told = ElementTree.fromstring(live.without_backing_images(GUEST))
    assert [element.tag for element in told.iter("backingStore")] == []
    assert [element.get("file") for element in told.iter("source")] == ["/pool/root.qcow2", "/pool/seed.iso", None]
    assert [element.get("dev") for element in told.iter("target")] == ["vda", "vdb"]
    assert told.find("devices/interface/source").get("bridge") == "br0"
