# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of a project, what it uses (counted from what hosts report; nothing is stored), and whether a request keeps within."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional, Set

from . import input_hints
from .catalog_schema import QUOTA_NAMES, UNLIMITED
from .errors import BerthError

EVERY_OTHER_PROJECT = "*"
Amounts = Mapping[str, int]  # of QUOTA_NAMES


class QuotaExceeded(BerthError):
    """A project would use more than its quota allows (Nova: TooManyInstances, 403); nothing was changed."""


def limits_of(quotas: Mapping[str, Amounts], project: str) -> Dict[str, int]:
    """The limits of a project: its own, else those of ``*``, else none. ``quotas`` as the catalog holds them."""
    chosen = quotas.get(project) or quotas.get(EVERY_OTHER_PROJECT) or {}
    return {name: chosen.get(name, UNLIMITED) for name in QUOTA_NAMES}


def check_quota(
    limits: Amounts,
    used: Amounts,
    needs: Amounts,
    wanted: int,
    project: str = "default",
    others: Optional[Amounts] = None,
) -> None:
    """Raise QuotaExceeded if ``wanted`` requests, which need ``needs`` each, do not fit: it says what is over, by how much,
    and how many can still be made. ``others``: what the run asks for besides."""
    others = others or {}
    room = {
        name: max(limits.get(name, UNLIMITED) - used.get(name, 0) - others.get(name, 0), 0) // need
        for name, need in needs.items()
        if need and limits.get(name, UNLIMITED) != UNLIMITED
    }
    allowed = min([wanted, *room.values()])
    if allowed == wanted:
        return
    overs = [name for name in room if room[name] < wanted]
    why = "; ".join(
        "requested %d %s, but already used %d of %d" % (wanted * needs[name], name, used.get(name, 0), limits[name])
        + (", and %d go to others of this run" % others[name] if others.get(name) else "")
        for name in overs
    )
    raise QuotaExceeded(
        "Quota exceeded for %s in project %s: %s" % (", ".join(overs), project, why)
        + (". You can only run %d more instances of this type" % allowed if needs.get("instances") else ""),
        hint=input_hints.less_or_more_quota(),
        overs=overs,
        allowed=allowed,
        requested={name: wanted * need for name, need in needs.items()},
        used={name: used.get(name, 0) for name in needs},
        limits={name: limits[name] for name in overs},
    )


def check_group_quota(limits: Amounts, members: int, wanted: int, group: str, others: int = 0) -> None:
    """Refuse to add ``wanted`` instances to a group of ``members`` if that exceeds ``server_group_members``.
    ``others``: those that the run adds besides."""
    limit = limits.get("server_group_members", UNLIMITED)
    added = wanted + others
    if limit != UNLIMITED and members + added > limit:
        raise QuotaExceeded(
            "Quota exceeded, too many servers in group %s: it has %d, %d more are asked for, %d are allowed"
            % (group, members, added, limit),
            hint=input_hints.less_or_more_quota(),
            overs=["server_group_members"],
            allowed=max(limit - members - others, 0),
            used={"server_group_members": members},
            requested={"server_group_members": added},
            limits={"server_group_members": limit},
        )


# What each project uses, counted from what the hosts report; nothing is stored.
#
# Every record on every host counts for cores and ram, so a resize that is not confirmed counts on both sides;
# ``instances`` counts each uuid once. A volume counts once, with its largest record, also while it moves.
NOTHING = {"instances": 0, "cores": 0, "ram": 0, "volumes": 0, "gigabytes": 0}


def usage(documents: Iterable[Mapping[str, Any]]) -> Dict[str, Dict[str, int]]:
    """{project: {instances, cores, ram, volumes, gigabytes}} of host state documents, or of hosts' replies to rescan; foreign
    domains belong to no project."""
    found: Dict[str, Dict[str, int]] = {}
    seen: Set[str] = set()
    sizes: Dict[str, int] = {}
    for document in documents:
        for instance in document.get("instances") or ():
            if instance.get("foreign"):
                continue
            project = found.setdefault(instance["project_id"], dict(NOTHING))
            shelved = instance.get("shelved") or {}
            project["cores"] += instance["vcpus"] + instance.get("pcpus", 0) + shelved.get("vcpus", 0)
            project["ram"] += instance["memory_mb"] + shelved.get("memory_mb", 0)
            if instance["uuid"] not in seen:
                seen.add(instance["uuid"])
                project["instances"] += 1
        for volume in document.get("volumes") or ():
            project = found.setdefault(volume["project_id"], dict(NOTHING))
            project["volumes"] += volume["uuid"] not in sizes
            project["gigabytes"] += max(0, volume["size_gb"] - sizes.get(volume["uuid"], 0))
            sizes[volume["uuid"]] = max(volume["size_gb"], sizes.get(volume["uuid"], 0))
    return found
