# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel does with the packets of a guest's NICs, compared with the record: the tap, its bridge, and each chain
of rules between. libvirt makes these once, at the start; a restarted bridge or a reloaded firewall undoes it.

libvirt's chains: ebtables nat libvirt-I-TAP has what the guest may send by
its addresses; iptables FO-TAP has what may come in, FI-TAP what may go out, HI-TAP what may reach the host.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import shutil
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple
from xml.etree import ElementTree

from ...model.errors import BerthError
from ...model.host_hints import NO_BRIDGE
from ...model.lifecycle import OWN
from ...model.safe_text import clean
from ..run import PATH, run
from . import domain, kernel_packet_tables, live_differences, packet_filter
from .kernel_packet_tables import ACCEPT, DROP, NO, YES, Chain, Rule, Tables
from .network import OVS
from .packet_filter import BRIDGED, reads_one

# What a guest's security groups let in, in one form: by the filter that berth renders, and by a rule of the kernel.
FAMILIES = {"iptables": 4, "ip6tables": 6}
ON_BRIDGE = ("mac", "ip", "ipv6", "arp", "rarp")  # what ebtables filters
NAMES = {"ipv6-icmp": "icmpv6", "all": ""}
Accepted = Tuple[str, str, str, str, str]  # protocol, network, port, the sender's port, type of ICMP; "" for any


def of_filter(xml: str) -> Dict[str, FrozenSet[Accepted]]:
    """Return {iptables, ip6tables: what the filter (its XML text) lets in}."""
    found = {}
    rules = ElementTree.fromstring(xml).findall("rule[@action='accept'][@direction='in']")
    for program, version in FAMILIES.items():
        each = [_of_part(part, version) for rule in rules for part in rule]
        found[program] = frozenset(accepted for accepted in each if accepted)
    return found


def senders(xml: str) -> List[str]:
    """Return the protocols of the rules that let the guest send, by its addresses."""
    rules = ElementTree.fromstring(xml).findall("rule[@action='accept'][@direction='out']")
    return [part.tag for rule in rules for part in rule if part.tag in ON_BRIDGE]


def _of_part(part, version):
    proto, six, _rest = part.tag.partition("-ipv6")
    if (6 if six or proto == "icmpv6" else 4) != version:
        return None
    address = part.get("srcipaddr")
    return (
        NAMES.get(proto, proto),
        "" if address is None else str(ipaddress.ip_network("%s/%s" % (address, part.get("srcipmask")))),
        _span(part.get("dstportstart"), part.get("dstportend")),
        _span(part.get("srcportstart"), part.get("srcportend")),
        part.get("type") or "",
    )


def _span(first, last):
    return ":".join(dict.fromkeys(port for port in (first, last) if port))


def of_rule(rule: Rule) -> Accepted:
    said = {option: value for option, value, _negated in rule.tests}
    proto, kind = said.get("-p", ""), said.get("--icmpv6-type") or said.get("--icmp-type") or ""
    return (NAMES.get(proto, proto), said.get("-s", ""), said.get("--dport", ""), said.get("--sport", ""), kind)


def told_accepted(accepted: Accepted) -> str:
    """For people."""
    proto, network, port, sender, kind = accepted
    named = (("from", network), ("to port", port), ("from port", sender), ("type", kind))
    return " ".join([proto or "everything", *("%s %s" % (name, value) for name, value in named if value)])


LONGEST = 240
UNPLUGGED, OPEN, CLOSED = "NicNotConnected", "PacketFilterNotInForce", "PacketsDropped"
WORDS = {UNPLUGGED: "%s", OPEN: "its packet filter is not in force: %s", CLOSED: "%s"}
NFT_ADDRESSES, NFT_PORTS = "libvirt_nwfilter_ethernet", "libvirt_nwfilter_inet"  # tables of libvirt's nftables driver
ANOTHER = "another-port"  # of the bridge, which no rule names
Found = Tuple[str, str]  # code, text
Packet = Mapping[str, Optional[str]]
Chains = Mapping[str, Chain]


@dataclasses.dataclass(frozen=True)
class Nic:
    """A NIC of a running guest. ``kind``: bridge, openvswitch or direct (macvtap); ``bridge``: or the macvtap's parent;
    ``linked``: whether libvirt shows the guest a plugged cable; ``senders``: the number of rules for what the guest may send
    from, None if it may send anything; ``accepts``: program -> what its security groups let in, None without a group;
    ``of_network``: whether the network has a filter, of which only the name is known, before that of the record."""

    mac: str
    tap: str
    kind: str
    bridge: str
    vlan: Optional[int] = None
    isolated: bool = False
    linked: bool = True
    senders: Optional[int] = None
    accepts: Optional[Mapping[str, FrozenSet[Accepted]]] = None
    of_network: bool = False


@dataclasses.dataclass
class Seen:
    """What a host has. ``ports``: tap -> {up, carrier, bridge, stopped (the state of a port that forwards nothing), isolated,
    vlans (VLAN -> whether packets without a tag are in it, both ways)}, without those that are gone; ``down``: the bridges
    that are; ``gone``: those that there are not; ``uplinks``: bridge -> its ports that are not taps; ``called``: program -> the
    bridges whose packets iptables sees;
    ``tables``: program -> its tables, of each backend in the kernel, without programs that could not be read; ``nft``: table
    of libvirt's nftables driver -> its taps; ``unread``: what could not be read, with the reason."""

    ports: Dict[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    down: List[str] = dataclasses.field(default_factory=list)
    gone: List[str] = dataclasses.field(default_factory=list)
    uplinks: Dict[str, List[str]] = dataclasses.field(default_factory=dict)
    called: Dict[str, List[str]] = dataclasses.field(default_factory=dict)
    tables: Dict[str, List[Tables]] = dataclasses.field(default_factory=dict)
    nft: Dict[str, List[str]] = dataclasses.field(default_factory=dict)
    unread: List[str] = dataclasses.field(default_factory=list)


def of_guest(live: str, record) -> List[Nic]:
    """Return the NICs of the running guest (its XML text) whose packets this host's kernel forwards for the record."""
    asked = {nic["mac"]: (at, nic) for at, nic in enumerate(record.spec.get("networks") or ())}
    filters, found = packet_filter.render(record), []
    for element in ElementTree.fromstring(live).iterfind("devices/interface[mac]"):
        at, nic = asked.get(element.find("mac").get("address"), (None, None))
        if nic is not None and element.get("type") in ("bridge", "network", "direct"):
            found.append(_nic(element, nic, filters.get(packet_filter.name(record.uuid, at))))
    return [nic for nic in found if nic.tap and nic.bridge]


def _nic(element, nic, filtered: Optional[str]) -> Nic:
    def attribute(tag, key):
        part = element.find(tag)
        return None if part is None else part.get(key)

    limits = nic.get("security")
    switch = attribute("virtualport", "type") == "openvswitch"
    return Nic(
        mac=nic["mac"],
        tap=attribute("target", "dev") or "",
        kind="openvswitch" if switch else "direct" if element.get("type") == "direct" else "bridge",
        bridge=attribute("source", "bridge") or attribute("source", "dev") or "",
        vlan=nic.get("vlan") or _vlan(element),
        isolated=attribute("port", "isolated") == "yes",
        linked=attribute("link", "state") != "down",
        senders=len(senders(filtered)) if filtered and not limits.get("open") else None,
        of_network=bool(nic.get("nwfilter")),
        accepts=of_filter(filtered) if filtered and limits.get("rules") is not None else None,
    )


def _vlan(element) -> Optional[int]:
    """The VLAN of packets without a tag that the definition of a libvirt network gave the NIC."""
    tags = element.findall("vlan/tag")
    own = [tag for tag in tags if tag.get("nativeMode")] if len(tags) > 1 else tags
    return int(own[0].get("id")) if own else None


def examine(nic: Nic, seen: Seen) -> List[Found]:
    """Return what is wrong with the NIC's packets: [(code, text)], one of a code, [] if they go as the record says."""
    parts = {UNPLUGGED: [*_unplugged(nic, seen)]}
    if nic.kind == "bridge":
        parts[OPEN] = [*_filtered(nic, seen)]
        parts[CLOSED] = [] if any(parts.values()) else [*_dropped(nic, seen)]
    return [(code, clean(WORDS[code] % _first(texts), LONGEST)) for code, texts in parts.items() if texts]


def _first(texts: List[str]) -> str:
    return texts[0] + (", and %d more" % (len(texts) - 1) if texts[1:] else "")


# ---- the tap ---------------------------------------------------------------------------------------------------------


def _unplugged(nic: Nic, seen: Seen) -> Iterator[str]:
    port = seen.ports.get(nic.tap)
    if port is None:
        yield "its tap %s is gone" % nic.tap
        return
    if port["bridge"] != nic.bridge:
        at = "on %s" % port["bridge"] if port["bridge"] else "on no bridge"
        yield "its tap %s is %s, not on %s%s" % (nic.tap, at, nic.bridge, NO_BRIDGE * (nic.bridge in seen.gone))
    elif nic.bridge in seen.down:
        yield "bridge %s is down" % nic.bridge
    elif port["stopped"] and port["up"] and port["carrier"]:  # else that is why
        yield "bridge %s forwards nothing of its tap %s (%s)" % (nic.bridge, nic.tap, port["stopped"])
    if not port["up"]:
        yield "its tap %s is down" % nic.tap
    elif not port["carrier"]:
        yield "its tap %s has no carrier" % nic.tap
    if not nic.linked:
        yield "its cable is unplugged in libvirt"
    if port["isolated"] and not nic.isolated:
        yield "its tap %s is isolated from other isolated ports" % nic.tap
    if port["vlans"] is not None:
        yield from _in_vlan(nic, port["vlans"])


def _in_vlan(nic: Nic, vlans: Mapping[int, bool]) -> Iterator[str]:
    others = [str(vlan) for vlan in sorted(vlans) if vlan != nic.vlan]
    if nic.vlan and nic.vlan not in vlans:
        yield "its tap %s is not in VLAN %d" % (nic.tap, nic.vlan)
    elif nic.vlan and not vlans[nic.vlan]:
        yield "its tap %s has VLAN %d for tagged packets only" % (nic.tap, nic.vlan)
    if others:
        yield "its tap %s is in VLAN %s, which its record does not have" % (nic.tap, ", ".join(others[:5]))


# ---- its filter ------------------------------------------------------------------------------------------------------


def _between(nic: Nic, port_in: Optional[str], port_out: Optional[str], proto: Optional[str] = None) -> Packet:
    """A packet between two ports of the bridge, as iptables sees it. None: any."""
    ports = {"port_in": port_in, "port_out": port_out, "bridge": nic.bridge, "proto": proto}
    return {"in": nic.bridge, "out": nic.bridge, **ports}


def _on_bridge(packet: Packet) -> Packet:
    """The same as ebtables sees it, whose -i and -o are ports of the bridge, and whose -p are other protocols."""
    return {**packet, "in": packet["port_in"], "out": packet["port_out"], "proto": None}


def _filtered(nic: Nic, seen: Seen) -> Iterator[str]:
    if nic.of_network and not _has_chains(nic, seen):
        yield "no program has a chain of %s, so restart libvirtd (or virtnwfilterd)" % nic.tap
    sent, received = _between(nic, nic.tap, None), _between(nic, None, nic.tap)
    if nic.senders is not None and nic.tap not in seen.nft.get(NFT_ADDRESSES, ()):
        yield from _passes_by(nic, seen, ("ebtables", "nat", "PREROUTING"), "libvirt-I-", _on_bridge(sent))
    if nic.accepts is None or nic.tap in seen.nft.get(NFT_PORTS, ()):
        return
    for program in FAMILIES:
        if nic.bridge not in seen.called[program]:
            yield "%s sees no packets of %s, as bridge-nf-call-%s is not 1" % (program, nic.bridge, program)
            continue
        yield from _passes_by(nic, seen, (program, "filter", "FORWARD"), "FO-", received)
        yield from _passes_by(nic, seen, (program, "filter", "FORWARD"), "FI-", sent)
        yield from _passes_by(nic, seen, (program, "filter", "INPUT"), "HI-", sent)


def _has_chains(nic: Nic, seen: Seen) -> bool:
    tables = [table for backends in seen.tables.values() for each in backends for table in each.values()]
    of_nft = any(nic.tap in taps for taps in seen.nft.values())
    return of_nft or any(name.endswith("-" + nic.tap) for table in tables for name in table)


def _passes_by(nic: Nic, seen: Seen, where: Tuple[str, str, str], prefix: str, packet: Packet) -> Iterator[str]:
    """Whether packets pass by libvirt's chain of the tap, in each of the kernel's backends. ``where``: (program, table,
    the chain that the kernel asks)."""
    if where[0] in seen.tables:  # else it is named among what is unread
        faults = [_open(nic, tables.get(where[1]) or {}, where, prefix, packet) for tables in seen.tables[where[0]]]
        if None not in faults:
            yield "%s %s" % (where[0], faults[0])


def _open(nic: Nic, chains: Chains, where: Tuple[str, str, str], prefix: str, packet: Packet) -> Optional[str]:
    program, first, goal, ahead = where[0], where[2], prefix + nic.tap, None
    if goal not in chains:
        return "has no chain %s" % goal
    for sure, verdict, rule in kernel_packet_tables.walk(chains, first, packet, goal):
        if verdict == goal:
            return ahead or _altered(nic, chains, program, prefix, packet)
        if verdict == DROP and sure:
            return None
        # INPUT is the host's own: what it accepts for its services is not the guest's affair
        if verdict == ACCEPT and (sure or first != "INPUT") and not rule.startswith("-P "):
            ahead = ahead or "accepts before %s: %s" % (goal, rule)
    return ahead or "%s does not lead to %s" % (first, goal)


def _lets_all_pass(rule: kernel_packet_tables.Rule, packet: Packet) -> bool:
    return rule.target == ACCEPT and kernel_packet_tables.matches(rule, packet) == YES


def _altered(nic: Nic, chains: Chains, program: str, prefix: str, packet: Packet) -> Optional[str]:
    """What libvirt's chain lets pass that the record does not, or the other way round."""
    goal, rules = prefix + nic.tap, chains[prefix + nic.tap].rules
    if not rules or rules[-1].tests or rules[-1].target != DROP:
        return "%s does not drop the rest" % goal
    if program == "ebtables" and any(_lets_all_pass(rule, packet) for rule in rules):
        return "%s lets everything pass" % goal
    if program == "ebtables" and not nic.of_network:
        number = sum(rule.target == ACCEPT for rule in rules)
        return None if number == nic.senders else "%s has %d rules that accept, not %d" % (goal, number, nic.senders)
    if prefix != "FO-" or nic.of_network:
        return None
    new = [rule for rule in rules if rule.target == ACCEPT and kernel_packet_tables.matches(rule, packet) != NO]
    has, wanted = {of_rule(rule) for rule in new}, (nic.accepts or {})[program]
    if has - wanted:
        return "%s accepts %s" % (goal, told_accepted(min(has - wanted)))
    return "%s does not accept %s" % (goal, told_accepted(min(wanted - has))) if wanted - has else None


# ---- what others drop ------------------------------------------------------------------------------------------------


def _dropped(nic: Nic, seen: Seen) -> Iterator[str]:
    """Rules of others that are sure to drop the first packet of a connection from or to the guest, by whichever uplink."""
    uplinks = seen.uplinks.get(nic.bridge) or [ANOTHER]
    ways = {
        "from": [_between(nic, nic.tap, uplink, "tcp") for uplink in uplinks],
        "to": [_between(nic, uplink, nic.tap, "tcp") for uplink in uplinks],
    }
    for way, packets in ways.items():
        found = [[*_who_drops(nic, seen, packet)] for packet in packets]
        for program, rule in found[0] if all(found) else ():
            yield "%s drops packets %s it: %s" % (program, way, rule)


def awaits(nic: Nic, seen: Seen) -> Iterator[str]:
    """Yield what is sure to cut off a NIC that has no tap here yet. The rules of its own security group decide first, later."""
    if nic.bridge in seen.down:
        yield "bridge %s is down" % nic.bridge
    if nic.accepts is None:
        yield from _dropped(nic, seen)


def _who_drops(nic: Nic, seen: Seen, packet: Packet) -> Iterator[Tuple[str, str]]:
    for program, backends in seen.tables.items():
        asked = _on_bridge(packet) if program == "ebtables" else packet
        for tables in backends if program == "ebtables" or nic.bridge in seen.called[program] else ():
            rule = _drops(tables.get("filter") or {}, nic, asked)
            if rule:
                yield program, rule


def _drops(chains: Chains, nic: Nic, packet: Packet) -> Optional[str]:
    own = ("-A FO-%s " % nic.tap, "-A FI-%s " % nic.tap)
    for sure, verdict, rule in kernel_packet_tables.walk(chains, "FORWARD", packet):
        if verdict == ACCEPT or rule.startswith(own):
            return None
        if verdict == DROP and sure:
            return rule
    return None


# Reads what this host's kernel has for the NICs of its guests, in one pass: their taps, and its tables of packet rules.
# Nothing is changed and nothing waits for long.
TIMEOUT = 5  # s, for each program
LEGACY = {"iptables": "/proc/net/ip_tables_names", "ip6tables": "/proc/net/ip6_tables_names"}
# Distributions with one of ebtables' two backends alone may call its program by its own name only.
EBTABLES = ("ebtables-save", "ebtables-nft-save", "ebtables-legacy-save")
DAMAGED = (AttributeError, LookupError, TypeError, ValueError)  # what a program may print in another form
FORWARDING = ("forwarding", "listening", "learning")  # soon, for the latter


class PacketRulesNotRead(BerthError):
    """A program that lists the kernel's packet rules or ports failed on this host. Nothing was changed."""


def look_at_kernel(nics):
    """Return packet_path.Seen for the NICs of a host. Raise PacketRulesNotRead if its network devices cannot be listed."""
    seen = Seen()
    if not nics:
        return seen
    links = _links()
    seen.ports = {nic.tap: _port(nic, links, seen.unread) for nic in nics if nic.tap in links}
    bridges = dict.fromkeys(nic.bridge for nic in nics if nic.kind == "bridge")
    seen.down = [name for name in bridges if name in links and "UP" not in (links[name].get("flags") or ())]
    seen.gone = [name for name in bridges if name not in links]
    ports = [name for name, link in links.items() if link.get("linkinfo", {}).get("info_kind") != "tun"]
    seen.uplinks = {name: [port for port in ports if links[port].get("master") == name] for name in bridges}
    for program in FAMILIES:
        everywhere, own = reads_one(BRIDGED % program), "nf_call_" + program
        seen.called[program] = [name for name in bridges if everywhere or _data(links, name, "info_data").get(own)]
    for program in ("ebtables", *FAMILIES):
        if bridges and (program == "ebtables" or seen.called[program]):
            with _told(seen.unread, program):
                seen.tables[program] = _tables(program)
    if bridges and shutil.which("nft", path=PATH):
        with _told(seen.unread, "nft"):
            listed = _nft()
            seen.nft = kernel_packet_tables.taps(listed)
            for program, backends in kernel_packet_tables.backends(listed).items():
                seen.tables.get(program, []).extend(backends)
    return seen


@contextlib.contextmanager
def _told(unread, what):
    try:
        yield
    except (BerthError, OSError, *DAMAGED) as error:
        unread.append("what %s does with packets of guests is not known: %s" % (what, error))


# ---- taps ------------------------------------------------------------------------------------------------------------


def _links():
    """Return {name: what the kernel says of it} of all network devices."""
    listed = json.loads(_run("ip", "-details", "-json", "link", "show"))
    return {link["ifname"]: link for link in listed if link.get("ifname")}


def _data(links, name, part):
    return links.get(name, {}).get("linkinfo", {}).get(part) or {}


def _port(nic, links, unread):
    """Return what packet_path.Seen says of a port."""
    link, as_port = links[nic.tap], _data(links, nic.tap, "info_slave_data")
    flags = link.get("flags") or ()
    port = {
        "up": "UP" in flags,
        "carrier": "NO-CARRIER" not in flags,
        "bridge": link.get("link" if nic.kind == "direct" else "master"),
        "stopped": as_port.get("state") if as_port.get("state") not in FORWARDING else None,
        "isolated": bool(as_port.get("isolated")),
        "vlans": None,
    }
    if nic.kind == "openvswitch":
        port["bridge"] = nic.bridge  # the kernel names its own part of the switch
        with _told(unread, OVS):
            port.update(_on_switch(nic))
    elif nic.kind == "bridge" and nic.vlan:
        with _told(unread, "bridge"):
            port["vlans"] = _vlans(nic.tap)
    return port


def _vlans(tap):
    """Return {VLAN of a port of a bridge: whether packets without a tag are in it, both ways}."""
    listed = json.loads(_run("bridge", "-json", "vlan", "show", "dev", tap) or "[]")
    entries = [entry for port in listed for entry in port.get("vlans") or ()]
    return {entry["vlan"]: {"PVID", "Egress Untagged"} <= set(entry.get("flags") or ()) for entry in entries}


def _on_switch(nic):
    """Return {bridge, vlans} of a port of Open vSwitch. The switch itself says where it is: the kernel does not know."""
    call = (OVS, "--timeout=%d" % TIMEOUT)
    for bridge in (nic.bridge, *_run(*call, "list-br").split()):
        if nic.tap in _run(*call, "list-ports", bridge).split():
            tag = _run(*call, "get", "port", nic.tap, "tag").strip()
            return {"bridge": bridge, "vlans": {int(tag): True} if tag.isdigit() else {}}
    return {"bridge": None}


def _run(*arguments):
    return run(list(arguments), timeout=TIMEOUT, error=PacketRulesNotRead)


# ---- rules -----------------------------------------------------------------------------------------------------------


def _tables(program):
    """Return the tables of each backend that the kernel asks: a rule of the older one decides beside those of nftables."""
    names = EBTABLES if program == "ebtables" else (program + "-save",)
    name = next((name for name in names if shutil.which(name, path=PATH)), names[0])
    text = _run(name)
    found = [kernel_packet_tables.parse(text)]
    if program == "ebtables":
        return found
    is_nft = "nf_tables" in text or not text.strip()
    other = "%s-%s-save" % (program, "legacy" if is_nft else "nft")
    if shutil.which(other, path=PATH) and (not is_nft or _is_filled(LEGACY[program])):
        found.append(kernel_packet_tables.parse(_run(other)))
    return found


def _is_filled(path):
    try:
        with open(path, encoding="ascii") as stream:
            return bool(stream.read(64).strip())
    except OSError:
        return False


def _nft():
    return json.loads(_run("nft", "-j", "list", "ruleset"))["nftables"]


# Whether the packets of running guests go as their records say, by what the kernel has; and how that is repaired while
# the guest runs: its tap goes back to its bridge, and libvirt makes the rules of its filter again.
IN_KERNEL = "kernel"  # the key of domain_differs
MENDED = (UNPLUGGED, OPEN)  # what others drop is theirs to change
MOST = 20


def differing(guests):
    """Return ({uuid: [{nic, code, said}]} of what is wrong, [what could not be read]). ``guests``: [(record, the XML text of
    the running guest)], all of a host at once: the kernel is asked once."""
    nics = {}
    for record, live in guests:
        with contextlib.suppress(*live_differences.DAMAGED):  # a damaged record, which is reported elsewhere
            nics[record.uuid] = of_guest(live, record)
    try:
        seen = look_at_kernel([nic for each in nics.values() for nic in each])
    except (PacketRulesNotRead, ValueError) as error:
        return {}, ["whether packets of guests go as their records say is not known: %s" % error]
    found = {
        uuid: [_wrong(nic, *wrong) for nic in each for wrong in examine(nic, seen)][:MOST]
        for uuid, each in nics.items()
    }
    return {uuid: wrong for uuid, wrong in found.items() if wrong}, seen.unread


def _wrong(nic, code, text):
    return {"nic": _name(nic), "code": code, "said": text}


def _name(nic):
    return "network interface %s" % nic.mac


def _is_mended(wrong):
    return wrong["code"] in MENDED


def packets_of(connection, record):
    """Return the differences of one guest; [] if it does not run here."""
    guest = domain.find(connection, record.uuid) if record.role == OWN else None
    live = domain.definitions(guest)[0] if guest is not None else None
    return differing([(record, live)])[0].get(record.uuid, []) if live else []


def mend_packets(connection, record):
    """Repair what can be. Return ([the differences that there were], [those that are left])."""
    wrong = packets_of(connection, record)
    if not any(map(_is_mended, wrong)):
        return wrong, wrong
    guest = domain.find(connection, record.uuid)
    live = domain.definitions(guest)[0]
    codes = {each["code"] for each in wrong}
    if UNPLUGGED in codes:
        names = {each["nic"] for each in wrong if each["code"] == UNPLUGGED}
        for nic in of_guest(live, record):
            if _name(nic) in names:
                _plug(guest, live, nic)
    if OPEN in codes:
        packet_filter.enforce(connection, record)
    return wrong, packets_of(connection, record)


def _plug(guest, live, nic):
    """Do what libvirt does at the start. What fails is still there when it is looked at again."""
    if nic.kind == "openvswitch":
        plug, moved = _calls_of_switch(guest, live, nic)
        _try(plug) or _try(moved)
    elif nic.kind == "bridge":
        _try(["ip", "link", "set", "dev", nic.tap, "master", nic.bridge])
        if not nic.isolated:
            _try(["ip", "link", "set", "dev", nic.tap, "type", "bridge_slave", "isolated", "off"])
        if nic.vlan:
            of_tap = ["dev", nic.tap, "vid"]
            _try(["bridge", "vlan", "del", *of_tap, "1-4094"])  # a new port is in the bridge's own VLAN
            _try(["bridge", "vlan", "add", *of_tap, str(nic.vlan), "pvid", "untagged"])
    _try(["ip", "link", "set", "dev", nic.tap, "up"])
    if not nic.linked:
        with contextlib.suppress(BerthError):
            domain.update(guest, _linked(live, nic.mac))


def _try(call):
    try:
        run(call, timeout=2 * TIMEOUT, error=PacketRulesNotRead)
        return True
    except BerthError:
        return False


def _calls_of_switch(guest, live, nic):
    """Put the tap on its switch with its tag, as libvirt does at the start. An added port that is there keeps another tag, and
    ovs-vsctl refuses one that is on another bridge: then it goes from there in the same transaction."""
    port = _element(live, nic.mac).find("virtualport/parameters")
    said = {"attached-mac": nic.mac, "vm-id": guest.UUIDString(), "iface-status": "active"}
    said.update({"iface-id": port.get("interfaceid")} if port is not None and port.get("interfaceid") else {})
    tag = ["set", "port", nic.tap, "tag=%d" % nic.vlan] if nic.vlan else ["clear", "port", nic.tap, "tag"]
    named = ["external-ids:%s=%s" % (key, json.dumps(value)) for key, value in said.items()]
    call = ["ovs-vsctl", "--timeout=%d" % TIMEOUT, "--"]
    plug = ["--may-exist", "add-port", nic.bridge, nic.tap, "--", *tag, "--", "set", "interface", nic.tap, *named]
    return [[*call, *plug], [*call, "--if-exists", "del-port", nic.tap, "--", *plug]]


def _element(live, mac):
    interfaces = ElementTree.fromstring(live).iterfind("devices/interface[mac]")
    return next(each for each in interfaces if each.find("mac").get("address") == mac)


def _linked(live, mac):
    element = _element(live, mac)
    element.find("link").set("state", "up")
    return ElementTree.tostring(element, encoding="unicode")
