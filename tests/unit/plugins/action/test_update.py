# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""update, from the inventory to what the host of the instance is asked: its request with addresses, and its seed with them."""

from __future__ import annotations

import pytest
from held_case import WEB, held
from test_delete_volume import controller

from ansible_collections.berth.kvm.plugins.module_utils.model import nics
from ansible_collections.berth.kvm.plugins.plugin_utils import driving

FLAVOR = {"vcpus": 1, "memory_mb": 128, "root_gb": 1, "extra_specs": {"quota:cpu_shares": "200"}}
NETWORKS = {
    "lan": {
        "type": "bridge",
        "source": "br0",
        "cidr": "192.0.2.0/24",
        "pool": {"ranges": ["192.0.2.10-192.0.2.12"]},
    },
    "dmz": {"type": "bridge", "source": "br1"},
}
RUN = {
    "berth_flavors": {"small": FLAVOR},
    "berth_images": {"debian": {"url": "http://x/i", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}},
    "berth_networks_defined": NETWORKS,
}
INSTANCE = {"berth_image": "debian", "berth_networks": ["dmz", "lan"], "berth_metadata": {"role": "db"}}
FIRST = {"type": "bridge", "source": "br1", "mac": nics.own_mac(WEB, 0)}
TAKEN = {"type": "bridge", "source": "br0", "mac": "02:00:00:00:00:99", "address": "192.0.2.10/24"}


@pytest.fixture
def asked(monkeypatch):
    """What was asked: [(module, host, arguments)]."""
    told = []

    def ask_each(_action, _task_vars, module, arguments, at, _check):
        told.extend((module, (at or {}).get(name, name), given) for name, given in arguments.items())
        if module == "rescan":
            return {host: {"host_uuid": host, "instances": [], "notes": {}, "volumes": []} for host in arguments}
        return {name: {"changed": True, "instance": {"uuid": WEB, "updates": ["a line"]}} for name in arguments}

    monkeypatch.setattr(driving, "ask_each", ask_each)
    return told


def run(run_variables=None, instance=None, check_mode=False, **hosts):
    there = controller({**RUN, **(run_variables or {})}, {**INSTANCE, **(instance or {})}, **hosts)
    there.register(
        "localhost",
        __berth_facts={"answers": {name: {"reason": "UNREACHABLE: no"} for name, has in hosts.items() if has is None}},
    )
    located = there.run("locate_instances", {"instances": ["web1"], "method": "update", "selected": True})
    located = located["ansible_facts"]["berth_located"]
    there.variable_manager.set_host_facts("localhost", {"berth_located": located})
    values = {**there.task_vars(), "inventory_hostname": "web1"}
    return located, there.run("operate_instances", {"operation": "update", "may_fail": True}, values, check_mode)


HERE = ([held(nics=nics.taken([FIRST]))], [])
OTHER = ([held(uuid=WEB[:-1] + "0", name="db1", nics=nics.taken([TAKEN]))], [])


def test_the_host_gets_the_request_with_an_address_that_nobody_has_and_the_seed_that_says_it(asked, capsys):
    _located, result = run(h1=HERE, h2=OTHER)
    assert [(module, host) for module, host, _given in asked][:4] == [
        ("instance", "h1"), ("rescan", "h1"), ("rescan", "h2"), ("instance", "h1"),
    ]  # fmt: skip
    claim, final = asked[0][2], asked[3][2]
    assert claim["only_claim"] and "seed" not in claim and "only_claim" not in final
    networks = final["spec"]["networks"]
    assert [nic["mac"] for nic in networks] == [nics.own_mac(WEB, 0), nics.own_mac(WEB, 1)]
    assert networks[1]["address"] in ("192.0.2.11/24", "192.0.2.12/24")
    assert networks[1]["address"] in str(final["seed"]["network_config"]) and final["seed"]["metadata"] == {
        "role": "db"
    }
    assert result["changed"] and "a line" in capsys.readouterr().out


def test_in_check_mode_nothing_is_claimed(asked):
    run(check_mode=True, h1=HERE, h2=OTHER)
    assert [(module, host) for module, host, _given in asked if module == "instance"] == [("instance", "h1")]
    assert "only_claim" not in asked[0][2]


def test_while_a_host_is_silent_no_address_is_given_and_what_needs_none_is_updated(asked):
    located, _result = run(h1=HERE, h2=None)
    assert "AddressesUnknown" in located["errors"]["web1"] and asked == []
    located, _result = run(instance={"berth_networks": ["dmz"]}, h1=HERE, h2=None)
    assert not located["errors"] and asked[0][:2] == ("instance", "h1")


def test_an_instance_whose_variables_are_wrong_is_refused_by_their_name(asked):
    located, _result = run(instance={"berth_networks": ["no-such"]}, h1=HERE)
    assert "NetworkNotFound" in located["errors"]["web1"] and asked == []


def test_two_instances_of_a_run_never_get_one_address(asked):
    pool = {**NETWORKS, "lan": {**NETWORKS["lan"], "pool": {"ranges": ["192.0.2.10-192.0.2.10"]}}}
    located, _result = run({"berth_networks_defined": pool}, h1=HERE, h2=OTHER)
    assert "AddressPoolExhausted" in located["errors"]["web1"] and asked == []


def test_an_affinity_group_with_its_members_elsewhere_is_not_joined(asked):
    group = {"berth_server_groups": {"close": {"policy": "affinity"}}}
    member = ([held(uuid=WEB[:-1] + "0", name="db1", group="close", nics=[])], [])
    joins = {"berth_server_group": "close", "berth_networks": ["dmz"]}
    located, _result = run(group, joins, h1=HERE, h2=member)
    assert "server group close has members on h2 too" in located["errors"]["web1"] and asked == []
    located, _result = run(group, joins, h1=([*HERE[0], *member[0]], []), h2=([], []))
    assert not located["errors"]
