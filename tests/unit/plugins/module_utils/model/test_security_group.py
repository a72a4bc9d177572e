# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Security groups of the catalog and of a NIC: what is allowed, and every fault of it by name."""

from __future__ import annotations

import pytest
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.request_digest import digests
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

GROUPS = "berth_security_groups_defined"
WEB = {"rules": [{"protocol": "tcp", "ports": 80, "remote": "192.0.2.0/24"}, {"protocol": "icmp"}]}
SSH = {"rules": [{"protocol": "tcp", "ports": "22"}, {"protocol": "icmp"}]}


def catalog(**groups):
    return Catalog.from_variables({**variables(), GROUPS: groups or {"web": WEB, "ssh": SSH}})


def nics(*networks, groups=None, of=None):
    given = {"inventory_hostname": "web-1", "berth_flavor": "m1.tiny", "berth_image": "debian-12"}
    given.update(berth_networks=list(networks), berth_security_groups=groups)
    return build_request(given, of or catalog())[0]["networks"]


BAD = {
    "port 0": ({"protocol": "tcp", "ports": 0}, "ports"),
    "port 70000": ({"protocol": "tcp", "ports": 70000}, "ports"),
    "a range to 70000": ({"protocol": "tcp", "ports": "1-70000"}, "ports"),
    "a range backwards": ({"protocol": "tcp", "ports": "90-80"}, "ports"),
    "a negative port": ({"protocol": "tcp", "ports": -1}, "ports"),
    "true": ({"protocol": "tcp", "ports": True}, "ports"),
    "a port of icmp": ({"protocol": "icmp", "ports": 8}, "ports"),
    "a port of any": ({"protocol": "any", "ports": 8}, "ports"),
    "no protocol": ({"ports": 80}, "protocol"),
    "an unknown protocol": ({"protocol": "tpc"}, "protocol"),
    "an unknown direction": ({"protocol": "tcp", "direction": "ingress"}, "direction"),
    "a host's bits in the network": ({"protocol": "tcp", "remote": "192.0.2.1/24"}, "remote"),
    "a name": ({"protocol": "tcp", "remote": ["web"]}, "remote[0]"),
    "XML": ({"protocol": "tcp", "remote": "'/><rule action='accept'"}, "remote"),
    "a typo": ({"protocol": "tcp", "port": 80}, "port"),
    "networks and a group": ({"protocol": "tcp", "remote": "192.0.2.0/24", "remote_group": "web"}, "remote_group"),
    "two groups": ({"protocol": "tcp", "remote_group": ["web", "ssh"]}, "remote_group"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_rule_that_means_nothing_is_refused_by_name(case):
    rule, field = BAD[case]
    with pytest.raises(InvalidInput) as refused:
        catalog(web={"rules": [{"protocol": "any"}, rule]})
    assert refused.value.field == "%s.web.rules[1].%s" % (GROUPS, field)


@pytest.mark.parametrize("name", ["my web", "a'b", 'a"b', "<web/>", "x" * 64, ""])
def test_a_group_has_a_plain_name(name):
    with pytest.raises(InvalidInput) as refused:
        catalog(**{name: WEB})
    assert refused.value.field == GROUPS + ": name"


def test_all_faults_of_all_rules_are_told_at_once():
    with pytest.raises(InvalidInput) as refused:
        catalog(web={"rules": [{"protocol": "tcp", "ports": 0}, {"protocol": "x"}]}, ssh={"rules": [7]})
    assert len([refused.value, *refused.value.also]) == 3


def test_two_hundred_rules_are_taken_and_more_than_256_are_not():
    many = [{"protocol": "tcp", "ports": port + 1} for port in range(257)]
    assert len(catalog(web={"rules": many[:200]}).security_groups["web"]["rules"]) == 200
    with pytest.raises(InvalidInput):
        catalog(web={"rules": many})


def test_groups_of_the_instance_are_for_all_its_nics_and_a_nic_may_have_its_own():
    first, second, third = nics(
        "lan",
        {"network": "lan", "security_groups": ["ssh"]},
        {"network": "lan", "security_groups": []},
        groups=["web", "ssh", "web"],
    )
    assert first["security"]["groups"] == ["web", "ssh"]
    assert [rule["protocol"] for rule in first["security"]["rules"]] == ["tcp", "icmp", "tcp"], "what both have once"
    assert second["security"]["groups"] == ["ssh"]
    assert third["security"] == {"groups": [], "rules": None, "allowed": []}, "anti-spoofing without a group"


def test_port_security_is_switched_off_for_a_nic_or_a_network():
    of = catalog()
    of.networks["plain"]["port_security"] = False
    off, on, network = nics(
        {"network": "lan", "port_security": False},
        {"network": "plain", "port_security": True},
        "plain",
        groups="web",
        of=of,
    )
    assert (off["security"], network["security"]) == (None, None)
    assert on["security"]["groups"] == ["web"]


def test_a_nic_says_whether_somebody_asked_for_port_security():
    """What nobody asked for changes no instance that was created without a filter."""
    of = catalog()
    of.networks["plain"]["port_security"] = True
    asked = nics({"network": "lan", "port_security": True}, "plain", of=of)
    assert [nic["port_security"] for nic in asked] == [True, True]
    silent = nics("lan", {"network": "plain", "port_security": False}, of=of)
    assert not any("port_security" in nic for nic in silent) and silent[0]["security"]


REFUSED = {
    "a group that is not defined": (
        {"network": "lan", "security_groups": ["wbe"]},
        "berth_networks[0].security_groups",
    ),
    "a group without a filter": (
        {"network": "lan", "port_security": False, "security_groups": ["web"]},
        "berth_networks[0].security_groups",
    ),
    "an address without a filter": (
        {"network": "lan", "port_security": False, "allowed_addresses": ["192.0.2.9"]},
        "berth_networks[0].allowed_addresses",
    ),
    "no address": ({"network": "lan", "allowed_addresses": ["vip"]}, "berth_networks[0].allowed_addresses[0].address"),
    "a group's MAC address": (
        {"network": "lan", "allowed_addresses": [{"address": "192.0.2.9", "mac": "01:00:00:00:00:01"}]},
        "berth_networks[0].allowed_addresses[0].mac",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_nic_cannot_have_is_refused_by_name(case):
    nic, field = REFUSED[case]
    with pytest.raises(BerthError) as refused:
        nics(nic)
    assert refused.value.field == field


def test_a_group_that_is_gone_from_the_catalog_is_named_with_what_was_probably_meant():
    with pytest.raises(BerthError) as refused:
        nics("lan", groups=["wbe", "gone"])
    assert refused.value.code == "SecurityGroupNotFound" and "web" in refused.value.hint
    assert refused.value.also[0].value == "gone"


def test_a_rule_that_names_a_group_which_is_not_there_is_refused_with_what_was_probably_meant():
    with pytest.raises(BerthError) as refused:
        catalog(web={"rules": [{"protocol": "tcp", "remote_group": "sssh"}]}, ssh=SSH)
    assert refused.value.field == GROUPS + ".web.rules[0].remote_group" and "ssh" in refused.value.hint


def test_a_rule_without_a_group_is_written_as_it_was_before_there_were_such_rules():
    """So that guests from before are as the inventory wants them; and an older version fails at one that names a group."""
    first, second = catalog(
        web={"rules": [{"protocol": "tcp"}, {"protocol": "tcp", "remote_group": "web"}]}
    ).security_groups["web"]["rules"]
    assert first == {"direction": "in", "protocol": "tcp", "ports": None, "remote": []}
    assert second == {"direction": "in", "protocol": "tcp", "ports": None, "remote": None, "remote_group": "web"}


def test_who_is_in_a_group_is_no_wish_of_the_inventory():
    spec = {"networks": [{"security": {"groups": ["web"], "rules": [], "allowed": []}}]}
    with_members = {"networks": [{"security": {**spec["networks"][0]["security"], "members": {"web": {}}}}]}
    assert digests(spec) == digests(with_members)
