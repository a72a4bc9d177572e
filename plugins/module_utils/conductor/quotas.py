# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas in the course of a creation: counted from the facts before placement, and again with all claims in sight (A04-A06)."""

from __future__ import annotations

from ..model.quota import UNLIMITED, QuotaExceeded, check_group_quota, check_quota, limits_of, usage
from .plan import FAILED, fail


def before_placement(instances, fleet, quotas, more=1):
    """Fail the instances that a project may not have; those before it in the run count. Each is one instance ``more``,
    or none (0) where it exists already and is resized."""
    used = usage(fleet.documents.values())
    added = {}
    for instance in instances.values():
        if "state" in instance:
            continue
        project, flavor = instance["project"], instance["spec"]["flavor"]
        mine = used.setdefault(project, {"instances": 0, "cores": 0, "ram": 0})
        limits = limits_of(quotas, project)
        if not more:
            limits["instances"] = UNLIMITED
        group = instance["spec"].get("group")
        try:
            check_quota(limits, mine, flavor, 1, project=project)
            if group:
                check_group_quota(limits, len(group["members"]) + added.get(group["uuid"], 0), 1, group["name"])
                added[group["uuid"]] = added.get(group["uuid"], 0) + 1
        except QuotaExceeded as error:
            fail(instance, error)
            continue
        for name, amount in (("instances", more), ("cores", flavor["vcpus"]), ("ram", flavor["memory_mb"])):
            mine[name] += amount


def hold_to_count(instances, least):
    """After before_placement, for a batch: at least ``least`` of it are made, or none (Nova: min_count, max_count; A02).

    The last ones give way to the quota. Gives what is to be said of that, or None.
    """
    over = {
        name: instance["error"]
        for name, instance in instances.items()
        if instance.get("state") == FAILED and instance["error"]["code"] == QuotaExceeded.__name__
    }
    if not over:
        return None
    asked, error = len(instances), next(iter(over.values()))
    if asked - len(over) < least:
        for instance in instances.values():
            if "state" not in instance:
                instance.update(state=FAILED, error=error)
        return None
    for name in over:
        del instances[name]
    return "reduced from %d to %d because %s" % (asked, asked - len(over), error["message"])


def after_the_claims(quotas):
    """The check for plan.commit: what an instance's claim exceeds, with every record of all hosts counted, or None."""

    def over_quota(instance, records):
        others = [
            record
            for record in records
            if record["project_id"] == instance["project"] and record["uuid"] != instance["uuid"]
        ]
        used = {
            "instances": len({record["uuid"] for record in others}),
            "cores": sum(record["vcpus"] for record in others),
            "ram": sum(record["memory_mb"] for record in others),
        }
        try:
            check_quota(
                limits_of(quotas, instance["project"]), used, instance["spec"]["flavor"], 1, project=instance["project"]
            )
        except QuotaExceeded as error:
            return error
        return None

    return over_quota
