# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances of a lost host are taken over: a person names the host, no host of that name answers, and it had them."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import addressing, take_over, volume_hosts
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import DisksOwnerUnknown, HostNotLost
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import CLAIMING, FAILED
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, nics
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
LOST, LIVING = "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
KNOWN = {"known": {"host": "kvm1", "host_uuid": LOST, "generation": [1, 4]}}


def fleet(notes=None, silent=("kvm1",), answer=("kvm2",), reason="UNREACHABLE: no route"):
    uuids = {"kvm1": LOST, "kvm2": LIVING}
    documents = {name: {"uuid": uuids[name], "instances": []} for name in answer}
    return Fleet(documents, dict.fromkeys(silent, reason), {LIVING: {WEB: notes} if notes else {}})


def wanted(**nic):
    return {"web1": {"uuid": WEB, "name": "web1", "spec": {"networks": [{"name": "lan", **LAN, **nic}]}}}


def mark(found, lost=("kvm1",), disks_of=None, seen=None, backups=None, from_backup=False, **nic):
    instances = wanted(**nic)
    take_over.mark(instances, found, list(lost), disks_of, seen or {}, backups or {}, from_backup)
    return instances["web1"]


def test_what_the_lost_host_had_gets_its_disks():
    assert mark(fleet(KNOWN))["take_over"] == LOST


@pytest.mark.follows("name_lost_hosts")
def test_nothing_is_taken_over_before_a_person_has_named_the_host_that_is_off():
    with pytest.raises(InvalidInput, match="berth_lost_hosts") as refused:
        mark(fleet(KNOWN), lost=())
    assert refused.value.hint == copy_hints.name_lost_hosts()
    assert mark(fleet(KNOWN), lost=("kvm1",))["take_over"] == LOST


@pytest.mark.follows("nothing_to_take_over")
def test_a_host_that_answers_is_not_lost():
    with pytest.raises(HostNotLost, match="kvm1 answers") as refused:
        mark(fleet(KNOWN, silent=(), answer=("kvm1", "kvm2")))
    assert refused.value.hint == copy_hints.nothing_to_take_over("kvm1")


@pytest.mark.follows("nothing_to_take_over")
def test_of_a_host_that_was_installed_anew_a_person_names_the_uuid_that_it_had():
    """Another machine by its uuid, which has nothing of the former one. One that still has that uuid is the host itself."""
    anew = fleet(KNOWN, silent=(), answer=("kvm1", "kvm2"))
    anew.documents["kvm1"]["uuid"] = "44444444-3c6e-5d59-9d0b-3a1c9d7f1e2a"
    with pytest.raises(HostNotLost, match="kvm1 answers") as refused:
        mark(anew)
    assert "berth_disks_of" in refused.value.hint
    assert mark(anew, disks_of=LOST)["take_over"] == LOST
    with pytest.raises(InvalidInput, match="berth_disks_of"):
        mark(fleet(KNOWN, silent=(), answer=("kvm1", "kvm2")), disks_of=LOST)
    anew.faults[LOST] = "the state directory is empty"
    with pytest.raises(InvalidInput, match="berth_disks_of"):
        mark(anew, disks_of=LOST)


def test_a_host_that_is_there_and_out_of_order_is_not_lost():
    """Its guests run on while libvirt hangs."""
    with pytest.raises(HostNotLost, match="is there"):
        mark(fleet(KNOWN, reason="LibvirtTimeout: no answer"))


@pytest.mark.follows("name_owner_of_disks")
def test_where_nobody_remembers_the_host_a_person_names_it_by_its_uuid():
    """A create with berth_lost_hosts has made all hosts forget it."""
    instance = mark(fleet())
    assert instance["error"]["code"] == DisksOwnerUnknown.__name__ and "take_over" not in instance
    assert instance["error"]["hint"] == copy_hints.name_owner_of_disks(WEB)
    assert mark(fleet(), disks_of=LOST)["take_over"] == LOST
    for wrong in ("kvm1", LIVING, ""):
        with pytest.raises(InvalidInput, match="berth_disks_of"):
            mark(fleet(), disks_of=wrong)


def test_a_uuid_that_a_person_names_may_be_that_of_a_host_that_is_silent_for_now():
    """Its guest runs on: the file beside the disks says whose they are, not whether that host is lost."""
    silent = fleet(silent=("kvm1", "kvm3"))
    instance = mark(silent, disks_of=LOST)
    assert (
        instance["error"]["code"] == "InstanceUnknown" and "kvm3, which does not answer" in instance["error"]["message"]
    )
    assert "take_over" not in instance
    assert mark(silent, lost=("kvm1", "kvm3"), disks_of=LOST)["take_over"] == LOST


def test_what_another_silent_host_had_is_not_the_lost_hosts():
    elsewhere = {"known": {"host": "kvm3", "host_uuid": "33333333-3c6e-5d59-9d0b-3a1c9d7f1e2a", "generation": [1, 4]}}
    assert mark(fleet(elsewhere, silent=("kvm1", "kvm3")))["error"]["code"] == DisksOwnerUnknown.__name__


LAN = {"network": "lan", "type": "bridge", "source": "br0", "mac": "52:54:00:00:00:01", "prefixlen": 24}
POOLED = {**LAN, "pool": ["10.0.0.2-10.0.0.9"]}
MAC = nics.mac(LAN["mac"])
DB = {"name": "db", "size_gb": 2, "delete_on_termination": False, "slot": 0}


def beside(*entries, address=None, owner=LOST, host="kvm2"):
    """What a host sees beside the disks."""
    addresses = [MAC, nics.address(LAN, address)] if address else []
    return {WEB: [(host, {"uuid": WEB, "owner": owner, "volumes": list(entries), "nics": addresses})]}


def test_an_address_out_of_a_pool_is_the_one_that_it_had():
    """Another one in the record than in the guest would be given away twice."""
    instance = mark(fleet(KNOWN), seen=beside(address="10.0.0.77"), **POOLED)
    (nic,) = instance["spec"]["networks"]
    assert instance["take_over"] == LOST and nic["address"] == "10.0.0.77/24"
    addressing.give({"web1": instance}, {}, {})
    assert nic["address"] == "10.0.0.77/24", "no other is chosen"
    taken = {nics.address(LAN, "10.0.0.77"): {"another": "web9 on kvm2"}}
    assert not addressing.choose_again(instance, taken, {}) and nic["address"] == "10.0.0.77/24"


def test_a_nic_that_it_did_not_have_gets_no_address():
    instance = mark(fleet(KNOWN), seen=beside(), **POOLED)
    assert instance["error"]["field"] == "berth_networks" and "take_over" not in instance


@pytest.mark.follows("find_its_address")
def test_where_an_earlier_version_kept_nothing_an_address_out_of_a_pool_is_named_by_a_person():
    for seen in ({}, {WEB: [("kvm2", {"uuid": WEB, "owner": LOST})]}, beside(address="10.0.0.7", owner=LIVING)):
        instance = mark(fleet(KNOWN), seen=seen, **POOLED)
        assert instance["error"]["hint"] == copy_hints.find_its_address(WEB)
    assert mark(fleet(KNOWN), fixed_ip="10.0.0.7")["take_over"] == LOST


@pytest.mark.parametrize("inventory", [(), ("db",), ("db", "logs")])
def test_its_volumes_are_those_that_it_had_whatever_the_inventory_says_by_now(inventory):
    instances = wanted()
    instances["web1"]["spec"]["volumes"] = [{"name": name, "size_gb": 9} for name in inventory]
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, beside({**DB, "image": {"url": "of a host"}}), {})
    assert instances["web1"]["spec"]["volumes"] == [{**DB, "new": True}] and instances["web1"]["take_over"] == LOST
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, beside(), {})
    assert "volumes" not in instances["web1"]["spec"]


def test_one_that_boots_from_a_volume_boots_from_that_again():
    instances = wanted()
    instances["web1"]["spec"]["volumes"] = [{"name": "os", "size_gb": 2, "boot_index": 0}]
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, beside({**DB, "name": "os", "boot_index": 0}), {})
    assert instances["web1"]["take_over"] == LOST
    instances["web1"]["spec"]["volumes"] = []
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, beside({**DB, "name": "os", "boot_index": 0}), {})
    assert instances["web1"]["error"]["field"] == "berth_volumes"


@pytest.mark.follows("mount_the_same")
def test_hosts_that_see_different_files_are_believed_neither():
    seen = {WEB: beside(DB)[WEB] + beside(host="kvm3")[WEB]}
    error = mark(fleet(KNOWN), seen=seen)["error"]
    assert (error["code"], error["hint"]) == ("DisksDiffer", copy_hints.mount_the_same("kvm2", "kvm3"))
    assert mark(fleet(KNOWN), seen=beside(DB))["take_over"] == LOST, "one of them is left"


def test_a_volume_that_another_host_has_by_now_stays_there():
    instance = mark(fleet(KNOWN), seen=beside(DB))
    instance["spec"]["project_id"] = "default"
    volume = {"uuid": volume_uuid("default", "db"), "name": "db", "instance": None, "phase": "active", "size_gb": 2}
    has = Fleet({"kvm2": {"volumes": [volume]}}, {})
    volume_hosts.settle({"web1": instance}, has)
    assert instance["error"]["code"] == "VolumeElsewhere"


def test_a_claim_of_it_that_a_killed_run_left_is_taken_up_again():
    instance = mark(fleet(KNOWN), seen=beside(DB))
    instance["spec"]["project_id"] = "default"
    volume = {"uuid": volume_uuid("default", "db"), "name": "db", "phase": "claimed", "role": "CLAIM", "size_gb": 2}
    has = Fleet({"kvm2": {"volumes": [{**volume, "instance": {"uuid": WEB, "name": "web1"}}]}}, {"kvm3": "UNREACHABLE"})
    volume_hosts.settle({"web1": instance}, has, ["kvm1"])
    assert "error" not in instance and instance["spec"]["volumes"] == [{**DB, "new": True}]


@pytest.mark.follows("take_over_without_volumes")
def test_where_an_earlier_version_kept_nothing_an_instance_is_taken_over_without_its_volumes():
    """Which files they are, and who else had them since, only the lost host's records say."""
    instances = wanted()
    instances["web1"]["spec"]["volumes"] = [{"name": "db", "size_gb": 1}]
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, {}, {})
    error = instances["web1"]["error"]
    assert (error["field"], error["hint"]) == ("berth_volumes", copy_hints.take_over_without_volumes("web1"))
    assert "db" in error["message"] and "take_over" not in instances["web1"]
    assert mark(fleet(KNOWN))["take_over"] == LOST


@pytest.mark.follows("bring_boot_volume_back")
def test_an_instance_that_boots_from_a_volume_is_not_taken_over_and_waits_for_its_host():
    instances = wanted()
    instances["web1"]["spec"]["volumes"] = [{"name": "os", "size_gb": 1, "boot_index": 0}]
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, {}, {})
    assert instances["web1"]["error"]["hint"] == copy_hints.bring_boot_volume_back("web1", "os")
    assert "take_over" not in instances["web1"]
    with pytest.raises(HostNotLost):  # the host is back: its instances are where they were
        mark(fleet(KNOWN, silent=(), answer=("kvm1", "kvm2")), lost=("kvm1",))


def test_a_host_that_answers_and_whose_records_do_not_count_is_nobody_to_take_disks_from():
    """Its state directory is not mounted, and its guests run on."""
    found = fleet(silent=("kvm9",))
    found.faults[LOST] = "the state directory is empty"
    with pytest.raises(InvalidInput, match="berth_disks_of"):
        mark(found, lost=("kvm9",), disks_of=LOST)


def test_a_person_who_has_read_whose_the_disks_are_is_believed():
    """The host that was known last had begun to take over the disks of another, and was lost before it had them."""
    third = "33333333-3c6e-5d59-9d0b-3a1c9d7f1e2a"
    assert mark(fleet(KNOWN, silent=("kvm1", "kvm3")), lost=("kvm1", "kvm3"), disks_of=third)["take_over"] == third


def test_what_a_killed_run_had_claimed_is_taken_over_and_not_made_anew():
    """The claim alone says nothing of disks: on a host without that storage, a create would make empty ones."""
    instances = {"web1": {**wanted()["web1"], "state": CLAIMING, "host": "kvm2"}}
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, {}, {})
    assert (instances["web1"]["state"], instances["web1"].get("take_over")) == (CLAIMING, LOST)
    instances = {"web1": {**wanted()["web1"], "state": CLAIMING, "host": "kvm2"}}
    take_over.mark(instances, fleet(), ["kvm1"], None, {}, {})
    assert instances["web1"]["error"]["code"] == DisksOwnerUnknown.__name__ and instances["web1"]["state"] == FAILED


@pytest.mark.follows("mount_or_give_up")
def test_of_disks_that_only_the_lost_host_had_the_newest_backup_is_named():
    """Instead of tries on hosts which do not have them; it is for a person to say that what was written since may go."""
    told = "Its newest whole backup is 20260102T030405Z in backup1:/srv/backups, 3 h old"
    instance = mark(fleet(KNOWN), backups={WEB: take_over.Backups(told)}, from_backup=True)
    error = instance["error"]
    assert error["code"] == "DisksNotShared" and told in error["message"] and "take_over" not in instance
    assert error["hint"] == copy_hints.mount_or_give_up("web1", "kvm1")
    assert mark(fleet(KNOWN))["take_over"] == LOST, "where a host sees them, by now or again"


NEWEST = {"backup": "20260102T030405Z", "to": "/srv/backups", "host": "backup1"}


def test_only_one_who_asks_for_it_gets_the_newest_backup_restored():
    backups = {WEB: take_over.Backups("Its newest ...", NEWEST, "3 h")}
    refused = mark(fleet(KNOWN), backups=backups)
    assert "from_backup" not in refused and refused["error"]["code"] == "DisksNotShared"
    assert "berth_evacuate_from_backup=true" in refused["error"]["hint"]
    asked = mark(fleet(KNOWN), backups=backups, from_backup=True)
    assert "error" not in asked and "take_over" not in asked and asked["from_backup"]
    assert asked["spec"]["shelved"] == NEWEST and asked["spec"]["evacuated_from"] == LOST
    assert asked["gives_up"] == "made again from its backup 20260102T030405Z in backup1:/srv/backups, 3 h old"


def test_what_a_host_that_answers_has_is_left_alone():
    instances = {"web1": {**wanted()["web1"], "state": "existing"}}
    take_over.mark(instances, fleet(KNOWN), ["kvm1"], None, {}, {})
    assert "take_over" not in instances["web1"]
