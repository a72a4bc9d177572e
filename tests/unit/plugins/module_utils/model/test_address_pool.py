# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool of a network: what it may give, and that it gives the same to the same."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import address_pool
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog_schema import NETWORKS
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput


def network(cidr="192.0.2.0/24", **more):
    return NETWORKS.check({"lan": {"type": "bridge", "source": "br0", "cidr": cidr, **more}}, "nets")["lan"]


GIVEN = {
    "all of it but its own, the broadcast, the gateway's and the name servers' addresses": (
        network("192.0.2.0/29", gateway="192.0.2.1", nameservers=["192.0.2.3", "9.9.9.9"], pool={}),
        ["192.0.2.2-192.0.2.2", "192.0.2.4-192.0.2.6"],
    ),
    "ranges that overlap and touch, once": (
        network(pool={"ranges": ["192.0.2.20-192.0.2.30", "192.0.2.25-192.0.2.40", "192.0.2.41"]}),
        ["192.0.2.20-192.0.2.41"],
    ),
    "a range without what is excluded": (
        network(pool={"ranges": ["192.0.2.0/28"], "exclude": ["192.0.2.4-192.0.2.7", "192.0.2.15"]}),
        ["192.0.2.1-192.0.2.3", "192.0.2.8-192.0.2.14"],
    ),
    "both addresses of a link": (network("192.0.2.0/31", pool={}), ["192.0.2.0-192.0.2.1"]),
    "IPv6, where the first address is the routers'": (
        network("2001:DB8::/126", pool={}),
        ["2001:db8::1-2001:db8::3"],
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_a_pool_has(case):
    lan, expected = GIVEN[case]
    assert address_pool.ranges(lan) == expected


BAD = {
    "no cidr": ({"cidr": None, "pool": {}}, "nets.lan.cidr"),
    "a range outside the cidr": ({"pool": {"ranges": ["192.0.3.1-192.0.3.9"]}}, "nets.lan.pool.ranges[0]"),
    "a range that ends outside": ({"pool": {"ranges": ["192.0.2.9-192.0.3.9"]}}, "nets.lan.pool.ranges[0]"),
    "a range that is larger than the cidr": ({"pool": {"ranges": ["192.0.0.0/16"]}}, "nets.lan.pool.ranges[0]"),
    "a range backwards": ({"pool": {"ranges": ["192.0.2.9-192.0.2.1"]}}, "nets.lan.pool.ranges[0]"),
    "two kinds of addresses": ({"pool": {"ranges": ["192.0.2.9-2001:db8::1"]}}, "nets.lan.pool.ranges[0]"),
    "IPv6 in IPv4": ({"pool": {"exclude": ["2001:db8::1"]}}, "nets.lan.pool.exclude[0]"),
    "an address of a link": ({"pool": {"ranges": ["fe80::1%eth0"]}}, "nets.lan.pool.ranges[0]"),
    "no address": ({"pool": {"ranges": ["lan"]}}, "nets.lan.pool.ranges[0]"),
    "a range without its end": ({"pool": {"ranges": ["192.0.2.10-"]}}, "nets.lan.pool.ranges[0]"),
    "a range with a blank for its end": ({"pool": {"exclude": ["192.0.2.10 - "]}}, "nets.lan.pool.exclude[0]"),
    "a range without its beginning": ({"pool": {"ranges": ["-192.0.2.10"]}}, "nets.lan.pool.ranges[0]"),
    "a number": ({"pool": {"ranges": [7]}}, "nets.lan.pool.ranges[0]"),
    "a typo": ({"pool": {"range": []}}, "nets.lan.pool.range"),
    "true": ({"pool": True}, "nets.lan.pool"),
    "nothing left": ({"pool": {"exclude": ["192.0.2.0/24"]}}, "nets.lan.pool"),
    "the gateway alone": ({"gateway": "192.0.2.1", "pool": {"ranges": ["192.0.2.1"]}}, "nets.lan.pool"),
    "the broadcast address as gateway": ({"gateway": "192.0.2.255"}, "nets.lan.gateway"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_pool_that_gives_nothing_or_what_is_not_its_own_is_refused_by_name(case):
    more, field = BAD[case]
    with pytest.raises(InvalidInput) as refused:
        network(**more)
    assert refused.value.field == field


def test_all_faults_of_a_pool_are_told_at_once():
    with pytest.raises(InvalidInput) as refused:
        network(pool={"ranges": ["x", "192.0.2.9"], "exclude": ["y"]})
    assert [refused.value.field, *(error.field for error in refused.value.also)] == [
        "nets.lan.pool.ranges[0]",
        "nets.lan.pool.exclude[0]",
    ]


POOL = ["192.0.2.10-192.0.2.12", "192.0.2.20-192.0.2.21"]
ALL = {"192.0.2.%d" % last for last in (10, 11, 12, 20, 21)}


def test_the_same_instance_finds_the_same_address_whatever_else_is_taken():
    first = address_pool.choose(POOL, (), "web-1")
    assert first in ALL
    assert address_pool.choose(POOL, ALL - {first}, "web-1") == first
    assert len({address_pool.choose(POOL, (), "web-%d" % number) for number in range(50)}) == len(ALL)


def test_each_address_is_given_before_a_pool_is_used_up():
    taken = set()
    for number in range(5):
        taken.add(address_pool.choose(POOL, taken, "web-%d" % number))
    assert taken == ALL
    assert address_pool.choose(POOL, taken, "web-9") is None


def test_a_pool_of_many_addresses_is_counted_and_searched_without_listing_them():
    pool = address_pool.ranges(network("2001:db8::/64", pool={}))
    assert address_pool.size(pool) == (1 << 64) - 1
    first = address_pool.choose(pool, (), "web-1")
    assert first.startswith("2001:db8:") and address_pool.choose(pool, {first}, "web-1") not in (None, first)
