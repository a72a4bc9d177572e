# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an update changes of an adopted instance, whose guest keeps the definition that it was found with: NICs where the inventory
names some, metadata and server group. A NIC that it has keeps its card and its packet filter.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Mapping, Optional

from .messages import Document
from .updates import UpdateNotSupported, by_mac, group_of

TAKEN = ("metadata", "access_ip_v4", "access_ip_v6")
OF_DEFINITION = ("model", "mtu", "nwfilter")  # of a NIC that it has


def updated(has: Document, wanted: Mapping[str, Any], found: Collection[Document]) -> Document:
    """Return the request ``has`` with what the inventory has ``wanted``. ``found``: the NICs that the guest has."""
    before = {**by_mac(has), **{nic["mac"]: nic for nic in found}}
    named = [_nic(before.get(nic["mac"]), nic) for nic in wanted.get("networks") or ()]
    taken = {part: wanted[part] for part in TAKEN if part in wanted}
    new = {**has, **taken, "networks": named or list(has.get("networks") or ())}
    if "group" in wanted and group_of(has) != group_of(wanted):
        new["group"] = wanted["group"]
    return new


def _nic(old: Optional[Mapping[str, Any]], wanted: Document) -> Document:
    kept = {part: old.get(part) for part in OF_DEFINITION} if old else {}
    return {**wanted, **kept, "security": None}


DEFINITION = "definition: what was changed since it was adopted or moved is noted in its record"


def noted(has: Mapping[str, Any], new: Mapping[str, Any]) -> List[str]:
    """What changes in the record alone, in words."""
    parts = [part for part in ("metadata",) if (has.get(part) or {}) != (new.get(part) or {})]
    return ["%s: noted in its record, no seed tells its guest" % part for part in parts]


def check(name: str, wanted: Mapping[str, Any]) -> None:
    """Raise UpdateNotSupported for NICs whose packets berth is to filter: the guest takes no filter of berth's along when it leaves."""
    for nic in wanted.get("networks") or ():
        if nic.get("port_security") or (nic.get("security") or {}).get("groups"):
            raise UpdateNotSupported(
                "%s was adopted: berth filters no packets of its network interface %s, and the inventory asks for port security"
                " or security groups" % (name, nic["mac"]),
            )


def check_disks(name: str, task: Mapping[str, Any]) -> None:
    """Raise UpdateNotSupported for disks that the inventory gives an adopted instance, or takes from it."""
    asked: Dict[str, List[Any]] = {
        "berth_disks": task.get("disks") or [],
        "berth_volumes": task.get("volumes") or [],
        "berth_update_discards": task.get("discards") or [],
    }
    given = [variable for variable, values in asked.items() if values]
    if given:
        raise UpdateNotSupported(
            "%s was adopted: its disks are those of its own definition, which virsh attach-disk and detach-disk change. %s is not"
            " for it" % (name, " and ".join(given)),
        )
