# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts the playbooks for existing instances ask, and what a person has to say first."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
from held_case import WEB, held

from ansible_collections.berth.kvm.plugins.module_utils.conductor import outcome_of_operation
from ansible_collections.berth.kvm.plugins.module_utils.conductor.operations import OPERATIONS, needs_selection
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import Done
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import engine
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import driving, locating


def test_of_two_copies_the_one_that_is_named_stays_above_the_generation_of_the_other(locate):
    copies = {"h1": [held(power_state="shutdown")], "h2": [held(generation=[2, 7])]}
    located = locate("keep_one", {"berth_keep_on": "h1"}, **copies)
    task = located["instances"]["web1"]
    assert task.pop("to_tell")["told"]["after"] == {WEB: 2}
    assert task == {
        "uuid": WEB,
        "hosts": ["h2"],
        "stays": "h1",
        "others": ["h2"],
        "above": [2, 7],
        "comes_back": False,
        "listed": False,
    }
    assert located["found"] == ["web1"] and located["shown"]["web1"]["host"] == "h1"


@pytest.mark.follows("keep_one_confirmed")
def test_two_copies_that_run_need_to_be_confirmed_a_second_time(locate):
    copies = {"h1": [held()], "h2": [held(power_state="paused")]}
    refused = locate("keep_one", {"berth_keep_on": "h1"}, **copies)
    assert refused["found"] == [] and "DuplicateRuns" in refused["errors"]["web1"]
    assert "-e berth_keep_on_confirmed=true" in refused["errors"]["web1"]
    confirmed = locate("keep_one", {"berth_keep_on": "h1", "berth_keep_on_confirmed": "true"}, **copies)
    assert (confirmed["instances"]["web1"]["hosts"], confirmed["errors"]) == (["h2"], {})


def test_the_addresses_are_those_of_the_record_and_nothing_else_that_a_host_says(locate):
    told = ["MAC address 02:00:00:00:00:0a", "address 192.0.2.7 on bridge br0", "address no-such on bridge br0"]
    shown = locate("start", {}, h1=[held(nics=told)])["shown"]["web1"]
    assert shown == {"host": "h1", "flavor": None, "networks": [{"address": "192.0.2.7"}]}
    assert locate("start", {}, h1=[held()])["shown"]["web1"]["networks"] == []


@pytest.mark.parametrize("named", [None, "h3", "no such host"])
def test_the_host_whose_copy_stays_is_one_that_owns_it(locate, named):
    run = {"berth_keep_on": named} if named else {}
    refused = locate("keep_one", run, h1=[held()], h2=[held(power_state="shutdown")], h3=[])
    assert refused["found"] == [] and "berth_keep_on" in refused["errors"]["web1"]


@pytest.mark.parametrize("method", ["delete", "start", "stop", "recover"])
def test_a_name_that_is_in_no_inventory_and_on_no_host_fails_with_what_was_probably_meant(locate, method):
    known = {"uuid": instance_uuid("default", "web2"), "name": "web2"}
    refused = locate(method, {"berth_name": "web1"}, unknown=True, h1=[held(**known)])
    assert refused["found"] == [] and "web1 is in no inventory and on no host" in refused["errors"]["web1"]
    assert refused["errors"]["web1"].endswith(". Similar names: web2")


@pytest.mark.follows("name_its_project")
@pytest.mark.parametrize("method", ["delete", "start", "stop"])
def test_a_name_that_another_project_has_is_found_once_the_project_is_named(locate, method):
    there = held(uuid=instance_uuid("blue", "web1"), name="web1", project_id="blue")
    refused = locate(method, {"berth_name": "web1"}, unknown=True, h1=[there])
    assert "web1 is in no inventory, and on hosts in another project: blue" in refused["errors"]["web1"]
    assert fleet_hints.name_its_project("web1", "blue") in refused["errors"]["web1"]
    assert locate(method, {"berth_name": "web1", "berth_project": "blue"}, unknown=True, h1=[there])["found"] == [
        "web1"
    ]


def test_of_an_instance_of_the_inventory_it_is_said_that_only_another_project_has_it(locate):
    there = held(uuid=instance_uuid("blue", "web1"), name="web1", project_id="blue")
    where = "is on no host in its project, but in project blue"
    assert locate("delete", {}, h1=[there])["skipped"] == {"web1": where}
    assert "web1 " + where in locate("start", {}, h1=[there])["errors"]["web1"]
    assert locate("delete", {}, h1=[held(), there])["skipped"] == {}


NOT_BUILT = {"uuid": WEB, "name": "web1", "project_id": "default", "code": "DiskExists", "message": "there is a disk"}


@pytest.mark.parametrize("method", ["lock", "reboot", "start", "stop", "unlock", "update_disks", "delete"])
def test_a_host_that_failed_to_build_what_another_one_made_is_asked_by_a_delete_alone(locate, method):
    """It would refuse, and say that a delete makes it forget the instance."""

    def hosts(*instances):
        located = locate(method, {}, h1=list(instances), h2=[], failed={"h2": [NOT_BUILT]})
        return located["instances"]["web1"]["hosts"]

    assert hosts(held()) == (["h2", "h1"] if method == "delete" else ["h1"]) and hosts() == ["h2"]


@pytest.mark.parametrize("locked", [{}, {"locked": "ann since 2026-11-28"}])
def test_an_unlock_asks_no_host_that_has_only_a_claim_of_the_instance(locate, locked):
    claim = held(role="CLAIM", phase="claimed", generation=[1, 1])
    located = locate("unlock", {}, h1=[held(**locked)], h2=[claim])
    assert located["instances"]["web1"]["hosts"] == ["h1"]


@pytest.mark.parametrize("method", ["delete", "stop", "recover"])
def test_what_is_in_the_inventory_and_on_no_host_needs_no_end(locate, method):
    located = locate(method, {}, h1=[])
    assert (located["found"], located["errors"], located["names"]) == ([], {}, ["web1"])


@pytest.mark.follows("create_it")
def test_a_start_of_what_is_on_no_host_fails_and_says_what_creates_it(locate):
    """tests/unit/plugins/action/test_placement.py places instances that are on no host."""
    refused = locate("start", {}, h1=[])
    assert "web1 is on no host" in refused["errors"]["web1"]
    assert hints.create_it("web1") == "Run berth.kvm.create --limit web1 to create it"
    assert hints.create_it("web1") in refused["errors"]["web1"]


@pytest.mark.parametrize("method", ["delete", "start"])
def test_a_silent_host_may_hold_it(locate, method):
    refused = locate(method, {}, h1=[], h2=None)
    assert "InstanceUnknown" in refused["errors"]["web1"] and "h2" in refused["left_out"]


def test_a_pattern_that_matches_no_instance_is_refused(locate):
    refused = locate("stop", {"berth_instances": "wbe1"}, names=[], h1=[held()])
    assert refused["error_code"] == "InstanceNotFound" and "Similar names: web1" in refused["msg"]


def test_a_kvm_host_that_is_misspelled_is_named(locate):
    refused = locate("keep_one", {"berth_keep_on": "h11"}, h1=[held()], h2=[held(generation=[2, 7])])
    assert "there is no KVM host h11. Did you mean h1?" in refused["errors"]["web1"]


def test_with_one_copy_there_is_nothing_to_set_aside(locate):
    assert locate("keep_one", {"berth_keep_on": "h1"}, h1=[held()], h2=[])["found"] == []


@pytest.mark.parametrize("change", [{"phase": "resized", "vm_state": "resized"}, {"phase": "frozen"}])
def test_a_copy_on_the_move_is_not_chosen_from(locate, change):
    refused = locate("keep_one", {"berth_keep_on": "h1"}, h1=[held(power_state="shutdown")], h2=[held(**change)])
    assert refused["found"] == [] and "InstanceMoving" in refused["errors"]["web1"]


@pytest.mark.follows("select_instances")
@pytest.mark.parametrize("method", ["keep_one", "remove_set_aside"])
def test_what_cannot_be_undone_is_done_only_to_instances_that_were_selected(locate, method):
    run = {"berth_keep_on": "h1", "berth_set_aside_on": "h2"}
    copies = {"h1": [held()], "h2": [held(power_state="shutdown")]}
    refused = locate(method, run, selected=False, **copies)
    assert refused["error_code"] == "SelectionNotExplicit" and "Say which with --limit" in refused["msg"]
    assert locate(method, run, **copies)["found"] == ["web1"]


ALL = {"berth_all": "true"}


@pytest.mark.parametrize("method", sorted(filter(needs_selection, OPERATIONS)))
def test_what_changes_guests_needs_a_selection_or_the_word_that_all_are_meant(locate, method, monkeypatch):
    monkeypatch.setattr(
        driving, "ask_each", lambda *given: {host: {"changed": False, "notes": {}} for host in given[3]}
    )
    run = {"berth_keep_on": "h1", "berth_set_aside_on": "h2", "berth_recover_on": "h1"}
    run |= {"berth_snapshot": "one", "berth_new_name": "web2", "berth_new_image": "golden"}
    refused = locate(method, run, selected=False, h1=[held()])
    assert refused["error_code"] == "SelectionNotExplicit" and hints.select_instances() in refused["msg"]
    for word in [ALL, {"berth_delete_all": True}] if method == "delete" else [ALL]:
        assert "names" in locate(method, {**run, **word}, selected=False, h1=[held()])
    if method != "delete":
        assert "failed" in locate(method, {**run, "berth_delete_all": True}, selected=False, h1=[held()])


def test_a_rename_to_its_first_name_is_run_again_by_that_name_and_no_other_thing_of_the_inventory_gives_its_name(
    locate, monkeypatch
):
    monkeypatch.setattr(driving, "ask_each", lambda *given: {host: {"notes": {}} for host in given[3]})
    again = locate("rename", {"berth_new_name": "web1"}, h1=[held()])
    assert (again["found"], again["errors"]) == (["web1"], {})
    assert "nothing else in the inventory" in locate("rename", {"berth_new_name": "h1"}, h1=[held()])["errors"]["web1"]


@pytest.mark.parametrize("method", ["recover", "console"])
def test_what_changes_nothing_that_was_not_asked_for_needs_no_selection(locate, method):
    assert locate(method, {}, selected=False, h1=[held()])["names"] == ["web1"]


@pytest.mark.parametrize(
    "pattern", ["all", "*", "all:!web2", "!web2", "~.*", "all[0:]", "?*", ["all"], "all,web1", "all:&*"]
)
def test_a_pattern_that_selects_all_and_names_nothing_is_no_selection(locate, pattern):
    refused = locate("stop", {"berth_instances": pattern}, h1=[held()])
    assert refused["error_code"] == "SelectionNotExplicit"
    assert "with this selection stop is about all instances of the inventory (1)" in refused["msg"]
    assert locate("stop", {"berth_instances": pattern, **ALL}, h1=[held()])["found"] == ["web1"]


@pytest.mark.parametrize("pattern", ["web1", "web*", "vms", "all:&vms", "w*:!web2", ["web1"]])
def test_a_pattern_that_names_something_is_a_selection_of_all_too(locate, pattern):
    assert locate("stop", {"berth_instances": pattern}, h1=[held()])["found"] == ["web1"]


def test_a_part_of_all_is_a_selection(locate):
    there = [held(), held(uuid=instance_uuid("default", "web2"), name="web2")]
    assert locate("stop", {"berth_instances": "all:!web2"}, more=["web2"], h1=there)["found"] == ["web1"]


PLAYBOOKS = Path(__file__).parents[4] / "playbooks"
SAYS_OPERATION = re.compile(r"__berth_(?:method|action): (\w+)")
# create, and what is about hosts, volumes, receipts or files, or only reads
OTHERS = {
    "apply_plan", "assert", "audit", "backtest", "capacity", "clone", "create", "delete_volume", "doctor", "drain", "evacuate", "events",
    "host_facts", "hosts", "prepare_registry", "restore_registry",
    "keep_one", "list", "movability", "place", "plan", "survive", "prepare_hosts", "recover", "recover_record", "remove_host",
    "refresh", "replay", "report", "return", "rolling_reboot", "rotate_authority", "show", "take_over", "use_registry", "watch",
    "what_if", "why",
    # other words, which import one of the playbooks or say which it is
    "confirm", "create_volume", "destroy", "info", "move", "remove", "restart", "revert", "shutdown", "status", "undrain",
}  # fmt: skip


def test_each_playbook_needs_a_selection_or_is_known_to_need_none():
    says = {path.stem: {*SAYS_OPERATION.findall(path.read_text("utf-8"))} for path in PLAYBOOKS.glob("*.yml")}
    assert {name for name, operations in says.items() if not operations} == OTHERS
    for name in says.keys() - OTHERS:
        text = (PLAYBOOKS / (name + ".yml")).read_text("utf-8").replace("\n# ", " ")
        assert ("Select the instances." in text) == all(map(needs_selection, says[name])), name
    assert "__berth_selection_given" in (PLAYBOOKS / "tasks/locate.yml").read_text("utf-8")
    assert "__berth_selection_given" in (PLAYBOOKS / "tasks/plan_moves.yml").read_text("utf-8")


def test_an_instance_that_is_refused_is_told_with_its_host_and_flavor(locate):
    refused = locate(
        "stop",
        {},
        {"berth_locked": True},
        h1=[held(flavor={"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1})],
    )
    shown = refused["shown"]["web1"]
    assert "web1" in refused["errors"] and (shown["host"], shown["flavor"]) == ("h1", "small")


def test_a_locked_instance_is_recovered_and_otherwise_left_alone(locate):
    off, lock = [held(power_state="shutdown")], {"berth_locked": True}
    assert locate("recover", {}, lock, h1=off)["found"] == ["web1"]
    for method in ("start", "stop", "delete", "keep_one"):
        refused = locate(method, {"berth_keep_on": "h1"}, lock, h1=off)
        assert refused["found"] == [] and "InstanceIsLocked" in refused["errors"]["web1"], method


@pytest.mark.follows("find_the_right_copy")
@pytest.mark.parametrize("method", ["start", "stop", "delete"])
def test_an_instance_with_two_owners_is_left_alone_until_one_was_chosen(locate, method):
    copies = {"h1": [held(power_state="shutdown")], "h2": [held(generation=[2, 7])]}
    refused = locate(method, {}, **copies)
    assert refused["found"] == [] and "run berth.kvm.keep_one_copy" in refused["errors"]["web1"]
    chosen = locate("keep_one", {"berth_keep_on": "h2"}, **copies)["instances"]["web1"]
    after = {"h1": [], "h2": [held(generation=[chosen["above"][0] + 1, 0])]}
    assert locate(method, {}, **after)["errors"] == {}


def test_of_two_owners_a_recovery_asks_only_the_older_one_whether_its_copy_is_outdated(locate):
    copies = {"h1": [held(power_state="shutdown")], "h2": [held(generation=[2, 7])]}
    task = locate("recover", {}, **copies)["instances"]["web1"]
    assert (task["hosts"], task["outdated"], task["stays"]) == (["h1"], ["h1"], "h2")


def test_a_lock_on_the_host_is_honoured_by_every_playbook_of_every_controller(locate):
    """This controller's inventory knows nothing of it."""
    locked = {"h1": [held(locked="ann@ctl since 2026-01-01T00:00:00Z: why", power_state="shutdown")]}
    for method in ("start", "stop", "reboot", "delete", "keep_one"):
        refused = locate(method, {"berth_keep_on": "h1"}, **locked)
        assert refused["found"] == [], method
        assert "is locked by ann@ctl" in refused["errors"]["web1"] and hints.unlock("web1") in refused["errors"]["web1"]
    for method in ("recover", "lock", "unlock"):
        assert locate(method, {}, **locked)["found"] == ["web1"], method


def test_of_two_copies_a_lock_is_taken_off_wherever_it_is(locate):
    copies = {"h1": [held(locked="ann")], "h2": [held(generation=[2, 7])]}
    assert locate("unlock", {}, **copies)["instances"]["web1"]["hosts"] == ["h1"]
    assert "InstanceIsLocked" in locate("keep_one", {"berth_keep_on": "h2"}, **copies)["errors"]["web1"]


@pytest.mark.parametrize("method", ["delete", "stop", "unshelve"])
@pytest.mark.parametrize("vm_state", ["active", "shelved_offloaded"])
def test_a_move_is_ended_first_by_a_delete_or_the_unshelve_of_what_is_shelved_and_nothing_else_is_done_in_it(
    locate, method, vm_state
):
    located = locate(method, {}, h1=[held(phase="resizing", task_state="resize_prep", vm_state=vm_state)])
    ends = method == "delete" or method == "unshelve" and vm_state != "active"
    assert (located["found"], located["moving"], "web1" in located["errors"]) == ([], ["web1"] * ends, not ends)


def test_over_a_registry_an_unshelve_ends_no_move(locate, monkeypatch):
    """It moves nothing there, so nobody would say what became of it."""
    monkeypatch.setattr(locating, "known_of", lambda _task_vars: engine.Known())
    in_move = held(phase="resizing", task_state="resize_prep", vm_state="shelved_offloaded")
    located = locate("unshelve", {}, h1=[in_move])
    assert located["moving"] == [] and "InstanceMoving" in located["errors"]["web1"]


@pytest.mark.parametrize("remembered", [True, False])
def test_who_deletes_an_instance_is_told_the_owner_that_hosts_remember(locate, remembered):
    """procedure delete has all hosts forget it by that. What the record itself says counts, too."""
    h1 = str(uuid.uuid5(uuid.NAMESPACE_DNS, "h1"))
    known = {"known": {"host": "h1", "host_uuid": h1, "generation": [1, 5]}, "planned": [], "gone": None}
    located = locate("delete", {}, notes={"h2": {WEB: known}} if remembered else {}, h1=[held()], h2=[])
    assert located["instances"]["web1"] == {
        "uuid": WEB,
        "hosts": ["h1"],
        "after": [1, 5],
        "owner": h1 if remembered else None,
        "given_up": False,
    }


@pytest.mark.parametrize("method", ["snapshots", "backups"])
def test_a_listing_needs_no_instance_but_fails_for_one_that_may_be_on_a_silent_host(locate, method):
    found = locate(method, {}, h1=[])
    assert not found["errors"] and found["instances"]["web1"]["hosts"] == []
    assert "InstanceUnknown" in locate(method, {}, h2=None, h1=[])["errors"]["web1"]


@pytest.mark.parametrize("method", ["lock", "unlock", "reboot"])
def test_what_may_be_on_a_silent_host_or_is_nowhere_is_not_locked_nor_rebooted(locate, method):
    known = {"h2": None, "h1": []}
    assert "InstanceUnknown" in locate(method, {}, **known)["errors"]["web1"]
    assert "InstanceNotFound" in locate(method, {}, h1=[])["errors"]["web1"]
    moving = locate(method, {}, h1=[held(phase="resizing", task_state="resize_prep")])["errors"]["web1"]
    assert moving.startswith("InstanceMoving: Cannot %s: " % method), "programs read the code"


@pytest.mark.follows("name_snapshot")
@pytest.mark.parametrize("method", ["snapshot", "revert_snapshot", "delete_snapshot"])
def test_a_run_says_which_snapshot_it_means_before_anything_is_done(locate, method):
    for none in ({}, {"berth_snapshot": ""}):
        refused = locate(method, none, h1=[held()])
        assert refused["error_code"] == "InvalidInput" and "-e berth_snapshot=NAME" in refused["msg"]
    assert locate(method, {"berth_snapshot": "one"}, h1=[held()])["found"] == ["web1"]


@pytest.mark.follows("create_follows")
@pytest.mark.parametrize("method, berth_state", [("stop", "active"), ("start", "stopped")])
def test_the_line_says_that_create_will_have_it_otherwise(locate, method, berth_state):
    """That create does so is test_create_brings_what_is_there_to_the_state_that_the_inventory_names."""
    found = locate(method, {}, {"berth_state": berth_state}, h1=[held()])
    assert found["notes"]["web1"] == hints.create_follows(berth_state)
    said = outcome_of_operation.outcome(method, "web1", found, Done(changed=True), False)
    assert said.why == "inventory says berth_state: %s, so berth.kvm.create %s it again" % (
        (berth_state, "starts" if berth_state == "active" else "stops")
    )
    assert locate(method, {}, {"berth_state": "active" if method == "start" else "stopped"}, h1=[held()])["notes"] == {
        "web1": None
    }


def test_an_unlock_says_who_had_locked_it_and_that_the_inventory_still_does(locate):
    locked = [held(locked="ann: why")]
    assert locate("unlock", {}, h1=locked)["notes"]["web1"] == "was locked by ann: why"
    assert "berth_locked" in locate("unlock", {}, {"berth_locked": True}, h1=locked)["notes"]["web1"]


def test_an_update_of_disks_has_those_of_the_inventory_and_bad_ones_are_told_before_anything(locate):
    wanted = {"logs": {"size_gb": 2}, "db": {"size_gb": 1, "bus": "scsi"}}
    located = locate("update_disks", {}, {"berth_disks": wanted}, h1=[held()])
    assert located["instances"]["web1"]["disks"] == [
        {"name": "logs", "size_gb": 2},
        {"name": "db", "size_gb": 1, "bus": "scsi"},
    ]
    refused = locate("update_disks", {}, {"berth_disks": {"logs": {"size_gb": 0}, "db": {"sise_gb": 1}}}, h1=[held()])
    said = refused["errors"]["web1"]
    assert "berth_disks.logs.size_gb" in said and "berth_disks.db.sise_gb" in said


def test_an_update_of_disks_of_what_is_on_no_host_fails(locate):
    assert "web1 is on no host" in locate("update_disks", {}, h1=[])["errors"]["web1"]


SMALL = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
CATALOG = {
    "berth_flavors": {"small": {**SMALL, "vcpus": 2}},
    "berth_images": {"guest": {"url": "/guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}},
}
for flavor in CATALOG["berth_flavors"].values():
    del flavor["name"]


@pytest.mark.parametrize("method", ["start", "stop", "console"])
def test_what_the_inventory_says_otherwise_is_told_also_where_it_is_not_followed(locate, method):
    asked = {"berth_image": "guest", "berth_server_group": None}
    located = locate(method, CATALOG, asked, h1=[held(flavor=SMALL)])
    assert located["notes"]["web1"] == "flavor small now means vcpus 2 (has 1). Run berth.kvm.resize --limit web1"
    assert locate("delete", CATALOG, asked, h1=[held(flavor=SMALL)])["notes"]["web1"] is None


def test_an_update_of_disks_tells_what_it_leaves_otherwise(locate):
    asked = {"berth_image": "guest", "berth_server_group": None, "berth_disks": {"logs": {"size_gb": 2}}}
    there = held(flavor=SMALL, disks={"old": 1, "logs": 1})
    assert locate("update_disks", CATALOG, asked, h1=[there])["notes"]["web1"] == (
        "flavor small now means vcpus 2 (has 1). Run berth.kvm.resize --limit web1; "
        "has data disk old, which stays although the inventory does not name it. To give up what is on old and remove it, "
        "run berth.kvm.update --limit web1 -e berth_update_discards=old"
    )


def test_what_an_update_is_to_discard_is_asked_of_the_host_and_no_difference_any_more(locate):
    asked = {**CATALOG, "berth_image": "guest", "berth_disks": {"logs": {"size_gb": 1}}}
    there = held(disks={"old": 1, "older": 1, "logs": 1})
    located = locate("update", {**CATALOG, "berth_update_discards": "old, older"}, asked, h1=[there])
    assert located["instances"]["web1"]["discards"] == ["old", "older"]
    assert "data disk" not in (located["notes"]["web1"] or "")


def test_a_data_disk_is_given_up_for_one_instance_since_others_may_have_one_of_its_name(locate):
    run, two = {**CATALOG, "berth_update_discards": "old"}, {"names": ("web1", "web2"), "more": ("web2",)}
    refused = locate("update", run, **two, h1=[held(disks={"old": 1})])
    assert refused.get("failed") and "berth_update_discards" in refused["msg"] and "--limit of one" in refused["msg"]
    assert locate("update", CATALOG, **two, h1=[held(disks={"old": 1})])["names"] == ["web1", "web2"]


def test_of_two_copies_the_one_that_stays_is_compared(locate):
    asked = {"berth_image": "guest", "berth_server_group": None}
    differs = {"next_start": [["vcpus", "1", "2"]]}
    located = locate(
        "keep_one", {**CATALOG, "berth_keep_on": "h2"}, asked,
        h1=[held(power_state="shutdown", flavor=SMALL)],
        h2=[held(power_state="shutdown", flavor={**SMALL, "vcpus": 3}, domain_differs=differs)],
    )  # fmt: skip
    assert located["notes"]["web1"] == "flavor small now means vcpus 2 (has 3). Run berth.kvm.resize --limit web1"
    assert "vcpus 2 (record: 1)" in located["by_hand"]["web1"][0]


def test_an_inventory_that_is_not_valid_stops_no_stop_and_tells_nothing(locate):
    located = locate("stop", {"berth_flavors": "none"}, h1=[held(flavor=SMALL)])
    assert (located["found"], located["notes"]["web1"]) == (["web1"], None)


def test_what_a_host_says_of_its_records_is_told_and_decides_nothing(locate):
    lies = held(flavor={**SMALL, "vcpus": 2}, request_digests={"ssh_keys": "0" * 12}, disks={})
    told = locate("stop", CATALOG, {"berth_image": "guest"}, h1=[lies])
    true = locate("stop", CATALOG, {"berth_image": "guest"}, h1=[held(flavor={**SMALL, "vcpus": 2})])
    assert "SSH keys" in told["notes"]["web1"] and true["notes"]["web1"] is None
    assert {**told, "notes": None} == {**true, "notes": None}


def test_an_unlock_says_that_the_lock_of_the_inventory_is_not_its_own(locate):
    said = locate("unlock", {}, {"berth_locked": "its owner tests"}, h1=[held()])["notes"]["web1"]
    assert "still locked by berth_locked of the inventory: its owner tests" in said
    assert fleet_hints.unlock_in_inventory("web1") in said


@pytest.mark.parametrize("method, playbook", [("keep_one", "keep_one_copy"), ("recover_record", "restore_record")])
def test_an_operation_without_a_selection_is_called_as_its_playbook(locate, method, playbook):
    refused = locate(method, {}, selected=False, h1=[held()])
    assert "without a selection %s is about all instances" % playbook in refused["msg"]
    assert (PLAYBOOKS / (playbook + ".yml")).is_file()
