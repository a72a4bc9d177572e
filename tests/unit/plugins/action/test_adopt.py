# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks adopt and leave find, and how the others find an adopted instance."""

from __future__ import annotations

import pytest
from held_case import WEB, held

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.plugin_utils import driving
from ansible_collections.berth.kvm.plugins.plugin_utils.berth_name import check_adopted

GUEST = "5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52"
SAID = {"berth_adopted": GUEST}
FLAVORS = {"berth_flavors": {"small": {"vcpus": 1, "memory_mb": 128, "root_gb": 1}}}


def foreign(**changes):
    return {**held(uuid=GUEST), "foreign": True, "managed": False, "role": None, "generation": None, **changes}


def adopted(**changes):
    return held(uuid=GUEST, name=GUEST, adopted="web1", **changes)


@pytest.fixture
def heard(monkeypatch):
    """What the hosts are asked to recall, and what they say: host -> {uuid: note}."""
    said, asked = {}, []

    def ask(_action, _task_vars, module, arguments, *_more):
        asked.extend((module, sorted(arguments), sorted(each["about"])) for each in list(arguments.values())[:1])
        return {host: {"changed": False, "notes": said.get(host, {})} for host in arguments}

    monkeypatch.setattr(driving, "ask_each", ask)
    return said, asked


def test_the_hosts_are_asked_what_they_know_of_the_guest_and_of_the_name(locate, heard):
    located = locate("adopt", FLAVORS, h1=[foreign()], h2=[])
    assert heard[1] == [("rescan", ["h1", "h2"], sorted([GUEST, WEB]))]
    task = located["instances"]["web1"]
    assert (task["uuid"], task["hosts"], task["flavor"]["name"]) == (GUEST, ["h1"], "small")
    assert located["shown"]["web1"] == {"host": "h1"} and located["errors"] == {}


@pytest.mark.parametrize("uuid", [GUEST, WEB])
def test_what_a_host_remembers_elsewhere_keeps_it_from_being_adopted(locate, heard, uuid):
    known = {"host": "h3", "host_uuid": "7" + GUEST[1:], "generation": [1, 0]}
    heard[0]["h2"] = {uuid: {"known": known, "planned": [], "after": 0, "gone": None, "left": None}}
    located = locate("adopt", FLAVORS, h1=[foreign()], h2=[])
    assert "InstanceUnknown" in located["errors"]["web1"] and located["found"] == []


def test_a_flavor_that_the_catalog_lacks_is_refused_before_anything_is_done(locate, heard):
    assert "FlavorNotFound" in locate("adopt", {}, h1=[foreign()])["errors"]["web1"]


def test_others_find_it_by_the_uuid_that_the_inventory_says_and_by_nothing_else(locate):
    located = locate("stop", {}, SAID, h1=[adopted()])
    assert located["instances"]["web1"]["hosts"] == ["h1"] and located["instances"]["web1"]["uuid"] == GUEST
    for method in ("start", "stop"):
        without = locate(method, {}, h1=[adopted()])
        assert without["found"] == [] and "berth_adopted=%s" % GUEST in without["errors"]["web1"]


def test_what_is_for_created_instances_alone_is_refused_by_name(locate):
    assert "AdoptedNotSupported" in locate("update_disks", {}, SAID, h1=[adopted()])["errors"]["web1"]
    assert locate("delete", {}, SAID, h1=[adopted()])["instances"]["web1"]["hosts"] == ["h1"]


@pytest.mark.parametrize("field, given", [("berth_disks", {"logs": {"size_gb": 1}}), ("berth_volumes", ["db"])])
def test_disks_for_an_adopted_instance_are_refused_before_a_volume_is_made(locate, field, given):
    run = {**FLAVORS, "berth_volumes_defined": {"db": {"size_gb": 1}}}
    refused = locate("update", run, {**SAID, field: given}, h1=[adopted()])
    assert "UpdateNotSupported" in refused["errors"]["web1"] and field in refused["errors"]["web1"]


@pytest.mark.parametrize("method", ["start", "stop", "delete"])
def test_a_guest_that_is_no_instance_is_told_as_that(locate, method):
    assert "berth.kvm.adopt --limit web1" in locate(method, {}, SAID, h1=[foreign()])["errors"]["web1"]


def test_to_leave_twice_is_no_change(locate):
    left = locate("leave", {}, SAID, h1=[foreign()])
    assert (left["found"], left["errors"]) == ([], {})
    assert locate("leave", {}, SAID, h1=[adopted()])["instances"]["web1"]["hosts"] == ["h1"]


def test_no_host_gives_an_adopted_instance_its_name(locate):
    located = locate("stop", {}, {"berth_adopted": WEB}, h1=[held(adopted="db", name="db")])
    assert located["instances"]["web1"]["hosts"] == ["h1"], "the inventory's name counts"


def test_no_host_gives_a_renamed_instance_its_name(locate):
    there = held(name=WEB, own_name="web2")
    assert "InstanceRenamed" in locate("stop", {}, h1=[there])["errors"]["web1"]
    others = held(uuid=GUEST, name=GUEST, own_name="web1")
    assert "berth_uuid: %s" % GUEST in locate("start", {}, h1=[others])["errors"]["web1"]
    assert locate("stop", {}, {"berth_uuid": GUEST}, h1=[others])["instances"]["web1"]["hosts"] == ["h1"]


@pytest.mark.parametrize("extra", [{}, {"berth_name": "web1", "berth_count": "2"}])
@pytest.mark.parametrize("field", ["berth_adopted", "berth_uuid"])
def test_on_the_command_line_the_uuid_is_that_of_one_instance(extra, field):
    with pytest.raises(InvalidInput, match=field):
        check_adopted({field: GUEST, **extra})
    check_adopted({**SAID, "berth_name": "web1"})
    check_adopted({})
