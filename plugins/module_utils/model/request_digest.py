# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of the parts of a request. A host reports those of its record, and the controller compares them with its own.

They cover only what an instance keeps for its whole life. Flavor, addresses, data disks and the server group's name are
reported in plain text. User data is left out, because a digest of a short secret gives it away.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, Mapping, Optional

from . import admitted_members, clones, shelves

LENGTH = 12
# What a NIC is connected to. Addresses are compared in plain text; the model may come from the flavor.
OF_NIC = ("type", "source", "virtualport", "mtu", "vlan", "nwfilter", "mac")


def digests(spec: Mapping[str, Any]) -> Dict[str, str]:
    """Return {part: digest}, without parts that an older version did not write into the request."""
    nics = spec.get("networks")
    parts: Dict[str, Any] = {
        "image": (spec.get("image") or {}).get("name"),
        "networks": nics and [{part: nic.get(part) for part in OF_NIC} for nic in nics],
        "security_groups": nics and [_security(nic) for nic in nics],
        "metadata": spec.get("metadata"),
        "ssh_keys": spec.get("ssh_keys_digest"),
        "group_policy": _policy(spec.get("group")),
        clones.KEY: clones.of(spec),
        shelves.EVACUATED: spec.get(shelves.EVACUATED),
    }
    told = {"security_groups": "networks", "ssh_keys": "ssh_keys_digest", "group_policy": "group"}
    return {part: of(value) if value else NOTHING for part, value in parts.items() if told.get(part, part) in spec}


def _policy(group: Optional[Mapping[str, Any]]) -> Any:
    """Return what the server group demands, without its members, which change."""
    return group and [group.get("policy"), (group.get("rules") or {}).get("max_server_per_host", 1)]


def _security(nic: Mapping[str, Any]) -> Any:
    """Return the filter without members, which follow from other instances; None if it has no group or address."""
    security = admitted_members.without(nic.get("security") or {})
    return security if security.get("groups") or security.get("allowed") else None


def filters(nics: Optional[Iterable[Mapping[str, Any]]]) -> Dict[str, str]:
    """Return {MAC address: digest of the NIC's packet filter without the members of groups}, for NICs with a filter."""
    return {nic["mac"]: of(admitted_members.without(nic["security"])) for nic in nics or () if nic.get("security")}


def follows_filters(has: Mapping[str, str], nics: Optional[Iterable[Mapping[str, Any]]]) -> bool:
    """Whether filters with the digests ``has`` do what the request's ``nics`` ask for, see
    packet_filter.with_rules_of."""
    wanted = filters(
        {**nic, "security": nic["security"] or admitted_members.OPEN} for nic in nics or () if "security" in nic
    )
    return all(wanted.get(mac, digest) == digest for mac, digest in has.items())


def of(value: Any) -> str:
    return hashlib.sha256(_ENCODER.encode(value).encode("utf-8")).hexdigest()[:LENGTH]


_ENCODER = json.JSONEncoder(sort_keys=True)
NOTHING = of(None)
