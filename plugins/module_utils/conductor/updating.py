# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an update may give an existing instance: what its request becomes, and whether its server group has a place for it where it is."""

from __future__ import annotations

from typing import Any, Collection, Dict, Mapping, Optional, Sequence

from ..model import nics, updates
from ..model.messages import Document
from ..model.request_digest import digests
from ..model.safe_text import clean_all
from . import groups
from .fleet import Fleet, Place

FOLLOWED = ("networks", "metadata", "ssh_keys", "group_policy")  # digests of what an update brings
REBUILT = ("image", "metadata", "ssh_keys")  # and a rebuild


def check_group(fleet: Fleet, instance: Mapping[str, Any], place: Place, lost: Collection[str]) -> None:
    """Raise if the instance would join a server group whose policy its host breaks. Its host looks again."""
    spec = instance["spec"]
    group, has = spec.get("group"), place["request_digests"] or {}
    if not group or place["group"] == group["name"] and has.get("group_policy") == digests(spec).get("group_policy"):
        return
    held = {
        host: [record for record in document["instances"] if not record.get("foreign")]
        for host, document in fleet.documents.items()
    }
    silent = {host: why for host, why in fleet.verdicts.items() if host not in lost}
    groups.check_seen(dict(instance), [record for records in held.values() for record in records], silent)  # type: ignore[arg-type]
    error = groups.violation(spec, groups.elsewhere(spec, place["host"], held))
    if error:
        raise error


def as_left(place: Place, wanted: Document) -> Place:
    """The place as an update leaves it, for what then still differs from the inventory."""
    left: Place = {**place}
    other_nics = (place["request_digests"] or {}).get("networks") != digests(wanted).get("networks")
    # a new NIC has the filter of the inventory, and whether one that stays does is told once the NICs are the same
    left["request_digests"] = _followed(place, wanted, (*FOLLOWED, "security_groups") if other_nics else FOLLOWED)
    if place["nics"] is not None:
        left["nics"] = clean_all(nics.taken(wanted.get("networks")))
    if place["content"]:
        left["content"] = updates.with_limits(place["content"], wanted["flavor"])
    if "group" in wanted:
        left["group"] = _name(wanted)
    return left


def as_rebuilt(place: Place, wanted: Document) -> Place:
    """The same of a rebuild."""
    return {**place, "request_digests": _followed(place, wanted, REBUILT)}


def _followed(place: Place, wanted: Document, parts: Sequence[str]) -> Optional[Dict[str, str]]:
    has, asked = place["request_digests"], digests(wanted)
    return None if has is None else {**has, **{part: asked[part] for part in parts if part in asked}}


def _name(wanted: Mapping[str, Any]) -> Optional[str]:
    return (wanted.get("group") or {}).get("name")
