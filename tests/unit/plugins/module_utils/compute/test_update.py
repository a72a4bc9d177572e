# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance gets what the inventory says of it by now: the guest releases, the record says, the guest gets; it is never stopped."""

from __future__ import annotations

import copy
from xml.etree import ElementTree

import pytest
from instance_case import Killed, made_with_nic
from libvirt_names import libvirtError
from mend_case import MAC, MACHINE, NIC

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import GuestSaved
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import live_differences, update
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts
from ansible_collections.berth.kvm.plugins.module_utils.model import updates
from ansible_collections.berth.kvm.plugins.module_utils.model.address_clash import AddressTaken
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

SECOND_MAC = "02:00:00:00:00:02"
SECOND = {**NIC, "network": "dmz", "mac": SECOND_MAC, "source": "br1", "vlan": None, "address": "192.0.2.9/24"}
LIMITS = {"quota:cpu_shares": "200", "quota:disk_total_iops_sec": "500", "quota:vif_inbound_average": "1000"}


class Web:
    """web1 runs with one NIC; ``spec`` and ``seed`` are what its inventory says by now."""

    def __init__(self, case, present):
        self.case, self.present = case, present
        self.spec, self.seed = {"metadata": {}, **copy.deepcopy(case.record.spec)}, case.seed
        case.domain.live = case.domain.xml

    def params(self, **more):
        return {
            "spec": self.spec,
            "seed": self.seed,
            "disks": [],
            "volumes": None,
            "discards": [],
            "only_claim": False,
            **more,
        }

    def update(self, killed_at=None, **more):
        instance = self.case.instance(killed_at)
        self.would = update.would_update(self.case.instance(), self.params(**more))
        changed = update.update(instance, self.params(**more))
        self.lines = instance.updates
        return changed

    def flavor(self, **specs):
        self.spec["flavor"] = {**self.spec["flavor"], "extra_specs": specs}

    def nics(self, live=True):
        root = ElementTree.fromstring(self.case.domain.XMLDesc(0 if live else 2))
        return [each.find("mac").get("address") for each in root.iter("interface")]

    def agrees(self):
        """What the guest, running and defined, lacks of its record."""
        return live_differences.between(self.case.record, self.case.domain.live, self.case.domain.xml)


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    present = []

    def collect(*_args, **_kwargs):
        return {"host": "kvm1", "uuid": prepared.uuid, "vcpus": 4, "memory_mb": 4096, "local_gb": 10, "local_gb_used": 1,
                "instances": present, "num_instances": 0, "pool": "berth", "pools": {"berth": {"type": "dir"}}}  # fmt: skip

    monkeypatch.setattr(facts, "collect", collect)
    monkeypatch.setattr(update, "TIMEOUT", 0)
    return Web(made_with_nic(prepared, wanted("web1"), monkeypatch, NIC, MACHINE), present)


def add(web):
    web.spec["networks"] = [NIC, SECOND]


def remove(web):
    web.spec["networks"] = []


def plug_anew(web):
    web.spec["networks"] = [{**NIC, "source": "br7"}]


CHANGES = {
    "a NIC more": (add, "network interface %s on dmz with 192.0.2.9/24: added while the guest runs" % SECOND_MAC),
    "a NIC less": (remove, "network interface %s on lan: removed while the guest runs" % MAC),
    "another bridge": (plug_anew, "network interface %s: plugged anew while the guest runs, lan -> lan" % MAC),
    "limits": (
        lambda web: web.flavor(**LIMITS),
        "limits: quota:cpu_shares none -> 200, quota:disk_total_iops_sec none -> 500, quota:vif_inbound_average none -> 1000, at once",
    ),
    "metadata": (
        lambda web: web.seed.update(metadata={"a": "b"}) or web.spec.update(metadata={"a": "b"}),
        "seed (metadata): made anew, and read when the guest is next started, not at a reboot from inside",
    ),
    "user data": (
        lambda web: web.seed.update(user_data="#!/bin/sh"),
        "seed (user data, files or addresses): made anew, and read when the guest is next started, not at a reboot from inside",
    ),
}


def test_nothing_to_do_is_no_change(web):
    assert (web.update(), web.would, web.lines) == (False, False, [])


@pytest.mark.parametrize("what", CHANGES)
def test_what_the_inventory_says_is_brought_to_the_running_guest_and_said_once(web, what):
    change, line = CHANGES[what]
    change(web)
    starts = web.case.domain.starts
    assert (web.update(), web.would, web.lines) == (True, True, [line])
    assert web.agrees() == {} and web.case.domain.starts == starts and web.case.domain.isActive()
    assert (web.update(), web.would, web.lines) == (False, False, [])
    assert updates.told(web.case.record.spec) == updates.told(web.spec)


@pytest.mark.parametrize("what", CHANGES)
def test_a_guest_that_is_off_has_it_in_its_definition(web, what):
    CHANGES[what][0](web)
    web.case.instance().stopped(1)
    assert web.update() is True
    assert live_differences.between(web.case.record, None, web.case.domain.xml) == {} and not web.case.domain.isActive()
    assert web.update() is False


@pytest.mark.parametrize("what", CHANGES)
def test_killed_at_any_step_and_run_again_it_is_done_and_then_nothing_changes(web, what):
    as_it_was, seed_as_it_was = copy.deepcopy(web.spec), copy.deepcopy(web.seed)
    CHANGES[what][0](web)
    wanted, seed = web.spec, web.seed
    web.update()
    steps = [step for step in web.case.steps if step.startswith("update")]
    assert steps
    for step in steps:
        web.spec, web.seed = as_it_was, seed_as_it_was
        web.update()
        assert updates.told(web.case.record.spec) == updates.told(as_it_was)
        web.spec, web.seed = wanted, seed
        with pytest.raises(Killed):
            web.update(killed_at=step)
        assert web.update() == web.would, "a dry run tells the truth"
        assert updates.told(web.case.record.spec) == updates.told(wanted)
        assert web.agrees() == {} and web.update() is False, step


def test_a_record_of_an_older_version_gets_what_it_lacks_and_a_dry_run_says_so(web):
    record = web.case.record
    lacking = {part: value for part, value in record.spec.items() if part != "metadata"}
    web.case.host.store.compare_and_swap(record, record.next(spec=lacking))
    web.spec["access_ip_v4"] = "192.0.2.1"
    web.spec["ssh_keys_digest"] = "known by now"
    assert (web.update(), web.would) == (True, True) and (web.update(), web.would) == (False, False)


def test_a_dry_run_changes_nothing(web):
    add(web)
    web.flavor(**LIMITS)
    before = web.case.record, web.case.domain.xml, web.case.domain.live
    assert update.would_update(web.case.instance(), web.params()) is True
    assert (web.case.record, web.case.domain.xml, web.case.domain.live) == before


def test_a_flavor_of_another_name_or_size_is_not_followed(web):
    web.flavor(**LIMITS)
    web.spec["flavor"]["name"] = "other"
    assert web.update() is False
    web.spec["flavor"].update(name="tiny", memory_mb=4096)
    assert web.update() is True
    assert web.case.record.spec["flavor"]["memory_mb"] == 64


def test_limits_that_are_gone_are_taken_from_the_running_guest(web):
    web.flavor(**LIMITS)
    web.update()
    web.flavor()
    assert web.update() is True and web.agrees() == {}


def test_a_host_that_cannot_limit_says_why_and_the_rest_is_done(web, monkeypatch):
    add(web)
    web.flavor(**LIMITS)
    web.seed.update(user_data="#!/bin/sh")

    def refuse(_numbers, _flags):
        raise libvirtError(55, "cgroup CPU controller is not mounted")

    web.case.domain.setSchedulerParametersFlags = refuse
    with pytest.raises(update.LimitsNotApplied, match="keeps the limits that it had.*cgroup CPU controller"):
        web.update()
    assert web.nics() == [MAC, SECOND_MAC] and b"#!/bin/sh" in (web.case.root.parent / "seed.iso").read_bytes()


def test_the_packet_filter_of_a_nic_comes_and_goes_with_it(web):
    filters = web.case.host.connection.filters
    assert len(filters) == 1
    add(web)
    web.update()
    assert len(filters) == 2
    web.spec["networks"] = [NIC]
    web.update()
    assert len(filters) == 1 and web.nics() == web.nics(live=False) == [MAC]


def test_a_nic_that_stays_keeps_its_packet_filter(web):
    has = web.case.record.spec["networks"][0]["security"]
    web.spec["networks"] = [{**NIC, "security": {"groups": ["other"], "allowed": [], "rules": None}}, SECOND]
    web.update()
    first, second = web.case.record.spec["networks"]
    assert first["security"] == has and second["security"] == SECOND["security"]


def test_a_nic_has_the_same_place_in_the_running_guest_and_after_its_next_start(web):
    add(web)
    attach = web.case.domain.attachDeviceFlags

    def placed(xml, flags):
        element = ElementTree.fromstring(xml)
        ElementTree.SubElement(element, "address", type="pci", domain="0x0000", bus="0x07", slot="0x00", function="0x0")
        attach(ElementTree.tostring(element, encoding="unicode"), flags)

    web.case.domain.attachDeviceFlags = placed
    web.update()
    root = ElementTree.fromstring(web.case.domain.xml)
    (nic,) = (each for each in root.iter("interface") if each.find("mac").get("address") == SECOND_MAC)
    assert nic.find("address").get("bus") == "0x07"


@pytest.mark.follows("stop_and_update")
def test_a_guest_that_does_not_release_a_nic_keeps_it_and_its_addresses(web):
    remove(web)
    web.case.domain.holds_on = True
    before = web.case.record.spec
    with pytest.raises(update.NicNotDetached, match=MAC) as refused:
        web.update()
    assert "berth.kvm.stop --limit web1, then berth.kvm.update" in refused.value.hint
    assert web.case.record.spec == before and web.nics() == web.nics(live=False) == [MAC]
    web.case.instance().stopped(1)
    web.update()
    web.case.instance().started("t1", web.seed)
    assert web.nics() == []


def test_a_guest_without_a_free_slot_gets_the_nic_at_its_next_start(web):
    add(web)
    web.case.domain.takes_no_more = True
    with pytest.raises(update.NicNotAttached, match="No more available PCI slots"):
        web.update()
    web.case.domain.takes_no_more = False
    web.case.instance().stopped(1)
    web.case.instance().started("t1", web.seed)
    assert web.nics() == [MAC, SECOND_MAC]


def test_an_address_that_another_instance_here_has_is_refused_before_anything_changes(web):
    add(web)
    web.present.append(
        {"uuid": "x", "name": "db1", "project_id": "default", "group": None, "foreign": False,
         "nics": ["address 192.0.2.9 on bridge br1"]}
    )  # fmt: skip
    before = web.case.record
    with pytest.raises(AddressTaken, match="db1 on this host"):
        web.update()
    assert web.case.record == before and web.nics() == [MAC]


@pytest.mark.parametrize("claims", [True, False])
def test_a_nic_stays_plugged_if_another_run_has_just_taken_its_new_address(web, monkeypatch, claims):
    web.spec["networks"] = [{**SECOND, "mac": MAC}]
    before, checks = web.case.record, []
    check = update.check_free

    def check_free(instance, record, spec):
        checks.append(spec)
        if len(checks) == 3:  # of the dry run, of the update, and again under the lock of the host
            raise AddressTaken("db1 has 192.0.2.9")
        check(instance, record, spec)

    monkeypatch.setattr(update, "check_free", check_free)
    with pytest.raises(AddressTaken):
        web.update(only_claim=claims)
    assert web.case.record == before and web.nics() == web.nics(live=False) == [MAC]


def test_only_the_claim_writes_the_record_and_touches_no_guest(web):
    add(web)
    assert web.update(only_claim=True) is True
    assert len(web.case.record.spec["networks"]) == 2 and web.nics() == web.nics(live=False) == [MAC]
    assert web.update(only_claim=True) is False
    web.spec["networks"] = [NIC]
    assert web.update(only_claim=True) is True and len(web.case.record.spec["networks"]) == 1


@pytest.mark.parametrize("before, after", [(NIC, {**NIC, "type": "direct"}), (None, {**SECOND, "type": "direct"})])
def test_a_function_of_a_card_is_neither_added_nor_removed(web, before, after):
    web.spec["networks"] = [*([NIC] if before is None else []), after]
    with pytest.raises(updates.UpdateNotSupported, match="function of a network card"):
        web.update()


def test_an_instance_whose_memory_is_in_a_file_is_left_alone(web):
    web.case.domain.managedSave()
    add(web)
    with pytest.raises((GuestSaved, InstanceInvalidState)):
        web.update()


def test_a_full_server_group_is_not_joined(web):
    web.spec["group"] = {"name": "apart", "uuid": "g", "policy": "anti-affinity", "rules": {}, "members": []}
    web.present.append(
        {"uuid": "x", "name": "db1", "project_id": "default", "group": "apart", "foreign": False, "nics": []}
    )
    with pytest.raises(Exception, match="anti-affinity group apart"):
        web.update()
    web.present.clear()
    assert web.update() is True and web.lines == ["server group: none -> apart, where the instance is"]
    assert web.update() is False


def test_what_was_there_before_is_lost_by_no_update(web):
    """Parts of the request that the inventory does not say, such as the hardware that libvirt chose."""
    hardware = web.case.record.spec["hardware"]
    web.spec = {part: value for part, value in web.spec.items() if part != "hardware"}
    web.flavor(**LIMITS)
    web.update()
    assert web.case.record.spec["hardware"] == hardware
