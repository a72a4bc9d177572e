# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.placement.changes.would_fit import smallest_changes
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations


def host(name, memory_mb_used=3072, **more):
    return {"host": name, "vcpus": 4, "memory_mb": 4096, "local_gb": 50, "memory_mb_used": memory_mb_used, **more}


def request(memory_mb=1024, **more):
    flavor = {"name": "m", "vcpus": 1, "memory_mb": memory_mb, "root_gb": 1}
    return {"uuid": "u", "name": "web", "flavor": flavor, **more}


def texts(hosts, spec=None, **more):
    return [change.text for change in smallest_changes(hosts, [spec or request()], **more)]


def running(name, memory_mb=800, **more):
    return {"uuid": name + "-id", "name": name, "vcpus": 1, "memory_mb": memory_mb, "disk_gb": 1, **more}


def test_the_host_that_lacks_least_is_named_with_the_numbers():
    assert texts([host("k1"), host("k2", 2700)]) == [
        "on k2: 140 more MiB of memory (884 free, 1024 needed; or ram_allocation_ratio 1.04 instead of 1)"
    ]


def test_where_a_request_fits_there_is_nothing_to_change():
    assert texts([host("k1", 0)]) == []


def test_one_instance_moved_away_is_offered_with_its_target():
    hosts = [host("k1", 2900, instances=[running("db")]), host("k2", 2600)]
    assert texts(hosts)[1] == "move db (1 vCPUs, 800 MiB) from k1 to k2"


@pytest.mark.parametrize(
    "more",
    [{"foreign": True}, {"group": "g"}, {"flavor": {"extra_specs": {"hw:cpu_policy": "dedicated"}}}],
    ids=["foreign", "group member", "pinned who knows where"],
)
def test_an_instance_that_cannot_simply_move_is_not_offered(more):
    hosts = [host("k1", 2900, instances=[running("db", **more)]), host("k2", 2600)]
    assert not [text for text in texts(hosts) if text.startswith("move")]


def test_an_instance_larger_than_every_host_needs_a_larger_host():
    assert texts([host("k1")], request(9000)) == ["on k1: 12584 MiB of memory in all instead of 4096"]


def test_large_amounts_are_written_out():
    large = {"memory_mb": 1048576, "local_gb": 5_000_000}
    assert texts([{**host("k1", 8), **large}], request(1049000)) == [
        "on k1: 1049520 MiB of memory in all instead of 1048576"
    ]
    (said,) = texts([{**host("k1", 8), **large}], request(1048576))
    assert said.startswith("on k1: 520 more MiB of memory (1048056 free, 1048576 needed")


def test_a_disabled_host_is_offered_with_its_reason():
    disabled = {"disabled": True, "disabled_reason": "new disk"}
    enabled_filters = {"enabled_filters": ["ComputeFilter"]}
    assert texts([host("k1", 0, service=disabled)], options=enabled_filters) == ["on k1: enable it (new disk)"]


def test_a_full_anti_affinity_group_is_told_its_limit():
    group = {"name": "web", "uuid": "g", "policy": "anti-affinity", "members": ["a", "b"]}
    hosts = [host("k1", 0, instances=[{"uuid": "a"}]), host("k2", 0, instances=[{"uuid": "b"}])]
    assert texts(hosts, request(group=group)) == ["let server group web have 2 members on a host (max_server_per_host)"]


def test_a_host_left_out_by_the_request_itself_is_offered():
    assert "do not ignore k1" in texts([host("k1", 0), host("k2")], request(ignore_hosts=["k1"]))


def test_a_zone_without_room_is_offered_to_be_left_out():
    zones = [{"name": "a", "hosts": ["k2"], "metadata": {"availability_zone": "a"}}]
    found = texts([host("k1", 0), host("k2")], request(availability_zone="a"), aggregates=zones)
    assert "ask for no availability zone (now a)" in found


def test_operations_that_run_are_waited_for_or_allowed():
    found = texts([host("k1", 0, num_io_ops=9)], options={"enabled_filters": ["IoOpsFilter"]})
    assert found == ["on k1: 2 running operations fewer, or max_io_ops_per_host 10"]


def test_a_fleet_without_hosts_gets_no_advice():
    assert texts([], aggregates=[{"name": "a", "hosts": []}]) == []


def test_the_states_of_a_run_serve_as_well_as_documents():
    failed = select_destinations([host("k1")], [request()], explain=True)
    (change,) = smallest_changes(failed.host_states, [request()], failed=failed)
    assert change.to_dict()["kind"] == "limit" and change.to_dict()["host"] == "k1"


def test_several_limits_of_one_host_are_one_change():
    found = texts([host("k1", 3072, num_io_ops=8)], options={"enabled_filters": ["IoOpsFilter"]})
    assert len(found) == 1 and "MiB of memory" in found[0] and "max_io_ops_per_host" in found[0]


def test_what_no_known_change_helps_gets_no_advice():
    assert texts([host("k1", 0)], request(), options={"enabled_filters": ["JsonFilter"]}) == []
    never = {"enabled_filters": ["MetricsFilter"], "metrics": {"weight_setting": ["load=1"]}}
    assert texts([host("k1", 0)], options=never) == []


def test_all_requests_placed_together_must_fit_with_the_change():
    both = [request(batch_id="r"), dict(request(batch_id="r"), uuid="v", name="web-2")]
    assert smallest_changes([host("k1", 2600)], both) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2600, 4096), min_size=1, max_size=5), st.integers(1100, 3000))
def test_a_change_of_a_limit_is_exactly_enough(used, asked):
    """One MiB less of what the advice says would not do."""
    hosts = [host("k%d" % at, entry) for at, entry in enumerate(used)]
    change = smallest_changes(hosts, [request(asked)])[0]
    short = asked - (4096 - 512 - min(used))
    assert change.host == "k%d" % used.index(min(used))
    assert change.text.startswith("on %s: %d more MiB of memory" % (change.host, short))
