# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NICs of a request: their addresses in a comparable form, which have or ask for a packet filter, and PCI requests."""

from __future__ import annotations

import ipaddress
import json
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

Nic = Mapping[str, Any]


def taken(networks: Optional[Iterable[Nic]]) -> List[str]:
    """Return the addresses of a request's NICs as comparable texts: networks on one bridge and VLAN are one network."""
    found = []
    for nic in networks or ():
        if nic.get("mac"):
            found.append(mac(nic["mac"]))
        found += [address(nic, each) for each in addresses(nic)]
    return found


def addresses(nic: Nic) -> List[str]:
    """Return the fixed addresses of a NIC: one, or an IPv4 address and beside it ``address6``."""
    return [each for each in (nic.get("address"), nic.get("address6")) if each]


def asked(address: Any) -> List[str]:
    """Return the addresses that a NIC of the inventory asks for: none, one, or a list of both versions."""
    return list(address) if isinstance(address, (list, tuple)) else [address] if address else []


def by_version(nic: Nic) -> Dict[int, Tuple[str, Optional[str]]]:
    """Return {IP version: (fixed address, gateway or None)} of a NIC."""
    pairs = (nic.get("address"), nic.get("gateway")), (nic.get("address6"), nic.get("gateway6"))
    return {ip_version(text): (text, gateway) for text, gateway in pairs if text}


def own_mac(instance: str, at: int) -> str:
    """Return a locally administered unicast MAC address, made from the instance's uuid and the NIC's index."""
    tail = uuid.uuid5(uuid.UUID(instance), "nic/%d" % at).bytes[:5]
    return ":".join("%02x" % byte for byte in b"\x02" + tail)


def of_guest(macs: Iterable[str], record: Optional[str]) -> List[str]:
    """taken() of a guest without a record, also by the copy of its record, if it has one."""
    found = [mac(address) for address in macs]
    try:
        found += taken(json.loads(record or "")["spec"]["networks"])
    except (AttributeError, KeyError, TypeError, ValueError):
        pass  # not berth's, or somebody edited it
    return list(dict.fromkeys(found))


def unfiltered(networks: Optional[Iterable[Nic]]) -> List[str]:
    """Return the MAC addresses of the NICs without a packet filter, except those that libvirt cannot filter."""
    can = (nic for nic in networks or () if nic.get("type") != "direct" and not nic.get("virtualport"))
    return [str(nic["mac"]) for nic in can if nic.get("mac") and not nic.get("security")]


def asking_filters(networks: Optional[Iterable[Nic]]) -> Dict[str, Any]:
    """Return {MAC address: security} of the NICs for which a request says port_security: true."""
    return {str(nic["mac"]): nic["security"] for nic in networks or () if nic.get("port_security")}


def address(nic: Nic, text: Any) -> str:
    """Return an address on the NIC's network as taken() writes it."""
    vlan = " VLAN %s" % nic["vlan"] if nic.get("vlan") else ""
    return "address %s on %s %s%s" % (_plain(str(text).partition("/")[0]), nic.get("type"), nic.get("source"), vlan)


def fixed(addresses: Iterable[str]) -> List[str]:
    """Return the fixed IP addresses in texts of taken(), of all networks."""
    return [address.split(" ")[1] for address in addresses if address.startswith("address ")]


def _plain(text: str) -> str:
    """Return one spelling of an address: IPv6 has many."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.lower()


def ip_version(text: str) -> int:
    return 6 if ":" in text else 4


def dhcp_versions(nic: Nic) -> List[int]:
    """Return the IP versions for which the NIC asks DHCP: none that it has an address of, 4 where nothing else is said."""
    dhcp = nic.get("dhcp") or (None if nic.get("address") else "ipv4")
    return [each for each in (4, 6) if dhcp in ("both", "ipv%d" % each) and each not in by_version(nic)]


def nic_request(at: int) -> str:
    """Return the id of the PCI request of a NIC that is a network card's function; no flavor's alias has a colon."""
    return "nic:%d" % at


def is_of_nic(request: Mapping[str, Any]) -> bool:
    return str(request.get("request_id")).startswith("nic:")


def mac(address: str) -> str:
    return "MAC address %s" % str(address).lower()


# What a NIC needs of its host: a bridge, a libvirt network, filters. Placement looks for it in the host's facts, a
# build or a move on the host itself.
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


def guest_address(value: Any) -> Optional[Union[ipaddress.IPv4Address, ipaddress.IPv6Address]]:
    """Return the address without its prefix length, or None if it cannot be a guest's."""
    try:
        address = ipaddress.ip_address(str(value or "").partition("/")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None) or address
    if mapped.is_loopback or mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified or mapped.is_reserved:
        return None
    return mapped
