# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted instance gets the NICs that the inventory names, at once and for its next start, and keeps its definition."""

from __future__ import annotations

import copy
from xml.etree import ElementTree

import pytest
from adopt_case import Found
from instance_case import Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, network, update
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.model import adopted_update
from ansible_collections.berth.kvm.plugins.module_utils.model.updates import UpdateNotSupported

MAC, SECOND_MAC = "52:54:00:aa:bb:cc", "02:00:00:00:00:02"
FIRST = {
    "network": "lan", "type": "bridge", "source": "br0", "mac": MAC, "model": "virtio", "virtualport": None, "mtu": None,
    "vlan": None, "nwfilter": None, "address": None, "gateway": None, "nameservers": [], "security": None,
}  # fmt: skip
SECOND = {**FIRST, "network": "dmz", "source": "br1", "mac": SECOND_MAC, "address": "192.0.2.9/24"}
STEPS = ("update unplug", "update record", "update plug", "update plug for the next start", "update define")


class Web:
    """The guest Web_1, adopted. ``networks``, ``metadata``: what its inventory says by now."""

    def __init__(self, guest):
        self.guest, self.networks, self.metadata = guest, [], {}

    def act(self, killed_at=None, dry=False, **more):
        spec = {**copy.deepcopy(self.guest.record.spec), "networks": self.networks, "metadata": self.metadata}
        params = {"state": "updated", "spec": spec, "seed": {"hostname": "web1"}, "disks": [], "volumes": None}
        self.did = self.guest.instance(killed_at)
        return acts.act(self.did, {**params, "discards": [], "only_claim": False, **more}, dry)

    def nics(self):
        """{MAC: (bridge, card)} of the running guest, and of its next start."""
        return [_nics(text) for text in (self.guest.domain.live, self.guest.domain.xml) if text]


def _nics(text):
    found = ElementTree.fromstring(text).iterfind("devices/interface")
    return {
        each.find("mac").get("address").lower(): (each.find("source").get("bridge"), each.find("model").get("type"))
        for each in found
    }


@pytest.fixture
def web(prepared, tmp_path, monkeypatch):
    def collect(*_args, **_kwargs):
        return {"host": "kvm1", "uuid": prepared.uuid, "vcpus": 4, "memory_mb": 4096, "local_gb": 10, "local_gb_used": 1,
                "instances": [], "num_instances": 0, "pool": "berth", "pools": {"berth": {"type": "dir"}}}  # fmt: skip

    monkeypatch.setattr(facts, "collect", collect)
    monkeypatch.setattr(network, "check", lambda *_: None)
    guest = Found(prepared, tmp_path)
    guest.adopt()
    guest.domain.live = guest.domain.xml
    one = Web(guest)
    one.metadata = guest.record.spec.get("metadata") or {}
    return one


@pytest.mark.parametrize("runs", [True, False])
def test_a_nic_is_added_at_once_and_for_the_next_start_and_the_first_keeps_its_card(web, runs):
    if not runs:
        web.guest.instance().stopped(1)
    starts = web.guest.domain.starts
    web.networks = [FIRST, SECOND]
    assert web.act(dry=True) is True and SECOND_MAC not in web.nics()[-1]
    assert [web.act(), web.act(), web.act(dry=True)] == [True, False, False]
    assert web.nics() == [{MAC: ("br0", "e1000"), SECOND_MAC: ("br1", "virtio")}] * (2 if runs else 1)
    assert [nic["mac"] for nic in web.guest.record.spec["networks"]] == [MAC, SECOND_MAC]
    assert web.guest.record.spec["networks"][1]["address"] == "192.0.2.9/24"
    assert web.guest.domain.starts == starts and SECOND_MAC in web.guest.record.spec["adopted"]["definition"]


def test_what_the_run_does_is_told_and_in_the_history(web):
    web.networks = [FIRST, SECOND]
    web.act()
    added = "network interface %s on dmz with 192.0.2.9/24: added while the guest runs" % SECOND_MAC
    assert added in web.did.updates and web.guest.record.history[-1]["event"] == "update"


def test_a_nic_that_the_inventory_names_no_more_is_released_first_and_forgotten(web):
    web.networks = [FIRST, SECOND]
    web.act()
    web.networks = [SECOND]
    assert [web.act(), web.act()] == [True, False]
    assert web.nics() == [{SECOND_MAC: ("br1", "virtio")}] * 2
    assert [nic["mac"] for nic in web.guest.record.spec["networks"]] == [SECOND_MAC]


def test_a_nic_goes_to_another_bridge(web):
    web.networks = [{**FIRST, "source": "br7"}]
    assert [web.act(), web.act()] == [True, False]
    assert web.nics() == [{MAC: ("br7", "e1000")}] * 2


def test_an_inventory_that_names_no_nic_leaves_those_that_the_guest_has(web):
    assert web.act() is False and web.did.updates == [] and web.nics() == [{MAC: ("br0", "e1000")}] * 2


def test_metadata_is_noted_in_the_record_alone(web):
    web.metadata = {"team": "shop"}
    assert [web.act(), web.act()] == [True, False]
    assert web.guest.record.spec["metadata"] == {"team": "shop"} and web.nics() == [{MAC: ("br0", "e1000")}] * 2


def test_what_virsh_changed_since_is_in_the_record_after_an_update(web):
    domain = web.guest.domain
    domain.xml = domain.xml.replace(
        "<serial", "<rng model='virtio'><backend model='random'>/dev/random</backend></rng><serial", 1
    )
    assert [web.act(), web.act()] == [True, False]
    assert "<rng" in web.guest.record.spec["adopted"]["definition"]


@pytest.mark.parametrize("step", STEPS)
def test_an_update_that_is_killed_at_a_step_is_finished_by_the_next_run(web, step):
    web.networks = [{**FIRST, "source": "br7"}, SECOND]
    with pytest.raises(Killed):
        web.act(killed_at=step)
    assert web.act() is True and web.act() is False
    assert web.nics() == [{MAC: ("br7", "e1000"), SECOND_MAC: ("br1", "virtio")}] * 2
    assert SECOND_MAC in web.guest.record.spec["adopted"]["definition"]


def test_addresses_are_claimed_before_the_guest_has_the_nic(web):
    web.networks = [FIRST, SECOND]
    assert web.act(only_claim=True) is True and web.act(only_claim=True) is False
    assert (
        web.guest.record.spec["networks"][1]["address"] == "192.0.2.9/24"
        and web.nics() == [{MAC: ("br0", "e1000")}] * 2
    )


def test_a_definition_that_somebody_removed_is_there_again_before_it_gets_a_nic(web):
    web.guest.instance().stopped(1)
    web.guest.domain.undefineFlags()
    web.networks = [FIRST, SECOND]
    assert web.act() is True and web.nics() == [{MAC: ("br0", "e1000"), SECOND_MAC: ("br1", "virtio")}]


@pytest.mark.follows("stop_and_update")
def test_a_guest_that_does_not_release_a_nic_keeps_it_and_its_record(web, monkeypatch):
    monkeypatch.setattr("ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_adopted.TIMEOUT", 0)
    web.guest.domain.holds_on = True
    web.networks = [SECOND]
    before = web.guest.record
    with pytest.raises(update.NicNotDetached) as caught:
        web.act()
    assert web.guest.record == before and "berth.kvm.stop --limit web1" in caught.value.hint
    web.guest.instance().stopped(1)
    assert web.act() is True and web.nics() == [{SECOND_MAC: ("br1", "virtio")}]


@pytest.mark.parametrize(
    "more, said",
    [
        ({"disks": [{"name": "logs", "size_gb": 1, "bus": "virtio"}]}, "berth_disks"),
        ({"volumes": [{"name": "db"}]}, "berth_volumes"),
        ({"discards": ["logs"]}, "berth_update_discards"),
    ],
)
def test_its_disks_are_its_own_and_what_it_takes_is_said(web, more, said):
    with pytest.raises(UpdateNotSupported, match="virsh attach-disk.* %s is not" % said):
        web.act(**more)


def test_a_nic_whose_packets_berth_would_filter_is_refused(web):
    before = web.guest.record
    web.networks = [FIRST, {**SECOND, "security": {"groups": ["web"], "rules": [], "allowed": []}}]
    with pytest.raises(UpdateNotSupported, match=SECOND_MAC):
        web.act()
    assert web.guest.record == before and adopted_update.DEFINITION not in web.did.updates
