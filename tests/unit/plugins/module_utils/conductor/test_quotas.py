# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch against the quota: as many as were asked for, at least the minimum, or none (A02, A04, S07)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import quotas
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import AddressPoolExhausted
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import fail


def batch(count, existing=0):
    flavor = {"name": "f", "vcpus": 1, "memory_mb": 1}
    instances = {"vm-%d" % n: {"name": "vm-%d" % n, "project": "p", "spec": {"flavor": flavor}} for n in range(count)}
    for instance in list(instances.values())[:existing]:
        instance["state"] = "existing"
    return instances


@pytest.mark.parametrize(
    "count, least, cores, existing, left, failed",
    [
        (3, 3, 3, 0, 3, 0),
        (3, 3, 2, 0, 3, 3),
        (3, 1, 2, 0, 2, 0),
        (3, 2, 1, 0, 3, 3),
        (4, 3, 2, 1, 3, 0),
        (4, 4, 2, 1, 4, 3),
    ],
    ids=["all fit", "no minimum: none", "reduced", "below the minimum: none", "what exists counts", "and stays"],
)
def test_a_batch_is_reduced_to_the_quota_but_not_below_its_minimum(count, least, cores, existing, left, failed):
    instances = batch(count, existing)
    quotas.before_placement(instances, Fleet({}, {}), {"*": {"cores": cores}})
    said = quotas.hold_to_count(instances, least)
    assert (len(instances), sum(instance.get("state") == "failed" for instance in instances.values())) == (left, failed)
    assert (said or "").startswith("reduced from %d to %d because " % (count, left) if left < count else "")
    assert bool(said) == (left < count)


@pytest.mark.parametrize("least, left, failed", [(3, 3, 3), (2, 2, 0)], ids=["no minimum: none", "reduced"])
def test_a_batch_gives_way_to_a_pool_of_addresses_as_to_the_quota(least, left, failed):
    instances = batch(3)
    fail(instances["vm-2"], AddressPoolExhausted("the pool of lan has no address left"))
    said = quotas.hold_to_count(instances, least)
    assert (len(instances), sum(instance.get("state") == "failed" for instance in instances.values())) == (left, failed)
    assert bool(said) == (left < 3)


def record(uuid, vcpus=1, pcpus=0, memory_mb=1, group=None, role="OWN"):
    return {
        "uuid": uuid, "project_id": "p", "vcpus": vcpus, "pcpus": pcpus, "memory_mb": memory_mb, "group": group,
        "role": role,
    }  # fmt: skip


def claimed(uuid="new", vcpus=1, memory_mb=1, group=None):
    flavor = {"name": "f", "vcpus": vcpus, "memory_mb": memory_mb}
    spec = {"uuid": uuid, "project_id": "p", "flavor": flavor, "group": group}
    return {"uuid": uuid, "name": uuid, "project": "p", "spec": spec}


def overs(error):
    """What of the quota an error says is exceeded."""
    return error and error.details["overs"]


GROUP = {"name": "web", "uuid": "web-uuid", "members": []}
# limits, what all hosts hold after the claim of "new" (2 vCPUs, 4 MiB, in the group web)
AFTER = {
    "instances": ({"instances": 1}, [record("other", 0, 0, 0)]),
    "cores": ({"cores": 3}, [record("other", 2)]),
    "pinned cores": ({"cores": 3}, [record("other", 0, 2)]),
    "memory": ({"ram": 7}, [record("other", memory_mb=4)]),
    "members of the group": ({"server_group_members": 1}, [record("other", group="web", role="CLAIM")]),
    "both flavors of a resize": ({"cores": 4}, [record("other", 2, role="OUT"), record("other", 1)]),
}


@pytest.mark.parametrize("case", AFTER)
def test_after_the_claims_all_is_counted_that_is_counted_before(case):
    """A05, A06."""
    limits, others = AFTER[case]
    mine = claimed(vcpus=2, memory_mb=4, group=GROUP)
    records = [record("new", 2, 0, 4, "web", "CLAIM"), *others]
    (name,) = limits
    over = quotas.after_the_claims({"p": limits})
    assert overs(over(mine, records)) == [name]
    assert over(mine, records[:1]) is None
    assert quotas.after_the_claims({"p": {name: limits[name] + 1}})(mine, records) is None


def test_before_placement_pinned_cores_count_too():
    """A04."""
    fleet = Fleet({"h": {"instances": [dict(record("other", 0, 2), foreign=False)]}}, {})
    instances = {"new": claimed(vcpus=2)}
    quotas.before_placement(instances, fleet, {"p": {"cores": 3}})
    assert instances["new"].get("error", {}).get("overs") == ["cores"]


@pytest.mark.parametrize("hosts", [1, 2], ids=["the same host", "another host"])
def test_after_the_claim_of_a_resize_old_and_new_count_as_one_instance(hosts):
    """R17."""
    mine = claimed("a", vcpus=2, memory_mb=4, group=GROUP)
    old, new = record("a", 1, 0, 2, "web"), record("a", 2, 0, 4, "web", "IN")
    held = [old, new] if hosts == 2 else [record("a", 3, 0, 6, "web")]
    enough = {"cores": 3, "ram": 6, "instances": 1, "server_group_members": 0}
    assert quotas.after_the_claims({"p": enough}, more=0)(mine, held) is None
    assert overs(quotas.after_the_claims({"p": dict(enough, cores=2)}, more=0)(mine, held)) == ["cores"]
