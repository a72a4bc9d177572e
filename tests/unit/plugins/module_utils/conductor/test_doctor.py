# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What shows when the answers of the hosts are compared with each other and with the inventory."""

from __future__ import annotations

import inspect
import re

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import packet_path
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor as host_doctor
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet, read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import (
    fleet_hints,
    hints,
    host_hints,
    packet_hints,
    state_hints,
    volume_hints,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

WEB, DB = (instance_uuid("default", name) for name in ("web1", "db"))
IN_INVENTORY = {WEB: "web1"}


def place(uuid=WEB, name="web1", **change):
    return {
        "uuid": uuid, "name": name, "foreign": False, "role": "OWN", "phase": "active", "generation": [1, 2], "task_state": None,
        "vm_state": "active", "power_state": "running", "domain_differs": None, **change,
    }  # fmt: skip


def fleet(places=None, verdicts=None, notes=None, **documents):
    """kvm1 and kvm2; ``places``: host -> instances."""
    found = {
        host: {
            "uuid": "uuid-of-" + host,
            "prepared": True,
            "instances": (places or {}).get(host, []),
            **documents.get(host, {}),
        }
        for host in ("kvm1", "kvm2")
        if host not in (verdicts or {})
    }
    return Fleet(found, verdicts or {}, notes or {})


def failure(uuid, name, **change):
    """As a host reports an instance that it failed to build."""
    said = {"code": "DiskExists", "message": "there is a disk"}
    return {"uuid": uuid, "name": name, "project_id": "default", **said, **change}


def examine(case, checkups=None, in_inventory=None, asked=(100.0, 105.0), wished_nics=None):
    return doctor.examine(
        doctor.Case(
            case, checkups or {}, in_inventory or IN_INVENTORY, ["kvm1", "kvm2"], asked, {WEB: wished_nics or []}
        )
    )


def shown(found):
    return [(one.code, one.severity, one.where, one.instance) for one in found]


WELL = {"kvm1": [place()]}
VOLUME = {
    "uuid": DB, "name": "db", "project_id": "default", "size_gb": 20, "pool": "berth", "instance": None, "role": "OWN",
    "phase": "active", "changed_at": "2026-11-22T00:00:00Z",
}  # fmt: skip
DIFFERS = {"next_start": [["vcpus", "1", "4"]]}


def test_the_first_line_of_a_finding_has_its_severity():
    found = [doctor.Finding("A", severity, "kvm1", "said", "todo") for severity in doctor.SEVERITIES]
    mended = doctor.Finding("B", "warning", "kvm1", "said", "todo", fixed=True)
    kinds = [getattr(line, "kind", "") for line in doctor.lines([*found, mended])]
    assert kinds == ["", "failed", "", "", "warning", "", "", "", "", "", "changed", ""]


def test_nothing_is_found_where_nothing_is_wrong():
    clocks = {"kvm1": {"clock": 102.0, "findings": []}, "kvm2": {"clock": 50.0, "findings": []}}
    assert examine(fleet(WELL), clocks) == []
    assert doctor.lines([]) == ["Nothing was found."]


def test_a_volume_that_two_hosts_have_is_found_and_nobody_is_told_to_use_or_delete_one_of_them():
    """Both are refused until somebody has said which is right."""
    held = {**VOLUME, "instance": {"uuid": WEB, "name": "web1"}}
    (found,) = examine(fleet(WELL, kvm1={"volumes": [held]}, kvm2={"volumes": [VOLUME]}))
    assert shown([found]) == [("VolumeDuplicate", "error", "", "")]
    assert found.said == "there is a volume db on kvm1 (attached to web1) and on kvm2 (free)"
    assert found.todo == volume_hints.keep_one_volume("db", VOLUME["uuid"], ["kvm1", "kvm2"])
    leaving = {**VOLUME, "role": "OUT"}
    assert examine(fleet(WELL, kvm1={"volumes": [held]}, kvm2={"volumes": [leaving]})) == []


@pytest.mark.parametrize(
    "case, expected",
    [
        (fleet(WELL, {"kvm2": "UNREACHABLE: no answer"}), ("HostLeftOut", "error", "kvm2", "")),
        (fleet(WELL, kvm2={"prepared": False}), ("HostNotPrepared", "error", "kvm2", "")),
        (fleet({"kvm1": [place()], "kvm2": [place()]}), ("DuplicateInstance", "error", "", "web1")),
        (
            fleet({"kvm1": [place(phase="resizing", task_state="resize_prep")]}),
            ("ChangeNotEnded", "warning", "kvm1", "web1"),
        ),
        (fleet({"kvm1": [place(vm_state="resized")]}), ("NotConfirmed", "note", "kvm1", "web1")),
        (
            fleet(
                {
                    "kvm1": [place(role="OUT", phase="keep", task_state="resize_migrated")],
                    "kvm2": [place(vm_state="resized")],
                }
            ),
            ("NotConfirmed", "note", "kvm2", "web1"),
        ),
        (fleet({"kvm1": [place(domain_differs=DIFFERS)]}), ("DomainDiffers", "warning", "kvm1", "web1")),
        (fleet(WELL, kvm2={"failed_instances": [failure(DB, "db")]}), ("BuildFailed", "warning", "kvm2", "db")),
        (fleet(), ("InstanceMissing", "note", "", "web1")),
    ],
)
def test_what_shows_in_the_answers_is_found(case, expected):
    assert shown(examine(case)) == [expected]


def test_an_instance_that_was_renamed_is_found_while_the_inventory_has_its_old_name():
    renamed = fleet({"kvm1": [place(name=WEB, own_name="web9", project_id="default")]})
    (found,) = examine(renamed)
    assert shown([found]) == [("InstanceRenamed", "warning", "", "web1")]
    assert (found.said, found.todo) == (
        "web1 is web9 of project default, as kvm1 says",
        fleet_hints.name_renamed("web9", WEB),
    )
    assert examine(renamed, in_inventory={WEB: "web9"}) == []


def test_a_failed_build_of_an_instance_that_the_inventory_has_no_longer_is_told_with_its_name_and_what_the_host_said():
    (found,) = examine(fleet(WELL, kvm2={"failed_instances": [failure(DB, "db")]}))
    assert found.todo.endswith("berth.kvm.delete -e berth_name=db to forget it")
    assert found.said == "it could not be built: DiskExists: there is a disk"
    (found,) = examine(fleet(WELL, kvm2={"failed_instances": [failure(DB, "db", project_id="acme")]}))
    assert "-e berth_name=db -e berth_project=acme " in found.todo
    (found,) = examine(fleet(WELL, kvm2={"failed_instances": [failure(DB, DB)]}))
    assert "berth.kvm.delete" not in found.todo, "a name that does not give the uuid could be that of another instance"


def test_an_instance_of_the_inventory_that_could_not_be_built_is_told_once():
    listed = examine(fleet({}, kvm2={"failed_instances": [failure(WEB, "web1")]}))
    assert [(one.code, one.todo) for one in listed] == [("BuildFailed", hints.create_or_delete("web1"))]


def test_a_failed_build_that_another_host_made_is_no_finding_since_its_hint_deletes_the_instance():
    def found_with(places, **more):
        return [one.code for one in examine(fleet(places, kvm2={"failed_instances": [failure(WEB, "web1")]}, **more))]

    assert found_with(WELL) == []
    known = {"host": "kvm1", "host_uuid": "uuid-of-kvm1", "generation": [2, 0], "at": None}
    assert found_with({}, notes={"uuid-of-kvm2": {WEB: {"known": known}}}) == ["RecordMissing"]
    without = fleet({}, kvm2={"failed_instances": [failure(WEB, "web1")]})
    without.strays[WEB] = [{"host": "kvm1", "name": WEB, "managed": True, "damaged": None, "power_state": "running"}]
    assert [one.code for one in examine(without)] == ["DomainWithoutRecord"]


def test_a_nic_without_the_packet_filter_that_the_inventory_asks_for_is_found_with_what_gives_it_one():
    case = fleet({"kvm1": [place(unfiltered=["02:00:00:00:00:01"])]})
    wish = {"mac": "02:00:00:00:00:01", "security": {"groups": [], "rules": None, "allowed": []}}
    assert examine(case, wished_nics=[wish]) == [], "nobody asks for it"
    (found,) = examine(case, wished_nics=[{**wish, "port_security": True}])
    assert shown([found]) == [("PacketFilterMissing", "warning", "kvm1", "web1")]
    assert found.said == "network interface 02:00:00:00:00:01 has no packet filter"
    assert found.todo == packet_hints.filter_nics("web1", True)


@pytest.mark.parametrize(
    "phase, task_state, todo",
    [
        ("frozen", "resize_migrating", "revert_resize"),
        ("active", "rebooting", "berth.kvm.start --limit web1"),
        ("active", "powering-on", "berth.kvm.start --limit web1"),
        ("active", "powering-off", "berth.kvm.stop --limit web1"),
        ("active", "spawning", "berth.kvm.create --limit web1"),
        ("building", "block_device_mapping", "berth.kvm.create --limit web1"),
        ("deleting", "deleting", "berth.kvm.delete --limit web1"),
        ("setting_aside", "powering-off", "berth.kvm.keep_one_copy"),
    ],
)
def test_what_to_do_about_a_change_that_has_not_ended_ends_that_change(phase, task_state, todo):
    found = examine(fleet({"kvm1": [place(phase=phase, task_state=task_state)]}))
    assert [one.code for one in found] == ["ChangeNotEnded"] and todo in found[0].todo


def test_what_somebody_changed_in_libvirt_is_found_with_the_command_that_repairs_it():
    (found,) = examine(fleet({"kvm1": [place(domain_differs=DIFFERS)]}))
    assert found.said == "changed in libvirt: vcpus 4 (record: 1)"
    assert found.todo == "It is repaired at the next start or with " + hints.mend("web1")


@pytest.mark.follows("list_again")
def test_instances_that_somebody_renamed_in_the_inventory_are_named_until_they_have_their_names_back():
    places = {"kvm1": [place(), place(DB, "db")]}
    (found,) = examine(fleet(places))
    assert shown([found]) == [("InstancesNotInInventory", "note", "kvm1", "")]
    assert "does not have: db" in found.said and found.todo == fleet_hints.list_again()
    assert examine(fleet(places), in_inventory={**IN_INVENTORY, DB: "db"}) == []


@pytest.mark.parametrize(
    "name, project, listed, options",
    [
        ("db", "default", False, "-e berth_name=db"),
        ("web1", "lab", False, "-e berth_name=web1 -e berth_project=lab"),
        ("db", "default", True, "--limit db"),
    ],
)
def test_what_is_advised_for_an_instance_that_no_inventory_has_selects_that_one(name, project, listed, options):
    """Of two projects' instances with one name, --limit would select the other one."""
    uuid = instance_uuid(project, name)
    it = place(uuid, name, project_id=project, phase="starting", task_state="powering-on", domain_differs=DIFFERS)
    off = {"code": "GuestOff", "severity": "warning", "uuid": uuid, "said": "it is off", "fixed": False}
    checkup = {"findings": [off], "clock": 102.0}
    known = {**IN_INVENTORY, **({uuid: name} if listed else {})}
    found = examine(fleet({"kvm1": [place(), it]}), {"kvm1": checkup}, known)
    todo = {one.code: one.todo for one in found}
    for code, hint in (("GuestOff", fleet_hints.recover_or_start), ("DomainDiffers", hints.mend)):
        assert hint(name).replace("--limit " + name, options) in todo[code]
    assert options in todo["ChangeNotEnded"] and ("--limit" in str(todo)) is listed


def test_what_a_host_says_an_instance_is_called_selects_no_other_instance():
    (found, *_more) = examine(fleet({"kvm1": [place(DB, "web9", domain_differs=DIFFERS)]}))
    assert "berth_name" not in found.todo


def test_a_guest_without_a_record_is_found_and_a_foreign_one_is_left_alone():
    case = fleet(WELL)
    stray = {"host": "kvm2", "name": "all", "power_state": "running"}
    case.strays = {DB: [{**stray, "managed": True}], "x": [{**stray, "managed": False}]}
    (found,) = examine(case)
    assert shown([found]) == [("DomainWithoutRecord", "error", "kvm2", DB)]
    assert "--limit" not in found.todo, "no inventory has a host that is called by a uuid"
    assert "restore_record -e berth_name=NAME" in found.todo and "virsh dumpxml %s` on kvm2" % DB in found.todo


def test_the_disks_of_a_guest_without_a_record_are_not_told_as_disks_that_somebody_may_move_away():
    disks = {"code": "DisksWithoutRecord", "severity": "error", "said": "disks in /pool/x", "uuid": DB, "fixed": False}
    checkups = {"kvm2": {"clock": 102.0, "findings": [disks]}}
    case = fleet(WELL)
    assert [one.code for one in examine(case, checkups)] == ["DisksWithoutRecord"]
    stray = {"host": "kvm2", "name": DB, "power_state": "running", "managed": True}
    case.strays = {DB: [stray]}
    assert [one.code for one in examine(case, checkups)] == ["DomainWithoutRecord"]
    case.strays = {DB: [{**stray, "host": "kvm1"}]}
    assert sorted(one.code for one in examine(case, checkups)) == ["DisksWithoutRecord", "DomainWithoutRecord"]


ADDRESS, MAC = "address 192.0.2.10 on bridge br0", "MAC address 02:00:00:00:00:01"


def test_a_lost_host_that_is_back_with_its_side_of_an_ended_move_is_told_as_by_every_run():
    """keep_one would refuse the copy that is in the move."""
    back = {"kvm1": [place(generation=[3, 1])], "kvm2": [place(phase="resized", generation=[2, 9])]}
    (found,) = examine(fleet(back))
    assert shown([found]) == [("DuplicateInstance", "error", "", "web1")]
    assert found.said == "the move of web1 has ended, but kvm2 still holds a part of it (kvm1, kvm2)"
    assert found.todo == hints.confirm_or_revert_left("web1", "kvm2")
    back["kvm1"][0]["generation"] = [1, 9]
    (found,) = examine(fleet(back))
    assert "keep_one" in found.todo, "the move went on, and the copy at rest is an old one"


@pytest.mark.follows("same_address")
def test_an_address_that_two_have_is_found_until_one_of_them_is_gone():
    """Nobody gives it twice, but who restores an old state directory, or clones a guest, has it twice."""
    both = {"kvm1": [place(nics=[ADDRESS, MAC])], "kvm2": [place(DB, "db", nics=[MAC, ADDRESS])]}
    names = {**IN_INVENTORY, DB: "db"}
    (found,) = examine(fleet(both), in_inventory=names)
    assert shown([found]) == [("AddressTaken", "error", "", "db")]
    assert found.said == "db on kvm2 and web1 on kvm1 each have %s, %s" % (MAC, ADDRESS)
    assert found.todo == fleet_hints.same_address(["db", "web1"]) and "stop --limit db," in found.todo
    assert (
        examine(fleet({**both, "kvm2": [place(DB, "db", nics=[ADDRESS.replace("10", "11")])]}), in_inventory=names)
        == []
    )


@pytest.mark.parametrize(
    "other, told",
    [
        (place("x", "clone", foreign=True, role=None, nics=[MAC]), ["AddressTaken"]),
        (place("x", "db", role="CLAIM", nics=[ADDRESS]), []),
        (place(WEB, role="OUT", nics=[ADDRESS, MAC]), []),
    ],
    ids=["a guest that somebody cloned", "a claim, whose run looks itself", "the other side of a move"],
)
def test_who_else_has_the_address_of_an_instance(other, told):
    found = examine(fleet({"kvm1": [place(nics=[ADDRESS, MAC])], "kvm2": [other]}))
    assert [one.code for one in found if one.severity == "error"] == told


def test_a_guest_without_a_record_has_the_name_that_recover_record_takes():
    """libvirt calls it by its uuid."""
    case = fleet(WELL)
    case.strays = {DB: [{"host": "kvm2", "name": DB, "power_state": "running", "managed": True}]}
    (found,) = examine(case, in_inventory={**IN_INVENTORY, DB: "db"})
    assert found.instance == "db" and "restore_record --limit db " in found.todo


def known(host, uuid):
    return {"known": {"host": host, "host_uuid": "uuid-of-" + host, "generation": [1, 4]}, "planned": [], "gone": None}


def test_a_host_that_left_the_inventory_is_named_with_what_it_holds_as_the_others_remember():
    case = fleet(WELL, notes={"uuid-of-kvm1": {DB: known("kvm9", DB)}, "uuid-of-kvm2": {DB: known("kvm9", DB)}})
    found = examine(case, in_inventory={**IN_INVENTORY, DB: "db"})
    assert shown(found) == [("HostLeftInventory", "error", "kvm9", "")]
    assert found[0].said == "it is not in the inventory any more, and holds db"


@pytest.mark.follows("replaced")
def test_a_host_that_was_installed_anew_is_named_with_what_the_former_one_had():
    former = {"known": {"host": "kvm2", "host_uuid": "former", "generation": [1, 4]}, "planned": [], "gone": None}
    case = fleet(WELL, notes={"uuid-of-kvm1": {DB: former, WEB: former}})
    (found,) = examine(case, in_inventory={**IN_INVENTORY, DB: "db"})
    assert shown([found]) == [("HostReplaced", "error", "kvm2", "")] and "had db (it was host former)" in found.said
    assert found.todo == fleet_hints.replaced("kvm2", "former", [])


@pytest.mark.parametrize("where", ["kvm1", "kvm2"])
def test_what_a_host_of_the_inventory_holds_has_not_left(where):
    notes = {"uuid-of-kvm1": {WEB: known(where, WEB)}}
    assert examine(fleet(WELL, notes=notes)) == []


def test_a_host_of_the_inventory_that_is_silent_has_neither_left_nor_been_replaced():
    notes = {"uuid-of-kvm1": {DB: known("kvm2", DB)}}
    found = examine(fleet(WELL, {"kvm2": "UNREACHABLE"}, notes), in_inventory={**IN_INVENTORY, DB: "db"})
    assert not {one.code for one in found} & {"HostLeftInventory", "HostReplaced"}


def test_an_instance_that_went_on_elsewhere_is_held_by_no_host_that_left():
    assert examine(fleet(WELL, notes={"uuid-of-kvm2": {WEB: known("kvm9", WEB)}})) == []


def test_a_record_that_its_host_lost_is_found_until_that_host_says_that_it_removed_the_instance():
    """Nothing else of it is left there that the host itself could find."""
    notes = {"uuid-of-kvm1": {DB: known("kvm2", DB)}}
    (found,) = examine(fleet(WELL, notes=notes), in_inventory={**IN_INVENTORY, DB: "db"})
    assert shown([found]) == [("RecordMissing", "error", "kvm2", "db")]
    assert found.todo == state_hints.restore_record_or_delete("db", "kvm2")
    notes["uuid-of-kvm2"] = {DB: {"known": None, "planned": [], "gone": [1, 4]}}
    found = examine(fleet(WELL, notes=notes), in_inventory={**IN_INVENTORY, DB: "db"})
    assert shown(found) == [("InstanceMissing", "note", "", "db")]


def test_a_host_whose_state_directory_changed_is_left_out_with_what_to_do_about_it():
    state = {"id": None, "serial": 0, "fault": "the state directory /var/lib/berth is older than it was"}
    case = read_fleet({"kvm1": {"document": {"uuid": "uuid-of-kvm1", "instances": [], "state": state}}}, dict)
    (found, *_others) = examine(case)
    assert shown([found]) == [("HostLeftOut", "error", "kvm1", "")]
    assert "berth_host_accept_state_directory=true" in found.said


def test_while_a_host_is_silent_no_instance_is_missing():
    assert [one.code for one in examine(fleet(verdicts={"kvm2": "UNREACHABLE: x"}))] == ["HostLeftOut"]


@pytest.mark.follows("set_clock")
@pytest.mark.parametrize("clock, off", [(20.0, 80), (200.0, 95), (41.0, None), (164.0, None), (102.0, None)])
def test_a_clock_that_differs_is_told_with_the_time_that_the_answer_took_taken_off(clock, off):
    found = examine(fleet(WELL), {"kvm1": {"clock": clock, "findings": []}})
    assert [one.said for one in found] == (["its clock is %d s off the controller's" % off] if off else [])
    assert all(one.todo == host_hints.set_clock("kvm1") and one.severity == "warning" for one in found)


@pytest.mark.follows("make_bridge")
@pytest.mark.parametrize("gone", ["", host_hints.NO_BRIDGE])
def test_a_tap_whose_bridge_is_gone_is_not_repaired_before_the_bridge_is_made_again(gone):
    said = "web1, network interface 02:00:00:00:00:01: its tap vnet4 is on brx, not on br0" + gone
    finding = {"code": "NicNotConnected", "severity": "error", "uuid": WEB, "said": said, "fixed": False}
    (one,) = examine(fleet(WELL), {"kvm1": {"clock": 102.0, "findings": [finding]}})
    assert one.todo == (fleet_hints.make_bridge("br0", "kvm1") if gone else packet_hints.packets_of_guest("web1"))


def test_each_code_that_a_host_may_send_has_something_to_do():
    sent = set(re.findall(r'finding\(\s*"(\w+)"', inspect.getsource(host_doctor)))
    of_packets = {packet_path.UNPLUGGED, packet_path.OPEN, packet_path.CLOSED}
    assert sent and sent | {"StateUnsafe", *host_doctor.SAID} | of_packets == set(doctor.TODO)


def test_the_table_has_80_columns_the_worst_first_and_each_says_what_to_do():
    told = [{"code": code, "severity": severity, "said": "x " * 90, "uuid": WEB, "fixed": fixed}
            for code, severity, fixed in (("GuestPaused", "warning", False), ("PoolMissing", "error", True))]  # fmt: skip
    found = examine(fleet(WELL), {"kvm1": {"clock": 102.0, "findings": told}})
    lines = doctor.lines(found)
    assert [one.severity for one in found] == ["error", "warning"]
    assert max(map(len, lines)) <= 80
    assert "(repaired)" in " ".join(lines) and "-> berth.kvm.start resumes web1" in " ".join(lines)


def test_what_a_newer_host_says_is_shown_too():
    told = {"code": "Unheard", "severity": "error", "said": "x", "uuid": None, "fixed": False}
    found = examine(fleet(WELL), {"kvm1": {"clock": 102.0, "findings": [told]}})
    assert shown(found) == [("Unheard", "error", "kvm1", "")]
    assert found[0].todo == host_hints.check_again("kvm1")


@pytest.mark.follows("use_or_delete_volume")
@pytest.mark.parametrize("project", ["default", "blue"])
def test_a_free_volume_is_told_until_an_instance_has_it_or_it_is_gone(project):
    free = {**VOLUME, "project_id": project}
    (found,) = examine(fleet(WELL, kvm1={"volumes": [free]}))
    assert shown([found]) == [("VolumeFree", "note", "kvm1", "")]
    assert found.said == "no instance has volume db of 20 GiB in pool berth since 2026-11-22T00:00:00Z"
    assert found.todo == volume_hints.use_or_delete_volume("db", project)
    assert ("-e berth_project=blue" in found.todo) is (project == "blue")
    used = {**free, "instance": {"uuid": WEB, "name": "web1"}}
    assert examine(fleet(WELL, kvm1={"volumes": [used]})) == [] == examine(fleet(WELL, kvm1={"volumes": []}))


@pytest.mark.parametrize(
    "change", [{"role": "IN"}, {"role": "OUT"}, {"role": "CLAIM"}, {"phase": "building"}, {"phase": "deleting"}]
)
def test_a_volume_on_its_way_or_being_made_is_not_free(change):
    assert examine(fleet(WELL, kvm1={"volumes": [{**VOLUME, **change}]})) == []


def test_a_volume_whose_record_another_host_of_the_storage_has_or_may_have_is_not_without():
    stray = {"code": "VolumeWithoutRecord", "severity": "error", "said": "/pool/volumes/x", "uuid": DB, "fixed": False}
    checkups = {"kvm1": {"clock": 102.0, "findings": [stray]}}
    (found,) = examine(fleet(WELL), checkups)
    assert (found.code, found.todo) == ("VolumeWithoutRecord", volume_hints.restore_volume_record(DB))
    used = {**VOLUME, "instance": {"uuid": WEB, "name": "web1"}}
    assert examine(fleet(WELL, kvm2={"volumes": [used]}), checkups) == []
    silent = examine(fleet(WELL, {"kvm2": "UNREACHABLE: no answer"}), checkups)
    assert [found.code for found in silent] == ["HostLeftOut"]


@pytest.mark.follows("make_room_in_pool")
def test_a_pool_that_others_have_filled_is_found_and_is_not_once_there_is_room():
    def pools(free_gb, promised_gb=0, name="berth"):
        pool = {"path": "/srv", "capacity_gb": 9, "free_gb": free_gb, "promised_gb": promised_gb}
        return examine(fleet(WELL, kvm2={"pool": "berth", "pools": {name: pool}}))

    [found] = pools(0, promised_gb=3)
    assert (found.code, found.severity, found.where) == ("PoolFull", "warning", "kvm2")
    assert found.said == "less than 1 GiB is free in pool berth of 9 GiB (/srv), of which 3 are promised to instances"
    assert found.todo == host_hints.make_room_in_pool("/srv")
    assert [one.code for one in pools(0)] == ["PoolFull"] and pools(1, promised_gb=9) == []
    assert pools(0, name="iso") == [], "a pool that no instance uses"
    assert [one.code for one in pools(0, promised_gb=1, name="fast")] == ["PoolFull"]


@pytest.mark.parametrize(
    "numbers, reserved, said",
    [
        ((9, 3, 8, 8), 0, "of the 9 GiB of storage pool berth 3 are free, and disks that were promised there may still take 8: "
         "6 GiB are taken by what was promised to no instance (0 are reserved). "),
        ((9, 3, 0, 0), 0, "6 GiB are taken by what was promised to no instance"),
        ((9, 3, 8, 8), 6, None),
        ((9, 3, 6, 0), 0, None),
        ((100, 90, 0, 0), 0, None),
        ((9, 9, 30, 30), 0, None),
    ],
    ids=["full of others", "nothing promised yet", "reserved for them", "of instances", "a few images", "overcommitted"],
)  # fmt: skip
def test_a_pool_that_placement_gives_away_though_others_fill_it_is_told_with_its_numbers(numbers, reserved, said):
    capacity, free, promised, owed = numbers
    pool = {"path": "/srv", "capacity_gb": capacity, "free_gb": free, "promised_gb": promised, "owed_gb": owed}
    found = examine(fleet(WELL, kvm2={"pool": "berth", "reserved_host_disk_gb": reserved, "pools": {"berth": pool}}))
    assert [(one.code, one.where) for one in found] == ([("PoolOverpromised", "kvm2")] if said else [])
    assert not said or said in found[0].said and found[0].todo == host_hints.make_room_in_pool("/srv")


def cpus(*usable, model=None):
    facts = {"kvm%d" % (at + 1): {"guest_cpu": {"model": model, "usable": each}} for at, each in enumerate(usable)}
    return examine(fleet(WELL, **facts))


@pytest.mark.follows("name_cpu_model")
def test_the_newest_cpu_model_that_all_hosts_have_is_named_where_they_differ():
    both = (["Haswell", "Skylake-Client"], ["Skylake-Client", "EPYC", "Haswell"])
    (found,) = cpus(*both)
    assert (found.code, found.severity) == ("CpusDiffer", "note")
    assert found.said == "the CPU models of kvm1, kvm2 differ; the newest that all 2 hosts can run is Skylake-Client"
    assert "berth_host_cpu_models: [Skylake-Client]" in found.todo
    assert cpus(*both, model="Skylake-Client") == [] == cpus(["Haswell", "EPYC"], ["EPYC", "Haswell"])
    assert "no known one" in cpus(["Haswell"], ["EPYC"])[0].said


def test_a_full_pool_says_what_its_cached_images_take():
    pool = {"path": "/srv", "capacity_gb": 9, "free_gb": 0, "promised_gb": 3, "images_mb": 2048}
    (found,) = examine(fleet(WELL, kvm2={"pool": "berth", "pools": {"berth": pool}}))
    assert found.said.endswith("; cached images take 2048 MiB") and "berth_host_remove_unused_images" in found.todo
