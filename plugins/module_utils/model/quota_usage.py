# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each project uses, counted from what the hosts report; nothing is stored.

Every record on every host counts for cores and ram, so a resize that is not confirmed counts on both sides;
``instances`` counts each uuid once.
"""

from __future__ import annotations

from typing import Dict, Iterable, Set

from .messages import Document


def usage(documents: Iterable[Document]) -> Dict[str, Dict[str, int]]:
    """{project: {instances, cores, ram}} of host state documents; foreign domains belong to no project."""
    found: Dict[str, Dict[str, int]] = {}
    seen: Set[str] = set()
    for document in documents:
        for instance in document.get("instances") or ():
            if instance.get("foreign"):
                continue
            project = found.setdefault(instance["project_id"], {"instances": 0, "cores": 0, "ram": 0})
            project["cores"] += instance["vcpus"] + instance.get("pcpus", 0)
            project["ram"] += instance["memory_mb"]
            if instance["uuid"] not in seen:
                seen.add(instance["uuid"])
                project["instances"] += 1
    return found
