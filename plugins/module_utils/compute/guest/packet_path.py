# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel does with the packets of a guest's NICs, compared with the record: the tap, its bridge, and each chain
of rules between. libvirt makes these once, at the start; a restarted bridge or a reloaded firewall undoes it.

Nothing is read here, see packet_path_read.py. libvirt's chains: ebtables nat libvirt-I-TAP has what the guest may send by
its addresses; iptables FO-TAP has what may come in, FI-TAP what may go out, HI-TAP what may reach the host.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple
from xml.etree import ElementTree

from ...model.safe_text import clean
from . import packet_filter, rule_tables
from .accepted_packets import FAMILIES, Accepted, of_filter, of_rule, senders, told
from .rule_tables import ACCEPT, DROP, NO, YES, Chain, Tables

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
    that are; ``uplinks``: bridge -> its ports that are no taps; ``called``: program -> the bridges whose packets iptables sees;
    ``tables``: program -> its tables, of each backend in the kernel, without programs that could not be read; ``nft``: table
    of libvirt's nftables driver -> its taps; ``unread``: what could not be read, with the reason."""

    ports: Dict[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    down: List[str] = dataclasses.field(default_factory=list)
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
        yield "its tap %s is %s, not on %s" % (nic.tap, at, nic.bridge)
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
    for sure, verdict, rule in rule_tables.walk(chains, first, packet, goal):
        if verdict == goal:
            return ahead or _altered(nic, chains, program, prefix, packet)
        if verdict == DROP and sure:
            return None
        # INPUT is the host's own: what it accepts for its services is not the guest's affair
        if verdict == ACCEPT and (sure or first != "INPUT") and not rule.startswith("-P "):
            ahead = ahead or "accepts before %s: %s" % (goal, rule)
    return ahead or "%s does not lead to %s" % (first, goal)


def _lets_all_pass(rule: rule_tables.Rule, packet: Packet) -> bool:
    return rule.target == ACCEPT and rule_tables.matches(rule, packet) == YES


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
    new = [rule for rule in rules if rule.target == ACCEPT and rule_tables.matches(rule, packet) != NO]
    has, wanted = {of_rule(rule) for rule in new}, (nic.accepts or {})[program]
    if has - wanted:
        return "%s accepts %s" % (goal, told(min(has - wanted)))
    return "%s does not accept %s" % (goal, told(min(wanted - has))) if wanted - has else None


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
    for sure, verdict, rule in rule_tables.walk(chains, "FORWARD", packet):
        if verdict == ACCEPT or rule.startswith(own):
            return None
        if verdict == DROP and sure:
            return rule
    return None
