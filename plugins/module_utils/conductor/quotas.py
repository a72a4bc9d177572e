# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas during a create: counted from the facts before placement, and again when all claims are visible."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Mapping, Optional

from ..model.messages import Document
from ..model.quota import UNLIMITED, Amounts, QuotaExceeded, check_group_quota, check_quota, limits_of
from ..model.quota_usage import usage
from . import groups
from .errors import AddressPoolExhausted
from .fleet import Fleet
from .plan import FAILED, Instance, fail

# The last instances of a batch are dropped for these errors.
LIMITED = (QuotaExceeded.__name__, AddressPoolExhausted.__name__)


def before_placement(
    instances: Dict[str, Instance], fleet: Fleet, quotas: Mapping[str, Amounts], more: int = 1
) -> None:
    """Fail the instances that exceed a project's quota; earlier instances of the run count. Each adds one instance
    (``more``), or none (0) if it exists already and is resized."""
    used = usage(fleet.documents.values())
    added: Dict[Optional[str], int] = {}
    for instance in instances.values():
        if "state" in instance:
            continue
        project, flavor = instance["project"], instance["spec"]["flavor"]
        mine = used.setdefault(project, {"instances": 0, "cores": 0, "ram": 0})
        group = instance["spec"].get("group") or {"uuid": None, "members": ()}
        there = len(group["members"]) + added.get(group["uuid"], 0)
        try:
            _check(limits_of(quotas, project), mine, instance["spec"], more, project, there)
        except QuotaExceeded as error:
            fail(instance, error)
            continue
        added[group["uuid"]] = added.get(group["uuid"], 0) + 1
        for name, amount in (("instances", more), ("cores", flavor["vcpus"]), ("ram", flavor["memory_mb"])):
            mine[name] += amount


def hold_to_count(instances: Dict[str, Instance], least: int) -> Optional[str]:
    """For a batch, after before_placement: create at least ``least`` instances, or none (Nova: min_count, max_count).

    The last ones are dropped if they exceed the quota or an address pool. Return the message about that, or None.
    """
    over = {
        name: instance["error"] or {}
        for name, instance in instances.items()
        if (instance.get("error") or {}).get("code") in LIMITED
    }
    if not over:
        return None
    asked, error = len(instances), next(iter(over.values()))
    if asked - len(over) < least:
        for instance in instances.values():
            if "state" not in instance:
                instance["state"], instance["error"] = FAILED, error
        return None
    for name in over:
        del instances[name]
    return "reduced from %d to %d because %s" % (asked, asked - len(over), error["message"])


def after_the_claims(
    quotas: Mapping[str, Amounts], more: int = 1
) -> Callable[[Instance, Iterable[Mapping[str, Any]]], Optional[QuotaExceeded]]:
    """The check after the claims: what an instance's claim exceeds, counting all records of all hosts, or None.

    The claim is among the records. It adds one instance (``more``), or none for a resize.
    """

    def over_quota(instance: Instance, records: Iterable[Mapping[str, Any]]) -> Optional[QuotaExceeded]:
        project, flavor = instance["project"], instance["spec"]["flavor"]
        limits, counted = limits_of(quotas, project), usage([{"instances": list(records)}]).get(project, {})
        added = {"instances": more, "cores": flavor["vcpus"], "ram": flavor["memory_mb"]}
        used = {name: max(0, counted.get(name, 0) - amount) for name, amount in added.items()}
        there = len({record["uuid"] for record in groups.others(instance["spec"], records)})
        try:
            _check(limits, used, instance["spec"], more, project, there)
        except QuotaExceeded as error:
            return error
        return None

    return over_quota


def _check(limits: Amounts, used: Amounts, spec: Document, more: int, project: str, members: int) -> None:
    """Check every quota, for one instance ``more``, or for none if it exists already and is resized."""
    if not more:
        limits = {**limits, "instances": UNLIMITED}
    check_quota(limits, used, spec["flavor"], 1, project=project)
    if more and spec.get("group"):
        check_group_quota(limits, members, 1, spec["group"]["name"])
