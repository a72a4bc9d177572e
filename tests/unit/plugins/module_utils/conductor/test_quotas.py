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
from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints


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


def held(cores):
    """A fleet that holds instances of another run."""
    return Fleet({"h": {"instances": [dict(record("old", cores), foreign=False)]}}, {})


def two_cores(count):
    instances = batch(count)
    for instance in instances.values():
        instance["spec"] = {"flavor": {"name": "f", "vcpus": 2, "memory_mb": 1}}
    return instances


MAKE_ROOM = ". " + input_hints.less_or_more_quota()
HEADROOM = "requested 10 cores, but already used 16 of 20. You can only run 2 more instances of this type" + MAKE_ROOM


def test_an_instance_over_the_quota_is_told_the_whole_request_what_others_use_and_how_many_can_run():
    """A04."""
    instances = two_cores(5)
    quotas.before_placement(instances, held(16), {"p": {"cores": 20}})
    errors = [instance["error"] for instance in instances.values() if "error" in instance]
    assert [error["message"] for error in errors] == ["Quota exceeded for cores in project p: " + HEADROOM] * 3
    numbers = {"overs": ["cores"], "allowed": 2, "limits": {"cores": 20}}
    assert {part: errors[0][part] for part in numbers} == numbers
    assert (errors[0]["used"]["cores"], errors[0]["requested"]["cores"]) == (16, 10)


@pytest.mark.parametrize("least, said", [(5, None), (2, "reduced from 5 to 2 because Quota exceeded")])
def test_a_batch_over_the_quota_is_told_the_numbers_without_its_own_instances(least, said):
    """A02."""
    instances = two_cores(5)
    quotas.before_placement(instances, held(16), {"p": {"cores": 20}})
    told = quotas.hold_to_count(instances, least)
    assert (told or "").startswith(said or "") and bool(told) == bool(said)
    texts = [told] if told else [instance["error"]["message"] for instance in instances.values()]
    assert len(instances) == (2 if said else 5) and all(text.endswith(HEADROOM) for text in texts), texts


def test_what_a_run_asks_of_another_flavor_is_told_apart():
    instances = {**two_cores(2), "small": {"name": "small", "project": "p", "spec": claimed()["spec"]}}
    quotas.before_placement(instances, held(1), {"p": {"cores": 5}})
    assert "error" not in instances["vm-1"]
    assert (
        instances["small"]
        .get("error", {})
        .get("message", "")
        .endswith(
            "requested 1 cores, but already used 1 of 5, and 4 go to others of this run. "
            "You can only run 0 more instances of this type" + MAKE_ROOM
        )
    )


def test_members_over_the_quota_of_their_group_are_told_the_whole_request():
    """A06."""
    group = {"name": "web", "uuid": "web-uuid", "members": ["old"]}
    instances = {name: claimed(name, vcpus, group=group) for name, vcpus in (("a", 1), ("b", 1), ("c", 2))}
    quotas.before_placement(instances, Fleet({}, {}), {"p": {"server_group_members": 2}})
    assert [name for name in instances if "error" in instances[name]] == ["b", "c"]
    said = "too many servers in group web: it has 1, %d more are asked for, 2 are allowed" + MAKE_ROOM
    assert instances["b"]["error"]["message"].endswith(said % 2)
    assert instances["c"]["error"]["message"].endswith(said % 2), "a has a place, c wants the next"


def test_after_the_claims_too_the_claims_of_the_run_are_no_use_of_others():
    """A05: another run took a place meanwhile."""
    mine = [claimed(name, 2) for name in "abc"]
    records = [record(name, 2, role="CLAIM") for name in "abc"] + [record("old", 16)]
    over = quotas.after_the_claims({"p": {"cores": 20}})(mine, [{"instances": records}])
    assert list(over) == ["c"], "the last gives way"
    assert str(over["c"]).endswith(
        "requested 6 cores, but already used 16 of 20. You can only run 2 more instances of this type" + MAKE_ROOM
    )


def record(uuid, vcpus=1, pcpus=0, memory_mb=1, group=None, role="OWN"):
    return {
        "uuid": uuid, "project_id": "p", "vcpus": vcpus, "pcpus": pcpus, "memory_mb": memory_mb, "group": group,
        "role": role,
    }  # fmt: skip


def flavor(vcpus, memory_mb):
    return {"name": "f", "vcpus": vcpus, "memory_mb": memory_mb}


def claimed(uuid="new", vcpus=1, memory_mb=1, group=None):
    spec = {"uuid": uuid, "project_id": "p", "flavor": flavor(vcpus, memory_mb), "group": group}
    return {"uuid": uuid, "name": uuid, "project": "p", "spec": spec}


def over(limits, mine, records):
    """The error of the only claim of a run."""
    return quotas.after_the_claims(limits)([mine], [{"instances": records}]).get(mine["uuid"])


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
    assert overs(over({"p": limits}, mine, records)) == [name]
    assert over({"p": limits}, mine, records[:1]) is None
    assert over({"p": {name: limits[name] + 1}}, mine, records) is None


def test_before_placement_pinned_cores_count_too():
    """A04."""
    fleet = Fleet({"h": {"instances": [dict(record("other", 0, 2), foreign=False)]}}, {})
    instances = {"new": claimed(vcpus=2)}
    quotas.before_placement(instances, fleet, {"p": {"cores": 3}})
    assert instances["new"].get("error", {}).get("overs") == ["cores"]


def db(size_gb, **more):
    return {"name": "db", "size_gb": size_gb, **more}


def told(uuid, size_gb, project="p"):
    return {"uuid": uuid, "project_id": project, "size_gb": size_gb}


@pytest.mark.parametrize("limits", [{"volumes": 1}, {"gigabytes": 5}], ids=["their number", "their size"])
def test_volumes_that_are_made_with_an_instance_count_and_those_that_are_there_already_count_once(limits):
    """A04."""
    fleet = Fleet({"h": {"volumes": [told("old", 2)]}}, {})
    instances = {"new": claimed(), "has": claimed("has"), "other project": dict(claimed("q"), project="q")}
    for name in ("new", "other project"):
        instances[name]["spec"]["volumes"] = [db(4, new=True)]
    instances["has"]["spec"]["volumes"] = [db(2)]
    quotas.before_placement(instances, fleet, {"p": limits})
    assert [name for name in instances if "error" in instances[name]] == ["new"]
    assert instances["new"]["error"]["overs"] == list(limits)
    (need, used), (name,) = {"volumes": (1, 1), "gigabytes": (4, 2)}[next(iter(limits))], limits
    assert (
        "requested %d %s, but already used %d of %d" % (need, name, used, limits[name])
        in (instances["new"]["error"]["message"])
    )


@pytest.mark.parametrize("limits", [{"volumes": 2}, {"gigabytes": 6}], ids=["their number", "their size"])
def test_after_the_claims_the_volumes_of_other_runs_count(limits):
    """A05."""
    mine = claimed()
    mine["spec"]["volumes"] = [db(4, new=True)]
    over = quotas.after_the_claims({"p": limits})
    own, others = {"instances": [record("new")], "volumes": [told("db", 4)]}, {"instances": []}
    assert over([mine], [own, {**others, "volumes": [told("old", 2)]}]) == {}
    error = over([mine], [own, {**others, "volumes": [told("old", 2), told("theirs", 1)]}])["new"]
    assert overs(error) == list(limits)


@pytest.mark.parametrize("hosts", [1, 2], ids=["the same host", "another host"])
def test_after_the_claim_of_a_resize_old_and_new_count_as_one_instance(hosts):
    """R17."""
    mine = {**claimed("a", vcpus=2, memory_mb=4, group=GROUP), "old_flavor": flavor(1, 2)}
    old, new = record("a", 1, 0, 2, "web"), record("a", 2, 0, 4, "web", "IN")
    held = [old, new] if hosts == 2 else [record("a", 3, 0, 6, "web")]
    mine["spec"]["volumes"] = [db(4, new=True)]
    enough = {"cores": 3, "ram": 6, "instances": 1, "server_group_members": 0, "volumes": 0, "gigabytes": 0}
    assert over({"p": enough}, mine, held) is None
    assert overs(over({"p": dict(enough, cores=2)}, mine, held)) == ["cores"]


# cores and MiB of the old and the new flavor, and what of a full quota that leaves the resize without room
RESIZES = {
    "down": ((4, 8), (2, 4), None),
    "the same cores, less memory": ((4, 8), (4, 4), None),
    "more cores, less memory": ((2, 8), (4, 4), ["cores"]),
    "less cores, more memory": ((4, 4), (2, 8), ["ram"]),
    "up": ((2, 4), (4, 8), ["cores", "ram"]),
}


@pytest.mark.parametrize("case", RESIZES)
def test_a_resize_is_held_only_to_what_it_asks_more_of(case):
    """R17: Nova's upsize_quota_delta. Before placement and after the claim."""
    old, new, refused = RESIZES[case]
    mine = {**claimed("a", *new), "old_flavor": flavor(*old)}
    limits = {"p": {"cores": old[0], "ram": old[1], "instances": 1}}
    held = record("a", old[0], 0, old[1])
    instances = {"a": dict(mine)}
    quotas.before_placement(instances, Fleet({"h": {"instances": [dict(held, foreign=False)]}}, {}), limits)
    assert instances["a"].get("error", {}).get("overs") == refused
    assert overs(over(limits, mine, [held, record("a", new[0], 0, new[1], role="IN")])) == refused


def test_what_a_resize_down_takes_until_its_confirm_counts_for_the_others_of_the_run():
    """R17."""
    down = {**claimed("a", 2), "old_flavor": flavor(4, 1)}
    up = {**claimed("b", 2), "old_flavor": flavor(1, 1)}
    instances = {"a": down, "b": up}
    quotas.before_placement(instances, held(5), {"p": {"cores": 8}})
    assert [name for name in instances if "error" in instances[name]] == ["b"]
