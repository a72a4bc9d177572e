# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges of one name that do not lead to the same network are told, and change nothing."""

from __future__ import annotations

import os

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import network
from ansible_collections.berth.kvm.plugins.module_utils.conductor import bridges, doctor
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import packet_hints

OUT, ALONE, JUMBO = {"mtu": 1500, "uplink": True}, {"mtu": 1500, "uplink": False}, {"mtu": 9000, "uplink": True}


def told(**links):
    """What the doctor finds. ``links``: host -> what it says of br0, None if it has no such bridge."""
    documents = {
        host: {"uuid": host, "instances": [], **({} if link is None else {"bridge_links": {"br0": link}})}
        for host, link in links.items()
    }
    found = doctor._different_bridges(doctor.Case(Fleet(documents, {}, {}), {}, {}, [], (0, 0)))
    return [(one.code, one.severity, one.said, one.todo) for one in found]


@pytest.mark.follows("one_mtu")
def test_bridges_with_an_uplink_have_one_mtu():
    said = "the MTU of bridge br0 differs: 1500 on h1, 9000 on h2"
    assert told(h1=OUT, h2=JUMBO, h3=None) == [("BridgesDiffer", "warning", said, packet_hints.one_mtu())]
    assert told(h1=JUMBO, h2=JUMBO) == told(h1=ALONE, h2={**ALONE, "mtu": 9000}) == []


@pytest.mark.follows("one_network")
def test_a_bridge_without_an_uplink_is_told_only_where_others_have_one():
    said = "bridge br0 has no uplink on h2 and h4, but on h1"
    found = told(h1=OUT, h2=ALONE, h3=None, h4={**ALONE, "mtu": 9000})
    assert found == [("BridgesDiffer", "note", said, packet_hints.one_network())]
    assert told(h1=ALONE, h2=ALONE) == told(h1=OUT, h2=OUT) == []


@pytest.mark.parametrize(
    "here, there, lost",
    [
        (OUT, ALONE, "no uplink there"),
        (JUMBO, OUT, "an MTU of 1500 there and 9000 now"),
        (OUT, JUMBO, None),
        (ALONE, OUT, None),
        (ALONE, ALONE, None),
        (OUT, None, None),
        (None, OUT, None),
    ],
)
@pytest.mark.parametrize("kind", ["bridge", "network"])
def test_what_a_guest_would_lose_by_a_move_is_known_from_the_facts_of_both_hosts(kind, here, there, lost):
    """A libvirt network names no bridge of the host; a host that does not tell of its bridge says nothing."""
    spec = {"networks": [{"type": kind, "source": "br0"}] * 2}
    documents = [{"bridge_links": {"br0": link} if link else {}} for link in (here, there)]
    found = bridges.lost_by_a_move(spec, *documents)
    assert [lost in text for text in found] == ([True] if lost and kind == "bridge" else [])


def test_an_uplink_is_a_network_card_or_stands_on_one(tmp_path):
    def port(bridge, name, entry=None):
        (tmp_path / name).mkdir()
        if entry:
            (tmp_path / name / entry).mkdir()
        os.makedirs(tmp_path / bridge / "brif" / name)

    for bridge, name, entry in (("br0", "eth0", "device"), ("br1", "bond0", "lower_eth1"), ("br2", "vnet0", None)):
        (tmp_path / bridge / "bridge").mkdir(parents=True)
        (tmp_path / bridge / "mtu").write_text("9000\n")
        port(bridge, name, entry)
    (tmp_path / "br3" / "bridge").mkdir(parents=True)  # it is just being removed
    told = network._links(str(tmp_path), ["br0", "br1", "br2", "br3"])
    assert told == {"br0": JUMBO, "br1": JUMBO, "br2": {"mtu": 9000, "uplink": False}}
