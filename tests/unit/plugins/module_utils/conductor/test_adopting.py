# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guest becomes which instance, and when its name or its uuid is not free."""

from __future__ import annotations

import pytest
import yaml
from own_uuid_case import GUEST, UUIDS, WEB, fleet, foreign, owned

from ansible_collections.berth.kvm.plugins.module_utils.conductor import adopting
from ansible_collections.berth.kvm.plugins.module_utils.conductor.adopting import Guest, GuestToAdoptUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    DuplicateInstance,
    InstanceUnknown,
    KvmHostNotFound,
    MoveContradicted,
    NoMajority,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.delete import and_forget
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import adopt
from ansible_collections.berth.kvm.plugins.module_utils.conductor.what_to_create import sort_out
from ansible_collections.berth.kvm.plugins.module_utils.model.adopted import AdoptedNotSupported
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceExists, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import uuid_of


def found(of, uuid=WEB, on=None):
    return adopting.find(of, "web1", "default", uuid, on)


def where(of, uuid=WEB):
    return adopting.where(of, "web1", "default", found(of, uuid))


def test_it_is_the_guest_of_that_uuid_or_else_that_of_that_name():
    other = "6" + GUEST[1:]
    of = fleet(h1=[foreign(), foreign(other, "x")], h2=[])
    assert (found(of), found(of, other)) == (Guest(GUEST, "h1"), Guest(other, "h1"))
    assert where(of) == {
        "uuid": GUEST, "hosts": ["h1"], "after": [0, 0], "owner": UUIDS["h1"], "name": "web1", "project_id": "default",
    }  # fmt: skip


@pytest.mark.follows("list_guests")
def test_of_several_guests_of_one_name_a_person_chooses_by_host_or_by_uuid():
    other = "6" + GUEST[1:]
    of = fleet(h1=[foreign()], h2=[foreign(other)])
    with pytest.raises(GuestToAdoptUnknown, match=r"berth\.kvm\.adopt without berth_name"):
        found(of)
    listed = {host: [{**shown(), "uuid": uuid}] for host, uuid in (("h1", GUEST), ("h2", other))}
    assert "-e berth_adopted=%s" % other in "\n".join(adopting.lines(of, listed))
    assert (found(of, on="h2"), found(of, other)) == (Guest(other, "h2"), Guest(other, "h2"))


def test_who_adopts_an_instance_or_names_a_host_that_there_is_not_is_told_so():
    with pytest.raises(InstanceExists, match="web1 is an instance already, on h1"):
        found(fleet(h1=[owned(WEB, adopted=None)], h2=[]))
    with pytest.raises(KvmHostNotFound, match="berth_adopt_on: there is no KVM host h9"):
        found(fleet(h1=[foreign()]), on="h9")


def test_a_guest_that_may_be_on_a_silent_host_is_unknown():
    with pytest.raises(InstanceUnknown, match="h2"):
        found(fleet({"h2": "UNREACHABLE: no route"}, h1=[]))
    with pytest.raises(GuestToAdoptUnknown):
        found(fleet(h1=[]))


def test_a_uuid_on_two_hosts_is_nobodys_instance():
    of = fleet(h1=[foreign()], h2=[foreign(name="copy")])
    with pytest.raises(DuplicateInstance, match="h1 and h2"):
        where(of)
    with pytest.raises(DuplicateInstance, match="h1 and h2"):
        where(of, GUEST)
    ways = adopting.in_the_way(of, "h1", shown())
    assert [each["code"] for each in ways] == ["UuidTwice"]


@pytest.mark.parametrize("there", [owned(WEB, adopted=None), owned("7" + GUEST[1:])], ids=["created", "adopted"])
def test_a_name_that_is_an_instance_is_refused(there):
    with pytest.raises(InstanceExists, match="h2"):
        where(fleet(h1=[foreign()], h2=[there]), GUEST)


def test_a_name_that_a_silent_host_may_have_is_refused():
    known = {
        "known": {"host": "h3", "host_uuid": UUIDS["h3"], "generation": [1, 0]},
        "planned": [],
        "after": 0,
        "gone": None,
        "left": None,
    }
    of = fleet({"h3": "UNREACHABLE: no route"}, {"h2": {WEB: known}}, h1=[foreign()], h2=[])
    with pytest.raises(InstanceUnknown, match="h3"):
        where(of, GUEST)


def test_one_part_of_a_divided_network_adopts_nothing():
    of = fleet({"h2": "UNREACHABLE: x", "h3": "UNREACHABLE: x"}, h1=[foreign()])
    members = {UUIDS[name]: {"name": name, "changes": 1} for name in UUIDS}
    of.member_lists = {UUIDS["h1"]: members}
    with pytest.raises(NoMajority):
        where(of, GUEST)


def test_adopted_already_it_is_found_by_its_name_and_its_uuid():
    of = fleet(h1=[owned()], h2=[])
    assert where(of)["hosts"] == where(of, GUEST)["hosts"] == ["h1"]


def test_the_next_epoch_is_above_all_that_anybody_remembers():
    gone = {"known": None, "planned": [], "after": 0, "gone": [3, 2], "left": None}
    assert where(fleet(notes={"h2": {GUEST: gone}}, h1=[foreign()], h2=[]), GUEST)["after"] == [3, 2]


def test_what_a_person_says_is_a_uuid():
    assert uuid_of("web1", {"berth_adopted": GUEST}) == GUEST
    assert uuid_of("web1", {}) == uuid_of("web1", {"berth_adopted": ""}) == WEB
    with pytest.raises(InvalidInput, match="berth_adopted"):
        uuid_of("web1", {"berth_adopted": "web1"})


def request(uuid):
    said = {"adopted": {}} if uuid == GUEST else {}
    return {"web1": {"uuid": uuid, "name": "web1", "project_id": "default", "flavor": {"name": "small"}, **said}}


@pytest.mark.follows("name_adopted")
def test_create_makes_no_second_instance_beside_an_adopted_one_and_knows_it_by_its_uuid():
    of = fleet(h1=[owned(request_digests={}, flavor={"name": "small"})], h2=[])
    refused = sort_out(request(WEB), of)["web1"]
    assert refused["error"]["code"] == "InstanceExists" and "-e berth_adopted=%s" % GUEST in refused["error"]["hint"]
    assert sort_out(request(GUEST), of)["web1"]["existing"]


@pytest.mark.follows("adopt_it")
def test_create_never_makes_a_guest_that_was_to_be_adopted():
    there = fleet(h1=[foreign()], h2=[])
    refused = sort_out(request(GUEST), there)["web1"]
    assert (
        refused["error"]["code"] == "GuestToAdoptUnknown" and "berth.kvm.adopt --limit web1" in refused["error"]["hint"]
    )
    assert where(there, GUEST)["hosts"] == ["h1"]
    assert sort_out(request(GUEST), fleet(h1=[], h2=[]))["web1"]["error"]["code"] == "GuestToAdoptUnknown"


def test_what_is_not_done_with_adopted_instances_is_refused_by_name():
    with pytest.raises(AdoptedNotSupported, match="update_disks"):
        adopting.check_created("web1", fleet(h1=[owned()]).places[GUEST], "update_disks")
    adopting.check_created("web1", fleet(h1=[owned(adopted=None)]).places[GUEST], "update_disks")


def played(procedure, answer):
    asked = []
    step = next(procedure)
    while True:
        asked.append(step)
        try:
            step = procedure.send({name: answer for name in getattr(step, "arguments", ())})
        except StopIteration as ended:
            return ended.value, [each for each in asked if hasattr(each, "module")]


def test_all_hosts_hear_who_owns_it_and_after_a_leave_that_it_is_gone():
    task = {**where(fleet(h1=[foreign()], h2=[]), GUEST), "flavor": None}
    done, (asked, told) = played(
        adopt({"web1": task}, {}, ["h1", "h2"]), {"changed": True, "instance": {"uuid": GUEST, "generation": [1, 0]}}
    )
    assert done["web1"].changed
    assert asked.arguments["web1"] == {
        "uuid": GUEST,
        "state": "adopted",
        "after": [0, 0],
        "name": "web1",
        "project_id": "default",
        "flavor": None,
    }
    assert told.arguments["h2"]["told"] == {"hosts": {UUIDS["h1"]: "h1"}, "known": {UUIDS["h1"]: {GUEST: [1, 0]}}}
    left = {"uuid": GUEST, "hosts": ["h1"], "after": [1, 0], "owner": UUIDS["h1"], "given_up": False}
    _done, (asked, told) = played(
        and_forget("leave", {"web1": left}, {}, ["h1", "h2"]), {"changed": True, "instance": {"uuid": GUEST}}
    )
    assert asked.arguments["web1"]["state"] == "left" and told.arguments["h2"]["told"]["gone"] == {
        UUIDS["h1"]: {GUEST: [1, 0]}
    }


def test_a_refused_adopt_tells_nobody():
    task = where(fleet(h1=[foreign()], h2=[]), GUEST)
    _done, asked = played(adopt({"web1": task}, {}, ["h1"]), {"changed": False, "error": {"code": "X", "message": "m"}})
    assert [each.module for each in asked] == ["instance"]


def shown(**changes):
    disk = {"target": "vda", "path": "/images/web1.img", "format": "raw", "size": 5 << 29}
    return {
        "uuid": GUEST, "name": "web1", "state": "running", "vcpus": 2, "memory_mb": 2048, "disks": [disk],
        "in_the_way": [], **changes,
    }  # fmt: skip


@pytest.mark.follows("adopt_guest")
def test_the_list_says_of_each_guest_how_to_adopt_it_or_what_is_in_the_way():
    of = fleet(h1=[foreign()], h2=[])
    (first, how) = adopting.lines(of, {"h1": [shown()]})
    assert first == "h1: web1 (%s), running, 2 vCPUs, 2048 MiB, 3 GiB in 1 disks" % GUEST
    assert how.strip() == "To adopt it: berth.kvm.adopt -e berth_name=web1 -e berth_adopted=%s" % GUEST
    assert where(of, GUEST)["hosts"] == ["h1"]
    reasons = [{"code": "HasSnapshots", "said": "s"}, {"code": "IsPinned", "said": "p"}]
    assert [each.strip() for each in adopting.lines(of, {"h1": [shown(in_the_way=reasons)]})][1:] == [
        "HasSnapshots: s",
        "IsPinned: p",
    ]
    assert "berth_name=NAME " in list(adopting.lines(of, {"h1": [shown(name="Web_1")]}))[1]


@pytest.mark.parametrize("said", [{"name": "db"}, {"project_id": "shop"}])
@pytest.mark.parametrize("spec", [{"adopted": {"disks": []}}, {}])
def test_no_host_gives_an_instance_another_name_or_project_in_a_move(said, spec):
    """The uuid of one that was adopted or renamed follows from neither, and it counts in that project."""
    view = {"role": "OWN", "name": "web1", "project_id": "default", "host": {"name": "h1"}, "spec": spec}
    adopting.check_told("web1", "default", (view, {"role": None}))
    with pytest.raises(MoveContradicted, match="h1 says"):
        adopting.check_told("web1", "default", ({**view, **said}, {"role": None}))


@pytest.mark.parametrize("has_flavor", [False, True])
def test_the_lines_for_the_inventory_are_yaml_and_say_that_a_flavor_there_hides_the_catalog(has_flavor):
    adopted = {"uuid": GUEST, "flavor": "web1-own", "vcpus": 2, "memory_mb": 2048, "root_gb": 20}
    _first, *said = adopting.inventory_lines("web1", "default", adopted, has_flavor)
    told = yaml.safe_load("\n".join(said))["web1"]
    assert (told["berth_adopted"], told["berth_flavor"]) == (GUEST, "web1-own")
    assert told.get("berth_flavors", {}) == (
        {} if has_flavor else {"web1-own": {"vcpus": 2, "memory_mb": 2048, "root_gb": 20}}
    )
    assert has_flavor or "move it beside the catalog's flavors" in said[-1]
