# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Security groups: named rules of what may reach a guest and what it may reach; and the addresses a NIC may send from."""

from __future__ import annotations

import functools
import ipaddress
import re
from typing import Any, Iterable, List, Mapping, Optional

from .errors import InvalidInput, together
from .messages import Document
from .schema import Fields, ListOf, OneOf, Text
from .unknown_names import SecurityGroupNotFound

MOST_RULES = 256
MAC = Text(r"[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}\Z", "a unicast MAC address such as 02:00:00:00:00:01")
WITH_PORTS = ("tcp", "udp", "sctp")


class Ports:
    """One port or a range; as text first-last."""

    rule = "a port from 1 to 65535, or first-last such as 8000-8100"

    def check(self, value: Any, field: str) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        found = re.match(r"([0-9]{1,5})(?:-([0-9]{1,5}))?\Z", text) if isinstance(text, str) else None
        first, last = (int(found.group(1)), int(found.group(2) or found.group(1))) if found else (0, 0)
        if not 1 <= first <= last <= 65535:
            raise InvalidInput(field, value, self.rule)
        return "%d-%d" % (first, last)


class Block:
    """An address or a network; as text with prefix length."""

    rule = "an address or a network such as 192.0.2.0/24"

    def check(self, value: Any, field: str) -> str:
        try:
            if not isinstance(value, str) or "%" in value:
                raise ValueError
            return str(ipaddress.ip_network(value))
        except ValueError:
            raise InvalidInput(field, value, self.rule)


RULE = Fields(
    {
        "direction": OneOf("in", "out"),
        "protocol": OneOf("tcp", "udp", "sctp", "icmp", "any"),
        "ports": Ports(),
        "remote": ListOf(Block(), single=True, longest=MOST_RULES),
        "remote_group": Text(),
    },
    defaults={"direction": "in", "ports": None, "remote": [], "remote_group": None},
)


class Rule:
    """A rule: what is allowed. Ports need a protocol that has ports; the other end is networks or a group, not both.

    A rule has ``remote_group`` only if it names one; ``remote`` is then None, not the empty list that means anyone.
    """

    def check(self, value: Any, field: str) -> Document:
        rule = RULE.check(value, field)
        if rule["ports"] and rule["protocol"] not in WITH_PORTS:
            raise InvalidInput(field + ".ports", rule["ports"], "only with protocol " + ", ".join(WITH_PORTS))
        if rule["remote_group"] is None:
            del rule["remote_group"]
        elif rule["remote"]:
            raise InvalidInput(field + ".remote_group", rule["remote_group"], "remote or remote_group, a rule for each")
        else:
            rule["remote"] = None
        return rule


SECURITY_GROUP = Fields({"rules": ListOf(Rule(), longest=MOST_RULES)}, defaults={"rules": []})


def check_remote_groups(groups: Mapping[str, Any], field: str) -> None:
    """Raise SecurityGroupNotFound for each rule that names a group which is not in ``groups``."""
    together(
        functools.partial(_check_remote_group, "%s.%s.rules[%d].remote_group" % (field, name, at), rule, groups)
        for name, group in groups.items()
        for at, rule in enumerate(group["rules"])
    )


def _check_remote_group(path: str, rule: Mapping[str, Any], groups: Mapping[str, Any]) -> None:
    name = rule.get("remote_group")
    if name is not None and name not in groups:
        raise SecurityGroupNotFound.named(path, name, groups)


_ALLOWED = Fields({"address": Block(), "mac": MAC}, defaults={"mac": None})


class AllowedAddress:
    """What a NIC may send from besides its own address: an address or a network, or {address, mac}."""

    def check(self, value: Any, field: str) -> Document:
        return _ALLOWED.check({"address": value} if isinstance(value, str) else value, field)


def security(
    groups: Iterable[Mapping[str, Any]], allowed: Iterable[Mapping[str, Any]], filtered: Optional[bool]
) -> Optional[Document]:
    """Return {groups, rules (None without a group), allowed} for the host to make a NIC's filter; None: no filter."""
    if not filtered:
        return None
    groups = list(groups)
    rules: List[Any] = []
    for group in groups:
        rules += [dict(rule) for rule in group["rules"] if rule not in rules]
    return {
        "groups": [group["name"] for group in groups],
        "rules": rules if groups else None,
        "allowed": [dict(address) for address in allowed],
    }
