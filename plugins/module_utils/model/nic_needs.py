# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a NIC needs of its host: a bridge, a libvirt network, filters. Placement looks for it in the host's facts, a build or
a move on the host itself."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Tuple

# What a bridge lacks that cannot keep VLANs apart.
VLANS = "VLANs on bridge %s (vlan_filtering, and libvirt 11.0 or newer)"


def of_nic(nic: Mapping[str, Any]) -> Iterator[Tuple[str, Any, str]]:
    """Yield (key of the host's facts, name, text) of each."""
    if nic.get("virtualport"):
        yield "ovs_bridges", nic.get("source"), "Open vSwitch bridge %s" % nic.get("source")
    elif nic.get("type") == "direct":
        pass  # one of the host's PCI devices, which the claim counts
    elif nic.get("type") == "bridge":
        yield "bridges", nic.get("source"), "bridge %s" % nic.get("source")
        if nic.get("vlan"):
            yield "vlan_bridges", nic.get("source"), VLANS % nic.get("source")
    else:
        yield "networks", nic.get("source"), "active libvirt network %s" % nic.get("source")
    if nic.get("nwfilter"):
        yield "network_filters", nic["nwfilter"], "network filter %s" % nic["nwfilter"]
    for what in needed(nic):
        yield "packet_filters", what, describe(what)


def needed(nic: Mapping[str, Any]) -> List[str]:
    """Return what a host must be able to filter for a NIC, as its facts call it."""
    found = nic.get("security")
    return [] if not found else ["addresses"] if found.get("rules") is None else ["addresses", "ports"]


def describe(what: str) -> str:
    """Return what a host lacks that cannot filter ``what``."""
    if what == "ports":
        return "packet filter for security groups (br_netfilter with bridge-nf-call-iptables and -ip6tables 1)"
    return "packet filter (libvirt's nwfilter driver)"
