# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that libvirt alone made, which writes as the instances of the sweep do: it is adopted, and left again."""

from __future__ import annotations

import base64
import shlex

from invariants import Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import seed

NAME, UUID = "found", "71adf7e1-3c6e-4d59-9d0b-3a1c9d7f1e2a"
IMAGES = "/var/lib/libvirt/images"
DOMAIN = """<domain type="qemu"><name>{name}</name><uuid>{uuid}</uuid><memory unit="MiB">{memory_mb}</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="pc">hvm</type><boot dev="hd"/></os><features><acpi/><apic/></features><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="{images}/found.qcow2"/>
<target dev="vda" bus="virtio"/></disk>
<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="{images}/seed.img"/>
<target dev="vdb" bus="virtio"/></disk>
<interface type="bridge"><mac address="52:54:00:0a:0d:71"/><source bridge="br0"/><model type="virtio"/></interface>
<serial type="pty"><log file="/var/log/libvirt/qemu/{name}-console.log" append="on"/><target port="0"/></serial>
<rng model="virtio"><backend model="random">/dev/urandom</backend></rng></devices></domain>"""


def make(lab, host, user_data, memory_mb):
    meta_data = b"instance-id: found\nlocal-hostname: found\n"
    iso = seed.iso_image("cidata", {"meta-data": meta_data, "user-data": user_data.encode()})
    encoded = base64.b64encode(iso).decode()
    definition = DOMAIN.format(name=NAME, uuid=UUID, images=IMAGES, memory_mb=memory_mb)
    lab.sh(host, "echo %s | base64 -d > %s/seed.img" % (encoded, IMAGES))
    lab.sh(host, "cp /srv/shared/images/guest.qcow2 %s/found.qcow2" % IMAGES)
    lab.sh(host, "echo %s > /root/found.xml && virsh define /root/found.xml" % shlex.quote(definition))
    start(lab, host)


def start(lab, host):
    lab.sh(host, "virsh start " + UUID)


def check_left(views, home):
    """Libvirt has it, and berth has nothing of it. Raises Violation."""
    for name, view in views.items():
        if view.records or view.permits or [file for file in view.files if file.startswith(UUID)]:
            raise Violation("I5 %s holds %s, %s and %s" % (name, view.records, view.permits, view.files))
        if (UUID in view.defined) != (name == home):
            raise Violation("I9 %s defines the guests %s" % (name, view.defined))
