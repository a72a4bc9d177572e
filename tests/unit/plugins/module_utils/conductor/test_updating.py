# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An update claims new addresses in the records before any guest has them, and of two runs that claim one, at least one gives way."""

from __future__ import annotations

import copy
import json

import pytest
from procedure_case import played

from ansible_collections.berth.kvm.plugins.module_utils.conductor import addressing, drift, updating
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import AddressesUnknown, AddressPoolExhausted
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import update, update_disks
from ansible_collections.berth.kvm.plugins.module_utils.model import nics, updates
from ansible_collections.berth.kvm.plugins.module_utils.model.address_clash import AddressTaken
from ansible_collections.berth.kvm.plugins.module_utils.model.request_digest import digests

UUID, OTHER = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "1b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
FIRST = {"network": "lan", "type": "bridge", "source": "br0", "mac": nics.own_mac(UUID, 0), "address": "192.0.2.10/24"}
NEW = {**FIRST, "network": "dmz", "source": "br1", "mac": nics.own_mac(UUID, 1), "address": "198.51.100.5/24"}
POOL = ["198.51.100.5-198.51.100.6"]
HAS = nics.taken([FIRST])


def instance(*networks, **more):
    spec = {
        "uuid": UUID,
        "name": "web1",
        "project_id": "default",
        "flavor": {},
        "networks": copy.deepcopy(list(networks)),
        **more,
    }
    return {"name": "web1", "uuid": UUID, "project": "default", "spec": spec, "state": "CLAIMING"}


def task(*networks):
    one = instance(*networks)
    only = addressing.only_new(one, HAS)
    found = {"uuid": UUID, "hosts": ["h1"], "spec": one["spec"], "only_new": only if only["spec"]["networks"] else None}
    return json.loads(json.dumps(found))  # as a fact


def run(kept=(), dry=False):
    return update.Run(update_disks.Run(str, ["h1", "h2"], dry=dry), lambda name, spec: {"hostname": name}, dict(kept))


def scan(host, *records):
    return {("%s" % host, host): {"host_uuid": host, "instances": list(records), "notes": {}}}


def record(uuid, *networks, name="web1"):
    return {"uuid": uuid, "name": name, "nics": nics.taken(networks)}


def only_claims(asked):
    """(what the hosts were told to write before the guest, what they were told to bring about): the MAC addresses of each"""
    told = [step.arguments["web1"] for step in asked if step.module == "instance"]

    def macs(given):
        return [nic["mac"] for nic in given["spec"]["networks"]]

    return [macs(each) for each in told if each.get("only_claim")], [macs(each) for each in told if "seed" in each]


# ---- which NICs are new ----------------------------------------------------------------------------------------------


def test_a_nic_that_the_instance_has_is_not_new_and_keeps_its_address_from_the_pool():
    pooled = {**FIRST, "address": None, "pool": ["192.0.2.10-192.0.2.99"], "prefixlen": 24}
    one = instance(pooled)
    assert addressing.only_new(one, HAS)["spec"]["networks"] == []
    assert one["spec"]["networks"][0]["address"] == "192.0.2.10/24"


@pytest.mark.parametrize(
    "nic",
    [NEW, {**FIRST, "address": "192.0.2.11/24"}, {**FIRST, "source": "br9"}, {**FIRST, "vlan": 7}],
    ids=["another NIC", "another address", "another bridge", "another VLAN"],
)
def test_a_nic_with_an_address_that_the_instance_does_not_have_there_is_new(nic):
    assert addressing.only_new(instance(FIRST, nic), HAS)["spec"]["networks"][-1] == nic


def test_a_new_nic_never_gets_the_address_of_another_nic_of_the_instance():
    """Also where the new one comes first in the list."""
    new = {
        **FIRST,
        "mac": nics.own_mac(UUID, 7),
        "address": None,
        "pool": ["192.0.2.10-192.0.2.11"],
        "prefixlen": 24,
    }
    one = instance(new, FIRST)
    only = addressing.only_new(one, HAS)
    addressing.give_new(only, HAS, addressing.addresses({"h1": [record(UUID, FIRST)]}), {})
    assert one["spec"]["networks"][0]["address"] == "192.0.2.11/24"


def test_none_is_chosen_while_a_host_is_silent_and_none_that_is_taken():
    only = addressing.only_new(instance(FIRST, NEW), HAS)
    with pytest.raises(AddressesUnknown):
        addressing.give_new(only, HAS, {}, {"h2": "UNREACHABLE"})
    with pytest.raises(AddressTaken, match="db1"):
        addressing.give_new(only, HAS, addressing.addresses({"h2": [record(OTHER, NEW, name="db1")]}), {})


def test_an_exhausted_pool_is_told():
    pooled = {**NEW, "address": None, "pool": ["198.51.100.5-198.51.100.5"], "prefixlen": 24}
    only = addressing.only_new(instance(FIRST, pooled), HAS)
    with pytest.raises(AddressPoolExhausted):
        addressing.give_new(only, HAS, addressing.addresses({"h2": [record(OTHER, NEW, name="db1")]}), {})


# ---- the order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed, left",
    [
        ({**FIRST, "address": "192.0.2.11/24", "address6": "2001:db8::5/64"}, ["192.0.2.10/24", None]),
        ({**NEW, "mac": FIRST["mac"]}, [None, None]),
    ],
    ids=["another address", "another network"],
)
def test_a_nic_of_the_guest_that_does_not_get_its_new_address_stays_without_it(changed, left):
    """A record without the NIC would have the running guest release it."""
    said = {**scan("h1", record(UUID, changed)), ("h2", "h2"): {"reason": "UNREACHABLE"}}
    done, asked, _told = played(update.update({"web1": task(changed)}, {}, run()), said)
    assert done["web1"].errors[0]["code"] == "AddressesUnknown"
    last = [step.arguments["web1"] for step in asked if step.module == "instance"][-1]["spec"]["networks"]
    parts = ("mac", "address", "address6")
    assert [[nic.get(part) for part in parts] for nic in last] == [[FIRST["mac"], *left]]


def test_new_addresses_are_claimed_then_all_hosts_are_read_then_the_guest_gets_them():
    said = {**scan("h1", record(UUID, FIRST, NEW)), **scan("h2")}
    done, asked, _told = played(update.update({"web1": task(FIRST, NEW)}, {}, run()), said)
    assert [step.module for step in asked] == ["instance", "rescan", "instance"] and done["web1"].changed
    claimed, brought = only_claims(asked)
    assert claimed == brought == [[FIRST["mac"], NEW["mac"]]]


def test_without_a_new_address_nothing_is_claimed_and_in_check_mode_neither():
    for asked_of, how in ((task(FIRST), run()), (task(FIRST, NEW), run(dry=True))):
        _done, asked, _told = played(update.update({"web1": asked_of}, {}, how))
        assert [step.module for step in asked] == ["instance"] and only_claims(asked)[0] == []


def test_who_loses_a_fixed_address_gets_it_out_of_the_record_and_its_guest_gets_nothing():
    said = {**scan("h1", record(UUID, FIRST, NEW)), **scan("h2", record(OTHER, NEW, name="db1"))}
    done, asked, _told = played(update.update({"web1": task(FIRST, NEW)}, {}, run()), said)
    assert [error["code"] for error in done["web1"].errors] == ["AddressTaken"]
    assert only_claims(asked) == ([[FIRST["mac"], NEW["mac"]], [FIRST["mac"]]], [])


def test_who_loses_an_address_of_a_pool_gets_another():
    pooled = {**NEW, "pool": POOL, "prefixlen": 24}
    said = {**scan("h1"), **scan("h2", record(OTHER, {**NEW, "mac": nics.own_mac(OTHER, 0)}, name="db1"))}
    done, asked, _told = played(update.update({"web1": task(FIRST, pooled)}, {}, run()), said)
    given = [step.arguments["web1"]["spec"]["networks"][1]["address"] for step in asked if step.module == "instance"]
    assert not done["web1"].errors and given == ["198.51.100.5/24", "198.51.100.6/24", "198.51.100.6/24"]
    claimed, brought = only_claims(asked)
    assert len(claimed) == 2 and len(brought) == 1


def test_a_host_that_falls_silent_after_the_claim_gives_nobody_an_address():
    said = {**scan("h1", record(UUID, FIRST, NEW)), ("h2", "h2"): {"reason": "UNREACHABLE: no route"}}
    done, asked, _told = played(update.update({"web1": task(FIRST, NEW)}, {}, run()), said)
    assert [error["code"] for error in done["web1"].errors] == ["AddressesUnknown"] and only_claims(asked)[1] == []


def test_a_host_that_refuses_the_claim_is_asked_for_nothing_more():
    refused = {"changed": False, "error": {"code": "AddressTaken", "message": "taken"}}
    said = {**scan("h1"), **scan("h2"), ("h1", "web1"): refused}
    done, asked, _told = played(update.update({"web1": task(FIRST, NEW)}, {}, run()), said)
    assert [error["code"] for error in done["web1"].errors] == ["AddressTaken"] and only_claims(asked)[1] == []


# ---- what then still differs -----------------------------------------------------------------------------------------


def test_a_flavor_gets_the_limits_of_its_name_and_nothing_else():
    has = {"name": "m1", "vcpus": 1, "extra_specs": {"hw:x": "1", "quota:cpu_shares": "5"}}
    wanted = {"name": "m1", "vcpus": 2, "extra_specs": {"hw:x": "2", "quota:cpu_quota": "9000"}}
    assert updates.with_limits(has, wanted) == {
        "name": "m1",
        "vcpus": 1,
        "extra_specs": {"hw:x": "1", "quota:cpu_quota": "9000"},
    }
    assert updates.with_limits(has, {**wanted, "name": "m2"}) == has


def test_what_an_update_brings_differs_no_more_and_the_image_does():
    wanted = {
        "networks": [NEW],
        "metadata": {"a": "b"},
        "image": {"name": "new"},
        "flavor": {"name": "m1"},
        "group": {"name": "g"},
    }
    place = {
        "request_digests": {"networks": "x", "metadata": "x", "image": "x"},
        "nics": [],
        "content": None,
        "group": None,
    }
    left = updating.as_left(place, wanted)
    assert left["request_digests"]["image"] == "x" and left["group"] == "g" and left["nics"] == nics.taken([NEW])
    assert left["request_digests"]["networks"] != "x" and left["request_digests"]["metadata"] != "x"


@pytest.mark.parametrize("networks, differs", [([FIRST, NEW], False), ([FIRST], True)])
def test_of_a_nic_that_an_update_adds_nobody_is_told_that_the_inventory_says_other_security_groups(networks, differs):
    """That of a NIC that stays follows the inventory in a create."""
    has = {**digests({"networks": [FIRST]}), "security_groups": "x"}
    wanted = {"networks": networks, "flavor": {"name": "m1"}}
    place = {"request_digests": has, "nics": HAS, "content": None, "group": None}
    left = updating.as_left(place, wanted)
    assert bool(drift.of_security_groups("web1", left, wanted)) is differs
