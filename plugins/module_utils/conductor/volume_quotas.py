# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quota of the volumes that update_disks makes and grows: counted from the facts, and again after the claims."""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, List, Mapping

from ..model.quota import Amounts, QuotaExceeded, usage
from .fleet import Fleet
from .new_volumes import Making
from .quotas import Request, over, without


def before_the_claims(
    instances: Mapping[str, Mapping[str, Any]], fleet: Fleet, quotas: Mapping[str, Amounts]
) -> Dict[str, QuotaExceeded]:
    """{name: error} of the instances whose volumes exceed the quota; earlier ones of the run count. ``instances``: name ->
    {project, new_volumes, grown_volumes}. What an interrupted run has claimed counts already."""
    sizes = {volume["uuid"]: volume["size_gb"] for _host, volume in fleet.volumes()}
    requests = []
    for name, instance in instances.items():
        new = {volume["uuid"]: volume["size_gb"] for volume in instance.get("new_volumes") or ()}
        new = {uuid: size_gb for uuid, size_gb in new.items() if uuid not in sizes}
        more = [volume["size_gb"] - sizes[volume["uuid"]] for volume in instance.get("grown_volumes") or ()]
        sizes.update(new)  # the second that wants one is refused for that
        needs = {"volumes": len(new), "gigabytes": sum(new.values()) + sum(max(0, gb) for gb in more)}
        requests.append(Request(name, instance["project"], needs))
    return over(requests, usage(fleet.documents.values()), quotas)


def after_the_claims(
    instances: Mapping[str, Mapping[str, Any]],
    makings: Collection[Making],
    scans: Iterable[Mapping[str, Any]],
    quotas: Mapping[str, Amounts],
) -> Dict[str, QuotaExceeded]:
    """The same from the hosts' replies after the claims of ``makings``, with the claims of other runs."""
    claimed = []
    for name, instance in instances.items():
        needs: List[Amounts] = [making.needs for making in makings if making.name == name]
        total = {part: sum(need[part] for need in needs) for part in ("volumes", "gigabytes")}
        claimed.append(Request(name, instance["project"], total))
    return over(claimed, without(usage(scans), claimed), quotas)
