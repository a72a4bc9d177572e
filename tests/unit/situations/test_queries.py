# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole playbooks with berth_where: an instance that no inventory has is found, and acted on as any other."""

from __future__ import annotations

import fake_fleet
import good
import pytest


def replies(host):
    """As the fake hosts reply, which also tell of their instance at rest in detail."""
    made = fake_fleet.replies(host)
    at_rest = good.shown(good.record("at-rest-" + host))
    return {**made, "instance_info": {**made["instance_info"], "instances": [at_rest]}}


@pytest.mark.parametrize(
    "playbook, said",
    [
        (["stop"], "at-rest-h1 stopped h1 small"),
        (["delete", "--check"], "at-rest-h1 would be deleted h1 small"),
        (["cold_migrate", "--check"], "at-rest-h1 would be migrated"),
        (["show"], "at-rest-h1 active h1 small"),
    ],
)
def test_an_instance_that_is_in_no_inventory_is_found_by_a_query(tmp_path, playbook, said):
    def without(tree):
        del tree["all"]["children"]["instances"]["hosts"]["at-rest-h1"]

    query = ["-e", "berth_where=\"guest=='running' && host!='h2' && metadata.owner=='a team'\""]
    done = fake_fleet.play(tmp_path, [*playbook, *query], change=without, replies=replies)
    told = " ".join(done["said"].split())
    assert done["rc"] == 0, done["said"][-3000:]
    assert "selects 2 of 4 instances: at-rest-h3, at-rest-h1" in told and said in told, done["said"][-3000:]
    assert "at-rest-h2" not in told


@pytest.mark.parametrize(
    "query, there",
    [
        ("host!='h2'", ["h1", "h3"]),
        ("aggregates[?name=='rack']", ["h2"]),
        ("free_ram_mb<`1`", []),
    ],
)
def test_the_table_of_the_hosts_has_those_that_a_query_selects(tmp_path, query, there):
    def with_an_aggregate(tree):
        tree["all"].setdefault("vars", {})["berth_aggregates"] = {"rack": {"hosts": ["h2"]}}

    done = fake_fleet.play(tmp_path, ["hosts", "-e", "berth_where_hosts=" + query], change=with_an_aggregate)
    assert done["rc"] == 0, done["said"][-3000:]
    table = [line.split()[0] for line in done["said"].splitlines() if line.split()[:1] in (["h1"], ["h2"], ["h3"])]
    assert sorted(table) == there, done["said"][-3000:]


@pytest.mark.parametrize(
    "playbook, query, said",
    [
        ("hosts", "free_ram>`1`", "no key free_ram, and text is written 'free_ram'). Did you mean free_ram_mb?"),
        (
            "prepare_hosts",
            "free_ram_mb>`1`",
            "(a selection for the playbooks hosts, host_facts, drain and rolling_reboot)",
        ),
        ("delete", "host=='h1'", "(a selection for the playbooks hosts, host_facts, drain and rolling_reboot)"),
    ],
)
def test_a_query_over_hosts_that_cannot_be_meant_is_refused_before_a_host_is_asked(tmp_path, playbook, query, said):
    done = fake_fleet.play(tmp_path, [playbook, "-e", "berth_where_hosts=" + query])
    assert done["rc"] == 2 and said in " ".join(done["said"].split()), done["said"][-3000:]
    assert not any(done["asked"].values())
