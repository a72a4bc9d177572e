# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances are listed of what the hosts say, with which address and variables."""

from __future__ import annotations

import pytest
from told_instance import address, one

from ansible_collections.berth.kvm.plugins.module_utils.conductor.dynamic_inventory import PUBLISHED, listed
from ansible_collections.berth.kvm.plugins.plugin_utils.variables import KNOWN


@pytest.mark.parametrize(
    "change, names",
    [
        pytest.param({}, ["web-1"], id="owned-is-listed"),
        pytest.param({"foreign": True}, [], id="foreign-is-not"),
        pytest.param({"role": "CLAIM"}, [], id="a-claim-is-not"),
        pytest.param({"role": "OUT"}, [], id="the-source-of-a-move-is-not"),
    ],
)
def test_only_what_a_host_owns_is_listed(change, names):
    assert listed({"kvm1": [one("web-1", **change)]}, lambda name: None) == (
        {name: listed({"kvm1": [one(name)]}, lambda name: None)[0][name] for name in names},
        [],
    )


def test_an_instance_carries_its_host_by_inventory_name_and_what_it_is_now():
    variables = listed({"kvm1": [one("web-1", group="pair", zone="z1", batch_id="r-1")]}, lambda name: None)[0]["web-1"]
    assert {name: variables[name] for name in variables if name.startswith(("berth_present", "berth_kvm"))} == {
        "berth_kvm_host": "kvm1", "berth_present_flavor": "small", "berth_present_project": "default",
        "berth_present_batch": "r-1", "berth_present_server_group": "pair", "berth_present_zone": "z1", "berth_present_address": "",
        "berth_present_address_source": "",
    }  # fmt: skip


def test_no_variable_is_null_whatever_a_host_does_not_know():
    """TOML has no null: ansible-inventory --toml ended with a TypeError."""
    nothing = {"group": None, "zone": None, "phase": None, "power_state": None, "flavor": None, "address": None}
    for project in ("default", None):
        variables = listed({"kvm1": [one("web-1", **nothing, project_id=project)]}, lambda name: None)[0]["web-1"]
        assert all(isinstance(value, str) for value in variables.values()), variables


def test_the_address_that_people_named_comes_before_what_a_guest_or_a_host_knows():
    """A20"""
    known = {"address": {"address": "192.0.2.7", "source": "lease"}}

    def told(*texts):
        found = listed({"kvm1": [one("web-1", access_ips=list(texts), **known)]}, lambda name: None)[0]["web-1"]
        return found["berth_present_address"], found["berth_present_address_source"], found["ansible_host"]

    assert told("203.0.113.7", "2001:db8::7") == ("203.0.113.7", "access", "203.0.113.7")
    assert told("2001:db8::7") == ("2001:db8::7", "access", "2001:db8::7")
    assert told("127.0.0.1") == told() == ("192.0.2.7", "lease", "192.0.2.7")


def test_no_guest_takes_an_address_of_an_instance_that_is_reached_at_another():
    """An address of its own counts for it, whatever people said where it is reached."""
    web = one("web-1", access_ips=["203.0.113.7", "2001:db8::7"], address={"address": "192.0.2.7", "source": "static"})
    for text in ("192.0.2.7", "2001:db8::7", "203.0.113.7"):
        liar = one("web-2", address={"address": text, "source": "agent"})
        found = listed({"kvm1": [web], "kvm2": [liar]}, lambda name: None)[0]
        assert "ansible_host" not in found["web-2"], text
        assert ("ansible_host" in found["web-1"]) == (text != "203.0.113.7"), text


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_variable_that_is_published_is_known_to_the_playbooks(name):
    assert name in KNOWN


@pytest.mark.parametrize(
    "told, found",
    [
        ("192.0.2.11", "192.0.2.11"),
        ("2001:db8::7", "2001:db8::7"),
        ("127.0.0.1", None),
        ("::ffff:127.0.0.1", None),
        ("::1", None),
        ("0.0.0.0", None),
        ("169.254.1.1", None),
        ("fe80::1", None),
        ("224.0.0.1", None),
        ("255.255.255.255", None),
        ("1:2", None),
        (None, None),
    ],
)
def test_a_guest_is_reached_at_the_address_that_is_known_of_it_and_never_at_one_of_the_controller(told, found):
    variables = listed({"kvm1": [one("web-1", **address(told))]}, lambda name: None)[0]["web-1"]
    assert (variables.get("ansible_host"), variables["berth_present_address"] or None) == (found, found)


def test_an_address_that_two_instances_or_another_machine_have_is_nobodys():
    told = [one("a", **address("192.0.2.1")), one("b", **address("192.0.2.1")), one("c", **address("192.0.2.3"))]
    found = listed({"kvm1": [*told, one("d", **address("192.0.2.4"))]}, lambda name: None, ["192.0.2.3"])[0]
    assert [name for name, variables in found.items() if "ansible_host" in variables] == ["d"]
    assert found["a"]["berth_present_address"] == "192.0.2.1"


def test_the_address_that_the_inventory_has_for_an_instance_stays():
    known = {"web-1": {"berth_flavor": "large", "ansible_host": "web.example.org"}}
    found = listed({"kvm1": [one("web-1", **address("192.0.2.1"))]}, known.get)[0]["web-1"]
    assert "ansible_host" not in found and found["berth_present_address"] == "192.0.2.1"


@pytest.mark.parametrize("order", [["kvm1", "liar"], ["liar", "kvm1"]])
def test_of_two_hosts_that_own_one_name_neither_has_it_and_both_are_named(order):
    """A host that lies takes nobody's instance over; nor does the order of the answers decide."""
    hosts = {host: [one("web-1", project=host) if host == "other" else one("web-1")] for host in order}
    found, left_out = listed({**hosts, "kvm3": [one("db")]}, lambda name: None)
    assert list(found) == ["db"]
    assert [str(error) for error in left_out] == [
        "Instance web-1 is left out: kvm1 and liar each say that they own one of that name, so it is not known which host has it"
    ]


def test_an_instance_of_another_project_is_not_the_one_that_the_inventory_describes():
    described = {"web-1": {"berth_flavor": "large", "berth_project": "ours"}}
    hosts = {"kvm1": [one("web-1", project="ours")], "liar": [one("web-1", project="theirs")]}
    found, left_out = listed(hosts, described.get)
    assert found["web-1"]["berth_kvm_host"] == "kvm1"
    assert ["liar" in str(error) for error in left_out] == [True]


def test_of_an_instance_that_the_inventory_describes_a_host_tells_only_where_it_is_and_its_state():
    found, _left_out = listed({"kvm1": [one("web-1")]}, {"web-1": {"berth_flavor": "large"}}.get)
    assert set(found["web-1"]) == set(PUBLISHED)
