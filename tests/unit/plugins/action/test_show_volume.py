# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of a volume: what its hosts say, its image, and who did what to it (C26)."""

from __future__ import annotations

import json

import pytest
from held_case import WEB, held
from test_delete_volume import DB, controller, volume

from ansible_collections.berth.kvm.plugins.action import show_volume
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

HISTORY = [
    {"event": "claim", "at": "2026-01-01T00:00:00Z", "who": "ann@ctl", "run": "r-1", "instance": "web1"},
    {"event": "attach", "at": "2026-01-01T00:00:02Z", "who": "bob@ctl", "run": "r-2", "instance": "web1"},
]
BLUE = {**volume(), "uuid": volume_uuid("blue", "db"), "project_id": "blue", "size_gb": 7}


@pytest.fixture
def show(monkeypatch, capsys):
    """show(h1=(instances, volumes), ...): (the result, what it said line by line, who was asked what)."""

    def act(args=None, run=None, silent=(), deleted_by=(), **hosts):
        asked = {}

        def ask(_action, _task_vars, names, module, _arguments, own):
            asked.update({host: (module, own["uuids"][host]) for host in names})
            return {
                host: {"unreachable": True, "msg": "gone"}
                if host in silent
                else {"volumes": [
                    {"uuid": uuid, "generation": [1, 4], "image": "debian", "history": HISTORY} for uuid in uuids
                    if hosts[host][1]
                ], "deleted": [{"uuid": uuid, "history": HISTORY, "faults": []} for uuid in uuids if host in deleted_by]}
                for host, uuids in own["uuids"].items()
            }  # fmt: skip

        monkeypatch.setattr(show_volume, "ask", ask)
        result = controller(run, **hosts).run("show_volume", {"name": "db", **(args or {})})
        return result, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()], asked

    return act


def test_a_volume_that_an_instance_has_is_shown_with_who_did_what_to_it(show):
    result, said, asked = show(h1=([held()], [volume("web1")]), h2=([], []))
    assert asked == {"h1": ("volume_info", [DB])}
    for line in (
        "db (%s)" % DB, "state attached to web1", "project default", "size 2 GiB", "pool berth", "hosts h1 (OWN)", "image debian",
        "AT EVENT HOST BY RUN RESULT", "2026-01-01T00:00:00Z claim h1 ann@ctl r-1 instance: web1",
        "2026-01-01T00:00:02Z attach h1 bob@ctl r-2 instance: web1",
    ):  # fmt: skip
        assert line in said, (line, said)
    results = result["ansible_facts"]["berth_results"]
    assert not result["changed"] and not any(results[part] for part in ("failed", "left_out"))
    (told,) = result["volumes"]["db"]
    assert (told["host"], told["instance"]["name"], told["image"]) == ("h1", "web1", "debian")
    assert told["history"] == HISTORY


@pytest.mark.parametrize(
    "told, line",
    [
        ({}, "state free"),
        ({"phase": "deleting"}, "state being deleted"),
        ({"phase": "claimed", "role": "CLAIM"}, "state being made, or left by a run that was interrupted"),
        ({"role": "OUT", "phase": "keep", "instance": {"uuid": WEB, "name": "web1"}}, "state moving with web1"),
        (
            {"size_gb": 5, "grows_from_gb": 2},
            "size 2 GiB; a run of update_disks has claimed 5 GiB, and the next run grows the volume or releases the claim",
        ),
    ],
)
def test_what_is_being_done_to_a_volume_is_told(show, told, line):
    _result, said, _asked = show(h1=([], [{**volume(), **told}]))
    assert line in said


def test_both_hosts_of_a_move_are_shown_and_two_volumes_of_one_name_are_a_problem(show):
    moving = [{**volume("web1"), "role": role, "phase": phase} for role, phase in (("OUT", "keep"), ("OWN", "active"))]
    _result, said, _asked = show(h1=([], moving[:1]), h2=([held()], moving[1:]))
    assert "state attached to web1" in said, "by the host that owns it"
    assert "hosts h1 (OUT), h2 (OWN)" in said and not any(line.startswith("problem") for line in said)
    result, said, _asked = show(h1=([], [volume()]), h2=([], [volume()]))
    assert any(line.startswith("problem there is a volume db on h1 (free) and on h2 (free)") for line in said)
    assert [told["host"] for told in result["volumes"]["db"]] == ["h1", "h2"]


def test_without_a_project_those_of_all_projects_are_shown(show):
    both, said, _asked = show(h1=([], [volume(), BLUE]))
    assert "project default" in said and "project blue" in said and len(both["volumes"]["db"]) == 2
    one, said, asked = show({"project": "blue"}, h1=([], [volume(), BLUE]))
    assert "project default" not in said and "size 7 GiB" in said and asked["h1"][1] == [BLUE["uuid"]]
    assert [told["project_id"] for told in one["volumes"]["db"]] == ["blue"]


@pytest.mark.parametrize(
    "name, hosts, code, says",
    [
        ("dbb", {"h1": ([], [volume()])}, "VolumeNotFound", "Similar names: db"),
        ("db", {"h1": ([], []), "h2": None}, "VolumeUnknown", "no host has volume db, and it may be on h2"),
        ("db", {"h1": ([], [])}, "VolumeNotFound", "There are none"),
        ("d b", {"h1": ([], [volume()])}, "InvalidInput", "berth_volume"),
    ],
)
def test_an_unknown_volume_is_an_error_that_says_what_may_be_meant_or_who_may_have_it(show, name, hosts, code, says):
    result, _said, asked = show({"name": name}, **hosts)
    assert result["failed"] and result["error_code"] == code and says in result["msg"]
    assert code == "VolumeNotFound" or not asked


def test_a_volume_that_the_inventory_defines_and_no_host_has_is_no_error(show):
    result, said, _asked = show(run={"berth_volumes_defined": {"db": {"size_gb": 2}}}, h1=([], []))
    assert "volume db is on no host" in said and not result.get("failed") and result["volumes"] == {}


def test_a_deleted_volume_is_shown_with_who_deleted_it_if_every_host_answers(show):
    result, said, asked = show(h1=([], []), h2=([], []), deleted_by=["h2"])
    assert asked == {"h1": ("volume_info", [DB]), "h2": ("volume_info", [DB])}
    assert "volume db is on no host" in said and "db (%s), deleted from h2" % DB in said
    assert "2026-01-01T00:00:02Z attach h2 bob@ctl r-2 instance: web1" in said
    assert result["volumes"] == {} and [told["host"] for told in result["deleted"]["db"]] == ["h2"]
    result, _said, asked = show(h1=([], []), h2=None, deleted_by=["h1"])
    assert result["error_code"] == "VolumeUnknown" and not asked, "it may have been made again there"


def test_a_host_that_does_not_tell_what_it_deleted_is_not_taken_for_one_that_deleted_nothing(show):
    result, _said, _asked = show(silent=["h2"], h1=([], []), h2=([], []), deleted_by=["h1"])
    assert result["error_code"] == "HostUnknown" and "h2 (UNREACHABLE: gone)" in result["msg"]


def test_a_silent_host_besides_that_of_the_volume_is_told_below(show):
    result, said, _asked = show(h1=([], [volume()]), h2=None)
    assert "state free" in said and any(line.startswith("host h2 left out: ") for line in said)
    assert set(result["ansible_facts"]["berth_results"]["left_out"]) == {"h2"}


def test_a_host_that_has_it_and_tells_no_more_is_not_taken_for_one_without_history(show):
    result, _said, _asked = show(silent=["h1"], h1=([], [volume()]))
    assert result["failed"] and result["error_code"] == "HostUnknown" and "h1 (UNREACHABLE: gone)" in result["msg"]


@pytest.mark.follows("name_project")
@pytest.mark.parametrize("action", ["show_volume", "delete_volume"])
def test_a_volume_of_another_project_is_found_as_the_hint_says(show, monkeypatch, action):
    show(h1=([], [BLUE]))
    there = controller(h1=([], [BLUE]))
    result = there.run(action, {"name": "db", "project": "default"})
    assert result["failed"] and "no host has a volume db of this project, but hosts have one of blue" in result["msg"]
    assert volume_hints.name_project("db", "blue") in result["msg"]
    module = "ansible_collections.berth.kvm.plugins.action.delete_volume.ask"
    monkeypatch.setattr(module, lambda _a, _v, hosts, *_r: {host: {"changed": True} for host in hosts})
    assert not there.run(action, {"name": "db", "project": "blue"}).get("failed")


def test_the_file_of_the_run_has_the_volume(show, tmp_path):
    path = tmp_path / "out.json"
    show(run={"berth_report": str(path)}, h1=([held()], [volume("web1")]))
    told = json.loads(path.read_text())
    assert told["finished"] and told["hosts_left_out"] == {} and told["volumes"]["db"][0]["history"] == HISTORY
