# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances get addresses of a pool: never one that another has, may have, or is claiming at this moment."""

from __future__ import annotations

import itertools
import random

import pytest
import runs_of_create
from runs_of_create import HOSTS

from ansible_collections.berth.kvm.plugins.module_utils.conductor import addressing
from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.commit import commit
from ansible_collections.berth.kvm.plugins.module_utils.model import address_clash, hints, nics
from ansible_collections.berth.kvm.plugins.module_utils.model.networks import ipaddress

TEN = ("192.0.2.10-192.0.2.19",)


def nic(pool=TEN, **more):
    parts = {"network": "lan", "type": "bridge", "source": "br0", "vlan": None, "mac": None, "address": None}
    return {**parts, "pool": pool and list(pool), "prefixlen": 24, **more}


def instance(name, *networks, **more):
    """To be placed, with a NIC on lan."""
    found = runs_of_create.instance(name, **more)
    found["spec"]["networks"] = list(networks or [nic()])
    return found


def wanted(*names):
    found = {name: instance(name) for name in names}
    for vm in found.values():
        del vm["state"]
    return found


def held(address, uuid="u-other", **where):
    return {nics.address(nic(**where), address): {uuid: "other on h1"}}


def address(vm, at=0):
    return (vm["spec"]["networks"][at]["address"] or "").partition("/")[0]


def test_instances_of_a_run_get_an_address_each():
    found = wanted(*"abcdefghij")
    addressing.give(found, {}, {})
    assert {address(vm) for vm in found.values()} == {"192.0.2.%d" % last for last in range(10, 20)}
    assert found["a"]["spec"]["networks"][0]["address"].endswith("/24")
    assert not any("state" in vm for vm in found.values())


def test_those_for_which_none_is_left_are_refused_before_placement_with_the_numbers():
    found = wanted(*"abcdefghijkl")
    addressing.give(found, {}, {})
    errors = [vm["error"] for vm in found.values() if vm.get("state") == rounds.FAILED]
    assert [error["code"] for error in errors] == ["AddressPoolExhausted"] * 2
    assert (errors[0]["size"], errors[0]["free"]) == (
        10,
        0,
    ) and "none of the 10 addresses in its pool is left" in errors[0]["message"]


def test_what_any_host_tells_is_taken_also_under_another_network_of_the_same_bridge():
    for last in range(10, 20):
        found = wanted("a")
        addressing.give(found, held("192.0.2.%d" % last), {})
        assert address(found["a"]) != "192.0.2.%d" % last
    addressing.give(found, held("192.0.2.10", vlan=7), {})
    assert address(found["a"])


def test_two_nics_on_one_network_have_two_addresses():
    vm = instance("a", nic(["192.0.2.1-192.0.2.2"]), nic(["192.0.2.1-192.0.2.2"]))
    addressing.give({"a": vm}, {}, {})
    assert {address(vm), address(vm, 1)} == {"192.0.2.1", "192.0.2.2"}


def test_a_claim_that_an_ended_run_left_keeps_its_address():
    vm = instance("a")
    addressing.give({"a": vm}, held("192.0.2.13", "u-a"), {})
    assert address(vm) == "192.0.2.13"


def test_an_instance_that_is_there_keeps_its_address_though_the_pool_has_changed():
    vm = instance("a", state=rounds.EXISTING, existing=True)
    addressing.give({"a": vm}, held("192.0.2.99", "u-a"), {"h9": "UNREACHABLE"})
    assert (address(vm), vm["state"]) == ("192.0.2.99", rounds.EXISTING)


def test_each_nic_of_an_instance_that_is_there_keeps_its_own_address():
    fixed = nic(None, address="192.0.2.12/24")
    vm = instance("a", fixed, nic(), nic(), nic(), state=rounds.EXISTING, existing=True)
    has = {**held("192.0.2.12", "u-a"), **held("192.0.2.17", "u-a"), **held("192.0.2.11", "u-a")}
    addressing.give({"a": vm}, has, {})
    assert [address(vm, at) for at in range(4)] == ["192.0.2.12", "192.0.2.17", "192.0.2.11", ""]


@pytest.mark.parametrize("existing", [True, False])
def test_only_the_host_that_has_an_instance_says_which_address_it_has(existing):
    """Another one that says it has a claim of it would choose what its seed says."""
    vm = instance("a", state=rounds.EXISTING if existing else rounds.CLAIMING, existing=existing, host="h1")
    told = {
        host: [{"uuid": "u-a", "name": "a", "nics": list(held(said, "u-a"))}]
        for host, said in (("h0", "192.0.2.12"), ("h1", "192.0.2.13"), ("h2", "192.0.2.11"))
    }
    addressing.give({"a": vm}, addressing.held_by({"a": vm}, told), {})
    assert address(vm) == "192.0.2.13"


def test_no_address_is_given_while_a_host_is_silent_whose_instances_may_have_it():
    found = {**wanted("a"), "b": instance("b", nic(pool=None))}
    addressing.give(found, {}, {"h9": "UNREACHABLE: no route"})
    assert found["a"]["error"]["code"] == "AddressesUnknown" and "h9" in found["a"]["error"]["message"]
    assert found["a"]["error"]["hint"] == hints.bring_back_or_lost(["h9"])
    assert found["b"]["state"] == rounds.CLAIMING, "who needs none is not held up"


def test_a_host_that_falls_silent_before_the_second_look_may_have_given_the_address_away():
    plan = rounds.new_plan("r1", {"a": instance("a")}, {host: {"uuid": host} for host in HOSTS}, 3)
    addressing.give(plan["instances"], {}, {})
    rounds.prepare_round(plan, lambda: "t1")
    scans = {host: {"host_uuid": host, "instances": []} for host in ("h1", "h2")}
    scans["h1"]["instances"] = [{"uuid": "u-a", "name": "a", "role": "CLAIM", "token": "t1", "nics": []}]
    claims = {"h1": {"results": [{"uuid": "u-a", "claimed": True}]}}
    commit(plan, claims, {**scans, "h3": {"reason": "UNREACHABLE"}})
    assert plan["instances"]["a"]["error"]["code"] == "AddressesUnknown"
    assert plan["withdraw"] == {"h1": [{"uuid": "u-a", "token": "t1"}]} and not plan["build"]


class Host(runs_of_create.Host):
    """It refuses an address that one of its own instances has, and tells what each has."""

    def claim(self, claims, withdraw=()):
        super().claim((), withdraw)
        results = []
        for entry in claims:
            clash = address_clash.clash(entry["spec"], address_clash.index(self.records.values()))
            if clash:
                results.append({"uuid": entry["spec"]["uuid"], "claimed": False, "error": clash.to_dict()})
                continue
            results += super().claim([entry])["results"]
            record = self.records[entry["spec"]["uuid"]]
            record.update(name=entry["spec"]["name"], nics=nics.taken(entry["spec"]["networks"]))
        return {"results": results}


def run(name, hosts, tokens):
    """A run that creates one instance; it reads the hosts first, as the others go on."""
    known = addressing.addresses({host: list(found.records.values()) for host, found in hosts.items()})
    yield
    vm = instance(name, host=random.Random(name).choice(HOSTS))
    addressing.give({name: vm}, known, {})
    plan = runs_of_create.a_plan(vm, run="run-" + name)
    yield from runs_of_create.steps(plan, hosts, tokens, most=20)
    return vm


@pytest.mark.parametrize("seed", range(40))
def test_sixteen_runs_at_once_never_give_one_of_ten_addresses_twice(seed):
    chance, hosts = random.Random(seed), {name: Host(name, capacity=99) for name in HOSTS}
    tokens = ("%06x" % chance.randrange(1 << 24) for _n in itertools.count())
    runs = [run("web-%d" % number, hosts, tokens) for number in range(16)]
    ended = []
    while runs:
        current = chance.choice(runs)
        try:
            next(current)
        except StopIteration as end:
            ended.append(end.value)
            runs.remove(current)
    records = [record for host in hosts.values() for record in host.records.values()]
    given = [word for record in records for word in record["nics"]]
    assert len(set(given)) == len(given) <= 10
    assert all(record["role"] == "OWN" for record in records), "no claim is left behind"
    failed = [vm["error"]["code"] for vm in ended if vm["state"] != rounds.ACTIVE]
    assert len(failed) + len(records) == 16 and set(failed) <= {"AddressPoolExhausted", "AddressTaken"}
    assert len(records) >= 5, "most of those that could have one have one"


@pytest.mark.parametrize("host", ["h1", "h2"], ids=["whose host refuses the claim", "that sees it on another host"])
def test_of_two_runs_that_chose_the_same_one_takes_another(host):
    hosts = {name: Host(name) for name in HOSTS}
    tokens = ("%06x" % number for number in itertools.count())
    first_vm, two = instance("a"), instance("b", host=host)
    for each in (first_vm, two):
        each["spec"]["networks"][0]["address"] = "192.0.2.10/24"
    first, second = (runs_of_create.steps(runs_of_create.a_plan(each), hosts, tokens) for each in (first_vm, two))
    list(first)
    list(second)
    assert (first_vm["state"], two["state"]) == (rounds.ACTIVE, rounds.ACTIVE)
    assert address(first_vm) == "192.0.2.10" != address(two)


@pytest.mark.parametrize("host", ["h1", "h2"], ids=["whose host refuses the claim", "that sees it on another host"])
def test_who_chooses_again_takes_no_address_that_the_inventory_gives_to_an_instance_to_come(host):
    hosts = {name: Host(name) for name in HOSTS}
    tokens = ("%06x" % number for number in itertools.count())
    two = ["192.0.2.10-192.0.2.11"]
    first, second = instance("a", nic(two)), instance("b", nic(two), host=host)
    for each in (first, second):
        each["spec"]["networks"][0]["address"] = "192.0.2.10/24"
    fixed = {nics.address(nic(), "192.0.2.11"): {"db": "db"}, nics.address(nic(), "192.0.2.99"): {"db2": "db2"}}
    plan = runs_of_create.a_plan(second)
    plan["kept_addresses"] = addressing.reserved({"b": second}, fixed)
    assert list(plan["kept_addresses"]) == [nics.address(nic(), "192.0.2.11")], "only what its pool could give"
    list(runs_of_create.steps(runs_of_create.a_plan(first), hosts, tokens))
    list(runs_of_create.steps(plan, hosts, tokens))
    assert second["error"]["code"] in ("AddressTaken", "NoValidHost"), second
    assert all("u-b" not in found.records for found in hosts.values())


def test_of_a_large_fleet_each_address_is_read_once_and_only_those_on_a_network_with_a_pool(monkeypatch):
    pools = [nic(("192.0.%d.1-192.0.%d.99" % (at, at),), source="br%d" % at) for at in range(9)]
    held = {nics.address(nic(source="br0"), "192.0.0.%d" % at): {"u": "u"} for at in range(200)}
    held.update({nics.address(nic(source="none"), "192.0.0.%d" % at): {"u": "u"} for at in range(200)})
    read = []
    found = ipaddress.ip_address
    monkeypatch.setattr(ipaddress, "ip_address", lambda text: read.append(text) or found(text))
    assert len(addressing.reserved({"a": instance("a", *pools)}, held)) == 99
    assert len(read) <= 200 + 2 * len(pools)


@pytest.mark.parametrize("said", ["x", "192.0.2.10/24", "::c000:20a", "192.0.2.300", "fe80::1%eth0", ""])
def test_what_a_host_calls_an_address_and_is_none_of_the_pool_is_not_given(said):
    """A host that says it has a claim of this instance; ::c000:20a is the same number as 192.0.2.10."""
    found = wanted("a")
    lie = {"address %s on bridge br0" % said: {"u-a": "a on h1"}}
    addressing.give(found, lie, {})
    assert "state" not in found["a"] and address(found["a"]).startswith("192.0.2.1")
    assert addressing.choose_again(found["a"], lie, {}) and address(found["a"]).startswith("192.0.2.1")


def test_what_a_guest_without_a_record_has_is_nobody_elses_on_any_host():
    """After the claims hosts tell only of their records."""
    mac = "MAC address 02:00:00:00:00:0a"
    guest = {"uuid": "u-lost", "name": "lost", "foreign": True, "nics": [nics.address(nic(), "192.0.2.10"), mac]}
    guests = addressing.of_guests(
        {"h3": [guest, {**guest, "uuid": "u-x", "foreign": False, "nics": ["MAC address x"]}]}
    )
    assert list(guests) == guest["nics"]
    taken = [nic(pool=None, address="192.0.2.10/24"), nic(pool=None, mac="02:00:00:00:00:0A")]
    found = {"fixed": instance("fixed", taken[0]), "mac": instance("mac", taken[1]), "lost": instance("lost", *taken)}
    found["there"] = instance("there", taken[0], state=rounds.EXISTING, existing=True)
    addressing.refuse_taken(found, guests)
    failed = {name: vm["error"]["code"] for name, vm in found.items() if vm["state"] == rounds.FAILED}
    assert failed == {"fixed": "AddressTaken", "mac": "AddressTaken"}
    assert "lost on h3" in found["fixed"]["error"]["message"]


def test_the_fixed_addresses_of_an_instance_of_the_inventory_count_before_it_is_there():
    networks = {"lan": nic()}
    none = {"address": None, "mac": None}
    mac = "02:00:00:00:00:0A"
    given = [
        {"network": "lan", **none, "address": "192.0.2.10/24"},
        {"network": "typo", **none, "address": "192.0.2.11"},
        {"network": "lan", **none, "mac": mac},
    ]
    expected = dict.fromkeys([nics.address(nic(), "192.0.2.10"), nics.mac(mac)], {"db": "db"})
    assert addressing.fixed(given, networks, "db") == expected
