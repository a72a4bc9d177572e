# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance gets a name that is nobody's, and from then on no other gets it, nor the one that it had."""

from __future__ import annotations

import pytest
from own_uuid_case import UUIDS, fleet, owned

from ansible_collections.berth.kvm.plugins.module_utils.conductor import own_uuids, renaming, take_over
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import InstanceUnknown, NoMajority
from ansible_collections.berth.kvm.plugins.module_utils.conductor.own_uuids import InstanceRenamed
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import plan_moves
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.locate import Run, Wanted, locate
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import rename
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask
from ansible_collections.berth.kvm.plugins.module_utils.conductor.what_to_create import sort_out
from ansible_collections.berth.kvm.plugins.module_utils.conductor.what_to_operate import Said
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceExists, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid, uuid_of

DB1, DB2, DB3 = (instance_uuid("default", name) for name in ("db1", "db2", "db3"))
MEANT_BY_ANOTHER = {"host": "h3", "host_uuid": "h3", "run": "r-2"}
NOTHING = {"known": None, "planned": [], "after": 0, "gone": None, "left": None}


def created(uuid=DB1, name="db1", **more):
    return owned(uuid, name, None, **more)


def renamed(uuid=DB1, name="db2", **more):
    """As _checked leaves it where the inventory does not say its uuid."""
    return owned(uuid, uuid, None, own_name=name, **more)


def scanned(host, *_given, **more):
    return {"instances": [], "host_uuid": UUIDS[host], "notes": {}, **more}


def answered(procedure, answers):
    """``answers``: module -> what each host or instance answers. Return (what it returned, [(module, arguments)])."""
    asked, step = [], next(procedure)
    while True:
        asks = isinstance(step, Ask)
        asked += [(step.module, step.arguments)] if asks else []
        try:
            given = {key: answers[step.module](key, step.arguments[key]) for key in step.arguments} if asks else None
            step = procedure.send(given)
        except StopIteration as ended:
            return ended.value, asked


def located(of, name="db1", uuid=DB1, new="db2", operation="rename", notes=None):
    run = Run(operation, Said("r-1", new_name=new))
    procedure = locate(run, of, {name: Wanted(uuid)})
    try:
        found, _asked = answered(procedure, {"rescan": lambda host, _given: {"notes": (notes or {}).get(host, {})}})
    except StopIteration as ended:
        found = ended.value
    return found


def test_what_it_takes_is_told_to_all_hosts_first_and_read_from_all_of_them_afterwards():
    of = fleet(h1=[created()], h2=[])
    task = located(of).tasks["db1"]
    assert (task["hosts"], task["new_name"], task["asked"]) == (["h1"], "db2", ["h1", "h2"])
    answers = {"rescan": scanned, "instance": lambda *_: {"changed": True, "instance": {"uuid": DB1}}}
    done, asked = answered(rename({"db1": task}, {}, False), answers)
    plan = {"uuid": DB2, "host_uuid": UUIDS["h1"], "run": "r-1"}
    assert [module for module, _arguments in asked] == ["rescan", "instance", "rescan"]
    assert asked[0][1]["h2"] == {"told": {"hosts": {UUIDS["h1"]: "h1"}, "planned": [plan]}}
    assert asked[1][1]["db1"] == {"uuid": DB1, "state": "renamed", "new_name": "db2"}
    assert asked[2][1]["h1"] == {"about": [DB2]}
    assert done["db1"].changed and not done["db1"].errors
    assert "\n".join(renaming.inventory_lines("db1", task)).endswith("db2:\n      berth_uuid: %s" % DB1)


@pytest.mark.parametrize(
    "scan",
    [
        {"reason": "UNREACHABLE: x"},
        {"instances": [{"uuid": DB2, "name": "db2", "project_id": "default"}]},
        scanned("h2", notes={DB2: {**NOTHING, "planned": [MEANT_BY_ANOTHER]}}),
    ],
    ids=["silent", "another has it", "meant for a host that was not asked"],
)
def test_one_whose_name_another_run_took_meanwhile_gets_its_old_one_again(scan):
    task = located(fleet(h1=[created()], h2=[])).tasks["db1"]

    def rescan(host, given):
        return scan if host == "h2" and "told" not in given else scanned(host)

    answers = {"rescan": rescan, "instance": lambda *_: {"changed": True, "instance": {"uuid": DB1}}}
    done, asked = answered(rename({"db1": task}, {}, False), answers)
    assert [given["db1"]["new_name"] for module, given in asked if module == "instance"] == ["db2", "db1"]
    assert done["db1"].errors[0]["code"] in ("HostUnknown", "InstanceExists", "InstanceUnknown")
    assert asked[-1][1]["h1"]["told"]["ended"] == [task["plan"]], "no later create waits for this host"


def test_a_refused_rename_withdraws_what_it_has_told():
    task = located(fleet(h1=[created()], h2=[])).tasks["db1"]
    answers = {"rescan": scanned, "instance": lambda *_: {"error": {"code": "X", "message": "m"}}}
    _done, asked = answered(rename({"db1": task}, {}, False), answers)
    assert [module for module, _given in asked] == ["rescan", "instance", "rescan"] and "ended" in asked[2][1]["h2"][
        "told"
    ]


@pytest.mark.follows("another_new_name")
@pytest.mark.parametrize(
    "there", [created(DB2, "db2"), renamed(DB3), owned(DB3, DB3, "db2"), created(DB2, "db2", role="CLAIM")]
)
def test_a_name_that_is_anothers_is_refused(there):
    error = located(fleet(h1=[created()], h2=[there])).errors["db1"]
    assert isinstance(error, InstanceExists) and "h2" in error.message


def test_a_name_that_a_silent_host_may_have_is_refused():
    known = {**NOTHING, "planned": [{"host": "h3", "host_uuid": UUIDS["h3"], "run": "r-0"}]}
    of = fleet({"h3": "UNREACHABLE: x"}, h1=[created()], h2=[])
    assert isinstance(located(of, notes={"h2": {DB2: known}}).errors["db1"], InstanceUnknown)
    of = fleet({"h2": "UNREACHABLE: x", "h3": "UNREACHABLE: x"}, h1=[created()])
    of.member_lists = {UUIDS["h1"]: {UUIDS[name]: {"name": name, "changes": 1} for name in UUIDS}}
    assert isinstance(located(of).errors["db1"], NoMajority)


def test_run_again_by_its_old_name_or_its_new_one_it_is_found():
    assert located(fleet(h1=[renamed()], h2=[])).tasks["db1"]["hosts"] == ["h1"]
    assert located(fleet(h1=[renamed()], h2=[]), "db2").tasks["db2"]["hosts"] == ["h1"]
    back = located(fleet(h1=[renamed()], h2=[]), "db2", new="db1").tasks["db2"]
    assert renaming.announced(back, "h1") == {}, "nobody else can make an instance of the uuid that it has"
    assert list(renaming.inventory_lines("db2", back))[-1] == "    db1:"


@pytest.mark.follows("name_renamed")
@pytest.mark.parametrize("operation", ["stop", "delete", "start", "leave"])
def test_by_its_old_name_nothing_is_done_with_it_and_the_answer_says_its_new_one(operation):
    of = fleet(h1=[renamed()], h2=[])
    error = located(of, operation=operation).errors.get("db1")
    assert isinstance(error, InstanceRenamed) and "-e berth_name=db2 -e berth_uuid=%s" % DB1 in error.hint
    assert located(of, "db2", uuid_of("db2", {"berth_uuid": DB1}), operation="stop").tasks["db2"]["hosts"] == ["h1"]


@pytest.mark.follows("name_renamed")
@pytest.mark.parametrize("action", ["cold_migrate", "resize", "confirm"])
def test_by_its_old_name_no_move_is_planned_and_the_answer_says_its_new_one(action):
    of, subject = fleet(h1=[renamed()], h2=[]), plan_moves.Subject(DB1, None, None)
    with pytest.raises(InstanceRenamed, match="db1 is db2") as told:
        plan_moves._plan("db1", subject, of, {}, plan_moves.Wanted(action, "r-1", None, None, None))
    assert "berth_uuid=%s" % DB1 in told.value.hint


def test_by_its_new_name_alone_it_is_not_found_and_nobody_is_told_to_delete_it():
    assert located(fleet(h1=[renamed()], h2=[]), "db2", DB2, new="db1").errors.get("db2") is None


def test_of_two_copies_the_later_one_says_the_name():
    """A host was restored as a whole, from before the rename: a person chooses a copy, under the name that the instance has."""
    both = fleet(h1=[created(generation=[1, 4])], h2=[renamed(generation=[1, 9])]).places[DB1]
    own_uuids.check_name("db2", "default", DB1, both)
    with pytest.raises(InstanceRenamed, match="db1 is db2"):
        own_uuids.check_name("db1", "default", DB1, both)


def request(uuid, name):
    return {name: {"uuid": uuid, "name": name, "project_id": "default", "flavor": {"name": "small"}}}


@pytest.mark.follows("name_renamed")
def test_create_makes_no_instance_of_either_name_and_knows_it_by_its_uuid():
    of = fleet(h1=[renamed(request_digests={}, flavor={"name": "small"})], h2=[])
    assert sort_out(request(DB1, "db1"), of)["db1"]["error"]["code"] == "InstanceRenamed"
    second = sort_out(request(DB2, "db2"), of)["db2"]["error"]
    assert second["code"] == "InstanceExists" and "berth_uuid: %s" % DB1 in second["hint"]
    assert sort_out(request(DB1, "db2"), of)["db2"]["existing"]


@pytest.mark.follows("without_uuid")
def test_create_makes_none_with_a_uuid_that_does_not_follow_from_its_name():
    refused = sort_out(request(DB1, "db2"), fleet(h1=[], h2=[]))["db2"]["error"]
    assert refused["code"] == "InstanceRenamed" and "take its berth_uuid out" in refused["hint"]
    assert "error" not in sort_out(request(DB2, "db2"), fleet(h1=[], h2=[]))["db2"]


def test_what_was_renamed_and_was_on_a_lost_host_is_made_elsewhere_with_its_uuid():
    """As an evacuation takes its disks over, and a create makes it anew."""
    on_h1 = {"h2": {DB1: {**NOTHING, "known": {"host": "h1", "host_uuid": UUIDS["h1"], "generation": [1, 4]}}}}
    of = fleet({"h1": "UNREACHABLE: x"}, on_h1, h2=[], h3=[])
    wanted = {"db2": {**request(DB1, "db2")["db2"], "networks": []}}
    found = sort_out(wanted, of, ["h1"])
    assert "error" not in found["db2"], found["db2"]
    take_over.mark(found, of, ["h1"], None, {}, {})
    assert found["db2"]["take_over"] == UUIDS["h1"]


def test_the_inventory_alone_renames_nothing():
    with pytest.raises(InstanceRenamed, match="db9 is db1"):
        own_uuids.check_name("db9", "default", DB1, fleet(h1=[created()]).places[DB1])
    own_uuids.check_name("db1", "default", DB1, fleet(h1=[created()]).places[DB1])
    with pytest.raises(InstanceRenamed):
        own_uuids.check_name("db2", "shop", DB1, fleet(h1=[renamed()]).places[DB1])


@pytest.mark.follows("name_new")
def test_one_name_for_one_instance_and_none_that_ansible_has():
    renaming.check("db2", 1)
    for value, count in ((None, 1), ("db2", 2), ("Db2", 1), ("all", 1)):
        with pytest.raises(InvalidInput, match="berth_new_name"):
            renaming.check(value, count)


@pytest.mark.parametrize("said", [{"berth_uuid": "db1"}, {"berth_uuid": DB1, "berth_adopted": DB2}])
def test_what_the_inventory_says_is_one_uuid(said):
    assert uuid_of("db2", {"berth_uuid": DB1, "berth_adopted": DB1}) == DB1
    with pytest.raises(InvalidInput):
        uuid_of("db2", said)
