# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each project uses, counted from what the hosts report; nothing is stored.

Every record on every host counts for cores and ram, so a resize that is not confirmed counts on both sides;
``instances`` counts each uuid once. A volume counts once, with its largest record, also while it moves.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Set

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
            project["cores"] += instance["vcpus"] + instance.get("pcpus", 0)
            project["ram"] += instance["memory_mb"]
            if instance["uuid"] not in seen:
                seen.add(instance["uuid"])
                project["instances"] += 1
        for volume in document.get("volumes") or ():
            project = found.setdefault(volume["project_id"], dict(NOTHING))
            project["volumes"] += volume["uuid"] not in sizes
            project["gigabytes"] += max(0, volume["size_gb"] - sizes.get(volume["uuid"], 0))
            sizes[volume["uuid"]] = max(volume["size_gb"], sizes.get(volume["uuid"], 0))
    return found
