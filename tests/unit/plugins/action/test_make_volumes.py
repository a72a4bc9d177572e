# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new volume for an instance that is there is claimed, made once all hosts were read after that, or given up (C26)."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from held_case import WEB, held
from test_delete_volume import DB, controller, volume

from ansible_collections.berth.kvm.plugins.action import volume as volume_action
from ansible_collections.berth.kvm.plugins.module_utils.conductor import new_volumes
from ansible_collections.berth.kvm.plugins.module_utils.conductor.new_volumes import Making
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import driving, host_reply, locating, uploads

WANTED = {"berth_volumes_defined": {"db": {"size_gb": 4}}, "berth_volumes": ["db"]}
ASKED = {"name": "db", "size_gb": 4, "pool": "berth", "image": None, "instance": WEB}
DEBIAN = {"name": "debian", "url": "http://example.org/i", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}


@pytest.fixture
def asked(monkeypatch):
    """The questions [(host, module, state, ...)] and what a host answers to (module, state or None)."""
    told = {"questions": [], "replies": {}, "updated": []}

    def ask_each(_action, _task_vars, module, arguments, at, _check):
        if module == "instance":
            told["updated"] += arguments
            return {name: {"changed": False, "instance": {"uuid": WEB}} for name in at}
        replies = {}
        for host, given in arguments.items():
            state = ("growth " if given.get("grows") else "") + given["state"] if given else None
            told["questions"].append((host, module, state, given.get("volume")))
            good = {"changed": True, "uuid": DB} if module == "volume" else {"host_uuid": host, "volumes": []}
            replies[host] = told["replies"].get((host, module, state), good)
        return replies

    monkeypatch.setattr(driving, "ask_each", ask_each)
    return told


def run(asked, check_mode=False, wanted=None, of_run=None, **hosts):
    """(what was asked about volumes, the result, {found: whose disks were updated, errors: instance -> why not})"""
    there = controller(of_run, wanted or WANTED, **hosts)
    silent = {name: {"reason": "UNREACHABLE: no route"} for name, has in hosts.items() if has is None and of_run}
    there.register("localhost", __berth_facts={"answers": silent})
    args = {"instances": ["web1"], "method": "update_disks", "selected": True}
    located = there.run("locate_instances", args)["ansible_facts"]["berth_located"]
    there.variable_manager.set_host_facts("localhost", {"berth_located": located})
    asked["updated"], values = [], {**there.task_vars(), "inventory_hostname": "web1"}
    result = there.run("operate_instances", {"operation": "update_disks", "may_fail": True}, values, check_mode)
    failed = result["ansible_facts"]["berth_results"]["failed"]
    return asked["questions"], result, {"found": asked["updated"], "errors": failed, "notes": located["notes"]}


def test_a_volume_that_no_host_has_is_claimed_then_all_hosts_are_read_then_it_is_made(asked):
    questions, result, located = run(asked, h1=([held()], []), h2=([], []))
    assert questions == [
        ("h1", "volume", "claimed", ASKED),
        ("h1", "rescan", None, None),
        ("h2", "rescan", None, None),
        ("h1", "volume", "present", ASKED),
    ]
    assert result["changed"] and located["found"] == ["web1"] and not located["errors"]


@pytest.mark.parametrize(
    "source, sent",
    [({"url": DEBIAN["url"]}, DEBIAN), ({"upload": "/srv/i"}, {**DEBIAN, "url": None, "upload": "/srv/i"})],
)
def test_the_host_is_told_of_the_image_of_a_volume_that_is_made_from_one(asked, source, sent):
    image = {"checksum": DEBIAN["checksum"], "disk_format": "qcow2", **source}
    wanted = {**WANTED, "berth_volumes_defined": {"db": {"size_gb": 4, "image": "debian"}}}
    wanted["berth_images"] = {"debian": image}
    questions, _result, _located = run(asked, wanted=wanted, h1=([held()], []), h2=([], []))
    told = {**ASKED, "image": sent}
    assert [(state, volume) for _host, module, state, volume in questions if module == "volume"] == [
        ("claimed", told),
        ("present", told),
    ]


IMAGE = {**DEBIAN, "url": None, "upload": "/srv/i"}


@pytest.mark.parametrize(
    "state, image, said, steps",
    [
        ("present", IMAGE, {}, ["/srv/i in berth, 4 GiB", "volume"]),
        ("present", IMAGE, {"error": {"code": "UploadUnusable"}}, ["/srv/i in berth, 4 GiB"]),
        ("present", IMAGE, {"reason": "UNREACHABLE: no"}, ["/srv/i in berth, 4 GiB"]),
        ("present", DEBIAN, {}, ["volume"]),
        ("present", None, {}, ["volume"]),
        ("claimed", IMAGE, {}, ["volume"]),
    ],
)
def test_the_controllers_image_is_on_the_host_before_the_volume_is_made(monkeypatch, state, image, said, steps):
    done = []
    monkeypatch.setattr(
        uploads,
        "bring",
        lambda _it, own, pool, gb, _vars: done.append("%s in %s, %d GiB" % (own["upload"], pool, gb)) or said,
    )
    monkeypatch.setattr(host_reply, "run_module", lambda *_how: done.append("volume") or {"changed": True})
    plugin = object.__new__(volume_action.ActionModule)
    args = {"state": state, "volume": {**ASKED, "pool": "berth", "image": image}}
    plugin._task = SimpleNamespace(action="berth.kvm.volume", args=args)
    told = host_reply.answer_of(plugin.on_host({}))
    assert done == steps and told.get("error") == said.get("error") and told.get("reason") == said.get("reason")


def test_a_new_volume_and_its_image_are_for_the_pool_that_the_instance_has_on_its_host(asked):
    questions, _result, _located = run(asked, h1=([held(pool="fast")], []), h2=([], []))
    assert {volume["pool"] for _host, _module, _state, volume in questions if volume} == {"fast"}


def test_an_image_that_is_gone_from_the_catalog_is_nothing_to_a_volume_that_is_there(asked):
    wanted = {**WANTED, "berth_volumes_defined": {"db": {"size_gb": 4, "image": "gone"}}}
    _questions, _result, located = run(asked, wanted=wanted, h1=([held()], [volume()]), h2=([], []))
    assert located["found"] == ["web1"] and not located["errors"]


def there(size_gb=4, **parts):
    """The volume db as the facts of its host have it."""
    return {**volume(), "size_gb": size_gb, **parts}


def test_nothing_is_asked_for_a_volume_that_is_there_in_its_size(asked):
    questions, result, _located = run(asked, h1=([held()], [there()]), h2=([], []))
    assert questions == [] and not result["changed"]


GROWN = {"name": "db", "size_gb": 4, "instance": WEB}


def test_what_grows_is_claimed_then_all_hosts_are_read_then_it_is_confirmed(asked):
    asked["replies"]["h1", "rescan", None] = {"host_uuid": "h1", "volumes": [CLAIM]}
    questions, result, located = run(asked, h1=([held()], [volume("web1")]), h2=([], []))
    assert questions == [
        ("h1", "volume", "growth claimed", GROWN),
        ("h1", "rescan", None, None),
        ("h2", "rescan", None, None),
        ("h1", "volume", "growth present", GROWN),
    ]
    assert result["changed"] and located["found"] == ["web1"] and not located["errors"]


def test_a_silent_host_is_no_reason_not_to_grow_unless_it_has_the_volume(asked):
    asked["replies"]["h2", "rescan", None] = {"unreachable": True, "msg": "gone"}
    questions, _result, located = run(asked, h1=([held()], [volume("web1")]), h2=([], []))
    assert questions[-1][2] == "growth present" and not located["errors"]
    asked["replies"]["h1", "rescan", None] = {"unreachable": True, "msg": "gone"}
    questions, _result, located = run(asked, h1=([held()], [volume("web1")]), h2=([], []))
    assert questions[-1] == ("h1", "volume", "growth absent", None)
    assert located["errors"]["web1"].startswith("HostUnreachable: volume db on h1: ") and not located["found"]


@pytest.mark.parametrize("size_gb", [4, 3, 2])
def test_a_growth_that_a_killed_run_has_claimed_is_claimed_again_or_taken_back(asked, size_gb):
    wanted = {**WANTED, "berth_volumes_defined": {"db": {"size_gb": size_gb}}}
    left = there(4, grows_from_gb=2)
    questions, _result, _located = run(asked, wanted=wanted, h1=([held()], [left]), h2=([], []))
    assert [state for _host, module, state, _volume in questions if module == "volume"] == [
        "growth claimed", "growth present",
    ]  # fmt: skip
    assert questions[0][3]["size_gb"] == size_gb


@pytest.mark.parametrize("left", [{}, {"size_gb": 4, "grows_from_gb": 2}], ids=["small", "claimed by a killed run"])
@pytest.mark.parametrize("theirs, stands", [(2, True), (3, False)])
def test_a_growth_that_exceeds_the_quota_with_the_claims_of_other_runs_is_given_back(asked, left, theirs, stands):
    asked["replies"]["h1", "rescan", None] = {"host_uuid": "h1", "volumes": [CLAIM]}
    asked["replies"]["h2", "rescan", None] = {"host_uuid": "h2", "volumes": [of_other(theirs)]}
    has = {**volume("web1"), **left}
    questions, result, located = run(asked, wanted={**WANTED, **QUOTA}, h1=([held()], [has]), h2=([], []))
    assert questions[-1][2] == ("growth present" if stands else "growth absent") and result["changed"] == stands
    assert located["found"] == (["web1"] if stands else [])
    said = "requested 2 gigabytes, but already used 5 of 6"
    assert stands == (said not in located["errors"].get("web1", ""))


def test_an_instance_that_does_not_get_one_of_its_volumes_gets_none_of_the_others(asked):
    wanted = {**WANTED, "berth_volumes": ["db", "old"]}
    wanted["berth_volumes_defined"] = {"db": {"size_gb": 4}, "old": {"size_gb": 3}}
    old = {**volume("web1"), "uuid": volume_uuid("default", "old"), "name": "old", "size_gb": 1}
    asked["replies"]["h1", "volume", "claimed"] = {"failed": True, "error": {"code": "ClaimFailed", "message": "no"}}
    questions, _result, located = run(asked, wanted=wanted, h1=([held()], [old]), h2=([], []))
    assert questions[-1] == ("h1", "volume", "growth absent", None)
    assert located["errors"]["web1"] == "ClaimFailed: volume db on h1: no"


def test_who_sees_the_volume_of_another_run_gives_its_claim_up(asked):
    asked["replies"]["h2", "rescan", None] = {"host_uuid": "h2", "volumes": [CLAIM]}
    questions, result, located = run(asked, h1=([held()], []), h2=([], []))
    assert questions[-1] == ("h1", "volume", "absent", None) and not result["changed"]
    assert located["found"] == [] and "VolumeConflict" in located["errors"]["web1"]


def test_a_host_that_falls_silent_after_the_claim_may_have_the_volume(asked):
    asked["replies"]["h2", "rescan", None] = {"unreachable": True, "msg": "gone"}
    questions, _result, located = run(asked, h1=([held()], []), h2=([], []))
    assert questions[-1] == ("h1", "volume", "absent", None)
    assert "VolumeUnknown" in located["errors"]["web1"]


def test_while_a_host_is_silent_nothing_is_claimed(asked):
    questions, _result, located = run(asked, h1=([held()], []), h2=None)
    assert questions == [] and "VolumeUnknown" in located["errors"]["web1"]


def test_what_the_host_refuses_is_told_with_its_hint_and_nothing_more_is_asked(asked):
    error = {"code": "ClaimFailed", "message": "no room", "hint": "Make room"}
    asked["replies"]["h1", "volume", "claimed"] = {"failed": True, "error": error}
    questions, result, located = run(asked, h1=([held()], []), h2=([], []))
    assert [question[1] for question in questions] == ["volume"] and not result["changed"]
    assert located["errors"]["web1"] == "ClaimFailed: volume db on h1: no room. Make room"


LOST = {"berth_lost_hosts": "h2"}


@pytest.mark.follows("remake_lost_volumes")
def test_a_volume_that_a_lost_host_may_have_is_made_anew_only_for_an_instance_that_a_person_names(asked, monkeypatch):
    said, given = [], "gives up what may be on h2: volume db 4 GiB (sizes by the inventory)"
    monkeypatch.setattr(locating, "warn", said.append)
    questions, _result, located = run(asked, of_run=LOST, h1=([held()], []), h2=None)
    assert questions == [] and not located["found"] and not any("gives up" in line for line in said)
    error = located["errors"]["web1"]
    assert error.startswith("DataWouldBeLost: volumes of web1 would be made anew. That %s" % given)
    assert fleet_hints.remake_lost_volumes("web1", ["h2"]) in error
    assert "berth.kvm.update_disks --limit web1 -e berth_lost_hosts=h2 -e berth_rebuild_lost=web1" in error
    questions, _result, located = run(asked, of_run={**LOST, "berth_rebuild_lost": "web1"}, h1=([held()], []), h2=None)
    assert ("h1", "volume", "present", ASKED) in questions
    assert any("web1 gets volumes anew; %s" % given == line for line in said) and given in located["notes"]["web1"]


def test_who_names_another_instance_gets_no_volume_anew(asked):
    of_run = {**LOST, "berth_rebuild_lost": "web2,db"}
    questions, _result, located = run(asked, of_run=of_run, h1=([held()], []), h2=None)
    assert questions == [] and located["errors"]["web1"].startswith("DataWouldBeLost")


@pytest.mark.parametrize("left", [{"phase": "claimed"}, {"phase": "building"}], ids=lambda left: left["phase"])
def test_a_claim_that_a_killed_run_left_is_no_word_for_a_host_that_is_lost_since(asked, left):
    begun = {**volume(), "size_gb": 4, **left}
    questions, _result, located = run(asked, of_run=LOST, h1=([held()], [begun]), h2=None)
    assert questions == [] and located["errors"]["web1"].startswith("DataWouldBeLost")


def test_a_lost_host_is_nothing_to_a_volume_that_is_there_or_that_grows(asked):
    for size_gb in (4, 2):
        questions, _result, located = run(asked, of_run=LOST, h1=([held()], [there(size_gb)]), h2=None)
        assert not located["errors"] and bool(questions) == (size_gb == 2)


QUOTA = {"berth_quotas": {"default": {"volumes": 2, "gigabytes": 6}}}


def of_other(size_gb, uuid=WEB):
    """A volume of another run, as rescan reports it."""
    return {"uuid": uuid, "project_id": "default", "size_gb": size_gb}


CLAIM = {"uuid": DB, "project_id": "default", "size_gb": 4}


def told_volume(size_gb):
    return {**volume(), "uuid": WEB, "name": "old", "size_gb": size_gb}


@pytest.mark.parametrize("size_gb", [2, 3])
def test_a_new_volume_over_the_quota_is_not_even_claimed(asked, size_gb):
    questions, _result, located = run(
        asked, wanted={**WANTED, **QUOTA}, h1=([held()], []), h2=([], [told_volume(size_gb)])
    )
    if size_gb == 2:
        assert ("h1", "volume", "present", ASKED) in questions and not located["errors"]
    else:
        assert questions == [] and located["found"] == []
        assert located["errors"]["web1"] == (
            "QuotaExceeded: Quota exceeded for gigabytes in project default: "
            "requested 4 gigabytes, but already used 3 of 6. " + input_hints.less_or_more_quota()
        )


def test_a_volume_that_grows_beyond_the_quota_stays_as_it_is(asked):
    questions, _result, located = run(asked, wanted={**WANTED, **QUOTA}, h1=([held()], [volume(), told_volume(3)]))
    assert questions == []
    assert "requested 2 gigabytes, but already used 5 of 6" in located["errors"].get("web1", "")
    _questions, _result, located = run(asked, wanted={**WANTED, **QUOTA}, h1=([held()], [volume(), told_volume(2)]))
    assert located["found"] == ["web1"] and not located["errors"]


def test_what_an_interrupted_run_left_counts_once(asked):
    left = {**volume(), "size_gb": 4, "phase": "building"}
    questions, _result, located = run(asked, wanted={**WANTED, **QUOTA}, h1=([held()], [left, told_volume(2)]))
    assert ("h1", "volume", "present", ASKED) in questions and not located["errors"]


@pytest.mark.parametrize("theirs, stands", [(2, True), (3, False)])
def test_after_the_claim_the_volumes_of_other_runs_count_and_a_claim_over_the_quota_is_given_up(asked, theirs, stands):
    asked["replies"]["h1", "rescan", None] = {"host_uuid": "h1", "volumes": [CLAIM]}
    asked["replies"]["h2", "rescan", None] = {"host_uuid": "h2", "volumes": [of_other(theirs)]}
    questions, result, located = run(asked, wanted={**WANTED, **QUOTA}, h1=([held()], []), h2=([], []))
    assert questions[-1][2] == ("present" if stands else "absent") and result["changed"] == stands
    assert located["found"] == (["web1"] if stands else [])
    said = "requested 4 gigabytes, but already used 3 of 6"
    assert stands == (said not in located["errors"].get("web1", ""))


def test_what_grows_besides_counts_after_the_claim_too(asked):
    wanted = {**WANTED, "berth_quotas": {"default": {"gigabytes": 9}}, "berth_volumes": ["db", "old"]}
    wanted["berth_volumes_defined"] = {"db": {"size_gb": 4}, "old": {"size_gb": 3}}
    old = {**volume(), "uuid": volume_uuid("default", "old"), "name": "old", "size_gb": 1}
    asked["replies"]["h1", "rescan", None] = {"host_uuid": "h1", "volumes": [CLAIM, of_other(3, old["uuid"])]}
    asked["replies"]["h2", "rescan", None] = {"host_uuid": "h2", "volumes": [of_other(3)]}
    questions, _result, located = run(asked, wanted=wanted, h1=([held()], [old]), h2=([], []))
    assert {question[2] for question in questions[-2:]} == {"absent", "growth absent"}
    assert "requested 6 gigabytes, but already used 4 of 9" in located["errors"]["web1"]


def test_two_runs_that_claim_a_volume_and_then_look_never_exceed_the_quota_together():
    """I7: in every order at least one run sees the claim of the other."""
    for order in sorted(set(itertools.permutations("aabb"))):
        claims, stands = [], []
        for name in order:
            mine = {"uuid": name, "project_id": "p", "size_gb": 4}
            if mine not in claims:
                claims.append(mine)
                continue
            making = Making(name, "h1", mine, "token", is_claimed=True)
            over = new_volumes.after_the_claims(
                {name: {"project": "p"}},
                [making],
                [{"instances": [], "volumes": list(claims)}],
                {"p": {"gigabytes": 6}},
            )
            stands += [] if over else [name]
            if over:
                claims.remove(mine)
        assert len(stands) <= 1, order


def test_two_runs_that_claim_a_growth_and_then_look_never_exceed_the_quota_together():
    """I7: in every order at least one run sees the claim of the other."""
    for order in sorted(set(itertools.permutations("aabb"))):
        sizes, stands = {"a": 2, "b": 2}, []
        for name in order:
            if sizes[name] == 2 and name not in stands:
                sizes[name] = 5
                continue
            making = Making(name, "h1", {"uuid": name, "size_gb": 5}, "token", is_claimed=True, from_gb=2)
            told = [{"uuid": uuid, "project_id": "p", "size_gb": size_gb} for uuid, size_gb in sizes.items()]
            over = new_volumes.after_the_claims(
                {name: {"project": "p"}}, [making], [{"instances": [], "volumes": told}], {"p": {"gigabytes": 8}}
            )
            stands += [] if over else [name]
            sizes[name] = 2 if over else 5
        assert len(stands) <= 1, order


def test_check_mode_asks_for_the_claim_alone(asked):
    questions, result, _located = run(asked, check_mode=True, h1=([held()], []), h2=([], []))
    assert questions == [("h1", "volume", "claimed", ASKED)] and result["changed"]
