# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NICs of a request, from the instance's variables and the catalog's networks: MAC addresses, the addresses that an
instance asks for, and security groups.
"""

from __future__ import annotations

import functools
import ipaddress

from ..model import address_pool, nics, security_group
from ..model.errors import InvalidInput, together
from ..model.network_schema import UNFILTERED, is_filtered
from ..model.nics import ip_version
from ..model.unknown_names import NetworkNotFound, SecurityGroupNotFound


def nic(own_uuid, at, wanted, catalog, card, groups=()):
    """Return a NIC with all that the host needs to make it. ``card`` is its model if the network names none, ``groups``
    are its security groups if it names none. Its MAC address follows from the instance, so that it never changes.
    """
    field = "berth_networks[%d]" % at
    network = check_network(at, wanted, catalog.networks)
    document = {
        "network": network["name"],
        "address": None,
        "mac": (wanted["mac"] or nics.own_mac(own_uuid, at)).lower(),
        "model": network["model"] or card,
        **{part: network[part] for part in ("type", "source", "virtualport", "mtu", "vlan", "nwfilter", "gateway")},
        **_addresses(nics.asked(wanted["address"]), network, field + ".address"),
        "nameservers": list(network["nameservers"]),
        "security": _security(wanted, network, catalog, field, groups),
    }
    if document["security"] and _asked(wanted, network):
        document["port_security"] = True
    document.update(_dhcp_and_route(wanted, network, field))
    if network["type"] == "direct":
        document.update(source=network["pci_alias"], model=None)
    if network["pool"] is not None and not wanted["address"]:
        document.update(prefixlen=ipaddress.ip_network(network["cidr"]).prefixlen, pool=address_pool.ranges(network))
    return document


def _dhcp_and_route(wanted, network, field):
    """Return {dhcp, default_route}, as far as they are not what a NIC does by itself."""
    said, static = wanted.get("default_route"), wanted["address"] or network["pool"] is not None
    if said and static and not (network["gateway"] or network["gateway6"]):
        raise InvalidInput(field + ".default_route", said, "a gateway in network %s" % network["name"])
    version = ip_version(network["cidr"] or "")
    dhcp = network["dhcp"] or ("ipv6" if version == 6 and not static else None)
    return {**({"dhcp": dhcp} if dhcp else {}), **({} if said is None else {"default_route": said})}


def check_network(at, wanted, networks):
    """Return the network of a NIC; NetworkNotFound if the catalog does not have it."""
    if wanted["network"] not in networks:
        raise NetworkNotFound.named("berth_networks[%d].network" % at, wanted["network"], networks)
    return networks[wanted["network"]]


def _asked(wanted, network):
    """Return the port security that NIC or network name; None leaves a NIC as its instance was created."""
    return network["port_security"] if wanted["port_security"] is None else wanted["port_security"]


def _security(wanted, network, catalog, field, groups):
    """Return what its packet filter is made from, or None: without port security a NIC may send and get anything."""
    asked = _asked(wanted, network)
    filtered = is_filtered(network) if asked is None else asked
    if not is_filtered(network):
        _check_unfiltered(wanted, field, groups)
    for part in ("security_groups", "allowed_addresses"):
        if wanted[part] and not filtered:
            raise InvalidInput("%s.%s" % (field, part), wanted[part], "only on a NIC with port_security")
    own, names = field + ".security_groups", wanted["security_groups"]
    names, path = (groups, "berth_security_groups") if names is None else (names, own)
    known = catalog.security_groups
    together(functools.partial(_known, path, name, known) for name in names)
    found = [known[name] for name in dict.fromkeys(names)]
    return security_group.security(found, wanted["allowed_addresses"] or (), filtered)


def _check_unfiltered(wanted, field, groups):
    """Refuse groups on a NIC whose packets libvirt does not see: they would not protect it."""
    if wanted["port_security"]:
        raise InvalidInput(field + ".port_security", True, UNFILTERED)
    if groups and wanted["security_groups"] is None and wanted["port_security"] is None:
        rule = "%s. Give this NIC security_groups: [] where it needs none" % UNFILTERED
        raise InvalidInput(field + ".security_groups", groups, rule)


def _known(path, name, known):
    if name not in known:
        raise SecurityGroupNotFound.named(path, name, known)


def _addresses(texts, network, field):
    """Return {address, gateway, address6, gateway6}, the latter two only of an IPv6 address beside an IPv4 one."""
    versions = [ip_version(text) for text in texts]
    if len(set(versions)) < len(versions):
        raise InvalidInput(field, list(texts), "at most one IPv4 and one IPv6 address")
    found = {}
    for version, text in sorted(zip(versions, texts)):
        beside = "6" if version == 6 and network["cidr6"] else ""
        cidr, gateway = network["cidr" + beside], network["gateway" + beside]
        end = "6" if found else ""
        found["address" + end] = _address(text, network["name"], cidr, gateway, field)
        found["gateway" + end] = gateway if cidr and ip_version(cidr) == version else None
    return found


def _address(text, name, cidr, gateway, field):
    """Return address/prefix, with the prefix of the network ``name`` if none is given."""
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        raise InvalidInput(field, text, "an IP address such as 192.0.2.10 or 192.0.2.10/24")
    if cidr:
        cidr = ipaddress.ip_network(cidr)
        if address.ip not in cidr:
            raise InvalidInput(field, text, "an address in %s, a cidr of network %s" % (cidr, name))
        if address.ip in address_pool.unusable(cidr) or str(address.ip) == gateway:
            rule = "an address that a machine can have, other than the gateway of network %s" % name
            raise InvalidInput(field, text, rule)
        return text if "/" in text else "%s/%d" % (address.ip, cidr.prefixlen)
    if "/" not in text:
        raise InvalidInput(
            field, text, "an address with prefix length, as network %s has no cidr of its version" % name
        )
    return text
