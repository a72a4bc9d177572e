# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two instances never share a MAC address, nor a fixed address on a network: who has which address, and what clashes."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional

from . import hints, packet_hints
from .errors import BerthError
from .nics import taken

Instance = Mapping[str, Any]  # {uuid, name, nics: what taken() gives}
Index = Dict[str, Dict[str, str]]
LETS_IN = " lets in for another instance"


class AddressTaken(BerthError):
    """Another instance, or a domain that berth does not manage, has the MAC address or the fixed address already."""


def index(instances: Iterable[Instance], where: str = "") -> Index:
    """Return {address as taken() writes it: {uuid: name followed by ``where``}}."""
    found: Index = {}
    for instance in instances:
        for nic in instance.get("nics") or ():
            found.setdefault(nic, {})[instance["uuid"]] = "%s%s" % (instance["name"], where)
    return found


def add_let_in(found: Index, instances: Iterable[Instance], where: str = "") -> Index:
    """Add the addresses that packet filters let in: another instance with such an address would be let in too."""
    for instance in instances:
        for member, addresses in (instance.get("lets_in") or {}).items():
            for address in addresses:
                found.setdefault(address, {}).setdefault(member, "%s%s%s" % (instance["name"], where, LETS_IN))
    return found


def clash(spec: Mapping[str, Any], held: Index) -> Optional[AddressTaken]:
    """The error for an address of the request that another instance has, or that the request has twice; or None."""
    own = taken(spec.get("networks"))
    for at, nic in enumerate(own):
        if nic in own[:at]:
            return _error(spec, nic, "would get the same address twice:")
        others = sorted(name for uuid, name in held.get(nic, {}).items() if uuid != spec["uuid"])
        if others and all(name.endswith(LETS_IN) for name in others):
            why = "would get an address that the packet filter of %s:" % " and of ".join(others)
            return _error(spec, nic, why, packet_hints.filters_follow_first(spec["name"]))
        if others:
            return _error(spec, nic, "would get an address that %s already has:" % " and ".join(others))
    return None


def _error(spec: Mapping[str, Any], what: str, why: str, hint: Optional[str] = None) -> AddressTaken:
    return AddressTaken(
        "%s %s %s" % (spec["name"], why, what),
        field="berth_networks",
        value=what,
        rule="one instance for each MAC address, and for each address of a network",
        hint=hint or hints.another_address(spec["name"]),
    )
