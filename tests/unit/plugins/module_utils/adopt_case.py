# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that somebody else made, on a prepared host."""

from __future__ import annotations

import fake_libvirt
from instance_case import OnHost

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import adopt

OWN_UUID = "5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52"
DEFINITION = """<domain type="kvm">
  <name>Web_1</name><uuid>%s</uuid>
  <metadata><libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0"/></metadata>
  <memory unit="KiB">2097152</memory><currentMemory unit="KiB">2097152</currentMemory>
  <vcpu placement="static">2</vcpu>
  <os><type arch="x86_64" machine="pc-i440fx-7.2">hvm</type></os>
  <devices>
    <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="%s"/><target dev="sda" bus="sata"/></disk>
    <disk type="file" device="cdrom"><driver name="qemu" type="raw"/><target dev="sdb" bus="sata"/><readonly/></disk>
    <interface type="bridge"><mac address="52:54:00:AA:BB:CC"/><source bridge="br0"/><model type="e1000"/></interface>
    <serial type="pty"><target port="0"/></serial>
  </devices>
</domain>"""
DISK_BYTES = 3 * (1 << 30)


class Found(OnHost):
    """The guest Web_1 with a raw disk outside of berth's pool, running unless ``on`` is false."""

    def __init__(self, host, directory, on=True):
        super().__init__(host, OWN_UUID)
        self.disk = directory / "images" / "web1.img"
        self.disk.parent.mkdir(exist_ok=True)
        with self.disk.open("wb") as file:
            file.truncate(DISK_BYTES)
        self.define(DEFINITION % (OWN_UUID, self.disk))
        if on:
            self.domain.createWithFlags()

    def define(self, xml):
        self.host.connection.domains[self.uuid] = fake_libvirt.FakeDomain(self.host.connection, xml)

    def wanted(self, **changes):
        return {"name": "web1", "project_id": "default", "flavor": None, "after": [0, 0], **changes}

    def adopt(self, killed_at=None, **changes):
        return adopt.adopt(self.instance(killed_at), self.wanted(**changes))

    def would_adopt(self, **changes):
        return adopt.would_adopt(self.instance(), self.wanted(**changes))

    def leave(self, killed_at=None):
        return adopt.leave(self.instance(killed_at), [0, 0])
