# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packet filters of a guest: one libvirt network filter per NIC, rendered from the record, on whichever host the
guest is; and in which order the record and the filter change.

A filter has two parts. On layer 2 it lets out what comes from the NIC's own addresses and drops the rest. If the NIC is
in security groups, it lets in, and out, what their rules allow, with the replies; layer 3 of all other NICs is open. A
change of a filter takes effect on the running guest at once.
"""

from __future__ import annotations

import ipaddress
import re
import uuid as uuids
from xml.etree import ElementTree

from ...model import admitted_members, hints
from ...model.nics import addresses, asking_filters, dhcp_versions, unfiltered
from ..connection import Deadline, LibvirtUnavailable, has_no_driver, require_libvirt
from ..errors import BuildFailed, PacketFilterForeign, PacketFilterInUse
from ..record import journal

CALL_TIMEOUT = 120  # s: a running guest's rules are installed one by one
NAME = re.compile(r"berth-[0-9a-f-]{36}-[0-9]{1,3}\Z")
BRIDGED = "/proc/sys/net/bridge/bridge-nf-call-%s"
EVERYTHING = {4: ipaddress.ip_network("0.0.0.0/0"), 6: ipaddress.ip_network("::/0")}
ADDRESSES, PORTS = "addresses", "ports"
# Priorities: after those of the network's own filter, which comes first.
ACCEPT, DROP = 900, 950
# Neighbour discovery and multicast groups: IPv6 does not work without them, and conntrack does not track them.
ICMPV6 = {"in": (130, 131, 132, 133, 134, 135, 136), "out": (131, 132, 133, 135, 136, 143)}


def name(uuid, at):
    return "berth-%s-%d" % (uuid, at)


def own_uuid(uuid, at):
    """Return the filter's uuid in libvirt, by which berth recognizes its own filters."""
    return str(uuids.uuid5(uuids.UUID(uuid), "nwfilter/%d" % at))


def filter_of(record, at):
    """Return the name of a NIC's filter: its own, which calls its network's first, or the network's, or None."""
    nic = record.spec["networks"][at]
    return name(record.uuid, at) if nic.get("security") else nic.get("nwfilter")


def possible(connection, bridged=BRIDGED):
    """Return what this host can filter: addresses, and ports if the kernel shows bridged packets to iptables."""
    library = require_libvirt()
    try:
        connection.listAllNWFilters(0)
    except library.libvirtError as error:
        if has_no_driver(error):
            return []
        raise
    called = [reads_one(bridged % table) for table in ("iptables", "ip6tables")]
    return [ADDRESSES, PORTS] if all(called) else [ADDRESSES]


def reads_one(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read(8).strip() == "1"
    except OSError:
        return False


# ---- the XML of a filter ---------------------------------------------------------------------------------------------


def render(record):
    """Return {name: XML text} of the filters of the record's guest."""
    found = {}
    for at, nic in enumerate(record.spec.get("networks") or []):
        if nic.get("security"):
            root = ElementTree.Element("filter", name=name(record.uuid, at), chain="root")
            ElementTree.SubElement(root, "uuid").text = own_uuid(record.uuid, at)
            if nic.get("nwfilter"):
                ElementTree.SubElement(root, "filterref", filter=nic["nwfilter"])
            if not nic["security"].get("open"):
                _addresses(root, nic)
            if nic["security"].get("rules") is not None:
                _rules(root, nic["security"]["rules"], admitted_members.of_nic(nic))
            found[name(record.uuid, at)] = ElementTree.tostring(root, encoding="unicode")
    return found


def _rule(root, action, direction, kind, stateful=True, **fields):
    rule = ElementTree.SubElement(
        root, "rule", action=action, direction=direction, priority=str(ACCEPT if action == "accept" else DROP)
    )
    if not stateful:
        rule.set("statematch", "false")
    ElementTree.SubElement(rule, kind, {key: str(value) for key, value in fields.items() if value is not None})


def _addresses(root, nic):
    """Allow the guest its own MAC address with its fixed address, and with any of an IP version that it asks DHCP for."""
    allowed = [
        (entry.get("mac") or nic["mac"], ipaddress.ip_network(entry["address"])) for entry in nic["security"]["allowed"]
    ]
    if nic.get("address"):
        allowed += [(nic["mac"], ipaddress.ip_network(each.partition("/")[0])) for each in addresses(nic)]
        allowed += [(nic["mac"], EVERYTHING[version]) for version in dhcp_versions(nic)]
        for mac in sorted({mac for mac, _block in allowed}):
            _before_it_has_one(root, mac)
    else:
        allowed += [(nic["mac"], everything) for everything in EVERYTHING.values()]
    for mac, block in dict.fromkeys(allowed):
        source = {} if not block.prefixlen else {"srcipaddr": block[0], "srcipmask": block.prefixlen}
        _rule(root, "accept", "out", "ip" if block.version == 4 else "ipv6", srcmacaddr=mac, **source)
        if block.version == 4:
            source = {"arp" + field: value for field, value in source.items()}
            _rule(root, "accept", "out", "arp", srcmacaddr=mac, arpsrcmacaddr=mac, **source)
    for mac in sorted({mac for mac, _block in allowed}):
        # QEMU itself tells the switches that the guest has moved here
        _rule(root, "accept", "out", "rarp", srcmacaddr=mac, arpsrcmacaddr=mac)
    _rule(root, "drop", "out", "mac")


def _before_it_has_one(root, mac):
    """Allow a guest without an address to ask DHCP for one, and to check whether one is in use."""
    dhcp = {"protocol": "udp", "srcportstart": 68, "dstportstart": 67}
    _rule(root, "accept", "out", "ip", srcmacaddr=mac, srcipaddr="0.0.0.0", srcipmask=32, **dhcp)
    _rule(root, "accept", "out", "arp", srcmacaddr=mac, arpsrcmacaddr=mac, arpsrcipaddr="0.0.0.0", arpsrcipmask=32)
    _rule(root, "accept", "out", "ipv6", srcmacaddr=mac, srcipaddr="fe80::", srcipmask=10)
    _rule(root, "accept", "out", "ipv6", srcmacaddr=mac, srcipaddr="::", srcipmask=128)


def _rules(root, rules, members):
    for rule in rules:
        for version, block in _remotes(rule, members):
            fields = _ends(rule, block)
            _rule(root, "accept", rule["direction"], _protocol(rule["protocol"], version), **fields)
    if not any(rule["direction"] == "out" for rule in rules):
        for protocol in ("all", "all-ipv6"):
            _rule(root, "accept", "out", protocol)
    for protocol, server, client in (("udp", 67, 68), ("udp-ipv6", 547, 546)):
        _rule(root, "accept", "in", protocol, stateful=False, srcportstart=server, dstportstart=client)
        _rule(root, "accept", "out", protocol, stateful=False, srcportstart=client, dstportstart=server)
    for direction, kinds in ICMPV6.items():
        for kind in kinds:
            _rule(root, "accept", direction, "icmpv6", stateful=False, type=kind)
    for protocol in ("all", "all-ipv6"):
        _rule(root, "drop", "inout", protocol)


def _remotes(rule, members):
    """Return [(4 or 6, the network or None for any)], nothing for a group without members."""
    if rule.get("remote_group"):
        blocks = [ipaddress.ip_network(text) for text in admitted_members.blocks(members, rule["remote_group"])]
        return [(block.version, block) for block in blocks]
    blocks = [ipaddress.ip_network(text) for text in rule["remote"]]
    return [(block.version, block if block.prefixlen else None) for block in blocks] or [(4, None), (6, None)]


def _protocol(protocol, version):
    if protocol == "icmp":
        return "icmp" if version == 4 else "icmpv6"
    return {"any": "all"}.get(protocol, protocol) + ("" if version == 4 else "-ipv6")


def _ends(rule, block):
    side = "src" if rule["direction"] == "in" else "dst"
    fields = {} if block is None else {side + "ipaddr": block[0], side + "ipmask": block.prefixlen}
    if rule["ports"]:
        first, last = rule["ports"].split("-")
        fields.update(dstportstart=first, dstportend=last)
    return fields


# ---- in libvirt ------------------------------------------------------------------------------------------------------


def missing(connection, record):
    """Return {name: XML text} of the record's filters that libvirt lacks, or has in another form."""
    return {each: xml for each, xml in render(record).items() if not _is_there(connection, each, xml)}


def define(connection, record):
    """Define the record's filters as they are rendered. Return whether anything was changed."""
    lacking = missing(connection, record)
    for xml in lacking.values():
        _call("defining the packet filter", connection.nwfilterDefineXML, xml)
    return bool(lacking)


def enforce(connection, record):
    """Let libvirt make the rules of the running guest's filters in the kernel again, first, and before those of others: it
    does so for a filter that changes, so each is changed and changed back. It is in force all the time."""
    for xml in render(record).values():
        other = ElementTree.fromstring(xml)
        rule = ElementTree.SubElement(other, "rule", action="continue", direction="in", priority="1000")
        ElementTree.SubElement(rule, "mac")
        for text in (ElementTree.tostring(other, encoding="unicode"), xml):
            _call("defining the packet filter", connection.nwfilterDefineXML, text)


def remove(connection, uuid):
    """Remove the filters of an undefined guest, except ones that berth did not make. Return whether there was one."""
    found = False
    for each in _listed(connection):
        label = each.name()
        if NAME.match(label) and label.startswith("berth-%s-" % uuid) and _is_ours(each, uuid):
            _undefine(each, label)
            found = True
    return found


def remove_unnamed(connection, record):
    """Remove the guest's filters of NICs that its record does not have any more."""
    named = render(record)
    for each in _listed(connection):
        label = each.name()
        if NAME.match(label) and label.startswith("berth-%s-" % record.uuid) and label not in named:
            if _is_ours(each, record.uuid):
                _undefine(each, label)


def _undefine(found, label):
    try:
        _call("removing the packet filter", found.undefine)
    except BuildFailed as error:
        if error.details.get("libvirt_code") != require_libvirt().VIR_ERR_OPERATION_INVALID:
            raise
        raise PacketFilterInUse("another guest uses the filter %s" % label, hint=hints.filter_in_use(label))


def _listed(connection):
    library = require_libvirt()
    try:
        return Deadline(CALL_TIMEOUT).call(connection.listAllNWFilters, 0, what="listing the packet filters")
    except library.libvirtError as error:
        if has_no_driver(error):
            return []
        raise LibvirtUnavailable("listing the packet filters: %s" % error)


def _is_ours(found, uuid):
    return found.UUIDString() == own_uuid(uuid, int(found.name().rpartition("-")[2]))


def _is_there(connection, label, xml):
    library = require_libvirt()
    try:
        found = Deadline(CALL_TIMEOUT).call(connection.nwfilterLookupByName, label, what="looking up the packet filter")
        text = Deadline(CALL_TIMEOUT).call(found.XMLDesc, 0, what="reading the packet filter")
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_NWFILTER:
            return False
        raise LibvirtUnavailable("looking up the packet filter %s: %s" % (label, error))
    root = ElementTree.fromstring(xml)
    if found.UUIDString() != root.findtext("uuid"):
        raise PacketFilterForeign(
            "a network filter that berth did not make has the name %s" % label, hint=hints.foreign_filter(label)
        )
    return _parts(root) == _parts(ElementTree.fromstring(text))


def _parts(root):
    """Return a filter in a form that can be compared: libvirt writes some numbers in its own way."""
    return sorted(
        (part.tag, _words(part), *((child.tag, _words(child)) for child in part)) for part in root if part.tag != "uuid"
    )


def _words(part):
    return tuple(sorted((key, _plain(value)) for key, value in part.attrib.items()))


def _plain(value):
    """Normalize masks, which libvirt writes as prefix lengths or addresses, and hexadecimal numbers."""
    try:
        return str(int(value, 16)) if value.startswith("0x") else str(ipaddress.ip_address(value))
    except ValueError:
        return value.lower()


def _call(what, function, *args):
    library = require_libvirt()
    try:
        return Deadline(CALL_TIMEOUT).call(function, *args, what=what)
    except library.libvirtError as error:
        if error.get_error_domain() == library.VIR_FROM_RPC:
            raise LibvirtUnavailable("the connection to libvirt broke while %s: %s" % (what, error))
        raise BuildFailed("%s: %s" % (what, error), libvirt_code=error.get_error_code())


# ---- an existing guest follows the catalog ---------------------------------------------------------------------------


def follow(connection, record, wanted, swap=None):
    """Update the guest's filters to the request ``wanted``. Return whether anything was changed, or without ``swap``,
    which writes the record, whether anything would be."""
    return bring(connection, record, with_rules_of(record.spec, wanted or {}), "security groups", swap)


def let_in(connection, record, members, swap=None):
    """Let in the ``members`` of the groups that the filters' rules name, and no others; as follow()."""
    nics = [dict(nic) for nic in record.spec.get("networks") or []]
    for nic in nics:
        if nic.get("security"):
            nic["security"] = admitted_members.with_members(nic["security"], members)
    return bring(connection, record, {**record.spec, "networks": nics}, "members of security groups", swap)


def bring(connection, record, spec, event, swap=None):
    """Bring record and filters to ``spec``. The record lists the addresses that its filter lets in, so that no other
    instance gets one: an address is added before the filter lets it in, and removed after the filter has dropped it."""
    filtered = record.replace(spec=spec)
    if swap is None:
        return spec != record.spec or bool(missing(connection, filtered))
    changed = spec != record.spec
    both = _of_both(record.spec, spec)
    if both != record.spec:
        record = swap(journal.noted(record.replace(spec=both), event))
    changed |= define(connection, filtered)
    if both != spec:
        swap(record.replace(spec=spec))
    return changed


def _of_both(old, new):
    """Return the request ``new`` with the members of ``old`` added to its own."""
    if not any(map(admitted_members.of_nic, old.get("networks") or [])):
        return new
    nics = [dict(nic) for nic in new["networks"]]
    for nic, before in zip(nics, old["networks"]):
        if admitted_members.of_nic(before):
            members = admitted_members.merged(admitted_members.of_nic(before), admitted_members.of_nic(nic))
            nic["security"] = {**nic["security"], "members": members}
    return {**new, "networks": nics}


def with_rules_of(spec, wanted):
    """Return the request with the rules and addresses of ``wanted`` for NICs that have a filter; if port security was
    switched off, an empty one remains. Nothing else of a NIC changes, and one without a filter gets none, see
    with_asked_filters(). The members of the groups stay as they are, see let_in()."""
    nics = [dict(nic) for nic in spec.get("networks") or []]
    for nic, new in zip(nics, wanted.get("networks") or []):
        if nic.get("security") and nic["mac"] == new["mac"] and "security" in new:
            rules = new["security"] or admitted_members.OPEN
            nic["security"] = admitted_members.with_members(rules, admitted_members.of_nic(nic))
    return {**spec, "networks": nics} if nics else spec


def with_asked_filters(spec, wanted):
    """Return (the request with filters for those NICs without one for which ``wanted`` says port_security: true, their
    MAC addresses)."""
    lacking, found = unfiltered(spec.get("networks")), [dict(nic) for nic in spec.get("networks") or []]
    asked = asking_filters(wanted.get("networks"))
    added = [nic for nic in found if nic["mac"] in lacking and asked.get(nic["mac"])]
    for nic in added:
        nic["security"] = admitted_members.without(asked[nic["mac"]])
    return {**spec, "networks": found} if added else spec, [nic["mac"] for nic in added]


def of_running(live, record, wanted):
    """Return {MAC address: the XML of the interface with the record's filter} of those NICs of the running guest (its XML
    text) that lack it though ``wanted`` says port_security: true."""
    asked = asking_filters(wanted.get("networks"))
    interfaces = {
        element.find("mac").get("address"): element
        for element in ElementTree.fromstring(live).iterfind("devices/interface[mac]")
    }
    found = {}
    for at, nic in enumerate(record.spec.get("networks") or []):
        element = interfaces.get(nic["mac"])
        if nic["mac"] in asked and nic.get("security") and element is not None:
            there = element.find("filterref")
            if there is None or there.get("filter") == nic.get("nwfilter"):
                if there is not None:
                    element.remove(there)
                ElementTree.SubElement(element, "filterref", filter=name(record.uuid, at))
                found[nic["mac"]] = ElementTree.tostring(element, encoding="unicode")
    return found
