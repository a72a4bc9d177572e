# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.quota import (
    QuotaExceeded,
    check_group_quota,
    check_quota,
    limits_of,
    usage,
)

NO_VOLUMES = {"volumes": 0, "gigabytes": 0}
UNLIMITED_VOLUMES = {"volumes": -1, "gigabytes": -1}
NEEDS = {"instances": 1, "cores": 2, "ram": 1024}


def on_host(*instances):
    return {
        "instances": [dict({"project_id": "p", "vcpus": 2, "memory_mb": 1024}, **instance) for instance in instances]
    }


def test_a_project_uses_what_its_records_on_all_hosts_hold():
    """A04"""
    documents = [on_host({"uuid": "a"}, {"uuid": "b", "project_id": "q"}), on_host({"uuid": "c"})]
    assert usage(documents)["p"] == {"instances": 2, "cores": 4, "ram": 2048, **NO_VOLUMES}


def test_a_foreign_domain_belongs_to_no_project():
    assert usage([{"instances": [{"uuid": "x", "foreign": True}]}]) == {}


def test_an_unconfirmed_resize_counts_on_both_sides_but_is_one_instance():
    """R17"""
    documents = [on_host({"uuid": "a"}), on_host({"uuid": "a", "vcpus": 4, "memory_mb": 2048})]
    assert usage(documents)["p"] == {"instances": 1, "cores": 6, "ram": 3072, **NO_VOLUMES}


def volume(uuid, size_gb, project="p"):
    return {"uuid": uuid, "project_id": project, "size_gb": size_gb}


def test_a_project_uses_its_volumes_whether_an_instance_has_them_or_not():
    """A04"""
    documents = [{"volumes": [volume("a", 4), volume("b", 7, "q")]}, {"volumes": [volume("c", 2)]}]
    found = usage(documents)
    assert (found["p"]["volumes"], found["p"]["gigabytes"]) == (2, 6)
    assert (found["q"]["volumes"], found["q"]["gigabytes"]) == (1, 7)


@pytest.mark.parametrize("sizes", [(4, 5), (5, 4)])
def test_a_volume_that_moves_counts_once_with_the_larger_of_its_records(sizes):
    found = usage([{"volumes": [volume("a", size)]} for size in sizes])
    assert (found["p"]["volumes"], found["p"]["gigabytes"]) == (1, 5)


def test_a_project_without_limits_of_its_own_has_those_of_the_star():
    quotas = {"*": {"cores": 4}, "p": {"instances": 1}}
    assert limits_of(quotas, "other")["cores"] == 4
    assert limits_of(quotas, "p") == {
        "instances": 1,
        "cores": -1,
        "ram": -1,
        "server_group_members": -1,
        **UNLIMITED_VOLUMES,
    }
    assert limits_of({}, "p")["instances"] == -1


def test_within_the_quota_the_whole_count_is_allowed():
    check_quota({"cores": 4}, {"cores": 0}, NEEDS, 2)


@pytest.mark.follows("less_or_more_quota")
def test_over_the_quota_the_error_says_how_many_can_still_be_made():
    """A04"""
    with pytest.raises(QuotaExceeded) as caught:
        check_quota({"cores": 20, "instances": -1}, {"cores": 17, "instances": 9}, NEEDS, 3)
    error = caught.value
    assert error.details["allowed"] == 1
    assert error.details["overs"] == ["cores"]
    assert "requested 6 cores, but already used 17 of 20. You can only run 1 more" in str(error)
    assert error.hint == input_hints.less_or_more_quota()
    check_quota({"cores": 20, "instances": -1}, {"cores": 14, "instances": 9}, NEEDS, 3)
    check_quota({"cores": 23, "instances": -1}, {"cores": 17, "instances": 9}, NEEDS, 3)


def test_a_quota_already_exceeded_allows_none_and_not_fewer():
    with pytest.raises(QuotaExceeded) as caught:
        check_quota({"instances": 1}, {"instances": 5}, NEEDS, 1)
    assert caught.value.details["allowed"] == 0


def test_what_is_not_needed_cannot_be_over():
    check_quota({"instances": 1, "cores": 7}, {"instances": 3, "cores": 5}, {**NEEDS, "instances": 0}, 1)


def test_a_request_without_instances_is_not_told_how_many_can_run():
    with pytest.raises(QuotaExceeded) as caught:
        check_quota({"gigabytes": 10}, {"gigabytes": 8}, {"volumes": 1, "gigabytes": 5}, 1)
    assert str(caught.value) == (
        "Quota exceeded for gigabytes in project default: requested 5 gigabytes, but already used 8 of 10. "
        + input_hints.less_or_more_quota()
    )


def test_members_of_a_group_are_limited():
    """A06"""
    check_group_quota({"server_group_members": 3}, 2, 1, "web")
    check_group_quota({}, 1000, 1, "web")
    with pytest.raises(QuotaExceeded, match="it has 2, 2 more are asked for, 3 are allowed") as caught:
        check_group_quota({"server_group_members": 3}, 2, 2, "web")
    assert caught.value.details["allowed"] == 1
