# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new volume for an instance that is there is claimed, made once all hosts were read after that, or given up (C26)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from held_case import WEB, held
from test_delete_volume import DB, controller, volume

from ansible_collections.berth.kvm.plugins.action import make_volumes
from ansible_collections.berth.kvm.plugins.action import volume as volume_action
from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply, uploads

WANTED = {"berth_volumes_defined": {"db": {"size_gb": 4}}, "berth_volumes": ["db"]}
ASKED = {"name": "db", "size_gb": 4, "pool": "berth", "image": None, "instance": WEB}
DEBIAN = {"name": "debian", "url": "http://example.org/i", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}


@pytest.fixture
def asked(monkeypatch):
    """The questions [(host, module, state, ...)] and what a host answers to (module, state or None)."""
    told = {"questions": [], "replies": {}}

    def ask(_action, _task_vars, hosts, module, _arguments, own=None):
        replies = {}
        for host in hosts:
            given = {part: values[host] for part, values in (own or {}).items() if host in values}
            told["questions"].append((host, module, given.get("state"), given.get("volume")))
            good = {"changed": True, "uuid": DB} if module == "volume" else {"host_uuid": host, "volumes": []}
            replies[host] = told["replies"].get((host, module, given.get("state")), good)
        return replies

    monkeypatch.setattr(make_volumes, "ask", ask)
    return told


def run(asked, check_mode=False, wanted=None, **hosts):
    """(what was asked, the result, berth_located)"""
    there = controller(instance=wanted or WANTED, **hosts)
    args = {"instances": ["web1"], "method": "update_disks", "selected": True}
    located = there.run("locate_instances", args)["ansible_facts"]["berth_located"]
    there.variable_manager.set_host_facts("localhost", {"berth_located": located})
    result = there.run("make_volumes", {"hosts": list(hosts)}, check_mode=check_mode)
    return asked["questions"], result, result.get("ansible_facts", {}).get("berth_located", located)


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


def test_nothing_is_asked_for_a_volume_that_is_there(asked):
    questions, result, _located = run(asked, h1=([held()], [volume()]), h2=([], []))
    assert questions == [] and not result["changed"]


def test_who_sees_the_volume_of_another_run_gives_its_claim_up(asked):
    asked["replies"]["h2", "rescan", None] = {"host_uuid": "h2", "volumes": [DB]}
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


def test_check_mode_asks_for_the_claim_alone(asked):
    questions, result, _located = run(asked, check_mode=True, h1=([held()], []), h2=([], []))
    assert questions == [("h1", "volume", "claimed", ASKED)] and result["changed"]
