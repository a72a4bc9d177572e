# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address at which a guest is probably reached: the fixed one of its record, else a lease, else a neighbour of this
host, else what its agent reports. The guest controls the last three: they are for people and inventories, and decide
nothing.

Leases are read once per network and neighbours once per host, so only agents cost a call for each guest.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Set
from xml.etree import ElementTree

from ...model.guest_settings import GuestSettings, is_true
from ...model.lifecycle import OWN
from ...model.nics import guest_address
from ...model.record import Record
from ..connection import Deadline, LibvirtTimeout, require_libvirt
from . import agent

NEIGHBOURS = "/proc/net/arp"
COMPLETE = 0x2  # among the flags there
SOURCES = ("static", "lease", "arp", "agent")  # the first that has an address counts
AGENTS = 10  # s for all agents together


def of_instances(connection: Any, records: Iterable[Record], neighbours: str = NEIGHBOURS) -> Dict[str, Dict[str, str]]:
    """Return {uuid: {address, source}} of the instances that this host owns, as far as an address is known."""
    owned = [record for record in records if record.role == OWN]
    by_mac = {"lease": _leases(connection), "arp": _neighbours(neighbours)}
    found, unknown = {}, []
    for record in owned:
        nics = record.spec.get("networks") or []
        known = [("static", nic.get(key)) for nic in nics for key in ("address", "address6")]
        known += [
            (source, address) for source, of in by_mac.items() for nic in nics for address in of.get(nic.get("mac"), ())
        ]
        best = _best(known)
        if best:
            found[record.uuid] = best
        else:
            unknown.append(record.uuid)
    found.update(_of_agents(connection, unknown))
    return found


def awaited(connection: Any, records: Iterable[Record], known: Iterable[str]) -> List[str]:
    """Return the uuids of running instances that are not in ``known``, of which this host will know an address when the guest
    asks for one, or its agent runs."""
    library, giving = require_libvirt(), _networks_with_dhcp(connection)
    found = []
    for record in records:
        nics = record.spec.get("networks") or []
        asks = any(nic.get("type") == "network" and nic.get("source") in giving for nic in nics)
        tells = is_true(GuestSettings.of(record.spec).get("qemu_guest_agent", "false"))
        if record.role != OWN or record.uuid in known or not nics or not (asks or tells):
            continue
        try:
            if connection.lookupByUUIDString(record.uuid).isActive():
                found.append(record.uuid)
        except library.libvirtError:  # it is gone
            continue
    return found


def _networks_with_dhcp(connection: Any) -> Set[str]:
    library = require_libvirt()
    try:
        networks = connection.listAllNetworks(library.VIR_CONNECT_LIST_NETWORKS_ACTIVE)
        return {each.name() for each in networks if ElementTree.fromstring(each.XMLDesc(0)).find("ip/dhcp") is not None}
    except (library.libvirtError, ElementTree.ParseError):  # no network driver, or one is gone
        return set()


def _best(known: Iterable[Any]) -> Optional[Dict[str, str]]:
    """Return the first usable address, by SOURCES, then version 4 before version 6."""
    usable = []
    for source, text in known:
        address = guest_address(text)
        if address:
            usable.append((SOURCES.index(source), address.version, {"address": str(address), "source": source}))
    return min(usable, key=lambda found: found[:2])[2] if usable else None


def _leases(connection: Any) -> Dict[str, List[str]]:
    """Return {MAC: addresses} from the leases of libvirt's own networks."""
    library = require_libvirt()
    found: Dict[str, List[str]] = {}
    try:
        networks = connection.listAllNetworks(library.VIR_CONNECT_LIST_NETWORKS_ACTIVE)
    except library.libvirtError:  # no network driver
        return found
    for network in networks:
        try:
            leases = network.DHCPLeases()
        except library.libvirtError:  # a network without libvirt's DHCP, or one that is gone
            continue
        for lease in leases:
            found.setdefault(str(lease.get("mac")), []).append(lease.get("ipaddr"))
    return found


def _neighbours(path: str) -> Dict[str, List[str]]:
    """Return {MAC: addresses} from this host's neighbour table."""
    found: Dict[str, List[str]] = {}
    try:
        with open(path, encoding="ascii") as table:
            lines = table.read().splitlines()[1:]
    except (OSError, ValueError):
        return found
    for line in lines:
        columns = line.split()
        if len(columns) >= 4 and int(columns[2], 16) & COMPLETE:
            found.setdefault(columns[3], []).append(columns[0])
    return found


def _of_agents(connection: Any, uuids: Iterable[str]) -> Dict[str, Dict[str, str]]:
    """Return what the connected agents report within the time limit."""
    library, deadline = require_libvirt(), Deadline(AGENTS)
    found = {}
    for uuid in uuids:
        try:
            cards = deadline.call(_ask_agent, connection, uuid, what="asking the agents")
        except LibvirtTimeout:
            break
        except (library.libvirtError, ElementTree.ParseError):
            continue
        best = _best(("agent", address.get("addr")) for card in cards.values() for address in card.get("addrs") or ())
        if best:
            found[uuid] = best
    return found


def _ask_agent(connection: Any, uuid: str) -> Dict[str, Any]:
    library = require_libvirt()
    domain = connection.lookupByUUIDString(uuid)
    if not domain.isActive() or not agent.is_connected(domain):
        return {}
    return domain.interfaceAddresses(library.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT) or {}
