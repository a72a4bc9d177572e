# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of an instance, wherever it is or is not."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

import pytest
from ansible.utils import color
from controller import Controller
from held_case import WEB, held
from plan_moves_case import view

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

HOST = json.loads((Path(__file__).parent / "host.json").read_text())
KNOWN = {
    "uuid": WEB, "name": "web1", "role": "OWN", "phase": "active", "state": "running", "vm_state": "active",
    "task_state": None, "flavor": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1, "image": "guest",
    "networks": [{"network": "lan", "address": "192.0.2.11/24", "mac": "52:54:00:00:00:01"}],
    "locked": "ann@ctl since 2026-01-02T00:00:00Z: its disk", "migration": None,
    "history": [
        {"event": "build", "at": "2026-01-01T00:00:00Z", "who": "ann@ctl", "run": "r-1"},
        {"event": "stop", "at": "2026-01-01T00:00:02Z", "who": "bob@ctl", "run": "r-2", "forced": True},
    ],
    "faults": [{"code": "BuildFailed", "message": "no room", "at": "2026-01-01T00:00:01Z"}],
}  # fmt: skip

DELETED = {
    **{part: KNOWN[part] for part in ("uuid", "name", "history", "faults")},
    "vm_state": "deleted", "state": "absent", "role": None, "phase": None, "migration": None,
}  # fmt: skip
GONE = {"h1": {WEB: {"known": None, "planned": [], "gone": [3, 0]}}}


def reply(told):
    """What the module of a host that holds it brings: nothing where the host fell silent."""
    return {"instances": [dict(told)], "foreign": []} if told else {"unreachable": True, "msg": "no route"}


@pytest.fixture
def show(monkeypatch, capsys):
    """show(h1=[...], ...): (the action's result, what it said); a host of None is silent."""

    def act(
        answers=None, described=True, notes=None, volumes=(), limit=None, file=None, addresses=None, views=(), **hosts
    ):
        identity = {name: str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in hosts}
        facts = {}
        for name, instances in hosts.items():
            if instances is not None:
                document = {**HOST, "uuid": identity[name], "instances": instances, "num_instances": len(instances)}
                document["volumes"] = list(volumes)
                facts[name] = {"ansible_facts": {"berth_host": document}, "notes": (notes or {}).get(name) or {}}
                facts[name].update({"moves": list(views)} if views else {})
                facts[name]["addresses"] = {
                    uuid: {"address": told, "source": "lease"} for uuid, told in (addresses or {}).items()
                }
            else:
                facts[name] = {"reason": "UNREACHABLE: no route"}
        given = {"web1": {"berth_flavor": "small"}} if described else {"all": {"berth_name": "web1"}}
        given.update({"all": {"berth_report": str(file)}} if file else {})
        it = Controller({"kvm_hosts": list(hosts), "vms": ["web1"]}, given)
        it.register("localhost", __berth_facts={"answers": facts})
        monkeypatch.setattr(
            delegates,
            "run_on",
            lambda names, *_rest: {host: reply(answers[host]) for host in names},
        )
        values = {**it.task_vars(), "ansible_forks": 5, "ansible_play_hosts_all": ["localhost"]}
        values.update({"ansible_limit": limit} if limit else {})
        return it.run("show_instances", {"instances": ["web1"]}, values), capsys.readouterr().out

    return act


def rows(said):
    return [" ".join(line.split()) for line in said.splitlines()]


@pytest.mark.parametrize("address, shown", [("192.0.2.11/24", "192.0.2.11"), (None, "192.0.2.77")])
def test_the_address_that_a_guest_has_by_dhcp_is_shown_where_its_record_has_none(show, address, shown):
    known = {**KNOWN, "networks": [{"network": "lan", "address": address, "mac": "52:54:00:00:00:01"}]}
    _result, said = show({"h1": known}, h1=[held()], addresses={WEB: "192.0.2.77"})
    assert any(row.startswith("web1 active h1 small %s" % shown) for row in rows(said))


@pytest.mark.parametrize(
    "changes, said_so",
    [
        ({}, "live yes"),
        (
            {"resources": {"pci_devices": [{"address": "0000:01:00.0"}]}},
            "live no: its guest runs with devices of its host",
        ),
    ],
)
def test_whether_it_would_move_live_is_shown_or_why_not(show, changes, said_so):
    _result, said = show({"h1": {**KNOWN, "locked": None}}, h1=[held()], views=[view("web1", **changes)])
    assert any(row.startswith(said_so) for row in rows(said)), said


def test_nothing_is_said_of_moving_live_where_its_host_does_not_tell_its_records(show):
    _result, said = show({"h1": KNOWN}, h1=[held()])
    assert not any(row.startswith("live") for row in rows(said))


OFF = "off, though nobody stopped it with berth.kvm.stop; run berth.kvm.start"


@pytest.mark.parametrize(
    "found, why",
    [
        ({}, "locked"),
        ({"state": "paused"}, "paused; run berth.kvm.start; locked"),
        ({"state": "shutdown"}, OFF + "; locked"),
        ({"state": "absent"}, OFF + "; locked"),
        ({"state": "shutdown", "task_state": "powering-on"}, "powering-on; %s; locked" % OFF),
        ({"state": "shutdown", "vm_state": "stopped"}, "locked"),
        (
            {"state": "shutdown", "phase": "resized", "vm_state": "resized"},
            "locked; waits for confirm_resize or revert_resize",
        ),
    ],
)
def test_a_guest_that_does_not_run_though_it_should_is_shown_with_what_starts_it(show, found, why):
    result, _said = show({"h1": dict(KNOWN, **found)}, h1=[held()])
    assert result["outcomes"][0]["why"] == why


@pytest.mark.parametrize(
    "guest, state",
    [
        ("running", "active"),
        ("shutdown", "off"),
        ("absent", "off"),
        ("saved", "off"),
        ("paused", "paused"),
        ("crashed", "crashed"),
    ],
)
def test_the_state_of_a_guest_that_does_not_run_is_not_called_active(show, guest, state):
    result, said = show({"h1": dict(KNOWN, state=guest)}, h1=[held()])
    assert result["outcomes"][0]["state"] == state and any(
        row.startswith("web1 %s h1 small" % state) for row in rows(said)
    )


def test_an_instance_whose_host_gives_no_details_is_shown_with_its_host_and_flavor(show):
    result, _said = show({"h1": None}, h1=[held(flavor={"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1})])
    line = result["outcomes"][0]
    assert (line["state"], line["host"], line["flavor"]) == ("failed", "h1", "small")


def test_an_instance_that_two_hosts_own_is_not_shown_as_one_that_a_start_brings_up(show):
    off = {**KNOWN, "state": "shutdown", "locked": None}
    result, said = show({"h1": off, "h2": off}, h1=[held()], h2=[held(generation=[2, 0])])
    assert result["outcomes"][0]["why"] == "DuplicateInstance"
    assert "berth.kvm.keep_one_copy" in said and "berth.kvm.start" not in said


def test_an_instance_is_shown_with_who_did_what_in_which_run_and_what_came_of_it(show):
    result, said = show({"h1": KNOWN}, h1=[held()], h2=[])
    shown = rows(said)
    for line in (
        "state active, guest running", "hosts h1 (OWN)", "flavor small: 1 vCPU, 128 MiB, 1 GiB",
        "networks lan 192.0.2.11/24 52:54:00:00:00:01", "locked by ann@ctl since 2026-01-02T00:00:00Z: its disk",
        "2026-01-01T00:00:00Z build h1 ann@ctl r-1 done",
        "2026-01-01T00:00:01Z failed h1 - - BuildFailed: no room",
        "2026-01-01T00:00:02Z stop h1 bob@ctl r-2 forced: True",
        "web1 active h1 small 192.0.2.11 locked",
    ):  # fmt: skip
        assert line in shown, said
    assert result["ansible_facts"]["berth_results"]["failed"] == {} and not result["changed"]
    assert result["instances"]["web1"][0]["host"] == "h1"


def test_where_the_terminal_has_colours_what_is_shown_is_unchanged_and_what_nobody_has_failed(show, monkeypatch):
    monkeypatch.setattr(color, "ANSIBLE_COLOR", True)
    assert "\x1b[0;32mweb1      active  h1" in show({"h1": KNOWN}, h1=[held()])[1]
    said = show(h1=None)[1]
    assert "\x1b[0;31mweb1      failed" in said and "\x1b[1;31mhost h1 left out" in said


def test_both_sides_of_a_move_are_shown_and_when_it_is_confirmed(show):
    move = {"type": "resize", "status": "finished", "source": "h1", "destination": "h2", "confirm_by": 1767312000}
    there = {**KNOWN, "vm_state": "resized", "migration": move, "locked": None}
    result, said = show(
        {"h1": {**there, "role": "OUT", "phase": "keep"}, "h2": there},
        h1=[held(role="OUT", phase="keep", vm_state="resized")],
        h2=[held(phase="resized", vm_state="resized", generation=[2, 0])],
    )
    assert "hosts h1 (OUT), h2 (OWN)" in rows(said)
    assert "move resize from h1 to h2, finished; confirm_due confirms it from 2026-01-02T00:00:00Z on" in rows(said)
    assert result["outcomes"][0]["host"] == "h2" and "waits for confirm_resize" in result["outcomes"][0]["why"]


def other(name, project="default", **changes):
    """(what its host says when it is asked about it, the instance in the host's facts)"""
    uuid = instance_uuid(project, name)
    told = dict(KNOWN, uuid=uuid, name=name, project_id=project, locked=None)
    return {**told, **changes.pop("told", {})}, held(uuid=uuid, name=name, project_id=project, **changes)


@pytest.mark.follows("options_of")
@pytest.mark.follows("select_unlisted")
def test_without_a_selection_all_instances_are_shown_and_those_of_no_inventory_with_what_selects_them(show):
    told, known = other("app-1")
    result, said = show({"h1": KNOWN, "h2": told}, h1=[held()], h2=[known])
    assert [row["instance"] for row in result["outcomes"]] == ["web1", "app-1"] and "app-1" in result["instances"]
    assert (
        result["outcomes"][1]["why"]
        == fleet_hints.select_unlisted("-e berth_name=app-1")
        == ("in no inventory: -e berth_name=app-1 selects it")
    )
    assert "in no inventory" not in result["outcomes"][0]["why"]
    (result, _said) = show({"h1": KNOWN, "h2": told}, h1=[held()], h2=[known], limit="web1")
    assert [row["instance"] for row in result["outcomes"]] == ["web1"]


def test_one_of_no_inventory_that_went_while_the_hosts_were_asked_stops_nothing(show, monkeypatch):
    _told, known = other("app-1")
    monkeypatch.setattr(sys.modules[__name__], "reply", lambda _told: {"instances": [], "foreign": []})
    result, _said = show({"h2": None}, h1=[], h2=[known])
    assert [row["state"] for row in result["outcomes"]] == ["absent", "active"]


def test_an_instance_of_no_inventory_with_the_name_of_one_that_is_in_it_is_told_apart(show):
    """Of another project: a command that one of them is advised must not select the other."""
    told, known = other("web1", "lab", told={"state": "shutdown"}, domain_differs={"next_start": [["vcpus", "1", "4"]]})
    mine = held(domain_differs={"next_start": [["vcpus", "1", "4"]]})
    result, _said = show({"h1": KNOWN, "h2": told}, h1=[mine], h2=[known])
    why = {row["instance"]: row["why"] for row in result["outcomes"]}
    assert "-e berth_name=web1 -e berth_project=lab -e berth_mend=true" in why["web1 (lab)"]
    assert hints.mend("web1") in why["web1"] and "berth_name" not in why["web1"]


ADOPTED = "5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52"


@pytest.mark.parametrize(
    "name, project, options",
    [
        ("old", "default", "-e berth_name=old -e berth_adopted=" + ADOPTED),
        ("old", "lab", "-e berth_name=old -e berth_project=lab -e berth_adopted=" + ADOPTED),
        ("web1", "default", ""),
        ("a b", "default", ""),
    ],
)
def test_an_adopted_instance_that_the_inventory_does_not_describe_has_what_selects_it(show, name, project, options):
    """Its name alone means none, and no --limit finds its uuid."""
    told = dict(KNOWN, uuid=ADOPTED, name=name, project_id=project, locked=None)
    known = held(uuid=ADOPTED, name=name, project_id=project, adopted=name)
    result, _said = show({"h1": KNOWN, "h2": told}, h1=[held()], h2=[known])
    row = result["outcomes"][1]
    assert (row["instance"], row["why"]) == (ADOPTED, fleet_hints.select_unlisted(options))


def test_what_is_wrong_with_an_instance_of_no_inventory_is_told_with_commands_that_find_it(show):
    told, known = other("app-1")
    result, said = show({"h1": told, "h2": told}, h1=[known], h2=[{**known, "generation": [2, 0]}])
    assert result["outcomes"][1]["why"].startswith("DuplicateInstance")
    assert "berth.kvm.keep_one_copy -e berth_name=app-1" in " ".join(said.split()) and "--limit app-1" not in said


def test_what_may_be_on_a_silent_host_is_unknown(show):
    result, said = show({}, h1=None, h2=[])
    assert "InstanceUnknown" in result["ansible_facts"]["berth_results"]["failed"]["web1"]
    assert result["outcomes"][0]["error_code"] == "InstanceUnknown" and "h1" in said


def test_what_was_deleted_says_from_where(show):
    for told in (DELETED, {**DELETED, "history": []}, None):
        result, said = show({"h1": told}, notes=GONE, h1=[], h2=[])
        assert (result["outcomes"][0]["state"], result["outcomes"][0]["why"]) == ("absent", "deleted from h1")
        assert result["ansible_facts"]["berth_results"]["failed"] == {}


def test_the_history_outlives_the_instance_also_where_no_inventory_has_it(show):
    result, said = show({"h1": DELETED}, described=False, notes=GONE, h1=[], h2=[])
    assert "web1 (%s), deleted from h1" % WEB in rows(said)
    assert "2026-01-01T00:00:02Z stop h1 bob@ctl r-2 forced: True" in rows(said)
    assert result["ansible_facts"]["berth_results"]["failed"] == {}
    assert result["instances"]["web1"][0]["vm_state"] == "deleted"


def test_of_one_that_a_silent_host_may_have_again_the_former_life_is_told_as_such(show):
    _result, said = show({"h1": DELETED}, notes=GONE, h1=[], h2=None)
    assert "web1 (%s), deleted from h1; it may have been made again since" % WEB in rows(said)


def test_of_one_that_was_made_again_elsewhere_the_former_life_is_not_told(show):
    _result, said = show({"h2": KNOWN}, notes=GONE, h1=[], h2=[held()])
    assert "deleted" not in said and "web1 active h2 small 192.0.2.11 locked" in rows(said)


def test_what_is_on_no_host_is_absent_where_the_inventory_has_it_and_else_an_error(show):
    assert show({}, h1=[])[0]["outcomes"][0]["why"] == "is on no host"
    unknown = show({}, described=False, h1=[])[0]
    assert "in no inventory and on no host" in unknown["ansible_facts"]["berth_results"]["failed"]["web1"]


def test_of_two_owners_both_are_shown_with_what_is_in_the_way(show):
    result, said = show({"h1": KNOWN, "h2": KNOWN}, h1=[held()], h2=[held(generation=[2, 7])])
    assert "hosts h1 (OWN), h2 (OWN)" in rows(said) and "problem" in said and "keep_one" in said
    assert result["ansible_facts"]["berth_results"]["failed"] == {}


def test_a_lost_host_that_is_back_with_its_side_of_an_ended_move_is_shown_as_what_is_in_the_way(show):
    there = {**KNOWN, "vm_state": "resized", "locked": None}
    back = held(phase="resized", vm_state="resized", generation=[2, 9])
    result, said = show({"h1": KNOWN, "h2": there}, h1=[held(generation=[3, 1])], h2=[back])
    assert "the move of web1 has ended, but h2 still holds a part of it" in said
    assert result["outcomes"][0]["why"] == "InstanceMoving"


def test_what_a_host_holds_that_says_no_more_of_it_is_not_taken_for_absent(show):
    result, _said = show({"h1": None}, h1=[held()], h2=[])
    failed = result["ansible_facts"]["berth_results"]["failed"]
    assert "HostUnknown: web1 is on h1 (UNREACHABLE: no route): the host gave no details" in failed["web1"]


def test_volumes_that_nobody_has_are_shown_where_no_instance_is_asked_for(show):
    free = {
        "uuid": volume_uuid("blue", "db"), "name": "db", "project_id": "blue", "size_gb": 20, "pool": "berth", "instance": None,
        "role": "OWN", "phase": "active", "changed_at": "2026-11-22T00:00:00Z",
    }  # fmt: skip
    used = {**free, "uuid": volume_uuid("blue", "logs"), "name": "logs", "instance": {"uuid": WEB, "name": "web1"}}
    old = {part: value for part, value in free.items() if part != "changed_at"}
    result, said = show({"h1": KNOWN}, h1=[held()], volumes=[free, used])
    assert "db blue 20 GiB berth h1 2026-11-22T00:00:00Z" in rows(said) and "logs" not in said
    assert [(found["name"], found["host"]) for found in result["free_volumes"]] == [("db", "h1")]
    assert "db blue 20 GiB berth h1 -" in rows(show({"h1": KNOWN}, h1=[held()], volumes=[old])[1])
    for less in ({"limit": "web1", "volumes": [free]}, {"described": False, "volumes": [free]}, {"volumes": [used]}):
        result, said = show({"h1": KNOWN}, h1=[held()], **less)
        assert "FREE VOLUME" not in said and result["free_volumes"] == []


def test_the_file_of_the_run_has_what_the_task_returns(show, tmp_path):
    path = tmp_path / "out.json"
    result, _said = show({"h1": KNOWN}, file=path, h1=[held()], h2=None)
    told = json.loads(path.read_text())
    assert told["finished"] and set(told["hosts_left_out"]) == {"h2"}
    assert {part: told[part] for part in ("outcomes", "instances", "free_volumes")} == {
        part: json.loads(json.dumps(result[part])) for part in ("outcomes", "instances", "free_volumes")
    }
