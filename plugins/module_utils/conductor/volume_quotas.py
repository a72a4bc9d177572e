# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quota of the volumes that update_disks makes and grows: counted from the facts, and again after the claims.

A volume that grows has no claim: of two runs that grow volumes at the same time, neither sees the other.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Mapping

from ..model.quota import Amounts, QuotaExceeded
from ..model.quota_usage import usage
from .fleet import Fleet
from .new_volumes import Making
from .quotas import Request, over, without


def grows_gb(fleet: Fleet, wanted: Iterable[Mapping[str, Any]]) -> int:
    """The GiB by which the volumes ``wanted`` [{uuid, size_gb}] are larger than those that the hosts have."""
    sizes = {volume["uuid"]: volume["size_gb"] for _host, volume in fleet.volumes()}
    return sum(max(0, entry["size_gb"] - sizes.get(entry["uuid"], entry["size_gb"])) for entry in wanted)


def before_the_claims(
    instances: Mapping[str, Mapping[str, Any]], fleet: Fleet, quotas: Mapping[str, Amounts]
) -> Dict[str, QuotaExceeded]:
    """{name: error} of the instances whose volumes exceed the quota; earlier ones of the run count. ``instances``: name ->
    {project, grows_gb, new_volumes}."""
    seen = {volume["uuid"] for _host, volume in fleet.volumes()}  # what an interrupted run left counts already
    requests = []
    for name, instance in instances.items():
        new = {volume["uuid"]: volume for volume in instance.get("new_volumes") or () if volume["uuid"] not in seen}
        seen.update(new)  # the second that wants one is refused for that
        requests.append(_request(name, instance["project"], new.values(), instance.get("grows_gb", 0)))
    return over(requests, usage(fleet.documents.values()), quotas)


def after_the_claims(
    instances: Mapping[str, Mapping[str, Any]],
    makings: Collection[Making],
    scans: Iterable[Mapping[str, Any]],
    quotas: Mapping[str, Amounts],
) -> Dict[str, QuotaExceeded]:
    """The same from the hosts' replies after the claims of ``makings``, with the claims of other runs."""
    claimed, asked = [], []
    for name, instance in instances.items():
        new = [making.volume for making in makings if making.name == name]
        claimed.append(_request(name, instance["project"], new))
        asked.append(_request(name, instance["project"], new, instance.get("grows_gb", 0)))
    return over(asked, without(usage(scans), claimed), quotas)


def _request(name: str, project: str, new: Collection[Mapping[str, Any]], more_gb: int = 0) -> Request:
    return Request(name, project, {"volumes": len(new), "gigabytes": sum(entry["size_gb"] for entry in new) + more_gb})
