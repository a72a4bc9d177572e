# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guest's security groups let in, in one form: by the filter that berth renders, and by a rule of the kernel."""

from __future__ import annotations

import ipaddress
from typing import Dict, FrozenSet, List, Tuple
from xml.etree import ElementTree

from .rule_tables import Rule

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


def told(accepted: Accepted) -> str:
    """For people."""
    proto, network, port, sender, kind = accepted
    named = (("from", network), ("to port", port), ("from port", sender), ("type", kind))
    return " ".join([proto or "everything", *("%s %s" % (name, value) for name, value in named if value)])
