# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement action in a controller with real hostvars: what it reads, refuses and answers (S11, A07-A29, bad input)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from ansible.template import trust_as_template
from held_case import held
from placement_case import CATALOG, HOST, VM, controller, facts, place
from plan_moves_case import held as member

from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document, host_hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.placement import receipt
from ansible_collections.berth.kvm.plugins.plugin_utils import acting, delegates, place_instances, whose_variables


def test_instance_gets_a_host():
    result = place({"a": VM})
    assert result["selections"]["a"]["host"] in ("h1", "h2")
    assert not result["changed"]


@pytest.mark.parametrize(
    "given, least", [({"berth_count": 3}, 3), ({"berth_count": 3, "berth_min_count": "2"}, 2), ({}, 0)]
)
def test_instances_of_one_count_are_a_batch_of_which_at_least_so_many_are_made(given, least, capsys):
    """A01, A02: the reservation is told."""
    more = {"berth_name": "a"} if given else {}
    result = place({"a-1": VM, "a-2": VM, "a-3": VM}, {**given, **more}, {"plan": True})
    plan, said = result["ansible_facts"]["berth_plan"], capsys.readouterr().out
    batches = {instance["spec"]["batch_id"] for instance in plan["instances"].values()}
    assert plan["least"] == least and batches == ({acting.RUN} if given else {None})
    assert ("Requested together: 3, reservation %s" % acting.RUN in said) is bool(given)


@pytest.mark.parametrize("least, made", [(None, 0), (3, 0), (2, 2)])
def test_of_a_batch_over_the_quota_as_many_as_it_allows_are_made_if_fewer_are_welcome(least, made):
    given = {"berth_name": "a", "berth_count": 3, "berth_quotas": {"default": {"instances": 2}}}
    given.update({"berth_min_count": least} if least else {})
    result = place({"a-1": VM, "a-2": VM, "a-3": VM}, given)
    assert len(result["selections"]) == made and len(result["failures"]) == (3 if not made else 0)


@pytest.mark.parametrize("forced", [{"berth_force_hosts": "h2"}, {"berth_availability_zone": "nova:h2"}])
@pytest.mark.parametrize("plan", [False, True])
def test_a_warning_says_that_a_forced_host_skips_the_filters(forced, plan, monkeypatch):
    """S28"""
    warned = []
    monkeypatch.setattr(place_instances.ways_in, "lacks", lambda *_: [])
    monkeypatch.setattr(place_instances, "warn", warned.append)
    result = place({"a": {**VM, **forced}, "b": VM}, args={"plan": plan})
    assert not plan or result["ansible_facts"]["berth_plan"]["instances"]["a"]["host"] == "h2"
    [line] = warned
    assert line.startswith("a: its host h2 is forced") and "ComputeFilter, ComputeCapabilitiesFilter" in line


@pytest.mark.follows("enable_filter")
def test_a_hint_that_no_enabled_filter_reads_is_told_and_after_it_is_enabled_it_counts(monkeypatch):
    warned = []
    monkeypatch.setattr(place_instances.ways_in, "lacks", lambda *_: [])
    monkeypatch.setattr(place_instances, "warn", warned.append)
    first = place({"a": VM})["selections"]["a"]["host"]
    hints = {"berth_hints": {"query": '["=","$hypervisor_hostname","nowhere"]'}}
    assert place({"a": {**VM, **hints}})["selections"]["a"]["host"] == first
    assert warned == [
        "a: berth_hints.query does nothing: JsonFilter reads it, which is not enabled. "
        + input_hints.enable_filter("JsonFilter")
    ]
    enabled = {"berth_placement": {"enabled_filters": ["ComputeFilter", "JsonFilter"]}}
    assert place({"a": {**VM, **hints}}, enabled)["failures"]["a"]["code"] == "NoValidHost"
    assert len(warned) == 1


@pytest.mark.parametrize(
    "query, told",
    [
        ("free_ram >= `1`", "no key free_ram, and text is written 'free_ram'). Did you mean free_ram_mb?"),
        ("free_ram_mb >= '1'", "not 1 with '1'"),
        ("free_ram_mb >= ", "at character 16"),
    ],
)
def test_a_query_that_is_wrong_for_all_hosts_is_refused_before_a_host_is_chosen(query, told):
    enabled = {"berth_placement": {"enabled_filters": ["berth.kvm.QueryFilter"]}}
    result = place({"a": {**VM, "berth_hints": {"query": query}}}, enabled)
    assert result["error_code"] == "InvalidInput" and "berth_hints.query" in result["msg"] and told in result["msg"]


def test_a_hint_in_jmespath_that_no_enabled_filter_reads_names_the_filter_of_its_form(monkeypatch):
    warned = []
    monkeypatch.setattr(place_instances.ways_in, "lacks", lambda *_: [])
    monkeypatch.setattr(place_instances, "warn", warned.append)
    place({"a": {**VM, "berth_hints": {"query": "free_ram_mb > `1`"}}})
    assert input_hints.enable_filter("QueryFilter") in warned[0]


@pytest.mark.follows("give_way_in")
@pytest.mark.follows("give_network")
@pytest.mark.parametrize("plan", [True, False])
def test_instances_that_nobody_can_enter_or_reach_are_named_once_before_they_are_made(monkeypatch, plan):
    warned = []
    monkeypatch.setattr(place_instances, "warn", warned.append)
    entered = {**VM, "berth_user_data": "#!/bin/sh", "berth_networks": ["lan"]}
    bad_key = {**entered, "berth_ssh_keys": ["ssh-rsa A"]}
    place({"d": entered}, args={"plan": plan})
    assert warned == [], "what the hints say was done"
    place({"a": VM, "b": VM, "c": bad_key, "d": entered}, args={"plan": plan})
    assert [line.partition(". ")[0] for line in warned] == [
        "a, b: nobody can log in, unless the image has an account",
        "a, b: no network interface",
        "c: nobody can log in with the key ssh-rsa A...: it is not a whole key: what follows ssh-rsa is cut off or damaged",
    ]


def test_without_room_a_forced_host_is_no_host_and_nothing_is_warned(monkeypatch):
    """S28"""
    warned = []
    monkeypatch.setattr(place_instances, "warn", warned.append)
    assert place({"a": {**VM, "berth_flavor": "huge", "berth_force_hosts": "h2"}})["failed"] and not warned


def test_a_claim_has_the_zone_of_its_own_host_beside_the_one_that_was_asked_for():
    """C20"""
    zones = {"berth_aggregates": {"z": {"hosts": ["h1"], "availability_zone": "north"}}}
    instances = {name: {**VM, "berth_force_hosts": host} for name, host in (("a", "h1"), ("b", "h2"))}
    plan = place(instances, zones, args={"plan": True})["ansible_facts"]["berth_plan"]
    claimed = {host: claims[0]["spec"] for host, claims in plan["claims"].items()}
    assert {host: spec["host_zone"] for host, spec in claimed.items()} == {"h1": "north", "h2": "nova"}
    assert claimed["h1"]["availability_zone"] is None


def test_a_claim_of_an_ended_run_that_is_gone_on_with_keeps_the_zone_of_its_host():
    left = held(role="CLAIM", phase="claimed", vm_state="building", generation=[1, 1])
    told = {"h1": facts("h1", instances=[left], num_instances=1), "h2": facts("h2")}
    zones = {"berth_aggregates": {"z": {"hosts": ["h1"], "availability_zone": "north"}}}
    plan = place({"web1": VM}, zones, args={"plan": True}, more_facts=told)["ansible_facts"]["berth_plan"]
    assert plan["instances"]["web1"]["why"] == "an earlier run had claimed it there"
    assert plan["claims"]["h1"][0]["spec"]["host_zone"] == "north"


def test_variables_of_an_instance_are_templates_of_its_own():
    result = place({"a": {**VM, "mine": "tiny", "berth_flavor": trust_as_template("{{ mine }}")}})
    assert result["selections"]["a"]["allocation"]["memory_mb"] == 128


def test_anti_affine_pair_is_spread():
    """S40: members placed in the same run count."""
    pair = {**VM, "berth_server_group": "pair"}
    result = place({"a": pair, "b": pair})
    assert {result["selections"][name]["host"] for name in "ab"} == {"h1", "h2"}


@pytest.mark.follows("read_facts_first")
def test_host_without_facts_is_a_verdict_and_the_rest_goes_on():
    """S11."""
    result = place({"a": VM}, silent=["h9"])
    assert list(result["verdicts"]) == ["h9"] and host_hints.read_facts_first() in result["verdicts"]["h9"]
    assert result["selections"]["a"]["host"] in ("h1", "h2")
    assert not place({"a": VM}, hosts=("h1", "h2", "h9"))["verdicts"]


def test_what_ask_hosts_brought_counts_more_than_cached_facts():
    it = controller({"a": VM})
    it.register("localhost", __berth_facts={"answers": {"h1": {"reason": "UNREACHABLE: no route"}}})
    result = it.run("placement", {"instances": ["a"]})
    assert result["verdicts"] == {"h1": "UNREACHABLE: no route"}
    assert result["selections"]["a"]["host"] == "h2"


@pytest.mark.parametrize(
    "lie",
    [
        {"memory_mb": float("nan")},
        {"memory_mb": 10**400},
        {"host": "x" * 10**6},
        {"vcpus": "{{ 1 }}"},
        {"warnings": ["a\0b"]},
        {"instances": None},
    ],
    ids=["NaN", "10^400", "long", "Jinja", "NUL", "missing"],
)
def test_lying_host_is_a_verdict_and_the_rest_goes_on(lie):
    """Bad input: a host that lies in its facts."""
    result = place({"a": VM}, more_facts={"h1": facts("h1", **lie)})
    assert list(result["verdicts"]) == ["h1"]
    assert result["selections"]["a"]["host"] == "h2"


def test_jinja_that_a_host_sends_is_never_rendered(tmp_path):
    """CVE-2016-9587 and kin."""
    canary = tmp_path / "canary"
    lie = trust_as_template("{{ lookup('ansible.builtin.pipe', 'touch %s') }}" % canary)
    place({"a": VM}, more_facts={"h1": facts("h1", hypervisor_hostname=lie, warnings=[lie])})
    assert not canary.exists()


def test_two_hosts_of_one_uuid_are_both_refused():
    result = place({"a": VM}, hosts=("h1", "h2", "h3"), more_facts={"h2": facts("h1")})
    assert set(result["verdicts"]) == {"h1", "h2"}


def test_existing_instance_is_not_placed():
    record = {
        "uuid": instance_uuid("default", "a"), "name": "a", "project_id": "default",
        "flavor": {"name": "tiny", "vcpus": 1, "memory_mb": 128, "root_gb": 1},
        "group": None, "role": "OWN", "phase": "active", "vm_state": "active", "task_state": None, "power_state": "running",
        "foreign": False, "vcpus": 1, "pcpus": 0, "memory_mb": 128, "disk_gb": 1, "pool": None, "image_props": {},
    }  # fmt: skip
    result = place({"a": VM}, more_facts={"h2": facts("h2", instances=[record], num_instances=1)})
    assert (result["existing"], result["selections"]) == ({"a": "h2"}, {})


@pytest.mark.parametrize("flavor", ["tiny", "huge"])
def test_a_plan_that_has_something_to_build_goes_on_and_one_that_has_not_ends_with_the_results(
    flavor, capsys, monkeypatch
):
    monkeypatch.setattr(delegates, "run_on", lambda hosts, *_rest: {host: {"changed": False} for host in hosts})
    result = place({"a": {**VM, "berth_flavor": flavor}}, args={"plan": True})
    ended = flavor == "huge"
    assert ("outcomes" in result, "berth_results" in result["ansible_facts"]) == (ended, ended)
    assert ("a         failed" in capsys.readouterr().out) == ended
    assert "berth_plan" in result["ansible_facts"]


BAD = {
    "flavor": ({"berth_flavor": "tinny"}, {}, "FlavorNotFound", "tiny"),
    "image": ({"berth_image": "gest"}, {}, "ImageNotFound", "guest"),
    "network": ({"berth_networks": ["lam"]}, {}, "NetworkNotFound", "lan"),
    "server group": ({"berth_server_group": "pear"}, {}, "ServerGroupNotFound", "pair"),
    "filter": (
        {},
        {"berth_placement": {"enabled_filters": ["ComputFilter", "RamFiltre"]}},
        "SchedulerHostFilterNotFound",
        "RamFiltre",
    ),
    "option": ({}, {"berth_placement": {"host_subset_sise": 2}}, "UnknownOption", "host_subset_size"),
    "image too large (A28)": ({"berth_image": "fat"}, {}, "FlavorDiskSmallerThanMinDisk", "9 GiB"),
    "user data malformed (A08)": ({"berth_user_data": "***"}, {}, "InstanceUserDataMalformed", "berth_user_data"),
    "user data too long (A08)": (
        {"berth_user_data": base64.b64encode(b"x" * 65536).decode()},
        {},
        "InstanceUserDataTooLarge",
        "berth_user_data",
    ),
    "negative size": (
        {},
        {"berth_flavors": {"tiny": {"vcpus": -1, "memory_mb": 128, "root_gb": 1}}},
        "InvalidInput",
        "berth_flavors.tiny.vcpus",
    ),
    "absurd size": (
        {},
        {"berth_flavors": {"tiny": {"vcpus": 1, "memory_mb": 10**18, "root_gb": 1}}},
        "InvalidInput",
        "memory_mb",
    ),
    "address": (
        {"berth_networks": [{"network": "lan", "address": "198.51.100.1"}]},
        {},
        "InvalidInput",
        "berth_networks[0].address",
    ),
    "image on the controller": (
        {},
        {"berth_images": {"guest": {"src": "guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}}},
        "InvalidInput",
        "berth_images.guest.src",
    ),
    "attempts": ({}, {"berth_placement": {"max_attempts": 99}}, "InvalidInput", "max_attempts"),
    "mend": ({}, {"berth_mend": "now"}, "InvalidInput", "berth_mend"),
    "strict": ({}, {"berth_strict_uniqueness": ["x"]}, "InvalidInput", "berth_strict_uniqueness"),
    "count": ({}, {"berth_count": "-3"}, "InvalidInput", "berth_count"),
    "min_count": ({}, {"berth_count": "3", "berth_min_count": "4"}, "InvalidInput", "berth_min_count"),
    "min_count of none": ({}, {"berth_count": 3, "berth_min_count": 0}, "InvalidInput", "berth_min_count"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_refused_with_a_code_and_the_field(case):
    """Nothing is decided, the error has a stable code and names what to mend."""
    of_instance, of_all, code, named = BAD[case]
    result = place({"a": {**VM, **of_instance}}, of_all, args={"plan": True})
    assert (result.get("failed"), result["error_code"]) == (True, code)
    assert named in result["msg"]
    assert "ansible_facts" not in result


@pytest.mark.parametrize(
    "name",
    [
        "-rf",
        "--help",
        "$(id)",
        "a'b",
        'a"b',
        "../x",
        "a\nb",
        "x" * 300,
        "A",
        "a..b",
        "a.",
        "192.0.2.1",
        "\u202eabc",
        "a_b",
    ],
)
def test_name_that_is_no_host_name_is_refused(name):
    """Security: names."""
    result = place({name: VM})
    assert (result.get("failed"), result["error_code"]) == (True, "InvalidInput")


def test_all_faults_are_told_at_once():
    result = place({"a": {**VM, "berth_flavor": "x"}, "b": {**VM, "berth_image": "y"}})
    assert set(result["error"]["faults"]) == {"a", "b"}


@pytest.mark.parametrize("nic", [{"address": "192.0.2.9"}, {"mac": "02:00:00:00:00:09"}], ids=["address", "MAC"])
def test_two_instances_of_the_inventory_with_one_address_are_bad_input(nic):
    both = {**VM, "berth_networks": [{"network": "lan", **nic}]}
    result = place({"a": both, "b": both})
    assert (result["failed"], result["error_code"]) == (True, "AddressTaken")
    assert "b would get an address that a already has" in result["msg"] and result["error"]["field"] == "berth_networks"


@pytest.mark.parametrize("nic", [{"address": "192.0.2.9"}, {"mac": "02:00:00:00:00:09"}], ids=["address", "MAC"])
def test_so_is_one_of_an_instance_that_is_not_selected(nic):
    """Its host may be silent, so that no host tells of it."""
    both = {**VM, "berth_networks": [{"network": "lan", **nic}]}
    vms = {"a": both, "b": both, "c": {**VM, "berth_networks": [{"network": "lan", "address": "192.0.2.10"}]}, "d": VM}
    result = place(vms, args={"instances": ["b", "c"]})
    assert result.get("error_code") == "AddressTaken" and "b would get an address that a already has" in result["msg"]
    assert len(place(vms, args={"instances": ["c", "d"]})["selections"]) == 2
    rendered = {"mine": both["berth_networks"], "berth_networks": trust_as_template("{{ mine }}")}
    assert place({**vms, "a": {**VM, **rendered}}, args={"instances": ["b"]})["error_code"] == "AddressTaken"


def test_networks_that_a_run_gives_by_e_are_of_its_instances_alone(monkeypatch):
    """Ansible has them override what the inventory gives the others."""
    networks = {"berth_networks": [{"network": "lan", "address": "192.0.2.9"}]}
    monkeypatch.setattr(whose_variables, "load_extra_vars", lambda loader: networks)
    vms = {"a": {**VM, **networks}, "b": {**VM, **networks}}
    assert place(vms, args={"instances": ["b"]})["selections"]


def test_an_instance_that_is_not_selected_and_cannot_be_rendered_is_in_nobodys_way():
    fixed = {**VM, "berth_networks": [{"network": "lan", "address": "192.0.2.9"}]}
    vms = {"a": {**VM, "berth_networks": trust_as_template("{{ nowhere }}")}, "b": fixed}
    assert place(vms, args={"instances": ["b"]})["selections"]
    assert place({**vms, "b": {**VM, "berth_networks": ["lan"]}}, POOL, {"instances": ["b"]})["selections"]


POOL = {
    "berth_networks_defined": {
        "lan": {**CATALOG["berth_networks_defined"]["lan"], "pool": {"ranges": ["192.0.2.8/30"]}}
    }
}


def test_a_pool_of_four_serves_those_that_the_inventory_leaves_it_and_says_so_to_the_others():
    """A03: a fixed address of an instance that is not selected here counts; a silent host holds all of them up."""
    pooled = {**VM, "berth_networks": ["lan"]}
    fixed = {**VM, "berth_networks": [{"network": "lan", "address": "192.0.2.9"}]}
    many = {**{name: pooled for name in "abcd"}, "db": fixed}
    result = place(many, POOL, {"instances": ["a", "b", "c", "d"]})
    assert (len(result["selections"]), result["error_code"]) == (3, "AddressPoolExhausted")
    result = place(many, POOL, {"instances": ["a"]}, silent=["h9"])
    assert result["error_code"] == "AddressesUnknown" and "h9" in result["msg"]
    it = controller(many, {**POOL, "berth_lost_hosts": ["h9"]}, silent=["h9"])
    it.register("localhost", __berth_facts={"answers": {"h9": {"reason": "UNREACHABLE: no route"}}})
    assert it.run("placement", {"instances": ["a"]})["selections"]


def test_unknown_filters_are_all_named():
    """S34."""
    result = place({"a": VM}, {"berth_placement": {"enabled_filters": ["ComputFilter", "RamFiltre"]}})
    assert "ComputFilter" in result["msg"] and "RamFiltre" in result["msg"]


def test_no_valid_host_says_what_each_lacked_and_what_would_help():
    result = place({"a": {**VM, "berth_flavor": "huge"}})
    assert (result["failed"], result["error_code"]) == (True, "NoValidHost")
    assert all("%s" % host in result["explanation"] for host in ("h1", "h2"))
    assert "would fit" in result["explanation"]


def test_plan_holds_no_secret():
    """I10: keys and user data go to the build only."""
    secret = {**VM, "berth_user_data": "#cloud-config\n# canary-secret\n", "berth_ssh_keys": []}
    result = place({"a": secret}, args={"plan": True})
    assert "canary-secret" not in json.dumps(result)


def test_receipt_is_written_for_its_owner_only(tmp_path):
    result = place({"a": VM}, args={"receipt_dir": str(tmp_path / "receipts")})
    path = Path(result["receipt_file"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["sha256"] == result["receipt"]["sha256"]


def test_receipt_replays_from_the_facts(tmp_path):
    result = place({"a": VM}, args={"receipt_dir": str(tmp_path)})
    fleet = read_fleet({name: {"document": facts(name)["berth_host"]} for name in ("h1", "h2")}, host_document.check)
    assert receipt.replay(result["receipt"], list(fleet.documents.values())).requests[0].hosts == [
        result["selections"]["a"]["host"]
    ]


@pytest.mark.parametrize(
    "wrong, hint", [("Active", "Did you mean active?"), (False, "one of active, stopped"), ("off", "active")]
)
def test_a_power_state_that_there_is_none_of_is_refused_by_name(wrong, hint):
    """YAML reads off as false."""
    result = place({"a": {**VM, "berth_state": wrong}, "b": VM})
    assert result["error_code"] == "InvalidInput" and "berth_state" in result["msg"] and hint in result["msg"]


def test_the_plan_says_which_definitions_are_to_be_mended_and_a_word_that_is_neither_yes_nor_no_stops_all():
    result = place({"a": {**VM, "berth_mend": "yes"}, "b": {**VM, "berth_mend": False}}, args={"plan": True})
    plan = result["ansible_facts"]["berth_plan"]
    assert [plan["instances"][name].get("mend") for name in "ab"] == [True, None]
    refused = place({"a": {**VM, "berth_mend": "now"}, "b": VM}, args={"plan": True})
    assert (refused["error_code"], refused["error"]["field"]) == ("InvalidInput", "berth_mend")


def test_the_plan_says_which_power_the_inventory_names():
    result = place({"a": {**VM, "berth_state": "stopped"}, "b": VM}, args={"plan": True})
    plan = result["ansible_facts"]["berth_plan"]
    assert [plan["instances"][name].get("berth_state") for name in "ab"] == ["stopped", None]


def test_an_instance_keeps_away_from_the_members_of_its_group_that_the_hosts_tell():
    """C13"""
    fuller = facts("h2", free_ram_mb=HOST["free_ram_mb"] - 1)
    known = {"h1": facts("h1", instances=[member("b", "pair")], num_instances=1), "h2": fuller}
    assert place({"a": VM}, more_facts=known)["selections"]["a"]["host"] == "h1"
    placed = place({"a": {**VM, "berth_server_group": "pair"}}, more_facts=known)
    assert placed["selections"]["a"]["host"] == "h2"
