# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What two instances must not have both: a MAC address, and a fixed address on one network."""

from __future__ import annotations

import ipaddress
from typing import Any, Dict, Iterable, List, Mapping, Optional

from . import hints
from .errors import BerthError

Nic = Mapping[str, Any]
Instance = Mapping[str, Any]  # {uuid, name, nics: what taken() gives}
Index = Dict[str, Dict[str, str]]


# What a plain bridge lacks that cannot keep VLANs apart.
VLANS = "VLANs on bridge %s (vlan_filtering, and libvirt 11.0 or newer)"


class AddressTaken(BerthError):
    """Another instance, or a domain that berth does not manage, has the MAC address or the fixed address already."""


def taken(networks: Optional[Iterable[Nic]]) -> List[str]:
    """What the NICs of a request take, in words that compare: networks on one bridge and VLAN are one network."""
    found = []
    for nic in networks or ():
        if nic.get("mac"):
            found.append(mac(nic["mac"]))
        if nic.get("address"):
            found.append(address(nic, nic["address"]))
    return found


def address(nic: Nic, text: Any) -> str:
    """The words of taken() for an address on the network that a NIC is on."""
    vlan = " VLAN %s" % nic["vlan"] if nic.get("vlan") else ""
    return "address %s on %s %s%s" % (_plain(str(text).partition("/")[0]), nic.get("type"), nic.get("source"), vlan)


def fixed(words: Iterable[str]) -> List[str]:
    """The fixed addresses in words of taken(), of all networks."""
    return [word.split(" ")[1] for word in words if word.startswith("address ")]


def address_of(word: str, nic: Nic) -> Optional[str]:
    """The address in words of taken(), where it is one on the network that the NIC is on."""
    begin, end = address(nic, "\0").split("\0")
    return word[len(begin) : len(word) - len(end)] if word.startswith(begin) and word.endswith(end) else None


def _plain(text: str) -> str:
    """An IPv6 address has many spellings."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.lower()


def nic_request(at: int) -> str:
    """The id of the PCI request of a NIC that is a function of a network card; no alias of a flavor has a colon."""
    return "nic:%d" % at


def is_of_nic(request: Mapping[str, Any]) -> bool:
    return str(request.get("request_id")).startswith("nic:")


def mac(address: str) -> str:
    return "MAC address %s" % str(address).lower()


def index(instances: Iterable[Instance], where: str = "") -> Index:
    """Who has what: words of taken() -> {uuid: name and ``where``}."""
    found: Index = {}
    for instance in instances:
        for nic in instance.get("nics") or ():
            found.setdefault(nic, {})[instance["uuid"]] = "%s%s" % (instance["name"], where)
    return found


def clash(spec: Mapping[str, Any], held: Index) -> Optional[AddressTaken]:
    """The error for an address of the request that another instance has, or that the request has twice; or None."""
    mine = taken(spec.get("networks"))
    for at, nic in enumerate(mine):
        if nic in mine[:at]:
            return _error(spec, nic, "would have twice:")
        others = sorted(name for uuid, name in held.get(nic, {}).items() if uuid != spec["uuid"])
        if others:
            return _error(spec, nic, "would have what %s has:" % " and ".join(others))
    return None


def _error(spec: Mapping[str, Any], what: str, why: str) -> AddressTaken:
    return AddressTaken(
        "%s %s %s" % (spec["name"], why, what),
        field="berth_networks",
        value=what,
        rule="one instance for each MAC address, and for each address of a network",
        hint=hints.another_address(spec["name"]),
    )
