# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas during a create: counted from the facts before placement, and again when all claims are visible."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..model.messages import Document
from ..model.quota import Amounts, QuotaExceeded, check_group_quota, check_quota, limits_of
from ..model.quota_usage import usage
from . import groups
from .errors import AddressPoolExhausted
from .fleet import Fleet
from .plan import FAILED, Instance, fail

OverQuota = Callable[[Sequence[Instance], Sequence[Mapping[str, Any]]], Dict[str, QuotaExceeded]]

# The last instances of a batch are dropped for these errors.
LIMITED = (QuotaExceeded.__name__, AddressPoolExhausted.__name__)


def before_placement(
    instances: Mapping[str, Instance], fleet: Fleet, quotas: Mapping[str, Amounts], more: int = 1
) -> None:
    """Fail the instances that exceed a project's quota; earlier instances of the run count. Each adds one instance
    (``more``), or none (0) if it exists already and is resized."""
    waiting = [instance for instance in instances.values() if "state" not in instance]
    used = usage(fleet.documents.values())
    for instance, error in _over(waiting, used, quotas, more, lambda spec: len(spec["group"]["members"])):
        fail(instance, error)


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


def after_the_claims(quotas: Mapping[str, Amounts], more: int = 1) -> OverQuota:
    """The check after the claims of a run's instances, which are among the records of the hosts' replies: {uuid: error} of
    those that exceed a quota, the last ones first. Each adds one instance (``more``), or none for a resize."""

    def over_quota(instances: Sequence[Instance], replies: Sequence[Document]) -> Dict[str, QuotaExceeded]:
        used, claimed = usage(replies), {instance["uuid"] for instance in instances}
        records = [record for reply in replies for record in reply["instances"]]
        for instance in instances:
            mine = used.get(instance["project"], {})
            for name, need in _needs(instance["spec"], more).items():
                mine[name] = max(0, mine.get(name, 0) - need)

        def members(spec: Document) -> int:
            return len({record["uuid"] for record in groups.others(spec, records)} - claimed)

        return {instance["uuid"]: error for instance, error in _over(instances, used, quotas, more, members)}

    return over_quota


def _needs(spec: Document, more: int) -> Dict[str, int]:
    return {"instances": more, "cores": spec["flavor"]["vcpus"], "ram": spec["flavor"]["memory_mb"]}


def _over(
    instances: Iterable[Instance],
    used: Mapping[str, Amounts],
    quotas: Mapping[str, Amounts],
    more: int,
    members: Callable[[Document], int],
) -> Iterator[Tuple[Instance, QuotaExceeded]]:
    """Yield the instances for which there is no room beside what is ``used``, and the earlier ones. Instances with the same
    needs are one request. ``members``: how many the server group of a request has."""
    alike: Dict[Any, List[Instance]] = {}
    for instance in instances:
        group = (more and instance["spec"].get("group")) or {}  # a resize joins none
        kind = instance["project"], group.get("uuid"), *_needs(instance["spec"], more).items()
        alike.setdefault(kind, []).append(instance)
    added: Dict[str, Counter[str]] = defaultdict(Counter)  # by project, by the run
    joined: Counter[Optional[str]] = Counter()  # by server group
    for (project, group, *_), same in alike.items():
        spec, limits = same[0]["spec"], limits_of(quotas, project)
        needs, wanted = _needs(spec, more), len(same)
        checks = [partial(check_quota, limits, used.get(project, {}), needs, wanted, project, added[project])]
        if group:
            name = spec["group"]["name"]
            checks.append(partial(check_group_quota, limits, members(spec), wanted, name, joined[group]))
        error = _narrowest(checks)
        allowed = error.details["allowed"] if error else wanted
        yield from ((instance, error) for instance in same[allowed:])
        added[project].update({name: allowed * need for name, need in needs.items()})
        joined[group] += allowed


def _narrowest(checks: Iterable[Callable[[], None]]) -> Optional[QuotaExceeded]:
    """The error of the checks that allows the fewest, None if all pass."""
    errors = []
    for check in checks:
        try:
            check()
        except QuotaExceeded as error:
            errors.append(error)
    return min(errors, key=lambda error: error.details["allowed"], default=None)
