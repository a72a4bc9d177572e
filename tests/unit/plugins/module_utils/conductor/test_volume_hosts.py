# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance goes to the host that has its volumes, and what is nowhere is made with it: by one run, on one host (C26)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving, outcome_of_create, volume_hosts
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import ACTIVE, BUILDING, EXISTING, FAILED
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import (
    VolumeDamaged,
    VolumeDuplicate,
    VolumeElsewhere,
    VolumeInUse,
    VolumeNotFound,
    VolumeUnknown,
    volume_uuid,
)

WEB1, WEB2 = {"uuid": "u1", "name": "web1"}, {"uuid": "u2", "name": "web2"}


def told(name="db", instance=None, size_gb=5, phase="active", role="OWN"):
    return {"uuid": volume_uuid("default", name), "name": name, "project_id": "default", "size_gb": size_gb,
            "pool": "berth", "instance": instance, "phase": phase, "role": role}  # fmt: skip


def fleet(silent=(), **held):
    return Fleet({host: {"volumes": list(has)} for host, has in held.items()}, dict.fromkeys(silent, "UNREACHABLE: no"))


def instance(*names, of=None, state=None, **spec):
    of = of or WEB1
    wanted = [{"name": name, "size_gb": 2, "delete_on_termination": False, "slot": at} for at, name in enumerate(names)]
    made = {
        "uuid": of["uuid"],
        "name": of["name"],
        "host": None,
        "spec": {"project_id": "default", "volumes": wanted, **spec},
    }
    return {**made, "state": state} if state else made


def settled(web, has, lost=()):
    volume_hosts.settle({web["name"]: web}, has, lost)
    return web


def test_an_instance_goes_to_the_host_of_its_volume_and_the_reason_is_told():
    web = settled(instance("db"), fleet(kvm1=[], kvm2=[told()]))
    assert web["spec"]["requested_destination"] == {"host": "kvm2", "why": "volume db is on kvm2"}
    assert "state" not in web and web["spec"]["volumes"][0]["size_gb"] == 5 and "new" not in web["spec"]["volumes"][0]


def test_an_instance_gets_a_volume_without_the_growth_that_a_killed_run_has_claimed():
    web = settled(instance("db"), fleet(kvm1=[{**told(), "grows_from_gb": 3}]))
    assert web["spec"]["volumes"][0]["size_gb"] == 3


@pytest.mark.parametrize("phase, sent", [("active", False), ("claimed", True), ("building", True)])
def test_the_image_of_a_volume_goes_to_the_host_until_the_volume_is_made(phase, sent):
    web = instance("db")
    web["spec"]["volumes"][0]["image"] = {"name": "tools"}
    settled(web, fleet(kvm1=[told(phase=phase)]))
    assert ("image" in web["spec"]["volumes"][0]) is sent


def test_a_volume_that_is_nowhere_is_made_and_the_instance_goes_anywhere():
    web = settled(instance("db"), fleet(kvm1=[], kvm2=[told("logs")]))
    assert web["spec"]["volumes"][0]["new"] is True and "requested_destination" not in web["spec"]


@pytest.mark.parametrize(
    "has, code",
    [
        (fleet(kvm1=[], silent=["kvm2"]), "VolumeUnknown"),
        (fleet(kvm1=[told(instance=WEB2)]), "VolumeInUse"),
        (fleet(kvm1=[told()], kvm2=[told()]), "VolumeDuplicate"),
        (fleet(kvm1=[told(phase="deleting")]), "VolumeConflict"),
    ],
)
def test_what_cannot_have_its_volume_fails_before_anything_is_claimed(has, code):
    web = settled(instance("db"), has)
    assert (web["state"], web["error"]["code"]) == (FAILED, code)


def test_a_host_that_is_lost_for_good_has_no_volume_any_more():
    web = settled(instance("db"), fleet(kvm1=[], silent=["kvm2"]), ["kvm2"])
    assert web["spec"]["volumes"][0]["new"] is True


def test_a_volume_that_was_found_needs_no_silent_host():
    assert "state" not in settled(instance("db"), fleet(kvm1=[told()], silent=["kvm2"]))


def test_volumes_on_two_hosts_have_no_place_together():
    web = settled(instance("db", "logs"), fleet(kvm1=[told()], kvm2=[told("logs")]))
    assert web["error"]["code"] == "VolumeElsewhere"


def test_another_host_that_was_asked_for_is_refused_by_name():
    web = settled(instance("db", requested_destination={"host": "kvm1"}), fleet(kvm1=[], kvm2=[told()]))
    assert web["error"]["code"] == "VolumeElsewhere" and "is on kvm2, not on kvm1" in web["error"]["message"]


@pytest.mark.follows("name_it_once")
def test_two_instances_of_one_run_do_not_share_a_volume_until_it_is_in_one():
    first, second = instance("db"), instance("db", of=WEB2)
    volume_hosts.settle({"web1": first, "web2": second}, fleet(kvm1=[]))
    assert "state" not in first and second["error"]["code"] == "VolumeInUse"
    assert second["error"]["hint"] == fleet_hints.name_it_once("db", [first["name"], second["name"]])
    first, second = instance("db"), instance("logs", of=WEB2)
    volume_hosts.settle({"web1": first, "web2": second}, fleet(kvm1=[]))
    assert "state" not in first and "state" not in second


def test_who_cannot_have_a_volume_takes_it_from_nobody_who_has_it():
    first, second = instance("db"), instance("db", of=WEB2)
    volume_hosts.settle({"web1": first, "web2": second}, fleet(kvm1=[told(instance=WEB2)]))
    assert first["error"]["code"] == "VolumeInUse" and "state" not in second


def test_an_instance_that_is_there_is_left_alone_whatever_its_volumes_are():
    web = settled(instance("db", state=EXISTING), fleet(kvm1=[told(instance=WEB2)]))
    assert web["state"] == EXISTING


def test_of_two_runs_that_make_one_volume_on_two_hosts_who_sees_the_other_gives_way():
    web = {**instance("db"), "state": BUILDING, "host": "kvm1", "token": "t"}
    web["spec"]["volumes"][0]["new"] = True
    plan = {"instances": {"web1": web}, "withdraw": {}}
    uuid = volume_uuid("default", "db")
    has = {"volumes": [{"uuid": uuid}]}
    volume_hosts.check_claims(plan, {"kvm1": has, "kvm2": {"volumes": []}}, {}, ())
    assert web["state"] == BUILDING
    volume_hosts.check_claims(plan, {"kvm1": has, "kvm2": has}, {}, ())
    assert (web["state"], web["error"]["code"]) == (FAILED, "VolumeConflict")
    assert plan["withdraw"] == {"kvm1": [{"uuid": "u1", "token": "t"}]}


def test_an_instance_that_failed_before_keeps_its_error_and_no_claim_of_it_is_withdrawn():
    web = {**instance("db"), "state": FAILED, "host": "kvm1", "token": "t", "error": {"code": "NoValidHost"}}
    web["spec"]["volumes"][0]["new"] = True
    plan = {"instances": {"web1": web}, "withdraw": {}}
    volume_hosts.check_claims(plan, {"kvm1": {}, "kvm2": {"volumes": [{"uuid": told()["uuid"]}]}}, {}, ())
    assert (web["error"]["code"], plan["withdraw"]) == ("NoValidHost", {})


def test_a_host_that_became_silent_after_the_claim_may_have_the_volume():
    web = {**instance("db"), "state": BUILDING, "host": "kvm1", "token": "t"}
    web["spec"]["volumes"][0]["new"] = True
    volume_hosts.check_claims(
        {"instances": {"web1": web}, "withdraw": {}}, {"kvm1": {}}, {"kvm2": "UNREACHABLE: no"}, ()
    )
    assert web["error"]["code"] == "VolumeUnknown"


def test_what_is_attached_to_an_instance_that_runs_has_to_be_on_its_host():
    wanted = [{"name": "db", "uuid": volume_uuid("default", "db")}]
    assert volume_hosts.to_have(fleet(kvm1=[told()]), "web1", "u1", "kvm1", wanted, ()) == []
    for has, error in (
        (fleet(kvm1=[], kvm2=[told()]), VolumeElsewhere),
        (fleet(kvm1=[], silent=["kvm2"]), VolumeUnknown),
        (fleet(kvm1=[told(instance=WEB2)]), VolumeInUse),
    ):
        with pytest.raises(error):
            volume_hosts.to_have(has, "web1", "u1", "kvm1", wanted, ())


def test_only_a_volume_that_is_free_and_known_to_be_alone_is_deleted():
    uuid = volume_uuid("default", "db")
    assert volume_hosts.to_delete(fleet(kvm1=[], kvm2=[told()]), "db", uuid, {}, ()) == "kvm2"
    assert volume_hosts.to_delete(fleet(kvm1=[]), "db", uuid, {"db": {}}, ()) is None
    for has, error in (
        (fleet(kvm1=[told(instance=WEB1)]), VolumeInUse),
        (fleet(kvm1=[], silent=["kvm2"]), VolumeUnknown),
        (fleet(kvm1=[told()], kvm2=[told()]), VolumeDuplicate),
        (fleet(kvm1=[told("dbs")]), VolumeNotFound),
    ):
        with pytest.raises(error):
            volume_hosts.to_delete(has, "db", uuid, {}, ())


@pytest.mark.follows("delete_volume_again")
def test_a_half_deleted_volume_is_deleted_again_and_then_made_anew():
    web = settled(instance("db"), fleet(kvm1=[told(phase="deleting")]))
    assert web["error"]["hint"] == volume_hints.delete_volume_again("db", "default")
    assert "-e berth_project=default" in web["error"]["hint"]  # another project may have a volume db that is free
    assert (
        volume_hosts.to_delete(fleet(kvm1=[told(phase="deleting")]), "db", volume_uuid("default", "db"), {}, ())
        == "kvm1"
    )
    assert settled(instance("db"), fleet(kvm1=[]))["spec"]["volumes"][0]["new"] is True


def move(kind, *names):
    views = {"source": {"spec": instance(*names)["spec"]}, "destination": {}}
    return {"name": "web1", "source": "kvm1", "kind": kind, "views": views}


def test_what_has_volumes_is_resized_on_its_host_where_it_may_and_else_goes_where_they_are_seen():
    """Which host sees them is found out there, before the guest is touched."""
    hosts = ["kvm1", "kvm2", "kvm3"]
    assert moving.hosts_to_leave_out(move("resize", "db"), hosts, None, True) == ["kvm2", "kvm3"]
    assert moving.hosts_to_leave_out(move("resize", "db"), hosts, "kvm2", True) == ["kvm1", "kvm3"]
    assert moving.hosts_to_leave_out(move("resize", "db"), hosts, None, False) == ["kvm1"]
    for kind in ("migration", "live-migration"):
        assert moving.hosts_to_leave_out(move(kind, "db"), hosts, None, True) == ["kvm1"]
        assert moving.hosts_to_leave_out(move(kind), hosts, None, True) == ["kvm1"]
    assert moving.hosts_to_leave_out(move("resize"), hosts, "kvm2", False) == ["kvm1", "kvm3"]


@pytest.mark.parametrize(
    "there, owner",
    [
        ({"OUT": "kvm1", "OWN": "kvm2"}, "kvm2"),
        ({"IN": "kvm2", "OWN": "kvm1"}, "kvm1"),
        ({"IN": "kvm2", "OUT": "kvm1"}, "kvm1"),
    ],
)
def test_in_the_middle_of_a_move_a_volume_is_where_its_owner_is_and_nobody_elses(there, owner):
    moving_fleet = fleet(**{host: [told(instance=WEB1, role=role)] for role, host in there.items()})
    uuid = volume_uuid("default", "db")
    assert [host for host, _told in volume_hosts.find(moving_fleet, uuid)] == [owner]
    with pytest.raises(VolumeInUse):
        volume_hosts.to_delete(moving_fleet, "db", uuid, {}, ())


def test_two_owners_of_a_volume_are_told_whoever_else_knows_of_it():
    both = fleet(kvm1=[told(role="OWN")], kvm2=[told(role="OWN")], kvm3=[told(role="OUT")])
    with pytest.raises(VolumeDuplicate, match="kvm1.*kvm2"):
        volume_hosts.to_delete(both, "db", volume_uuid("default", "db"), {}, ())


def test_what_a_delete_would_remove_against_the_inventory_is_told_by_create():
    web = {**instance("db"), "state": ACTIVE, "result": {"volumes": {"db": 2}, "delete_on_termination": ["db"]}}
    assert "volume db, which a delete would remove although the inventory keeps it" in outcome_of_create.differs(web)
    web["spec"]["volumes"][0]["delete_on_termination"] = True
    assert outcome_of_create.differs(web) is None
    web["result"]["delete_on_termination"] = []
    assert "volume db, which a delete would keep although the inventory removes it" in outcome_of_create.differs(web)


@pytest.mark.follows("say_what_it_boots_from")
@pytest.mark.parametrize("has, wanted", [(None, "db"), ("db", None), ("db", "os")])
def test_create_tells_what_an_instance_boots_from_against_the_inventory(has, wanted):
    def found(boots):
        web = {**instance("db", "os"), "state": ACTIVE}
        web["result"] = {"volumes": {"db": 2, "os": 2}, "boot_order": {has: 0} if has else {}}
        for entry in web["spec"]["volumes"]:
            entry.update(size_gb=2, **({"boot_index": 0} if entry["name"] == boots else {}))
        return outcome_of_create.differs(web)

    said = found(wanted)
    assert said.startswith("boots from volume db" if has else "boots from its own root disk")
    assert said.endswith(volume_hints.say_what_it_boots_from("web1", has, wanted)) and "update_disks" not in said
    assert found(has) is None


@pytest.mark.follows("attach_again")
@pytest.mark.parametrize("has, wanted, said", [(None, 1, "none"), (1, None, "1"), (1, 2, "1"), (1, 1, None)])
def test_create_tells_another_turn_in_the_boot_order_and_how_a_volume_gets_it(has, wanted, said):
    web = {**instance("db", "os"), "state": ACTIVE}
    web["result"] = {"volumes": {"db": 2}, "boot_order": {"db": has} if has else {}}
    db, os_disk = web["spec"]["volumes"]
    db.update({"boot_index": wanted} if wanted else {})
    os_disk.update(boot_index=3)  # not attached, so it has no turn to be told
    told = outcome_of_create.differs(web)
    start = "boot_index of volume db is %s, the inventory says %s. " % (said, wanted or "none")
    expected = start + volume_hints.attach_again("web1", "db") + "; "
    assert told.startswith(expected) if said else "boot_index" not in told
    assert "no volume os" in told


def test_an_inventory_without_volumes_says_nothing_about_what_an_instance_boots_from():
    web = {**instance("db"), "state": ACTIVE, "result": {"volumes": {"db": 2}, "boot_order": {"db": 0}}}
    del web["spec"]["volumes"]
    assert outcome_of_create.differs(web) is None


def test_what_no_host_has_is_made_for_an_instance_that_is_there_and_so_is_what_an_ended_run_had_begun():
    db = volume_uuid("default", "db")
    wanted = [{"name": "db", "uuid": db}]
    assert volume_hosts.to_have(fleet(kvm1=[], kvm2=[]), "web1", "u1", "kvm1", wanted, ()) == [db]
    for phase, role in (("claimed", "CLAIM"), ("building", "OWN")):
        left = told(phase=phase, role=role)
        assert volume_hosts.to_have(fleet(kvm1=[left], kvm2=[]), "web1", "u1", "kvm1", wanted, ()) == [db]
        with pytest.raises(VolumeUnknown):  # that run had not read all hosts after its claim
            volume_hosts.to_have(fleet(kvm1=[left], silent=["kvm2"]), "web1", "u1", "kvm1", wanted, ())
    assert volume_hosts.to_have(fleet(kvm1=[told(instance=WEB1)]), "web1", "u1", "kvm1", wanted, ()) == []


def test_what_ended_runs_had_begun_on_two_hosts_can_be_removed():
    both = fleet(kvm1=[told(phase="claimed", role="CLAIM")], kvm2=[told(phase="claimed", role="CLAIM")])
    assert volume_hosts.to_delete(both, "db", volume_uuid("default", "db"), {}, ()) == "kvm1"


BEGUN = {"phase": "claimed", "role": "CLAIM"}


@pytest.mark.parametrize("own", ["kvm1", "kvm2"])
def test_of_the_claims_of_several_runs_an_instance_goes_on_with_its_own(own):
    """Its run reads all hosts after that, and gives way if need be."""
    claims = {"kvm1": told(instance=WEB2, **BEGUN), "kvm2": told(**BEGUN)} | {own: told(instance=WEB1, **BEGUN)}
    web = settled(instance("db"), fleet(**{host: [claim] for host, claim in claims.items()}))
    assert web["spec"].get("requested_destination", {}).get("host") == own


@pytest.mark.parametrize("others", ["kvm1", "kvm2"])
def test_without_a_claim_of_its_own_an_instance_waits_for_the_one_that_has_one(others):
    claims = {"kvm1": told(**BEGUN), "kvm2": told(**BEGUN)} | {others: told(instance=WEB2, **BEGUN)}
    web = settled(instance("db"), fleet(**{host: [claim] for host, claim in claims.items()}))
    assert web["error"]["code"] == "VolumeInUse" and "claimed for web2" in web["error"]["message"]


@pytest.mark.follows("delete_begun_elsewhere")
def test_of_claims_that_belong_to_no_instance_none_is_gone_on_with_until_all_but_one_are_deleted():
    web = settled(instance("db"), fleet(kvm1=[told(**BEGUN)], kvm2=[told(**BEGUN)]))
    assert web["error"]["code"] == "VolumeConflict"
    assert "begun to make volume db on kvm1 and on kvm2" in web["error"]["message"]
    assert web["error"]["hint"] == volume_hints.delete_begun_elsewhere("db", "default", "kvm1")
    assert (
        volume_hosts.to_delete(fleet(kvm1=[told(**BEGUN)], kvm2=[told(**BEGUN)]), "db", told()["uuid"], {}, ())
        == "kvm1"
    )
    alone = settled(instance("db"), fleet(kvm1=[], kvm2=[told(**BEGUN)]))
    assert alone["spec"]["requested_destination"]["host"] == "kvm2"


def test_a_volume_whose_record_a_host_cannot_read_is_neither_made_attached_nor_removed():
    db, said = volume_uuid("default", "db"), "the record is damaged"
    has = Fleet({"kvm1": {"volumes": []}, "kvm2": {"volumes": [told("log")], "damaged_volumes": {db: said}}}, {})
    web = settled(instance("db"), has)
    assert (web["state"], web["error"]["code"]) == (FAILED, "VolumeDamaged")
    assert "kvm2" in web["error"]["message"] and said in web["error"]["message"]
    for refused in (
        lambda: volume_hosts.to_delete(has, "db", db, {"db": {}}, ()),
        lambda: volume_hosts.to_have(has, "web1", "u1", "kvm2", [{"name": "db", "uuid": db, "size_gb": 2}], ()),
    ):
        with pytest.raises(VolumeDamaged):
            refused()
    assert settled(instance("log", of=WEB2), has)["spec"]["requested_destination"]["host"] == "kvm2"
