# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NICs of a request: their addresses in a comparable form, which have or ask for a packet filter, and PCI requests."""

from __future__ import annotations

import ipaddress
import json
import uuid
from typing import Any, Dict, Iterable, List, Mapping, Optional

Nic = Mapping[str, Any]


def taken(networks: Optional[Iterable[Nic]]) -> List[str]:
    """Return the addresses of a request's NICs as comparable texts: networks on one bridge and VLAN are one network."""
    found = []
    for nic in networks or ():
        if nic.get("mac"):
            found.append(mac(nic["mac"]))
        if nic.get("address"):
            found.append(address(nic, nic["address"]))
    return found


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
    asked = nic.get("dhcp") or (None if nic.get("address") else "ipv4")
    own = ip_version(nic["address"]) if nic.get("address") else None
    return [version for version in (4, 6) if asked in ("both", "ipv%d" % version) and version != own]


def nic_request(at: int) -> str:
    """Return the id of the PCI request of a NIC that is a network card's function; no flavor's alias has a colon."""
    return "nic:%d" % at


def is_of_nic(request: Mapping[str, Any]) -> bool:
    return str(request.get("request_id")).startswith("nic:")


def mac(address: str) -> str:
    return "MAC address %s" % str(address).lower()
