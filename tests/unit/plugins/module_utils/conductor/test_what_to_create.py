# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the conductor reads out of the hosts' reports, and what it makes of it (S11, S12, C13, A04-A06)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    groups,
    outcome_of_create,
    own_uuids,
    quotas,
    what_to_create,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    DuplicateInstance,
    InstanceMoving,
    InstanceUnknown,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.locate import locate
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput


@pytest.fixture(autouse=True)
def uuids_are_names(monkeypatch):
    monkeypatch.setattr(own_uuids, "instance_uuid", lambda _project, name: name)


def record(uuid, role="OWN", group=None, project="default", vcpus=1, memory_mb=512, **more):
    return {
        "uuid": uuid, "name": uuid, "role": role, "phase": "active", "group": group, "project_id": project,
        "foreign": False, "vcpus": vcpus, "memory_mb": memory_mb, **more,
    }  # fmt: skip


def fleet(silent=(), **hosts):
    reports = {
        name: {"document": {"uuid": "id-" + name, "host": "a lie", "instances": list(held)}}
        for name, held in hosts.items()
    }
    reports.update({name: {"reason": "UNREACHABLE"} for name in silent})
    return read_fleet(reports, dict)


def spec(name, group=None, vcpus=1, memory_mb=512):
    return {
        "uuid": name,
        "name": name,
        "project_id": "default",
        "group": group,
        "flavor": {"vcpus": vcpus, "memory_mb": memory_mb},
    }


def test_host_is_called_by_its_inventory_name_whatever_it_sends():
    document = fleet(h1=[]).documents["h1"]
    assert (document["host"], document["node"]) == ("h1", "h1")


def test_document_that_breaks_the_schema_is_a_verdict_and_the_rest_goes_on():
    """S11, bad input: a lying host."""

    def check(document):
        if document["lies"]:
            raise InvalidInput("memory_mb", float("nan"), "a number")
        return document

    reports = {name: {"document": {"uuid": name, "lies": name == "h2", "instances": []}} for name in ("h1", "h2")}
    found = read_fleet(reports, check)
    assert list(found.documents) == ["h1"]
    assert found.verdicts["h2"].startswith("InvalidInput: memory_mb: nan")


def test_two_hosts_of_one_identity_are_both_refused():
    reports = {name: {"document": {"uuid": "same", "instances": []}} for name in ("h1", "h2")}
    found = read_fleet(reports, dict)
    assert not found.documents
    assert set(found.verdicts) == {"h1", "h2"}


def test_owner_comes_last():
    assert locate(fleet(h1=[record("a")], h2=[record("a", "CLAIM")]), "a", "a") == ["h2", "h1"]


@pytest.mark.parametrize(
    "held, silent, error",
    [
        ({"h1": [record("a")], "h2": [record("a")]}, (), DuplicateInstance),
        ({"h1": [record("a", "OUT")], "h2": [record("a", "IN")]}, (), InstanceMoving),
        ({"h1": []}, ("h2",), InstanceUnknown),
        ({"h1": [record("a", "CLAIM")]}, ("h2",), InstanceUnknown),
    ],
    ids=["two owners", "between two hosts", "a silent host", "only a claim and a silent host"],
)
def test_place_that_is_not_certain_is_an_error(held, silent, error):
    with pytest.raises(error):
        locate(fleet(silent, **held), "a", "a")


@pytest.mark.parametrize(
    "silent, lost", [((), ()), (("h2",), ("h2",))], ids=["all hosts answered", "the silent one is lost"]
)
def test_instance_is_nowhere(silent, lost):
    assert locate(fleet(silent, h1=[]), "a", "a", lost) == []


RESIZED = record("a", phase="resized", vm_state="resized", flavor={"name": "big"})
# What a move leaves on the hosts -> the attribute that is in the way, in Nova's words.
ON_THE_MOVE = {
    "resized": ({"h1": [record("a", "OUT", phase="keep")], "h2": [RESIZED]}, "vm_state resized"),
    "resized on its host": ({"h1": [RESIZED]}, "vm_state resized"),
    "begun": ({"h1": [record("a", phase="resizing", vm_state="active", task_state="resize_prep")]}, "task_state resize_prep"),  # noqa: E501
    "let go": (
        {
            "h1": [record("a", "OUT", phase="keep", vm_state="active", task_state="resize_migrated")],
            "h2": [record("a", "IN", phase="verified", vm_state="active", task_state="resize_migrating")],
        },
        "task_state resize_migrated",
    ),
    "half deleted": ({"h1": [record("a", phase="erasing", vm_state="resized", task_state="deleting")]}, "task_state deleting"),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("case", ON_THE_MOVE)
def test_an_instance_on_the_move_is_neither_started_nor_stopped(case):
    """R11, R16: Nova starts what is STOPPED, stops what is ACTIVE, and has no task_state under way."""
    held, named = ON_THE_MOVE[case]
    with pytest.raises(InstanceMoving, match="is in " + named) as raised:
        locate(fleet(**held), "a", "a")
    assert ("confirm_resize" in raised.value.hint) == ("resized" in named)
    error = raised.value.to_dict()
    assert "%(attr)s %(state)s" % error == named


def test_a_claim_beside_a_move_is_no_instance_at_rest():
    """As from a create that was killed: the move has not ended, and nobody owns the instance twice."""
    moving = record("a", phase="resizing", vm_state="active", task_state="resize_prep", generation=[2, 2])
    with pytest.raises(InstanceMoving, match="is in task_state resize_prep"):
        locate(fleet(h1=[moving], h2=[record("a", "CLAIM", generation=[3, 1])]), "a", "a")


@pytest.mark.parametrize("case", ["resized", "resized on its host"])
def test_a_create_leaves_an_instance_that_waits_for_its_confirmation_as_it_is(case):
    """I4: a run over the whole inventory is no error, and no change."""
    found = what_to_create.sort_out({"a": spec("a")}, fleet(**ON_THE_MOVE[case][0]))["a"]
    assert (found["state"], found.get("error")) == ("unconfirmed", None)
    assert "flavor big" in found["why"] and "confirm_resize" in found["why"]


@pytest.mark.parametrize("has, many", [(512, 0), (1024, 1)])
def test_an_instance_that_is_there_tells_its_differences_from_the_inventory_and_nothing_else(has, many):
    held, wanted = record("a", flavor={"name": "m", "vcpus": 1, "memory_mb": has}), spec("a")
    wanted["flavor"]["name"] = "m"
    found = what_to_create.sort_out({"a": wanted}, fleet(h1=[held]))["a"]
    assert [type(text) for text in found["differs"]] == [str] * many


@pytest.mark.parametrize("case", ["begun", "let go", "half deleted"])
def test_a_create_says_of_an_instance_in_a_move_that_it_is_to_be_finished(case):
    found = what_to_create.sort_out({"a": spec("a")}, fleet(**ON_THE_MOVE[case][0]))["a"]
    assert found["error"]["code"] == "InstanceMoving"


@pytest.mark.parametrize(
    "left", [dict(role="OWN", phase="resized", vm_state="resized"), dict(role="OUT", phase="keep")]
)
def test_what_a_host_that_was_lost_brought_back_is_named_by_whoever_meets_it(left):
    found = fleet(h1=[record("a", generation=[3, 1])], h2=[record("a", generation=[2, 7], **left)])
    with pytest.raises(InstanceMoving, match=r"h2 still holds a part of it \(h1, h2\)"):
        locate(found, "a", "a")
    assert what_to_create.sort_out({"a": spec("a")}, found)["a"]["error"]["code"] == "InstanceMoving"


@pytest.mark.parametrize("phase", ["resized", "resizing"])
def test_a_move_that_goes_on_is_not_called_ended_because_an_older_copy_has_come_back(phase):
    """As from a backup of its source, or of a host that had it before: nothing of the later copy is to be removed."""
    found = fleet(h1=[record("a", generation=[1, 5])], h2=[record("a", phase=phase, generation=[2, 2])])
    with pytest.raises(DuplicateInstance, match=r"owned by h1 \(.*generation 1.5\) and h2 \(.*generation 2.2\)"):
        locate(found, "a", "a")
    assert what_to_create.sort_out({"a": spec("a")}, found)["a"]["error"]["code"] == "DuplicateInstance"


def test_existing_instance_stays_with_its_host():
    found = what_to_create.sort_out({"a": spec("a")}, fleet(("h2",), h1=[record("a")]))["a"]
    assert (found["state"], found["host"]) == ("existing", "h1")


def test_claim_of_an_ended_run_is_taken_up():
    found = what_to_create.sort_out({"a": spec("a")}, fleet(h1=[record("a", "CLAIM")], h2=[record("a", "CLAIM")]))["a"]
    assert (found["state"], found["host"], found["stale_claims"]) == ("claiming", "h2", ["h1"])


def test_new_instance_is_placed_though_a_host_is_silent():
    assert "state" not in what_to_create.sort_out({"a": spec("a")}, fleet(("h2",), h1=[]))["a"]


def test_new_instance_is_refused_with_a_silent_host_where_asked_to():
    found = what_to_create.sort_out({"a": spec("a")}, fleet(("h2",), h1=[]), strict=True)["a"]
    assert (found["state"], found["error"]["code"]) == ("failed", "InstanceUnknown")


def test_group_members_are_those_of_the_same_project():
    """C13."""
    group = {"name": "g", "uuid": "g-id", "members": []}
    held = [record("b", group="g"), record("c", group="g", project="other"), record("d", group="h")]
    instances = what_to_create.sort_out({"a": spec("a", group)}, fleet(h1=held))
    groups.set_members(instances, fleet(h1=held))
    assert group["members"] == ["b"]


@pytest.mark.parametrize(
    "limit, made",
    [({"instances": 2}, ["a"]), ({"cores": 3}, ["a", "b"]), ({"ram": 512}, []), ({}, ["a", "b"])],
    ids=str,
)
def test_quota_counts_what_is_there_and_what_the_run_asked_before(limit, made):
    """A04: the fleet holds one instance; two more are wanted."""
    here = fleet(h1=[record("old")])
    instances = what_to_create.sort_out({"a": spec("a"), "b": spec("b")}, here)
    quotas.before_placement(instances, here, {"default": limit})
    assert [name for name in instances if instances[name].get("state") != "failed"] == made


def test_quota_is_counted_again_with_all_claims():
    """A05."""
    over = quotas.after_the_claims({"default": {"instances": 1}})
    instance = {"uuid": "a", "project": "default", "spec": spec("a")}
    assert over([instance], [{"instances": [record("a", "CLAIM")]}]) == {}
    held = [{"instances": [record("a", "CLAIM")]}, {"instances": [record("b", "CLAIM")]}]
    assert over([instance], held)["a"].code == "QuotaExceeded"


def test_report_names_the_attempts_of_a_failure():
    """C11."""
    attempts = [{"attempt": each, "host": "h%d" % each, "code": "ClaimFailed", "cause": "full"} for each in (1, 2)]
    failed = {
        "state": "failed",
        "host": "h2",
        "spec": {},
        "attempts": attempts,
        "error": {"code": "MaxRetriesExceeded", "message": "m"},
    }
    plan = {"instances": {"a": {**failed, "uuid": "u-1"}}, "hosts": {"h9": {"reason": "UNREACHABLE"}}}
    lines = outcome_of_create.creation(plan, outcome_of_create.outcomes(plan))
    assert "a: MaxRetriesExceeded: m" in lines
    for each in ("1", "2"):
        assert any(line.split() == [each, "h" + each, "ClaimFailed", "full"] for line in lines)
    assert lines[-1] == "host h9 left out: UNREACHABLE"


def test_a_host_that_is_not_prepared_gets_no_new_instances_and_keeps_what_it_holds():
    document = {"uuid": "id-h1", "prepared": False, "instances": [record("a")], "service": {"up": True}}
    found = read_fleet({"h1": {"document": document}}, dict)
    assert found.documents["h1"]["service"]["disabled"] and found.verdicts == {}
    assert [place["host"] for place in found.places["a"]] == ["h1"]
    assert "berth.kvm.prepare_hosts --limit h1" in found.unprepared()["h1"]
    assert found.documents["h1"]["service"]["disabled_reason"] == found.unprepared()["h1"]


def test_the_table_shows_the_flavor_that_a_resized_instance_has_and_not_the_one_that_is_wished():
    waits = record("a", phase="resized", vm_state="resized", task_state=None, flavor={"name": "large", "vcpus": 1})
    wanted = {**spec("a"), "flavor": {"name": "small", "vcpus": 1, "memory_mb": 512}}
    instances = what_to_create.sort_out({"a": wanted}, fleet(h1=[waits]))
    instances["a"].update(error=None, attempts=[])
    [line] = outcome_of_create.outcomes({"instances": instances})
    assert (line.state, line.host, line.flavor) == ("unchanged", "h1", "large")
    assert line.why == "has flavor large there and waits for confirm_resize or revert_resize"
