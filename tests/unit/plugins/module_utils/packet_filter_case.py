# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs with security groups, and the rules of their packet filter."""

from __future__ import annotations

import types
from xml.etree import ElementTree

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import packet_filter

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MAC, VIP_MAC = "02:00:00:00:00:01", "00:00:5e:00:01:0a"
OPEN = {"groups": [], "rules": None, "allowed": []}


def rule(protocol="tcp", ports=None, remote=(), direction="in"):
    return {"protocol": protocol, "ports": ports, "remote": list(remote), "direction": direction}


def secured(*rules, allowed=()):
    return {"groups": ["web"], "rules": list(rules), "allowed": list(allowed)}


def nic(*security, **more):
    parts = {"network": "lan", "type": "bridge", "source": "br0", "mac": MAC, "address": None}
    return {**parts, "security": security[0] if security else OPEN, **more}


def record(*nics):
    return types.SimpleNamespace(uuid=UUID, spec={"networks": list(nics)})


def rules_of(one):
    """{(action, direction, protocol, what it looks at)} of the first NIC's filter, in libvirt's words."""
    root = ElementTree.fromstring(packet_filter.render(record(one))[packet_filter.name(UUID, 0)])
    found = []
    for each in root.findall("rule"):
        what = " ".join("%s=%s" % pair for pair in sorted(each[0].attrib.items()))
        found.append((each.get("action"), each.get("direction"), each[0].tag, what))
    return found


def accepted(one, direction, *protocols):
    return {
        (tag, what)
        for action, way, tag, what in rules_of(one)
        if (action, way) == ("accept", direction) and tag in protocols
    }
