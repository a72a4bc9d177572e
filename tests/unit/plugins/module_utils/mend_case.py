# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody does to a guest in libvirt, and what the table says of it then."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domains
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import by_hand
from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift
from ansible_collections.berth.kvm.plugins.module_utils.model.host_document import domain_differs

MAC = "02:00:00:00:00:01"
BRIDGED = {"type": "bridge", "source": "br0", "vlan": 7}
NIC = {
    "network": "lan",
    "mac": MAC,
    "address": None,
    "security": {"groups": [], "allowed": [], "rules": None},
    **BRIDGED,
}
MACHINE = "pc-q35-7.2"


def edit(case, old, new):
    """virsh edit: one text becomes another."""
    assert re.search(old, case.domain.xml)
    case.domain.xml = re.sub(old, new, case.domain.xml, count=1)


def detach(case, path):
    root = ElementTree.fromstring(case.domain.xml)
    root.find(("devices/" + path).rpartition("/")[0]).remove(root.find("devices/" + path))
    case.domain.xml = ElementTree.tostring(root, encoding="unicode")


def attach(case, xml):
    root = ElementTree.fromstring(case.domain.xml)
    root.find("devices").append(ElementTree.fromstring(xml))
    case.domain.xml = ElementTree.tostring(root, encoding="unicode")


def told(case):
    """What the facts of the host make the table say, with what the last ones kept."""
    found = {case.uuid: (case.domain, "running" if case.domain.isActive() else "shutdown")}
    undefined = domains.undefined(case.host.connection)
    said = by_hand.reported([case.record], found, undefined, case.host.store.state_dir)[case.uuid]
    if "domain_differs" in said:
        domain_differs(said["domain_differs"])
    return drift.of_domain("web1", said.get("domain_differs"))


IS = "bridge br0 virtio filter {own} VLAN 7"
EDITS = {
    "memory": (
        lambda case: edit(case, r'(<memory unit="KiB">)\d+', r"\g<1>32768"),
        "live domain differs: memory_mb 32 (record: 64)",
    ),
    "vcpus": (lambda case: edit(case, r">1</vcpu>", ">4</vcpu>"), "live domain differs: vcpus 4 (record: 1)"),
    "no NIC": (
        lambda case: detach(case, "interface"),
        "live domain differs: network interface %s missing" % MAC,
    ),
    "another bridge": (
        lambda case: edit(case, r'bridge="br0"', 'bridge="br9"'),
        "live domain differs: network interface %s bridge br9 virtio filter {own} VLAN 7 (record: %s)" % (MAC, IS),
    ),
    "no VLAN": (
        lambda case: detach(case, "interface/vlan"),
        "live domain differs: network interface %s bridge br0 virtio filter {own} (record: %s)" % (MAC, IS),
    ),
    "no packet filter": (
        lambda case: detach(case, "interface/filterref"),
        "live domain differs: network interface %s bridge br0 virtio VLAN 7 (record: %s)" % (MAC, IS),
    ),
    "another packet filter": (
        lambda case: edit(case, 'filter="berth[^"]*"', 'filter="open"'),
        "live domain differs: network interface %s bridge br0 virtio filter open VLAN 7 (record: %s)" % (MAC, IS),
    ),
    "limits of a NIC": (
        lambda case: edit(case, "</interface>", '<bandwidth><inbound average="5"/></bandwidth></interface>'),
        "live domain differs: limits of network interface %s inbound average 5 (record: none)" % MAC,
    ),
    "a share of the CPUs": (
        lambda case: edit(case, "<vcpu", "<cputune><shares>7</shares></cputune><vcpu"),
        "live domain differs: limits of CPUs shares 7 (record: none)",
    ),
    "a NIC more": (
        lambda case: attach(
            case, "<interface type='bridge'><source bridge='br0'/><mac address='02:00:00:00:00:99'/></interface>"
        ),
        "live domain differs: network interface 02:00:00:00:00:99 bridge br0 (record: none)",
    ),
    "a machine type": (
        lambda case: edit(case, MACHINE, "pc-i440fx-7.2"),
        "live domain differs: machine type pc-i440fx-7.2 (record: %s)" % MACHINE,
    ),
    "no metadata": (
        lambda case: edit(case, r"(?s)<metadata>.*</metadata>", ""),
        "live domain differs: berth's metadata missing",
    ),
    "a directory of the host": (
        lambda case: attach(case, "<filesystem type='mount'/>"),
        "live domain differs: filesystem there (record: none)",
    ),
}
