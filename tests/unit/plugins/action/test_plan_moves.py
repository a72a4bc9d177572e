# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided of a resize or migration before a host is asked for anything (R04-R29; I11)."""

from __future__ import annotations

import json
import re

import pytest
from plan_moves_case import CATALOG, HOSTS, held, host_uuid, plan, view, vm

from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import plan_moves as procedure
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import plan_moves


def test_a_resize_goes_to_another_host_with_alternates_and_an_operation_each():
    """R04, R27, R29."""
    move = plan()["moves"]["a"]
    assert (move["source"], move["sequence"], move["kind"]) == ("h1", "resize", "resize")
    assert sorted(candidate["host"] for candidate in move["candidates"]) == ["h2", "h3"]
    assert {candidate["destination"]["uuid"] for candidate in move["candidates"]} == {host_uuid("h2"), host_uuid("h3")}
    assert len({candidate["op"] for candidate in move["candidates"]}) == 2


def heard(monkeypatch, telling):
    """What the procedure tells the hosts by ``telling``: its arguments, each time."""
    calls = []

    def tell(*given):
        calls.append(given)
        yield from ()

    monkeypatch.setattr(procedure, telling, tell)
    return calls


def test_hosts_that_have_missed_a_move_are_told_where_the_instance_is(monkeypatch):
    """Only its two sides know of it. A confirm reads all hosts, so it tells what a resize did."""
    told = heard(monkeypatch, "tell_owners")
    plan(at={"h2": ["a"]}, held_with={"generation": [2, 3]})
    ((what, digests),) = told
    assert what["known"] == {host_uuid("h2"): {instance_uuid("default", "a"): [2, 3]}} and list(digests) == list(HOSTS)


def test_hosts_are_told_who_takes_an_instance_back_from_a_lost_host_and_of_no_other_move(monkeypatch):
    """Nobody else may know of it when the lost host is back."""
    asked = heard(monkeypatch, "tell_latest")
    sides = {end: {"uuid": host_uuid(host), "name": host} for end, host in (("source", "h1"), ("destination", "h2"))}
    migration = {"type": "resize", **sides, "new_spec": view("a")["spec"]}
    kept = {"role": "OUT", "phase": "keep", "generation": [2, 0], "op": "ab" * 16, "migration": migration}
    lost = {"berth_lost_hosts": "h2"}
    found = plan("revert", variables=lost, views={"a": kept}, held_with={"role": "OUT", "phase": "keep"}, silent=["h2"])
    assert found["moves"]["a"]["sequence"] == "reclaim_alone", found
    assert len(asked) == 1, asked
    ((names, told, *_hosts),) = asked
    assert (names, told["after"]) == ("a", {instance_uuid("default", "a"): 2})
    assert [each["host_uuid"] for each in told["planned"]] == [host_uuid("h1")]
    plan(variables=lost, silent=["h2"])
    assert len(asked) == 1


def test_the_destination_gets_from_the_controller_all_that_was_decided():
    """S23: who leaves where and goes where, as what, and the limits of the decision."""
    move = plan()["moves"]["a"]
    assert move["source_host"] == {"name": "h1", "uuid": host_uuid("h1")}
    assert (move["spec"]["name"], move["spec"]["project_id"], move["spec"]["flavor"]["name"]) == ("a", "default", "big")
    exact = {"berth_placement": {"enabled_filters": ["ExactCoreFilter"]}}
    assert [candidate["limits"] for candidate in plan(variables=exact)["moves"]["a"]["candidates"]] == [{"vcpu": 2}] * 2


def test_all_hosts_are_read_after_the_claim_where_a_quota_is_set():
    assert plan()["moves"]["a"]["look"] == []
    assert plan(variables={"berth_quotas": {"*": {"cores": 99}}})["moves"]["a"]["look"] == list(HOSTS)


BY_HAND = {"now": [["disk logs", "there", ""]], "next_start": [["vcpus", "1", "2"]]}
LIVE = "live domain differs: disk logs missing; repaired at the next start or with berth.kvm.update_disks --limit a"


@pytest.mark.parametrize(
    "action, expected",
    [
        ("resize", ["has no data disk logs. Run berth.kvm.update_disks --limit a"]),
        ("cold_migrate", ["inventory says big", "has no data disk logs. Run berth.kvm.update_disks --limit a"]),
        ("live_migrate", [
            "inventory says big. Run berth.kvm.resize --limit a",
            "has no data disk logs. Run berth.kvm.update_disks --limit a",
            LIVE,
        ]),
    ],
)  # fmt: skip
def test_what_a_move_leaves_otherwise_than_the_inventory_says_is_told(action, expected):
    wished = {"a": vm(disks={"logs": {"size_gb": 2}})}
    facts = plan(action, wished, held_with={"disks": {}, "domain_differs": BY_HAND})
    assert facts["act"] == ["a"]
    assert [said.replace(" (record: there)", "") for said in facts["differs"]["a"]] == expected


def test_a_delete_of_what_moves_leaves_nothing_to_compare():
    assert plan_moves._as_left("delete", {"sequence": "delete"}, [held("a")]) == []


def test_a_move_that_does_not_act_tells_what_is_otherwise_now():
    facts = plan("resize", {"a": vm("small")}, held_with={"domain_differs": BY_HAND})
    assert facts["act"] == [] and "vcpus 2 (record: 1)" in facts["differs"]["a"][0]


def test_a_resize_takes_the_flavor_from_the_catalog_of_its_own_instance():
    own = {**CATALOG["berth_flavors"], "big": {**CATALOG["berth_flavors"]["big"], "memory_mb": 192}}
    instances = {"a": vm(), "b": {**vm(), "berth_flavors": own}}
    moves = plan(instances=instances)["moves"]
    assert moves["b"]["spec"]["flavor"]["memory_mb"] == 192 != moves["a"]["spec"]["flavor"]["memory_mb"]


CELLS = {"h1": {"berth_host_cell": "north"}, "h2": {"berth_host_cell": "south"}, "h3": {"berth_host_cell": "north"}}


@pytest.mark.parametrize("action", ["resize", "cold_migrate", "live_migrate"])
def test_a_move_prefers_the_cell_that_the_instance_is_in(action, monkeypatch):
    """C02: h2 is before h3, and else as good."""
    assert plan(action)["moves"]["a"]["destination"] == "h2"
    near = plan(action, hosts=CELLS)["moves"]["a"]
    assert (near["destination"], [candidate["host"] for candidate in near["candidates"]]) == ("h3", ["h3"])
    far = plan(action, hosts=CELLS, args={"target": "h2"})["moves"]["a"]
    assert far["destination"] == "h2", "no other host will do"


def test_each_host_of_a_move_comes_with_its_availability_zone():
    """C20: the zone of the record is that of its host, renewed by each move."""
    zones = {"berth_aggregates": {"z": {"hosts": ["h2"], "availability_zone": "north"}}}
    move = plan(variables=zones)["moves"]["a"]
    assert {candidate["host"]: candidate["zone"] for candidate in move["candidates"]} == {"h2": "north", "h3": "nova"}


def test_what_the_bridges_of_the_destination_would_lose_is_a_warning(monkeypatch):
    """The facts of both hosts are compared; the move goes on."""
    warned = []
    monkeypatch.setattr(plan_moves, "warn", warned.append)

    def compared(spec, here, there):
        return ["%s %s %s" % (spec["name"], here["uuid"], there["uuid"])]

    monkeypatch.setattr(procedure.bridges, "lost_by_a_move", compared)
    move = plan()["moves"]["a"]
    there = move["destination"]
    assert warned == ["a moves from h1 to %s: a %s %s" % (there, host_uuid("h1"), host_uuid(there))]


def test_same_host_only_where_it_is_allowed():
    """R04: Nova's allow_resize_to_same_host."""
    here = {"target": "h1"}
    assert "NoValidHost" in plan(args=here)["errors"]["a"]
    assert plan(args={**here, "allow_same_host": True})["moves"]["a"]["sequence"] == "resize_here"


def test_what_pinned_it_does_not_bind_the_move():
    """R24."""
    spec = plan()["moves"]["a"]["spec"]
    assert (spec["force_hosts"], spec["requested_destination"], spec["ignore_hosts"]) == ([], None, ["h1"])


def test_numa_cells_follow_from_the_new_flavor():
    """R26."""
    assert plan()["moves"]["a"]["spec"].get("numa_topology") is None
    assert len(plan(instances={"a": vm("cells")})["moves"]["a"]["spec"]["numa_topology"]["cells"]) == 1


def test_members_of_a_group_that_move_in_one_run_keep_its_policy():
    """R28, S40."""
    pair = {"a": vm(server_group="pair"), "b": vm(server_group="pair")}
    moves = plan(instances=pair, groups={"a": "pair", "b": "pair"})["moves"]
    assert {move["destination"] for move in moves.values()} == {"h2", "h3"}


def test_what_a_plan_moves_comes_home_only_where_the_plan_says_so():
    of = {"a": {**vm(), "__berth_drains": True}, "b": {**vm(), "__berth_drains": False}, "c": vm()}
    moves = plan("migrate", of)["moves"]
    assert {name: move["spec"].get("home") for name, move in moves.items()} == {
        "a": host_uuid("h1"),
        "b": None,
        "c": None,
    }


def in_affinity_group(names, at=None, **given):
    group = {"name": "pair", "uuid": "pair", "policy": "affinity", "members": [], "rules": {}}
    views = {name: {"spec": {**view(name)["spec"], "group": group}} for name in "abc"}
    return plan(
        "live_migrate", {name: vm() for name in names}, groups=dict.fromkeys("abc", "pair"), at=at, views=views, **given
    )


def test_an_instance_that_moves_does_not_hold_itself_back_by_its_affinity_group():
    found = in_affinity_group("a")
    assert not found["errors"] and found["moves"]["a"]["destination"] == "h2"
    broken = in_affinity_group("b", {"h2": ["a"], "h1": ["b"]})["moves"]["b"]
    assert [each["host"] for each in broken["candidates"]] == ["h2"]


def test_an_instance_does_not_leave_members_of_its_affinity_group_that_may_be_on_a_silent_host():
    assert "GroupMembersUnknown" in in_affinity_group("a", silent=["h3"])["errors"].get("a", "")
    lost = {"variables": {"berth_lost_hosts": "h3"}}
    assert in_affinity_group("a", silent=["h3"], **lost)["moves"]["a"]["destination"] == "h2"


def test_an_instance_does_not_leave_the_other_members_of_its_affinity_group():
    for names in ("b", "ab"):
        assert "NoValidHost" in in_affinity_group(names, {"h1": ["a", "b"]})["errors"]["b"]


def test_members_of_an_affinity_group_that_a_plan_moves_together_do_not_hold_one_another_back():
    """Those that the plan leaves where they are do, and so does one that is on another host by now."""
    a, b = (instance_uuid("default", name) for name in "ab")
    of = {"a": {**vm(), "__berth_goes_with": {b: "h1"}, "__berth_goes_to": "h3"}}
    of["b"] = {**vm(), "__berth_goes_with": {a: "h1"}, "__berth_goes_to": "h3"}
    group = {"name": "pair", "uuid": "pair", "policy": "affinity", "members": [], "rules": {}}
    views = {name: {"spec": {**view(name)["spec"], "group": group}} for name in "abc"}

    def moved(at, names="ab"):
        known = {name: of[name] for name in names}
        return plan("migrate", known, groups=dict.fromkeys("abc", "pair"), at=at, views=views)

    found = moved({"h1": ["a", "b"]})
    assert {name: move["destination"] for name, move in found["moves"].items()} == {"a": "h3", "b": "h3"}
    assert found["moves"]["a"]["goes_with"] == {b: "h1"}
    assert moved({"h1": ["a", "b"]}, "a")["moves"]["a"]["destination"] == "h3"
    assert "NoValidHost" in moved({"h1": ["a", "b", "c"]})["errors"]["a"]
    assert "NoValidHost" in moved({"h1": ["a"], "h2": ["b"]}, "a")["errors"]["a"]
    of["a"]["__berth_goes_with"] = {b: "h2"}
    assert moved({"h1": ["a"], "h2": ["b"]}, "a")["moves"]["a"]["destination"] == "h3"  # the plan unites a broken group


HUGE = {**CATALOG["berth_flavors"]["big"], "memory_mb": 1 << 20}


def test_a_move_without_a_valid_host_says_why_of_each_host_with_numbers_and_what_would_help(capsys):
    facts = plan(variables={"berth_flavors": {**CATALOG["berth_flavors"], "big": HUGE}})
    assert "NoValidHost" in facts["errors"]["a"] and facts["act"] == []
    said = capsys.readouterr().out
    for host in ("h2", "h3"):
        assert re.search(r"%s .*1048576" % host, said), said
    assert "a would fit: " in said
    plan(args={"target": "h1"})
    said = capsys.readouterr().out
    assert "the instance is on it now, or berth_target_host names another host" in said and "ignore" not in said


def test_a_move_keeps_a_receipt_where_receipts_are_kept(tmp_path):
    plan(variables={"berth_receipt_dir": str(tmp_path / "receipts")})
    (path,) = (tmp_path / "receipts").glob("placement-*.json")
    kept = json.loads(path.read_text("utf-8"))
    assert [request["name"] for request in kept["requests"]] == ["a"]
    assert kept["left_out"] == {}


@pytest.mark.parametrize(
    "given, running, kind",
    [
        (None, True, "live-migration"), (None, False, "migration"), ("auto", True, "live-migration"),
        ("cold", True, "migration"), ("live", True, "live-migration"),
    ],
)  # fmt: skip
def test_what_runs_is_migrated_live_and_what_is_off_cold_unless_somebody_says_otherwise(given, running, kind):
    sides = "h1", view("a", running=running), None, {"role": None}
    assert moving.kind_to_migrate(given or "auto", sides) == kind
    facts = plan("migrate", variables={"berth_migration": given} if given else {})
    assert facts["moves"]["a"]["kind"] == ("live-migration" if given != "cold" else "migration")


def test_a_migration_that_was_begun_goes_on_as_what_it_was():
    begun = view("a", running=False, migration={"type": "live-migration"})
    assert moving.kind_to_migrate("auto", ("h1", begun, "h2", {"role": "IN"})) == "live-migration"


def test_a_kind_of_migration_that_there_is_none_of_is_refused_by_name():
    with pytest.raises(KeyError, match="ansible_facts"):  # there is no plan
        plan("migrate", variables={"berth_migration": "Live"})


@pytest.mark.follows("migrate_what_is_off")
def test_what_is_off_is_not_migrated_live_and_berth_kvm_migrate_moves_it_as_it_is():
    off = {"vm_state": "stopped", "running": False, "power_state": "shutdown"}
    refused = plan("live_migrate", views={"a": off})
    assert refused["act"] == [] and hints.migrate_what_is_off("a") in refused["errors"]["a"]
    moved = plan("migrate", views={"a": off})["moves"]["a"]
    assert (moved["kind"], moved["sequence"]) == ("migration", "resize")
    assert plan("live_migrate")["moves"]["a"]["sequence"] == "live_migrate"


@pytest.mark.follows("resize_on_its_host")
def test_a_resize_that_only_its_own_host_can_take_is_told_how_it_may_stay_there(capsys):
    away = ("h2", "h3")
    assert "NoValidHost" in plan(silent=away)["errors"]["a"]
    said = capsys.readouterr().out
    assert "a would fit: " + fleet_hints.resize_on_its_host("h1") in said and "instance 1 of 1" not in said
    assert plan(silent=away, args={"allow_same_host": True})["moves"]["a"]["sequence"] == "resize_here"
    capsys.readouterr()
    for other in ({"action": "cold_migrate"}, {"args": {"target": "h2"}}):
        assert "NoValidHost" in plan(silent=away, **other)["errors"]["a"]
        assert "same_host" not in capsys.readouterr().out, "a migration leaves its host, a target is the only one"


def test_a_resize_to_the_host_where_it_is_says_how_it_may_stay_there(capsys):
    assert "NoValidHost" in plan(args={"target": "h1"})["errors"]["a"]
    assert "a would fit: " + fleet_hints.resize_on_its_host("h1") in capsys.readouterr().out
    assert plan(args={"target": "h1", "allow_same_host": True})["moves"]["a"]["sequence"] == "resize_here"


@pytest.mark.follows("flavor_with_disks")
def test_who_asks_for_a_smaller_disk_is_told_which_flavors_go_on():
    assert input_hints.flavor_with_disks("small") in plan(instances={"a": vm("less")})["errors"]["a"]
    assert plan(instances={"a": vm("big")})["moves"]["a"]["destination"]
    assert not plan(instances={"a": vm("small")})["errors"]


def test_a_resize_whose_group_is_on_all_hosts_is_also_told_that_it_may_stay(capsys):
    """Beside the change of the group, which is a greater one."""
    trio = {"a": vm("small"), "b": vm("small"), "c": vm()}
    at = {"h1": ["c"], "h2": ["a"], "h3": ["b"]}
    found = plan(instances=trio, groups=dict.fromkeys(trio, "pair"), at=at, args={"instances": ["c"]})
    assert "NoValidHost" in found["errors"]["c"]
    assert "c would fit: " + fleet_hints.resize_on_its_host("h1") in capsys.readouterr().out


def test_a_move_keeps_away_from_the_members_of_its_group_that_the_hosts_tell():
    """C13: the record knows none of them."""
    there = {"h1": ["a"], "h2": ["b"]}
    found = plan(instances={"a": vm()}, groups={"a": "pair", "b": "pair"}, at=there)
    assert [candidate["host"] for candidate in found["moves"]["a"]["candidates"]] == ["h3"]
