# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's tables of packet rules, as iptables-save, ip6tables-save, ebtables-save and nftables itself (nft) show them."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

# The kernel's tables of packet rules, as iptables-save, ip6tables-save and ebtables-save print them, and which rules
# decide about a packet of which only the ports of the bridge are known: a rule matches it, may match it, or does not.
YES, MAYBE, NO = 1, 0, -1
ACCEPT, DROP = "ACCEPT", "DROP"
DEEPEST = 32  # chains that call each other
# Options without a value, and what they say of a packet between two ports of a bridge.
FLAGS = {"--physdev-is-in": YES, "--physdev-is-out": YES, "--physdev-is-bridged": YES}
PORTS = {
    "-i": "in",
    "-o": "out",
    "--physdev-in": "port_in",
    "--physdev-out": "port_out",
    "--logical-in": "bridge",
    "--logical-out": "bridge",
}
STATES = {"--ctstate": "NEW", "--state": "NEW", "--ctdir": "ORIGINAL"}
NOTHING = ("-m", "--comment")  # say nothing of the packet

Test = Tuple[str, str, bool]  # option, value, whether it is negated
Event = Tuple[bool, str, str]  # whether it is sure to be reached, verdict or chain, the rule's text


@dataclasses.dataclass(frozen=True)
class Rule:
    text: str
    tests: Tuple[Test, ...]
    target: str
    goes: bool  # -g: what follows in this chain is not asked any more


@dataclasses.dataclass
class Chain:
    policy: str
    label: str = ""  # names it for people; none: as iptables would
    rules: List[Rule] = dataclasses.field(default_factory=list)


Tables = Dict[str, Dict[str, Chain]]


def parse(text: str) -> Tables:
    """Return {table: {chain: Chain}} of what one of the programs printed. Lines that are not rules are left out."""
    tables: Tables = {}
    chains: Dict[str, Chain] = {}
    for line in text.splitlines():
        if line.startswith("*"):
            chains = tables.setdefault(line[1:].strip(), {})
        elif line.startswith(":"):
            name, policy = (line[1:].split() + ["-"])[:2]
            chains[name] = Chain(policy)
        elif line.startswith("-A "):
            _verb, name, rest = (line + "  ").split(" ", 2)
            chains.setdefault(name, Chain("-")).rules.append(_rule(line, rest))
    return tables


def _rule(text: str, rest: str) -> Rule:
    words = _words(rest)
    tests: List[Test] = []
    target, goes, negated, at = "", False, False, 0
    while at < len(words):
        word, value = words[at], words[at + 1] if at + 1 < len(words) else ""
        if word == "!":
            negated = True
        elif word in ("-j", "-g"):
            target, goes = value, word == "-g"
            break  # what follows are options of the target
        elif word.startswith("-"):
            takes = word not in FLAGS and not value.startswith("-")
            if takes and value == "!":  # how older ebtables print it
                negated, at = True, at + 1
                value = words[at + 1] if at + 1 < len(words) else ""
            tests.append((word, value if takes else "", negated))
            negated, at = False, at + takes
        at += 1
    return Rule(text.strip(), tuple(tests), target, goes)


def _words(text: str) -> List[str]:
    try:
        return shlex.split(text) if '"' in text else text.split()
    except ValueError:
        return text.split()


def matches(rule: Rule, packet: Mapping[str, Any]) -> int:
    """YES, MAYBE or NO for a first packet of a connection. ``packet``: {in, out, port_in, port_out, bridge, proto: name, or
    None if it may be any}."""
    found = YES
    for option, value, negated in rule.tests:
        if option in NOTHING:
            continue
        said = _matches(option, value, packet)
        found = min(found, -said if negated else said)
        if found == NO:
            return NO
    return found


def _matches(option: str, value: str, packet: Mapping[str, Any]) -> int:
    if option in FLAGS:
        return FLAGS[option]
    if option in STATES:
        return YES if STATES[option] in value.split(",") else NO
    if option in PORTS:
        name = packet[PORTS[option]]
        if name is None:
            return MAYBE
        wanted = value.rstrip("+")
        return YES if name == value or value.endswith("+") and name.startswith(wanted) else NO
    if option == "-p" and packet["proto"] is not None:
        return YES if value in (packet["proto"], "all") else NO
    return MAYBE


def walk(
    chains: Mapping[str, Chain], name: str, packet: Mapping[str, Any], goal: Optional[str] = None
) -> Iterator[Event]:
    """Yield what may be decided about the packet in a chain with a policy, in order, up to what is sure to decide:
    (sure, ACCEPT, DROP or ``goal``, a chain that is not entered; the rule)."""
    chain = chains.get(name)
    if chain is None:
        return
    ended = yield from _walk(chains, name, packet, goal, True, 0)
    if not ended and chain.policy in (ACCEPT, DROP):
        yield True, chain.policy, chain.label or "-P %s %s" % (name, chain.policy)


def _walk(chains, name, packet, goal, sure, depth):  # type: ignore[no-untyped-def]
    """The same. Return whether a rule that is sure to be reached decided."""
    for rule in chains[name].rules if depth < DEEPEST else ():
        said = matches(rule, packet)
        if said == NO:
            continue
        here = sure and said == YES
        verdict = DROP if rule.target in ("REJECT", "TARPIT") else rule.target
        if verdict in (ACCEPT, DROP, goal):
            yield here, verdict, rule.text
            if here:
                return True
        elif verdict == "RETURN":
            if said == YES:
                return False
            sure = False
        elif verdict in chains:
            ended = yield from _walk(chains, verdict, packet, goal, here, depth + 1)
            if ended:
                return True
            if rule.goes:
                if said == YES:
                    return False
                sure = False
    return False


# What nftables itself has for forwarded packets, such as the chains of firewalld, in the same form; and
# for which taps libvirt's own nftables driver has rules. Tables that iptables made are left to iptables-save.
SEEN_BY = {"ip": ("iptables",), "ip6": ("ip6tables",), "inet": ("iptables", "ip6tables"), "bridge": ("ebtables",)}
OF_IPTABLES = ("filter", "nat", "mangle", "raw", "security", "broute")
OPTIONS = {
    "iifname": "-i",
    "iif": "-i",
    "oifname": "-o",
    "oif": "-o",
    "l4proto": "-p",
    "protocol": "-p",
    "state": "--ctstate",
    "status": "--ctstate",  # dnat, for example, which a bridged packet is not
}
UNKNOWN = "?"  # an option of which matches() says that it may match
OF_LIBVIRT = "libvirt_nwfilter"
TAPS = "vmap-iif"


def backends(listed: List[Mapping[str, Any]]) -> Dict[str, List[Tables]]:
    """Return {program that sees the same packets: [tables with a chain FORWARD]}, one for each chain that the kernel asks.

    ``listed``: what ``nft -j list ruleset`` says."""
    tables: Dict[Tuple[str, str], Dict[str, Chain]] = {}
    asked = []
    for part in listed:
        kind, said = next(iter(part.items()))
        key = (said.get("family"), said.get("table"))
        if kind == "chain":
            policy = str(said.get("policy", "-"))
            chain = Chain(policy.upper(), "policy %s of nft chain %s %s %s" % (policy, *key, said["name"]))
            tables.setdefault(key, {})[said["name"]] = chain
            if (said.get("type"), said.get("hook")) == ("filter", "forward") and _is_native(*key):
                asked.append((key, said["name"]))
        elif kind == "rule" and said.get("chain") in tables.get(key, {}):
            tables[key][said["chain"]].rules.extend(_rules(said))
    found: Dict[str, List[Tables]] = {}
    for (family, table), name in asked:
        for program in SEEN_BY.get(family, ()):
            chains = tables[family, table]
            found.setdefault(program, []).append({"filter": {**chains, "FORWARD": chains[name]}})
    return found


def _is_native(family: str, table: str) -> bool:
    return family == "inet" or table not in OF_IPTABLES and not table.startswith(OF_LIBVIRT)


def _rules(said: Mapping[str, Any]) -> List[Rule]:
    """Return a rule, or one for each verdict of a map."""
    text = "nft rule in %s %s %s" % (said.get("family"), said.get("table"), said.get("chain"))
    tests: List[Test] = []
    found = []
    for part in said.get("expr") or ():
        kind, value = next(iter(part.items())) if isinstance(part, dict) else (UNKNOWN, None)
        if kind == "match":
            tests.append(_test(value["left"], value["right"], value.get("op") == "!="))
        elif kind == "vmap":
            data = value["data"].get("set") if isinstance(value["data"], dict) else None
            for entry in data or ():
                found.append(_decided(text, [*tests, _test(value["key"], entry[0], False)], entry[1]))
        elif kind in ("accept", "drop", "reject", "return", "jump", "goto"):
            found.append(_decided(text, tests, part))
        elif kind in ("limit", "ct count", "fib", "lookup"):
            tests.append((UNKNOWN, "", False))
    return found


def _decided(text: str, tests: List[Test], verdict: Mapping[str, Any]) -> Rule:
    kind, value = next(iter(verdict.items()))
    target = value["target"] if kind in ("jump", "goto") else kind.upper()
    return Rule(text, tuple(tests), target, kind == "goto")


def _test(left: Any, right: Any, negated: bool) -> Test:
    (kind, field) = next(iter(left.items())) if isinstance(left, dict) else (UNKNOWN, {})
    option = OPTIONS.get(str(field.get("key") or field.get("field")) if isinstance(field, dict) else "")
    values = right.get("set") if isinstance(right, dict) else right
    words = [str(value) for value in (values if isinstance(values, list) else [values])]
    if option == "--ctstate":
        return option, ",".join(words).upper(), negated
    if option is None or kind not in ("meta", "payload") or len(words) != 1:
        return UNKNOWN, "", False
    return option, words[0].replace("*", "+"), negated


def taps(listed: List[Mapping[str, Any]]) -> Dict[str, List[str]]:
    """Return {table of libvirt's nftables driver: the taps that it has rules for}: its map of taps leads to them."""
    maps = [part["map"] for part in listed if part.get("map", {}).get("name") == TAPS]
    return {
        each["table"]: [str(entry[0]) for entry in each.get("elem") or () if isinstance(entry, list)] for each in maps
    }
