# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schemas of the catalog's networks and of an instance's NICs."""

from __future__ import annotations

import functools
import ipaddress
from typing import Any, Callable, Mapping

from . import address_pool
from .address_pool import POOL
from .errors import InvalidInput, together
from .messages import Document
from .schema import Fields, Flag, ListOf, OneOf, Text, Whole, structure_as_text
from .security_group import MAC, AllowedAddress

UNFILTERED = "only on Linux bridges and libvirt networks: libvirt sees no packets of Open vSwitch and of type direct"


class Address:
    """An IP address; with ``network`` a network with its prefix length."""

    def __init__(self, network: bool = False) -> None:
        self.parse: Callable[[str], Any] = ipaddress.ip_network if network else ipaddress.ip_address
        self.rule = "a network such as 192.0.2.0/24" if network else "an IP address such as 192.0.2.10"

    def check(self, value: Any, field: str) -> str:
        try:
            if not isinstance(value, str):
                raise ValueError
            return str(self.parse(value))
        except ValueError:
            raise InvalidInput(field, value, self.rule)


class Network:
    """A network that NICs can be on: a bridge or libvirt network of the same name on every host that may be chosen, or
    the functions of network cards that a PCI alias names."""

    fields = Fields(
        {
            "type": OneOf("bridge", "network", "direct"),
            "source": Text(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z", "the name of a bridge or libvirt network", longest=63),
            "virtualport": OneOf("openvswitch"),
            "pci_alias": Text(),
            "model": OneOf("virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "vmxnet3"),
            "mtu": Whole(68, 65535),
            "vlan": Whole(1, 4094),
            "nwfilter": Text(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z", "the name of a libvirt network filter", longest=63),
            "cidr": Address(network=True),
            "gateway": Address(),
            "cidr6": Address(network=True),
            "gateway6": Address(),
            "nameservers": ListOf(Address(), longest=16),
            "pool": POOL,
            "dhcp": OneOf("ipv4", "ipv6", "both"),
            "port_security": Flag(),
        },
        defaults={
            "source": None,
            "virtualport": None,
            "pci_alias": None,
            "model": None,
            "mtu": None,
            "vlan": None,
            "nwfilter": None,
            "cidr": None,
            "gateway": None,
            "cidr6": None,
            "gateway6": None,
            "nameservers": [],
            "pool": None,
            "dhcp": None,
            "port_security": None,
        },
    )

    def check(self, value: Any, field: str) -> Document:
        network = self.fields.check(value, field)
        together(functools.partial(check, network, field) for check in (_check_source, _check_filter))
        _check_beside(network, field)
        for cidr, gateway in (("cidr", "gateway"), ("cidr6", "gateway6")):
            if network[gateway]:
                _check_gateway(network, cidr, gateway, field)
        if network["pool"] is not None:
            address_pool.check_pool(network, field)
        return network


def is_filtered(network: Mapping[str, Any]) -> bool:
    """Whether libvirt filters what the network's NICs send: it does so only on tap devices of Linux bridges."""
    return network["type"] != "direct" and not network.get("virtualport")


def _check_source(network: Document, field: str) -> None:
    kind = network["type"]
    needed = "pci_alias" if kind == "direct" else "source"
    for part, wanted in (("source", needed == "source"), ("pci_alias", needed == "pci_alias")):
        if bool(network[part]) != wanted:
            rule = "needed" if wanted else "none"
            raise InvalidInput("%s.%s" % (field, part), network[part], "%s for a network of type %s" % (rule, kind))
    if kind == "bridge" and len(network["source"]) > 15:
        raise InvalidInput(field + ".source", network["source"], "a bridge name of at most 15 characters")
    if network["virtualport"] and kind != "bridge":
        raise InvalidInput(field + ".virtualport", network["virtualport"], "only for a network of type bridge")
    for part in ("model", "mtu") if kind == "direct" else ():
        if network[part]:
            raise InvalidInput("%s.%s" % (field, part), network[part], "none where the guest has the card itself")


def _check_filter(network: Document, field: str) -> None:
    for part in ("nwfilter", "port_security"):
        if network[part] and not is_filtered(network):
            raise InvalidInput("%s.%s" % (field, part), network[part], UNFILTERED)


def _check_beside(network: Document, field: str) -> None:
    """Check that cidr6 is the IPv6 network beside an IPv4 one in cidr."""
    if network["cidr6"] and ":" not in network["cidr6"]:
        raise InvalidInput(field + ".cidr6", network["cidr6"], "an IPv6 network such as 2001:db8::/64")
    if network["cidr6"] and ":" in (network["cidr"] or ":"):
        raise InvalidInput(field + ".cidr", network["cidr"], "an IPv4 network beside cidr6")


def _check_gateway(network: Document, of: str, name: str, field: str) -> None:
    if not network[of]:
        raise InvalidInput("%s.%s" % (field, of), None, "needed where there is a gateway")
    cidr, gateway = ipaddress.ip_network(network[of]), ipaddress.ip_address(network[name])
    if gateway.version == cidr.version and (gateway.is_link_local or cidr.num_addresses == 1):
        return  # reached without being in the same network, as a router's fe80::1, or that of a single address
    if gateway not in cidr or cidr.version == 4 and gateway in address_pool.unusable(cidr):
        raise InvalidInput("%s.%s" % (field, name), network[name], "an address in %s that a machine can have" % cidr)


class FixedAddresses:
    """An IP address, or a list of an IPv4 and an IPv6 address."""

    _one = Text(r"[0-9A-Fa-f:.]+(/[0-9]{1,3})?\Z", "an IP address, with or without prefix length", longest=64)
    _both = ListOf(_one, longest=2)

    def check(self, value: Any, field: str) -> Any:
        return (self._both if isinstance(value, (list, tuple)) else self._one).check(value, field)


NIC = Fields(
    {
        "network": Text(),
        "address": FixedAddresses(),
        "mac": MAC,
        "security_groups": ListOf(Text(), single=True, longest=64),
        "port_security": Flag(),
        "default_route": Flag(),
        "allowed_addresses": ListOf(AllowedAddress(), single=True, longest=64),
    },
    defaults=dict.fromkeys(
        ("address", "mac", "security_groups", "port_security", "default_route", "allowed_addresses")
    ),
)


class Nic:
    """A NIC: the name of a network, or a mapping as NIC describes it."""

    def check(self, value: Any, field: str) -> Document:
        named = isinstance(value, str) and not structure_as_text(value)
        return NIC.check({"network": value} if named else value, field)
