# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance is judged by its own variables and by what all share: the same whatever --limit selects and whoever decides."""

from __future__ import annotations

import itertools

import pytest
from ansible.template import trust_as_template
from held_case import held
from placement_case import CATALOG, VM, controller, facts

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, place_instances, whose_variables

# Two teams with catalogs of their own: the same names, other things.
FLAVORS = {"tiny": {"vcpus": 2, "memory_mb": 256, "root_gb": 1}}
NETWORKS = {"lan": {"type": "bridge", "source": "br7", "cidr": "198.51.100.0/24"}}
OURS = {**VM, "berth_networks": [{"network": "lan"}]}
THEIRS = {**OURS, "berth_flavors": FLAVORS, "berth_networks_defined": NETWORKS}
TWO = {"a": OURS, "b": THEIRS}
# Variable -> a value that all may have, and another.
SHARED = {
    "berth_quotas": ({"default": {"cores": 9}}, {"default": {"cores": 8}}),
    "berth_placement": ({"max_attempts": 2}, {"max_attempts": 3}),
    "berth_server_groups": ({"pair": {"policy": "affinity"}}, {"pair": {"policy": "anti-affinity"}}),
    "berth_aggregates": ({"fast": {"hosts": ["h1"]}}, {"fast": {"hosts": ["h2"]}}),
    "berth_lost_hosts": (["h8"], ["h9"]),
    "berth_strict_uniqueness": (True, False),
    "berth_without_majority": (True, False),
}


def decide(instances, selected=None, decider="localhost", variables=None, silent=(), **args):
    """placement for ``selected``, as ``decider`` runs it: the first of them under --limit."""
    it = controller(instances, variables, silent=silent)
    values = it.variable_manager.get_vars(play=it.play, host=it.inventory.get_host(decider))
    values = {**values, "hostvars": it.hostvars, "ansible_play_hosts_all": list(selected or [decider])}
    return it.run("placement", {"instances": list(selected or instances), **args}, values)


def test_two_instances_of_one_run_have_catalogs_of_their_own():
    result = decide(TWO)["selections"]
    assert [result[name]["allocation"]["vcpus"] for name in "ab"] == [1, 2]


@pytest.mark.parametrize("name", TWO)
def test_the_decision_on_an_instance_is_the_same_with_any_limit_and_any_decider(name):
    """Each is alone on its hosts in the facts, so only the variables could tell the runs apart."""
    runs = [
        decide(TWO, selected, decider, plan=True)["ansible_facts"]["berth_plan"]["instances"][name]["spec"]
        for selected, decider in [
            ([name], name), ([name], "localhost"), (["a", "b"], "a"), (["b", "a"], "b"), (["a", "b"], "localhost"),
        ]
    ]  # fmt: skip
    for spec in runs:
        spec.pop("batch_id")
    assert all(spec == runs[0] for spec in runs)
    assert runs[0]["networks"][0]["source"] == {"a": "br0", "b": "br7"}[name]


@pytest.mark.parametrize("variable", SHARED)
@pytest.mark.parametrize("selected, decider", [(["a"], "a"), (["b"], "b"), (["c"], "c"), (None, "localhost")])
def test_what_is_shared_must_be_the_same_for_all_instances_also_those_that_are_not_selected(
    variable, selected, decider
):
    first, other = SHARED[variable]
    instances = {"a": {**VM, variable: first}, "b": {**VM, variable: other}, "c": {**VM, variable: first}}
    result = decide(instances, selected, decider)
    assert result.get("error_code") == "SharedVariableDiffers"
    assert result["error"]["field"] == variable
    assert "%s is not the same for a and b" % variable in result["msg"]


@pytest.mark.parametrize("variable", SHARED)
def test_one_that_has_it_and_one_that_has_not_differ(variable):
    value = SHARED[variable][0]
    assert decide({"a": VM, "b": {**VM, variable: value}}).get("error_code") == "SharedVariableDiffers"


@pytest.mark.parametrize("variable", SHARED)
def test_one_that_localhost_alone_has_would_decide_only_without_a_limit(variable):
    it = controller({"a": VM})
    it.inventory.get_host("localhost").set_variable(variable, SHARED[variable][0])
    result = it.run("placement", {"instances": ["a"]})
    assert "%s is not the same for a and localhost" % variable in result.get("msg", "")


@pytest.mark.parametrize(
    "first, other",
    [
        (SHARED["berth_quotas"][0], trust_as_template("{{ mine }}")),
        (trust_as_template("{{ mine }}"), trust_as_template("{{ mine }}")),
        ({"default": {"cores": trust_as_template("{{ 4 + 5 }}")}}, SHARED["berth_quotas"][0]),
    ],
)
def test_templates_are_compared_by_what_they_mean(first, other):
    mine = {"mine": SHARED["berth_quotas"][0]}
    instances = {"a": {**VM, **mine, "berth_quotas": first}, "b": {**VM, **mine, "berth_quotas": other}}
    assert set(decide(instances)["selections"]) == {"a", "b"}


def test_one_template_that_means_two_things_is_refused():
    quotas = trust_as_template("{{ mine }}")
    instances = {
        name: {**VM, "mine": {"default": {"cores": cores}}, "berth_quotas": quotas}
        for name, cores in (("a", 1), ("b", 2))
    }
    assert decide(instances, ["b"], "b").get("error_code") == "SharedVariableDiffers"


def test_absent_and_empty_are_the_same():
    assert set(decide({"a": VM, "b": {**VM, "berth_quotas": {}, "berth_aggregates": None}})["selections"]) == {"a", "b"}


def test_hosts_that_are_no_instances_have_no_say(monkeypatch):
    """Also where -e gives a flavor to all hosts, as in a resize."""
    quotas = {"berth_quotas": SHARED["berth_quotas"][0]}
    for given in ({}, {"berth_flavor": "tiny"}):
        monkeypatch.setattr(whose_variables, "load_extra_vars", lambda loader, given=given: given)
        it = controller({"a": {**VM, **quotas}}, given)
        it.inventory._inventory.add_host("laptop", group="all")
        it.inventory.get_host("h1").set_variable("berth_quotas", SHARED["berth_quotas"][1])
        it.inventory.reconcile_inventory()
        assert set(it.run("placement", {"instances": ["a"]})["selections"]) == {"a"}


def test_an_instance_is_one_also_where_a_flavor_is_given_to_all_hosts(monkeypatch):
    given = {"berth_flavor": "tiny"}
    monkeypatch.setattr(whose_variables, "load_extra_vars", lambda loader: given)
    instances = {"a": VM, "b": {**VM, "berth_quotas": SHARED["berth_quotas"][0]}}
    assert decide(instances, ["a"], "a", variables=given).get("error_code") == "SharedVariableDiffers"


def test_the_quota_of_the_instances_holds_also_where_localhost_decides():
    quota = {"berth_quotas": {"default": {"cores": 1}}}
    for selected, decider in ((["a", "b"], "a"), (None, "localhost")):
        result = decide({"a": {**VM, **quota}, "b": {**VM, **quota}}, selected, decider)
        assert (list(result["selections"]), result["failures"]["b"]["code"]) == (["a"], "QuotaExceeded")


@pytest.mark.parametrize("asked", [True, None])
def test_the_doctor_knows_for_which_instances_without_a_packet_filter_the_inventory_asks_for_one(asked):
    mac = "02:00:00:00:00:01"
    web = {**VM, "berth_networks": [{"network": "lan", "mac": mac, **({"port_security": asked} if asked else {})}]}
    more = {"h1": facts("h1", instances=[held(unfiltered=[mac])], num_instances=1)}
    found = controller({"web1": web}, more_facts=more).run("doctor", {"asked": [1.0, 2.0]})["findings"]
    assert [one["code"] for one in found] == (["PacketFilterMissing"] if asked else [])


@pytest.mark.parametrize("allowed, made", [(2, ["a", "b"]), (1, ["a"])])
def test_a_volume_that_no_host_has_is_known_as_new_before_the_quota_is_asked(allowed, made):
    """A04."""
    shared = {"berth_volumes_defined": {name: {"size_gb": 1} for name in "ab"}}
    shared["berth_quotas"] = {"default": {"volumes": allowed}}
    result = decide({name: {**VM, **shared, "berth_volumes": [name]} for name in "ab"})
    assert list(result["selections"]) == made
    assert [error["overs"] for error in result["failures"].values()] == [["volumes"]] * (2 - allowed)


def test_the_claims_are_counted_against_the_quota_of_the_instances(monkeypatch):
    """The decider has none of its own."""
    quota = {"default": {"cores": 1}}
    it = controller({"a": {**VM, "berth_quotas": quota}})
    plan = it.run("placement", {"instances": ["a"], "plan": True})["ansible_facts"]["berth_plan"]
    it.variable_manager.set_host_facts("localhost", {"berth_plan": plan})
    seen = []
    monkeypatch.setattr(place_instances, "after_the_claims", seen.append)
    monkeypatch.setattr(delegates, "run_on", lambda hosts, *given: {host: {"changed": False} for host in hosts})
    it.run("create_instances", {"may_fail": True}, {**it.task_vars(), "inventory_hostname": "a"})
    assert [{name: limits["cores"] for name, limits in quotas.items()} for quotas in seen] == [{"default": 1}]


@pytest.mark.parametrize("selected", [["a"], ["b"], ["a", "b"]])
def test_an_alias_of_a_device_is_the_instances_own(selected):
    flavors = {"tiny": {**CATALOG["berth_flavors"]["tiny"], "extra_specs": {"pci_passthrough:alias": "gpu:1"}}}
    instances = {
        name: {
            **VM,
            "berth_flavors": flavors,
            "berth_pci_aliases": {"gpu": [{"vendor_id": vendor, "product_id": "1234"}]},
        }
        for name, vendor in (("a", "10de"), ("b", "1002"))
    }
    plan = decide(instances, selected, plan=True)["ansible_facts"]["berth_plan"]["instances"]
    vendors = {name: entry["spec"]["pci_requests"][0]["spec"][0]["vendor_id"] for name, entry in plan.items()}
    assert vendors == {name: {"a": "10de", "b": "1002"}[name] for name in selected}


def test_a_catalog_is_read_once_for_all_that_have_the_same(monkeypatch):
    read = []
    whole = whose_variables.Catalog.from_variables
    monkeypatch.setattr(
        whose_variables.Catalog, "from_variables", classmethod(lambda cls, given: read.append(given) or whole(given))
    )
    names = ["%s%d" % pair for pair in itertools.product("ab", range(5))]
    result = decide({name: TWO[name[0]] for name in names})
    assert set(result["selections"]) | set(result["failures"]) == set(names)
    assert len(read) == 3  # what is shared, ours, theirs


def test_the_instances_are_known_by_their_own_uuid():
    assert decide(TWO)["selections"]["b"]["uuid"] == instance_uuid("default", "b")
