# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nftables itself has for forwarded packets, such as the chains of firewalld, in the form of rule_tables.py; and for which
taps libvirt's own nftables driver has rules. Tables that iptables made are left to iptables-save."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from .rule_tables import Chain, Rule, Tables, Test

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
UNKNOWN = "?"  # an option of which rule_tables.py says that it may match
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
