# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts reported, checked: the documents that placement may use, and a verdict for each host that has none (S11).

A host is known here by its inventory name, never by a name it sends.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, List

from ..model.errors import BerthError

# What is known of an instance on a host, beside its flavor.
PLACE = ("role", "phase", "vm_state", "task_state", "power_state", "group", "project_id", "name")


@dataclasses.dataclass
class Fleet:
    """``documents``: inventory name -> host state document; ``verdicts``: inventory name -> why the host is left out."""

    documents: Dict[str, Dict[str, Any]]
    verdicts: Dict[str, str]

    def uuids(self):
        """Inventory name -> the pinned uuid of every host that answered."""
        return {name: document["uuid"] for name, document in self.documents.items()}

    @functools.cached_property
    def places(self) -> Dict[str, List[Dict[str, Any]]]:
        """Instance uuid -> where it is: [{host, role, phase, vm_state, ...}], one per host with a record."""
        places: Dict[str, List[Dict[str, Any]]] = {}
        for host, document in self.documents.items():
            for instance in document["instances"]:
                if not instance.get("foreign"):
                    place = {key: instance.get(key) for key in PLACE}
                    place["flavor"] = (instance.get("flavor") or {}).get("name")
                    places.setdefault(instance["uuid"], []).append({"host": host, **place})
        return places

    def failed_on(self, uuid):
        """The hosts that remember the instance as failed (vm_state error)."""
        return [host for host, document in self.documents.items() if uuid in document.get("failed_instances", ())]

    def members(self, group, project):
        """The uuids of all instances of a server group {name, uuid}, as the hosts tell it (C13)."""
        names = (group["name"], group["uuid"])
        return sorted(
            uuid
            for uuid, places in self.places.items()
            if any(place["group"] in names and place["project_id"] == project for place in places)
        )


def read_fleet(reports: Dict[str, Dict[str, Any]], check: Callable[[Any], Dict[str, Any]]) -> Fleet:
    """``reports``: inventory name -> {document} or {reason}. A document that breaks the schema is a verdict, not an error."""
    documents: Dict[str, Dict[str, Any]] = {}
    verdicts: Dict[str, str] = {}
    owners: Dict[str, List[str]] = {}
    for name, report in reports.items():
        if "document" not in report:
            verdicts[name] = report.get("reason") or "gave no facts"
            continue
        try:
            document = check(report["document"])
        except BerthError as error:
            verdicts[name] = "%s: %s" % (error.code, error)
            continue
        document["host"] = document["node"] = name
        documents[name] = document
        owners.setdefault(document["uuid"], []).append(name)
    for uuid, names in owners.items():
        if len(names) > 1:
            for name in names:
                del documents[name]
                verdicts[name] = "HostIdentityConflict: %s all say that they are host %s" % (
                    ", ".join(sorted(names)),
                    uuid,
                )
    return Fleet(documents, verdicts)
