# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas during a create or a resize: counted from the facts before placement, and again when all claims are visible; and
how many instances of a batch are left (berth_count, berth_min_count)."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from functools import partial
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence

from ..model import volumes
from ..model.messages import Document
from ..model.quota import Amounts, QuotaExceeded, check_group_quota, check_quota, limits_of, usage
from . import groups
from .errors import AddressPoolExhausted
from .fleet import Fleet
from .plan import FAILED, Instance, fail

Used = Mapping[str, Amounts]  # by project
OverQuota = Callable[[Sequence[Instance], Sequence[Mapping[str, Any]]], Dict[str, QuotaExceeded]]
# The last instances of a batch are dropped for these errors.
LIMITED = (QuotaExceeded.__name__, AddressPoolExhausted.__name__)


@dataclasses.dataclass(frozen=True)
class Request:
    """What an instance of the run needs of its project's quota, and which server group, with ``members``, it joins.
    ``unasked``: the needs that are not held against the limit."""

    name: str
    project: str
    needs: Amounts
    group: Optional[Document] = None
    members: int = 0
    unasked: FrozenSet[str] = frozenset()

    @property
    def kind(self) -> Any:
        return self.project, (self.group or {}).get("uuid"), tuple(self.needs.items()), self.unasked

    @property
    def asked(self) -> Amounts:
        return {name: need for name, need in self.needs.items() if name not in self.unasked}


def before_placement(
    instances: Mapping[str, Instance], fleet: Fleet, quotas: Mapping[str, Amounts], used: Optional[Used] = None
) -> None:
    """Fail the instances that exceed a project's quota; earlier instances of the run count. Each adds one instance
    with its new volumes, or none if it is resized (``old_flavor``). ``used``: what is counted, if not what the hosts report."""
    new = {name: instance for name, instance in instances.items() if "state" not in instance}
    requests = [request_of(name, each, lambda spec: len(spec["group"]["members"])) for name, each in new.items()]
    claims = [Request(name, each["project"], _taken(each)) for name, each in new.items()]
    used = usage(fleet.documents.values()) if used is None else used
    for name, error in over(requests, without(used, claims), quotas).items():
        fail(instances[name], error)


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


def after_the_claims(quotas: Mapping[str, Amounts]) -> OverQuota:
    """The check after the claims of a run's instances, which are among the records of the hosts' replies: {uuid: error} of
    those that exceed a quota, the last ones first."""

    def over_quota(instances: Sequence[Instance], replies: Sequence[Mapping[str, Any]]) -> Dict[str, QuotaExceeded]:
        claimed = {instance["uuid"] for instance in instances}
        records = [record for reply in replies for record in reply["instances"]]

        def members(spec: Document) -> int:
            return len({record["uuid"] for record in groups.others(spec, records)} - claimed)

        requests = [request_of(instance["uuid"], instance, members) for instance in instances]
        return over(requests, without(usage(replies), requests), quotas)

    return over_quota


def request_of(name: str, instance: Instance, members: Callable[[Document], int]) -> Request:
    spec = instance["spec"]
    needs = of_flavors(spec["flavor"])
    if "old_flavor" in instance:  # it joins no group, and its volumes stay as they are
        old = of_flavors(instance["old_flavor"])
        unasked = frozenset(part for part in needs if needs[part] <= old[part])
        return Request(name, instance["project"], needs, unasked=unasked)
    new = sum(bool(entry.get("new")) for entry in spec.get("volumes") or ())
    taken = _taken(instance)
    needs = {"instances": 1, **needs}
    needs.update(volumes=new + taken["volumes"], gigabytes=volumes.new_gb(spec) + taken["gigabytes"])
    group = spec.get("group")
    return Request(name, instance["project"], needs, group, members(spec) if group else 0)


def of_flavors(*flavors: Mapping[str, Any]) -> Dict[str, int]:
    """What instances of these flavors use together."""
    return {part: sum(flavor[of] for flavor in flavors) for part, of in (("cores", "vcpus"), ("ram", "memory_mb"))}


def _taken(instance: Instance) -> Dict[str, int]:
    """Of the volumes whose claims it takes: hosts report them already."""
    sizes = instance.get("taken_gb") or ()
    return {"volumes": len(sizes), "gigabytes": sum(sizes)}


def without(used: Used, requests: Iterable[Request]) -> Used:
    """What is used besides the claims of the run's own ``requests``, which were counted with it."""
    rest: Dict[str, Dict[str, int]] = {project: dict(amounts) for project, amounts in used.items()}
    for request in requests:
        of_project = rest.setdefault(request.project, {})
        for name, need in request.needs.items():
            of_project[name] = max(0, of_project.get(name, 0) - need)
    return rest


def over(requests: Iterable[Request], used: Used, quotas: Mapping[str, Amounts]) -> Dict[str, QuotaExceeded]:
    """{name: error} of the requests for which there is no room beside what is ``used``, and the earlier ones.
    Requests with the same needs are reported as one."""
    found: Dict[str, QuotaExceeded] = {}
    alike: Dict[Any, List[Request]] = {}
    for request in requests:
        alike.setdefault(request.kind, []).append(request)
    added: Dict[str, Counter[str]] = defaultdict(Counter)  # by project, by the run
    joined: Counter[Optional[str]] = Counter()  # by server group
    for same in alike.values():
        first, wanted = same[0], len(same)
        project, group, limits = first.project, first.group, limits_of(quotas, first.project)
        checks = [partial(check_quota, limits, used.get(project, {}), first.asked, wanted, project, added[project])]
        if group:
            others = joined[group["uuid"]]
            checks.append(partial(check_group_quota, limits, first.members, wanted, group["name"], others))
        error = _narrowest(checks)
        allowed = error.details["allowed"] if error else wanted
        if error:
            found.update({request.name: error for request in same[allowed:]})
        added[project].update({name: allowed * need for name, need in first.needs.items()})
        if group:
            joined[group["uuid"]] += allowed
    return found


def _narrowest(checks: Iterable[Callable[[], None]]) -> Optional[QuotaExceeded]:
    """The error of the checks that allows the fewest, None if all pass."""
    errors = []
    for check in checks:
        try:
            check()
        except QuotaExceeded as error:
            errors.append(error)
    return min(errors, key=lambda error: error.details["allowed"], default=None)
