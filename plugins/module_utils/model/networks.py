# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalog's networks, and the NICs that an instance gets on them: bridge, MAC address, fixed addresses."""

from __future__ import annotations

import functools
import ipaddress
from typing import Any, Callable, List, Mapping, Optional, Sequence

from . import nics
from .address_pool import POOL, check_any, check_inside, ranges, unusable
from .errors import InvalidInput
from .fields_between import FieldsBetween
from .messages import Document
from .nics import ip_version
from .schema import Fields, Flag, ListOf, OneOf, Text, Whole, structure_as_text
from .security_groups import MAC, UNFILTERED, AllowedAddress, is_filtered, port_security, security_of
from .unknown_names import NetworkNotFound, meant


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


def _check_gateway(of: str, name: str, network: Document, field: str) -> None:
    if not network[name]:
        return
    if not network[of]:
        raise InvalidInput("%s.%s" % (field, of), None, "needed where there is a gateway")
    cidr, gateway = ipaddress.ip_network(network[of]), ipaddress.ip_address(network[name])
    if gateway.version == cidr.version and (gateway.is_link_local or cidr.num_addresses == 1):
        return  # reached without being in the same network, as a router's fe80::1, or that of a single address
    if gateway not in cidr or cidr.version == 4 and gateway in unusable(cidr):
        raise InvalidInput("%s.%s" % (field, name), network[name], "an address in %s that a machine can have" % cidr)


class Network:
    """A network that NICs can be on: a bridge or libvirt network of the same name on every host that may be chosen, or
    the functions of network cards that a PCI alias names."""

    fields = FieldsBetween(
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
        between=(
            (("type", "source", "pci_alias", "virtualport", "model", "mtu"), _check_source),
            (("type", "virtualport", "nwfilter", "port_security"), _check_filter),
            (("cidr", "cidr6"), _check_beside),
            (("cidr", "gateway"), functools.partial(_check_gateway, "cidr", "gateway")),
            (("cidr6", "gateway6"), functools.partial(_check_gateway, "cidr6", "gateway6")),
            (("cidr", "pool"), check_inside),
        ),
    )

    def check(self, value: Any, field: str) -> Document:
        network = self.fields.check(value, field)
        check_any(network, field)
        return network


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
    """A NIC: the name of a network, or a mapping as NIC describes it. ``networks``: those of the catalog, where it has to be on one
    of them, with addresses of it."""

    def __init__(self, networks: Optional[Mapping[str, Any]] = None) -> None:
        self.fields = NIC if networks is None else _on_one_of(networks)

    def check(self, value: Any, field: str) -> Document:
        named = isinstance(value, str) and not structure_as_text(value)
        return self.fields.check({"network": value} if named else value, field)


def _on_one_of(networks: Mapping[str, Any]) -> FieldsBetween:
    known = ("network",), functools.partial(check_network, networks)
    inside = ("network", "address"), functools.partial(_check_addresses, networks)
    return FieldsBetween(NIC.fields, NIC.defaults, (known, inside))


def nics_of(networks: Optional[Mapping[str, Any]] = None) -> ListOf:
    """The NICs of an instance. ``networks``: as of Nic."""
    return ListOf(Nic(networks), single=True, longest=64)


# The NICs of a request, from the instance's variables and the catalog's networks: bridge, MAC address, the addresses that an
# instance asks for. What its packet filter is made from: security_groups.py.
Wanted = Mapping[str, Any]


def make_nic(own_uuid: str, at: int, wanted: Wanted, catalog: Any, card: str, groups: Sequence[str] = ()) -> Document:
    """Return a NIC with all that the host needs to make it. ``card`` is its model if the network names none, ``groups``
    are its security groups if it names none. Its MAC address follows from the instance, so that it never changes.
    """
    field = "berth_networks[%d]" % at
    network = check_network(catalog.networks, wanted, field)
    document = {
        "network": network["name"],
        "address": None,
        "mac": (wanted["mac"] or nics.own_mac(own_uuid, at)).lower(),
        "model": network["model"] or card,
        **{part: network[part] for part in ("type", "source", "virtualport", "mtu", "vlan", "nwfilter", "gateway")},
        **_addresses(nics.asked(wanted["address"]), network, field + ".address"),
        "nameservers": list(network["nameservers"]),
        "security": security_of(wanted, network, catalog, field, groups),
    }
    if document["security"] and port_security(wanted, network):
        document["port_security"] = True
    document.update(_dhcp_and_route(wanted, network, field))
    if network["type"] == "direct":
        document.update(source=network["pci_alias"], model=None)
    if network["pool"] is not None and not wanted["address"]:
        document.update(prefixlen=ipaddress.ip_network(network["cidr"]).prefixlen, pool=ranges(network))
    return document


def _dhcp_and_route(wanted: Wanted, network: Wanted, field: str) -> Document:
    """Return {dhcp, default_route}, as far as they are not what a NIC does by itself."""
    said, static = wanted.get("default_route"), wanted["address"] or network["pool"] is not None
    if said and static and not (network["gateway"] or network["gateway6"]):
        raise InvalidInput(field + ".default_route", said, "a gateway in network %s" % network["name"])
    version = ip_version(network["cidr"] or "")
    dhcp = network["dhcp"] or ("ipv6" if version == 6 and not static else None)
    return {**({"dhcp": dhcp} if dhcp else {}), **({} if said is None else {"default_route": said})}


def check_network(networks: Mapping[str, Any], wanted: Wanted, field: str) -> Document:
    """Return the network of a NIC; NetworkNotFound if the catalog does not have it."""
    if wanted["network"] not in networks:
        error = NetworkNotFound.named(field + ".network", wanted["network"], networks)
        sources = [name for name in networks if networks[name]["source"] == wanted["network"]]
        error.hint = meant(sources[0]) if sources else error.hint
        raise error
    return networks[wanted["network"]]


def _check_addresses(networks: Mapping[str, Any], wanted: Wanted, field: str) -> None:
    if wanted["network"] in networks:
        _addresses(nics.asked(wanted["address"]), networks[wanted["network"]], field + ".address")


def _addresses(texts: List[str], network: Wanted, field: str) -> Document:
    """Return {address, gateway, address6, gateway6}, the latter two only of an IPv6 address beside an IPv4 one."""
    versions = [ip_version(text) for text in texts]
    if len(set(versions)) < len(versions):
        raise InvalidInput(field, list(texts), "at most one IPv4 and one IPv6 address")
    found: Document = {}
    for version, text in sorted(zip(versions, texts)):
        beside = "6" if version == 6 and network["cidr6"] else ""
        cidr, gateway = network["cidr" + beside], network["gateway" + beside]
        end = "6" if found else ""
        found["address" + end] = _address(text, network["name"], cidr, gateway, field)
        found["gateway" + end] = gateway if cidr and ip_version(cidr) == version else None
    return found


def _address(text: str, name: str, cidr: Any, gateway: Optional[str], field: str) -> str:
    """Return address/prefix, with the prefix of the network ``name`` if none is given."""
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        raise InvalidInput(field, text, "an IP address such as 192.0.2.10 or 192.0.2.10/24")
    if cidr:
        cidr = ipaddress.ip_network(cidr)
        if address.ip not in cidr:
            raise InvalidInput(field, text, "an address in %s, a cidr of network %s" % (cidr, name))
        if address.ip in unusable(cidr) or str(address.ip) == gateway:
            rule = "an address that a machine can have, other than the gateway of network %s" % name
            raise InvalidInput(field, text, rule)
        return text if "/" in text else "%s/%d" % (address.ip, cidr.prefixlen)
    if "/" not in text:
        raise InvalidInput(
            field, text, "an address with prefix length, as network %s has no cidr of its version" % name
        )
    return text
