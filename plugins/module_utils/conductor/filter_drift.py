# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NICs of an existing instance have no packet filter though the inventory asks for one, described for people.

Only an explicit request counts: security groups, or port_security: true. By default only new instances get filters.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Mapping, Optional, Tuple

from ..model import packet_hints


def of_shown(name: str, has: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> Optional[str]:
    """As of_nics(); ``has``: the NICs of the instance as its host shows them."""
    return of_nics(name, [nic["mac"] for nic in has if nic["security_groups"] is None], wanted)


def of_nics(name: str, unfiltered: Collection[str], wanted: Iterable[Mapping[str, Any]]) -> Optional[str]:
    """What the NICs with the MAC addresses ``unfiltered`` of instance ``name`` lack by the request's NICs ``wanted``, and
    what helps."""
    return ". ".join(lack_and_hint(name, unfiltered, wanted) or ()) or None


def lack_and_hint(
    name: str, unfiltered: Collection[str], wanted: Iterable[Mapping[str, Any]]
) -> Optional[Tuple[str, str]]:
    """The same as (what they lack, what helps)."""
    lacking = [nic for nic in wanted if nic["mac"] in unfiltered and nic.get("security")]
    lacking = [nic for nic in lacking if nic.get("port_security") or nic["security"].get("groups")]
    if not lacking:
        return None
    groups = list(dict.fromkeys(group for nic in lacking for group in nic["security"].get("groups") or ()))
    text = "network interface %s has no packet filter" % ", ".join(nic["mac"] for nic in lacking)
    return (
        text + (", so it is not in " + ", ".join(groups) if groups else ""),
        packet_hints.filter_nics(name, all(nic.get("port_security") for nic in lacking)),
    )
