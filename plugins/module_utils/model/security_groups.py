# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Security groups: named rules of what may reach a guest and what it may reach; the addresses a NIC may send from;
and what the packet filter of a NIC is made from."""

from __future__ import annotations

import functools
import ipaddress
import re
from typing import Any, Iterable, List, Mapping, Optional, Sequence

from .errors import InvalidInput, together
from .fields_between import FieldsBetween
from .messages import Document
from .schema import Fields, ListOf, OneOf, Text
from .unknown_names import SecurityGroupNotFound

MOST_RULES = 256
MAC = Text(r"[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}\Z", "a unicast MAC address such as 02:00:00:00:00:01")
WITH_PORTS = ("tcp", "udp", "sctp")
UNFILTERED = "only on Linux bridges and libvirt networks: libvirt sees no packets of Open vSwitch and of type direct"


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


def _check_ports(rule: Document, field: str) -> None:
    if rule["ports"] and rule["protocol"] not in WITH_PORTS:
        raise InvalidInput(field + ".ports", rule["ports"], "only with protocol " + ", ".join(WITH_PORTS))


def _check_other_end(rule: Document, field: str) -> None:
    if rule["remote_group"] is not None and rule["remote"]:
        raise InvalidInput(field + ".remote_group", rule["remote_group"], "remote or remote_group, a rule for each")


RULE = FieldsBetween(
    {
        "direction": OneOf("in", "out"),
        "protocol": OneOf("tcp", "udp", "sctp", "icmp", "any"),
        "ports": Ports(),
        "remote": ListOf(Block(), single=True, longest=MOST_RULES),
        "remote_group": Text(),
    },
    defaults={"direction": "in", "ports": None, "remote": [], "remote_group": None},
    between=((("ports", "protocol"), _check_ports), (("remote", "remote_group"), _check_other_end)),
)


class Rule:
    """A rule: what is allowed. Ports need a protocol that has ports; the other end is networks or a group, not both.

    A rule has ``remote_group`` only if it names one; ``remote`` is then None, not the empty list that means anyone.
    """

    def check(self, value: Any, field: str) -> Document:
        rule = RULE.check(value, field)
        if rule["remote_group"] is None:
            del rule["remote_group"]
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


def is_filtered(network: Mapping[str, Any]) -> bool:
    """Whether libvirt filters what the network's NICs send: it does so only on tap devices of Linux bridges."""
    return network["type"] != "direct" and not network.get("virtualport")


def port_security(wanted: Mapping[str, Any], network: Mapping[str, Any]) -> Optional[bool]:
    """Return the port security that NIC or network name; None leaves a NIC as its instance was created."""
    return network["port_security"] if wanted["port_security"] is None else wanted["port_security"]


def security_of(
    wanted: Mapping[str, Any], network: Mapping[str, Any], catalog: Any, field: str, groups: Sequence[str]
) -> Optional[Document]:
    """Return what a NIC's packet filter is made from, {groups, rules (None without a group), allowed}, or None: without port
    security it may send and get anything."""
    asked = port_security(wanted, network)
    filtered = is_filtered(network) if asked is None else asked
    if not is_filtered(network):
        _check_unfiltered(wanted, field, groups)
    for part in ("security_groups", "allowed_addresses"):
        if wanted[part] and not filtered:
            raise InvalidInput("%s.%s" % (field, part), wanted[part], "only on a NIC with port_security")
    own: Optional[Sequence[str]] = wanted["security_groups"]
    names, path = (groups, "berth_security_groups") if own is None else (own, field + ".security_groups")
    known = catalog.security_groups
    check_security_groups(names, path, known)
    if not filtered:
        return None
    found = [known[name] for name in dict.fromkeys(names)]
    rules: List[Any] = []
    for group in found:
        rules += [dict(rule) for rule in group["rules"] if rule not in rules]
    return {
        "groups": [group["name"] for group in found],
        "rules": rules if found else None,
        "allowed": [dict(address) for address in wanted["allowed_addresses"] or ()],
    }


def _check_unfiltered(wanted: Mapping[str, Any], field: str, groups: Sequence[str]) -> None:
    """Refuse groups on a NIC whose packets libvirt does not see: they would not protect it."""
    if wanted["port_security"]:
        raise InvalidInput(field + ".port_security", True, UNFILTERED)
    if groups and wanted["security_groups"] is None and wanted["port_security"] is None:
        rule = "%s. Give this NIC security_groups: [] where it needs none" % UNFILTERED
        raise InvalidInput(field + ".security_groups", groups, rule)


def check_security_groups(names: Iterable[str], field: str, known: Mapping[str, Any]) -> None:
    """Raise SecurityGroupNotFound for each name that the catalog does not have."""
    together(functools.partial(_check_known, field, name, known) for name in names)


def _check_known(path: str, name: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        raise SecurityGroupNotFound.named(path, name, known)
