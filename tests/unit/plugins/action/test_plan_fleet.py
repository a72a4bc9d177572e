# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan for the fleet is made from what the hosts report and written to a file; carrying it out begins with a check of it."""

from __future__ import annotations

import copy
import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from controller import Controller
from plan_moves_case import CATALOG, HOST, HOSTS, held, host_uuid, view, vm
from plan_moves_case import plan as moves_of

from ansible_collections.berth.kvm.plugins.action import ask_fleet, plan_fleet
from ansible_collections.berth.kvm.plugins.action.apply_plan import _until
from ansible_collections.berth.kvm.plugins.module_utils.conductor import silence
from ansible_collections.berth.kvm.plugins.module_utils.fleet import propose
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import selection

ROOT = Path(__file__).parents[4]


def controller(at=None, groups=None, inventory=("a", "b"), views=None, more=None):
    """Three hosts; ``at``: host -> its instances; ``views``: what their records have otherwise, ``more``: their facts."""
    at, groups, known, answers = at or {"h1": ["a", "b"]}, groups or {}, {}, {}
    for host in HOSTS:
        names = at.get(host, ())
        there = [{**held(name, groups.get(name)), **(more or {}).get(name, {})} for name in names]
        document = {**HOST, "uuid": host_uuid(host), "instances": there, "num_instances": len(there)}
        known[host] = {"berth_host": document}
        moves = [{**view(name, groups.get(name)), **(views or {}).get(name, {})} for name in names]
        answers[host] = {"ansible_facts": known[host], "moves": moves}
    variables = {"all": CATALOG, **{name: vm() for name in inventory}}
    it = Controller({"kvm_hosts": HOSTS, "instances": list(inventory)}, variables, known)
    it.register("localhost", __berth_facts={"answers": answers})
    it.answers = answers
    return it


@pytest.fixture(autouse=True)
def histories(monkeypatch):
    """What the hosts tell of past moves, host -> histories: nothing."""
    told = {}

    def ask(_action, _task_vars, hosts, module, arguments):
        assert (module, arguments) == ("instance_info", {"events_seconds": 30 * 86400, "uuids": []})
        return {
            host: {"histories": told[host]} if host in told else {"unreachable": True, "msg": "gone"} for host in hosts
        }

    monkeypatch.setattr(plan_fleet, "ask", ask)
    return told


def plan(it, check_mode=False, **args):
    return it.run("plan_fleet", {"goal": "drain", "drained": ["h1"], **args}, check_mode=check_mode)


def test_a_drain_is_planned_for_all_that_the_host_has_and_written(tmp_path, capsys):
    path = tmp_path / "plan.yml"
    done = plan(controller(inventory=("a",)), path=str(path))
    ((first, second),) = done["plan"]["waves"]
    assert (first["instance"], second["instance"], first["from"]) == ("a", "b", "h1")
    assert {first["to"], second["to"]} <= {"h2", "h3"} and not done.get("failed")
    assert yaml.safe_load(path.read_text()) == done["plan"]
    assert path.read_text().startswith("# A plan of berth.kvm for goal drain.")
    assert "plan for drain: 2 moves in 1 wave, at" in capsys.readouterr().out


def test_a_plan_says_how_long_each_move_takes_by_the_past_moves_of_its_hosts(histories, capsys):
    """Hosts that do not tell theirs stop no plan."""
    uuid, size = instance_uuid("default", "a"), plan(controller())["plan"]["waves"][0][0]
    events = (("live-migration is claimed", "00:00"), ("acquired", "00:20"))
    past = [{"event": event, "at": "2026-11-22T00:%sZ" % at} for event, at in events]
    histories["h2"] = [{"uuid": uuid, "name": "a", "history": past, "faults": []}]
    made = plan(controller({"h1": ["a"], "h3": ["b"]}, more={"b": {"locked": "ann: mine"}}), drained=["h1", "h3"])[
        "plan"
    ]
    ((move,),) = made["waves"]
    assert size["seconds"] is None and (move["to"], move["seconds"]) == ("h2", 20)
    assert " 20 s " in capsys.readouterr().out


def test_check_mode_writes_no_plan(tmp_path):
    assert plan(controller(), check_mode=True, path=str(tmp_path / "plan.yml"))["plan"]["waves"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_plan_is_not_replaced(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    assert plan(controller(), path=str(path))["error_code"] == "InvalidInput" and path.read_text() == "mine"


def test_a_file_in_a_directory_that_there_is_not_is_told_as_that(tmp_path):
    done = plan(controller(), path=str(tmp_path / "nothing" / "plan.yml"))
    assert done["error"]["field"] == "berth_plan" and "a file in a directory that one may write to" in done["msg"]


def test_all_faults_of_a_plan_are_told_before_it_is_made(tmp_path):
    told = plan(controller(), goal="blance", path=str(tmp_path / "nothing" / "plan.yml"))["error"]
    assert [told["field"], *(each["field"] for each in told["also"])] == ["berth_goal", "berth_plan"]


@pytest.mark.follows("choose_goal")
def test_a_plan_without_a_goal_says_how_to_name_one():
    assert plan(controller(), goal=None)["error"]["hint"] == "Pass one, such as -e berth_goal=balance"
    assert plan(controller(), goal="balance", drained=[])["plan"]["goal"]["name"] == "balance"


@pytest.mark.follows("name_plan")
def test_apply_plan_without_a_plan_says_how_to_name_one(tmp_path):
    it, path = controller(), tmp_path / "plan.yml"
    assert "Pass -e berth_plan=FILE" in it.run("apply_plan", {})["error"]["hint"]
    plan(it, path=str(path))
    assert it.run("apply_plan", {"path": str(path)})["moves"]


def test_what_is_off_moves_cold():
    it = controller(
        more={"a": {"power_state": "shutdown", "vm_state": "stopped"}},
        views={"a": {"running": False, "vm_state": "stopped"}},
    )
    assert {move["instance"]: move["how"] for move in plan(it)["plan"]["waves"][0]} == {"a": "cold", "b": "live"}


@pytest.mark.parametrize(
    "given, said",
    [
        ({"more": {"a": {"locked": "ann: do not touch"}}}, "InstanceIsLocked"),
        ({"views": {"a": {"task_state": "rebooting"}}}, "InstanceInvalidState"),
    ],
)
def test_what_may_not_move_stays_with_the_reason_of_the_move_itself(given, said):
    made = plan(controller(**given))["plan"]
    assert [move["instance"] for move in made["waves"][0]] == ["b"] and made["stays"]["a"].startswith(said)


def in_affinity_group(snapshots=None, **given):
    together = {"name": "pair", "uuid": "pair", "policy": "affinity", "members": [], "rules": {}}
    views = {name: {"spec": {**view(name)["spec"], "group": together}} for name in "ab"}
    for name, kept in (snapshots or {}).items():
        views[name]["spec"]["snapshots"] = kept
    return controller(groups={"a": "pair", "b": "pair"}, views=views, **given)


def test_members_of_an_affinity_group_leave_in_one_wave_to_one_host_and_know_of_each_other():
    it = in_affinity_group()
    made = plan(it)["plan"]
    (wave,) = made["waves"]
    assert [move["instance"] for move in wave] == ["a", "b"] and len({move["to"] for move in wave}) == 1
    moves = it.run("apply_plan", {"plan": made})["moves"]
    (home,) = {move["from"] for move in wave}
    assert [move["goes_with"] for move in moves] == [{instance_uuid("default", name): home} for name in "ba"]


def test_members_of_an_affinity_group_stay_where_one_of_them_has_to():
    made = plan(in_affinity_group(more={"b": {"locked": "ann: mine"}}))["plan"]
    assert made["waves"] == [] and "group pair" in made["stays"]["a"]


@pytest.mark.follows("migrate_with_devices")
def test_what_its_host_would_not_move_while_it_runs_stays_and_says_how_it_moves():
    kept = [{"name": "before", "made_at": 1, "taken": "running", "size_gb": 1, "disks": ["root"]}]
    views = {"a": {"spec": {**view("a")["spec"], "snapshots": kept}}}
    assert "cold_migrate --limit a" in plan(controller(views=views))["plan"]["stays"]["a"]
    made = plan(controller(views={"b": {"resources": {"vgpus": [{"parent": "x"}]}}}))["plan"]
    assert hints.migrate_with_devices("b") in made["stays"]["b"]
    assert moves_of("cold_migrate", {"b": vm()})["moves"]["b"]["place"]
    off = {"more": {"a": {"power_state": "shutdown", "vm_state": "stopped"}}}
    views["a"].update(running=False, vm_state="stopped")
    assert plan(controller(views=views, **off))["plan"]["stays"] == {}


def test_an_instance_of_another_project_is_not_planned_as_the_one_of_its_name():
    """The plan would move one by the uuid of the other."""
    uuid = instance_uuid("other", "a")
    twin = {"name": "a", "uuid": uuid, "project_id": "other"}
    spec = {**view("a")["spec"], **twin}
    it = controller({"h1": ["a", "x"]}, more={"x": twin}, views={"x": {"name": "a", "uuid": uuid, "spec": spec}})
    made = plan(it)["plan"]
    assert [move["uuid"] for wave in made["waves"] for move in wave] == [instance_uuid("default", "a")]
    assert "berth_project=other" in made["stays"]["a of project other"]


def test_an_affinity_group_that_may_have_members_on_a_silent_host_stays_too():
    group = {"name": "pair", "uuid": "pair", "policy": "affinity", "members": [], "rules": {}}
    it = controller({"h1": ["a"]}, {"a": "pair"}, views={"a": {"spec": {**view("a")["spec"], "group": group}}})
    assert plan(it)["plan"]["waves"]
    it.register("localhost", __berth_facts={"answers": {**it.answers, "h3": {"reason": "UNREACHABLE: no route"}}})
    assert plan(it)["plan"]["stays"]["a"].startswith("GroupMembersUnknown")


def test_what_may_not_move_counts_in_its_group():
    """A locked member keeps the others of an anti-affinity group away from its host."""
    it = controller({"h1": ["a"], "h2": ["b"]}, {"a": "pair", "b": "pair"}, more={"b": {"locked": "ann: mine"}})
    made = [plan(it, drained=["h1", host])["plan"] for host in ("h3", "h2")]
    assert made[0]["waves"] == [] and "group pair" in made[0]["stays"]["a"]
    assert [move["to"] for move in made[1]["waves"][0]] == ["h3"]


@pytest.mark.parametrize(
    "given, field",
    [
        ({"goal": "win"}, "berth_goal"),
        ({"goal": None}, "berth_goal"),
        ({"drained": []}, "berth_kvm_host"),
        ({"drained": ["h9"]}, "berth_kvm_host"),
        ({"goal": "balance"}, "berth_kvm_host"),
        ({"goal": "balance", "drained": [], "max_moves": "many"}, "berth_max_moves"),
        ({"least_gain": 101}, "berth_least_gain"),
    ],
)
def test_what_is_asked_for_has_to_make_sense(given, field):
    done = plan(controller(), **given)
    assert done["failed"] and done["error"]["field"] == field


# -- a host's maintenance
def test_a_drain_confirms_first_what_an_earlier_one_has_moved_while_it_was_off():
    it = controller(
        at={"h1": ["b"], "h3": ["a"]},
        views={"a": {"phase": "resized", "running": False}},
        more={"a": {"phase": "resized", "power_state": "shutdown", "vm_state": "resized"}},
    )
    done = it.run("apply_plan", {"plan": plan(it, carried_out=True)["plan"], "to_end": ["a"]})
    assert [(move["name"], move["how"]) for move in done["moves"]] == [("a", "confirm"), ("b", "live")]


def test_a_drain_moves_what_runs_cold_if_asked_and_then_also_what_would_not_move_live():
    kept = [{"name": "before", "made_at": 1, "taken": "running", "size_gb": 1, "disks": ["root"]}]
    it = controller(views={"a": {"spec": {**view("a")["spec"], "snapshots": kept}}})
    assert list(plan(it)["plan"]["stays"]) == ["a"]
    made = plan(it, migration="cold")["plan"]
    assert [move["how"] for move in made["waves"][0]] == ["cold", "cold"]
    done = it.run("apply_plan", {"plan": made, "migration": "cold"})
    assert not done.get("failed"), done["msg"]
    assert [(move["name"], move["how"]) for move in done["moves"]] == [("a", "cold"), ("b", "cold")]


def test_a_drain_says_once_why_an_instance_stays_and_nothing_of_a_file(capsys):
    it = controller(more={"a": {"locked": "ann: mine"}})
    made = plan(it, carried_out=True, told=["a"])["plan"]
    assert list(made["stays"]) == ["a"]
    told = capsys.readouterr().out
    assert "stays" not in told and "berth_plan" not in told


def test_what_left_by_a_drain_comes_home_and_does_not_leave_again_with_the_next(capsys):
    it = controller(at={"h2": ["a"], "h3": ["b"]}, more={"a": {"home": host_uuid("h1")}})
    made = plan(it, goal="return", carried_out=True)["plan"]
    assert [[(move["instance"], move["to"], move["why"]) for move in wave] for wave in made["waves"]] == [
        [("a", "h1", "comes home")]
    ]
    assert it.run("apply_plan", {"plan": made})["moves"][0]["drains"] is False


def test_what_finds_no_room_at_home_stays_and_says_why():
    more = {"a": {"home": host_uuid("h1")}, "b": {"home": host_uuid("h1"), "locked": "ann: mine"}}
    it = controller(at={"h2": ["a", "b"]}, more=more)
    facts = it.answers["h1"]["ansible_facts"]["berth_host"]
    facts.update(service={"disabled": True, "disabled_reason": "old", "up": True})
    stays = plan(it, goal="return")["plan"]["stays"]
    assert "h1" in stays["a"] and "old" in stays["a"] and stays["b"].startswith("InstanceIsLocked")


# -- carrying it out
def written(tmp_path, it):
    path = tmp_path / "plan.yml"
    plan(it, path=str(path))
    return str(path)


def test_the_moves_that_are_left_are_told_in_their_order_with_where_they_go(tmp_path):
    it = controller(inventory=("a",))
    done = it.run("apply_plan", {"path": written(tmp_path, it), "at_once": 1})
    assert done["sizes"] == [1, 1] and done["goal"] == "drain" and done["until"] is None
    assert [(move["name"], move["how"], move["project"]) for move in done["moves"]] == [
        ("a", "live", None),
        ("b", "live", "default"),
    ]


def test_the_day_on_which_no_more_moves_begin_is_told(tmp_path, capsys):
    """Who begins after that time of day is given until tomorrow."""
    it = controller()
    done = it.run("apply_plan", {"path": written(tmp_path, it), "until": "00:00"})
    tomorrow = datetime.date.today() + datetime.timedelta(days=1)
    assert "No move begins after %s 00:00." % tomorrow in " ".join(capsys.readouterr().out.split()) and done["until"]


def test_a_plan_that_is_carried_out_says_so(tmp_path, capsys):
    path = written(tmp_path, controller())
    where = {move["instance"]: move["to"] for move in yaml.safe_load(open(path, encoding="utf-8"))["waves"][0]}
    at = {host: [name for name in "ab" if where[name] == host] for host in HOSTS}
    done = controller(at=at).run("apply_plan", {"path": path})
    assert done["moves"] == [] and "All of it is done already." in capsys.readouterr().out


@pytest.mark.follows("plan_again")
def test_a_stale_plan_is_refused_and_says_what_changed(tmp_path):
    it, path = controller(at={"h1": ["a"]}), written(tmp_path, controller())
    done = it.run("apply_plan", {"path": path})
    assert done["error_code"] == "PlanStale" and "b is gone" in done["msg"]
    assert fleet_hints.plan_again() in done["msg"]
    plan(it, path=path)
    assert [move["name"] for move in it.run("apply_plan", {"path": path})["moves"]] == ["a"]


@pytest.mark.follows("carry_out_plan")
def test_what_wrote_a_plan_says_how_to_carry_it_out(tmp_path, capsys):
    it = controller()
    path = written(tmp_path, it)
    assert fleet_hints.carry_out_plan(path) in capsys.readouterr().out
    assert fleet_hints.carry_out_plan("plan.yml") in open(path, encoding="utf-8").readline()
    assert len(it.run("apply_plan", {"path": path})["moves"]) == 2


@pytest.mark.follows("keep_plan")
def test_a_plan_that_is_only_shown_says_how_to_keep_it(tmp_path, capsys):
    it = controller()
    plan(it)
    assert fleet_hints.keep_plan() in capsys.readouterr().out
    path = str(tmp_path / "FILE")
    plan(it, path=path)
    assert len(it.run("apply_plan", {"path": path})["moves"]) == 2


@pytest.mark.follows("install_solver")
def test_a_goal_that_needs_the_solver_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(propose, "cp_model", None)
    done = plan(controller(), goal="balance", drained=[])
    assert done["error_code"] == "SolverMissing" and fleet_hints.install_solver() in done["msg"]
    monkeypatch.undo()
    pytest.importorskip("ortools")
    assert not plan(controller(), goal="balance", drained=[]).get("failed")


def test_what_moved_while_it_was_off_and_was_not_confirmed_is_only_confirmed(tmp_path):
    off = {"more": {"a": {"power_state": "shutdown", "vm_state": "stopped"}}, "views": {"a": {"running": False}}}
    path = written(tmp_path, controller(at={"h1": ["a"]}, **off))
    (to,) = [move["to"] for move in yaml.safe_load(open(path, encoding="utf-8"))["waves"][0]]
    assert left_to_confirm(path, to, off) == [("a", to, "confirm")]


def left_to_confirm(path, to, off, kind="migration", source="h1", running=False):
    """What is left of a plan whose instance is on its host already, unconfirmed."""
    sides = {end: {"uuid": host_uuid(host), "name": host} for end, host in (("source", source), ("destination", to))}
    begun = {"id": "1", "type": kind, "attempt": 1, **sides, "new_spec": view("a")["spec"]}
    off = copy.deepcopy(off)
    off["more"]["a"]["phase"] = "resized"
    off["views"]["a"].update(phase="resized", running=running, migration=begun)
    done = controller(at={to: ["a"]}, **off).run("apply_plan", {"path": path})
    return [(move["name"], move["to"], move["how"]) for move in done["moves"]]


@pytest.mark.parametrize(
    "how, moved, confirmed",
    [
        ("cold", {"move": {"phase": "resized"}}, True),
        ("cold", {"move": {"phase": "active"}}, False),
        ("cold", {"move": None, "error": {"code": "X"}}, False),
        ("live", {"move": {"phase": "active"}}, False),
        ("live", {"move": {"phase": "resized"}}, True),
        ("confirm", {"skipped": True}, True),
    ],
)
def test_what_moved_cold_is_confirmed_and_what_was_switched_on_meanwhile_is_not(how, moved, confirmed):
    (play,) = yaml.safe_load((ROOT / "playbooks/internal/moves_of_plan.yml").read_text("utf-8"))
    (task,) = [task for task in play["tasks"] if task["name"] == "Confirm what was off"]
    known = {"__berth_how": how, "__berth_moved": moved, "berth_migration": "auto"}
    templar = Templar(loader=DataLoader(), variables=known)
    assert all(templar.evaluate_conditional(trust_as_template(each)) for each in task["when"]) is confirmed


def test_only_what_this_plan_moves_is_in_its_batches_and_in_its_order():
    """A playbook may import drain and return one after the other."""
    (play,) = yaml.safe_load((ROOT / "playbooks/internal/moves_of_plan.yml").read_text("utf-8"))
    known = yaml.safe_load((ROOT / "playbooks/vars/run.yml").read_text("utf-8"))
    parts = ("__berth_application_known", "__berth_in_plan", "__berth_batches")
    made = {part: trust_as_template(known[part]) for part in parts if part in known}
    plan_of_run = {"moves": [{"name": "b"}, {"name": "a"}], "sizes": [1, 1]}
    made |= {"groups": {"berth_in_plan": ["of an earlier plan", "a", "b"]}, "__berth_nobody": "nobody"}

    def templated(text, application):
        hostvars = {"localhost": {"__berth_application": application}}
        return Templar(loader=DataLoader(), variables={**made, "hostvars": hostvars}).template(trust_as_template(text))

    assert templated(play["hosts"], plan_of_run) == ["b", "a"] and templated(play["serial"], plan_of_run) == [1, 1]
    assert templated(play["hosts"], {"moves": [], "sizes": []}) == "nobody"


@pytest.mark.parametrize("other", [{"kind": "resize"}, {"source": "h9"}, {"running": True}])
def test_what_somebody_else_has_moved_there_is_not_confirmed(tmp_path, other):
    off = {"more": {"a": {"power_state": "shutdown", "vm_state": "stopped"}}, "views": {"a": {"running": False}}}
    path = written(tmp_path, controller(at={"h1": ["a"]}, **off))
    (to,) = [move["to"] for move in yaml.safe_load(open(path, encoding="utf-8"))["waves"][0]]
    assert left_to_confirm(path, to, off, **other) == []


@pytest.mark.parametrize("name", ["--limit", "berth_name", "berth_target_host", "berth_migration"])
def test_nothing_but_the_plan_says_what_moves_where_and_how(tmp_path, monkeypatch, name):
    it = controller()
    path, given = written(tmp_path, it), {name: "x"}
    monkeypatch.setattr(selection, "load_extra_vars", lambda _loader: given)
    done = it.run("apply_plan", {"path": path})
    assert done["error"]["field"] == name and "the plan says" in done["msg"]


def test_only_what_leaves_a_host_that_a_plan_empties_comes_home(tmp_path):
    it = controller({"h1": ["a"], "h2": ["b"]})
    path = written(tmp_path, it)
    document = yaml.safe_load(open(path, encoding="utf-8"))
    move = document["waves"][0][0]
    document["waves"] = [
        [
            {**move, "to": "h3"},
            {**move, "instance": "b", "uuid": instance_uuid("default", "b"), "from": "h2", "to": "h3"},
        ]
    ]
    done = it.run("apply_plan", {"plan": document})
    assert {move["name"]: move["drains"] for move in done["moves"]} == {"a": True, "b": False}


def test_the_rest_of_a_plan_is_proven_again_when_a_part_of_it_has_begun(tmp_path):
    off = {"more": {"a": {"power_state": "shutdown", "vm_state": "stopped"}}, "views": {"a": {"running": False}}}
    path = written(tmp_path, controller(at={"h1": ["a", "b"]}, **off))
    to = {move["instance"]: move["to"] for move in yaml.safe_load(open(path, encoding="utf-8"))["waves"][0]}
    begun = {"id": "1", "type": "migration", "attempt": 1, "new_spec": view("a")["spec"]}
    for end, host in (("source", "h1"), ("destination", to["a"])):
        begun[end] = {"uuid": host_uuid(host), "name": host}
    off["more"]["a"]["phase"] = "resized"
    off["views"]["a"].update(phase="resized", migration=begun)
    it = controller(at={"h1": ["b"], to["a"]: ["a"]}, **off)
    assert [move["how"] for move in it.run("apply_plan", {"path": path})["moves"]] == ["confirm", "live"]
    off["more"]["b"] = {"locked": "ann: mine"}
    it = controller(at={"h1": ["b"], to["a"]: ["a"]}, **off)
    assert it.run("apply_plan", {"path": path})["error_code"] == "PlanNotLegal"


def test_the_move_that_a_killed_run_has_begun_is_gone_on_with(tmp_path):
    path = written(tmp_path, controller(at={"h1": ["a"]}, inventory=()))
    (to,) = [move["to"] for move in yaml.safe_load(open(path, encoding="utf-8"))["waves"][0]]
    sides = {end: {"uuid": host_uuid(host), "name": host} for end, host in (("source", "h1"), ("destination", to))}
    begun = {"id": "1", "type": "live-migration", "attempt": 1, **sides, "new_spec": view("a")["spec"]}
    it = controller(at={"h1": ["a"], to: ["a"]}, inventory=(), views={"a": {"migration": begun}})
    for host, role, phase in (("h1", "OWN", "resizing"), (to, "IN", "incoming")):
        it.answers[host]["moves"][0].update(role=role, phase=phase)
        it.answers[host]["ansible_facts"]["berth_host"]["instances"][0].update(role=role, phase=phase)
    (move,) = it.run("apply_plan", {"path": path})["moves"]
    assert (move["name"], move["to"], move["how"], move["project"]) == ("a", to, "live", "default")


@pytest.mark.parametrize("text", [None, "nothing\n", "waves: [", "[1"])
def test_a_file_without_a_plan_is_refused(tmp_path, text):
    path = tmp_path / "plan.yml"
    if text is not None:
        path.write_text(text)
    assert controller().run("apply_plan", {"path": str(path)})["error_code"] == "InvalidInput"


def test_until_is_the_next_such_time_of_day():
    now = datetime.datetime(2026, 11, 28, 22, 30)
    assert _until("06:00", now) == datetime.datetime(2026, 11, 29, 6, 0).timestamp()
    assert _until("22:31", now) == datetime.datetime(2026, 11, 28, 22, 31).timestamp()
    assert _until(None, now) is None


@pytest.mark.parametrize("given", [{"until": "25:00"}, {"until": "6"}, {"at_once": 0}, {"per_host": "x"}])
def test_limits_of_the_run_have_to_make_sense(tmp_path, given):
    it = controller()
    assert it.run("apply_plan", {"path": written(tmp_path, it), **given})["error_code"] == "InvalidInput"


# -- questions
def test_capacity_is_told_of_each_flavor_that_is_not_disabled(capsys):
    answer = controller().run("ask_fleet", {"question": "capacity"})["answer"]
    assert answer["small"]["count"] == sum(answer["small"]["hosts"].values()) > answer["big"]["count"] > 0
    assert answer["huge"]["count"] == 0 and "VCPU: needs 64" in answer["huge"]["limited"]["h1"]
    assert "hw:cpu_policy" in answer["wrong"]["limited"]["every host"]
    assert "gone" not in answer and "how many more fit of each flavor alone:" in capsys.readouterr().out


def test_whether_the_fleet_survives_a_host_is_told(capsys):
    assert controller().run("ask_fleet", {"question": "survive"})["answer"]["survives"]
    assert "the instances of any host find a place on the others" in capsys.readouterr().out


@pytest.mark.parametrize("hosts, failures, most", [(60, 3, 2), (200, 2, 1), (200, 3, 1)])
def test_more_sets_of_hosts_than_can_be_tried_in_minutes_are_refused(hosts, failures, most):
    with pytest.raises(InvalidInput, match="at most %d with %d hosts" % (most, hosts)):
        ask_fleet._check_not_too_many(hosts, failures)
    ask_fleet._check_not_too_many(hosts, most)


@pytest.mark.parametrize("given, field", [({"kept_free": 4}, "berth_kept_free"), ({"failures": 0}, "berth_failures")])
def test_a_question_has_to_make_sense(given, field):
    assert controller().run("ask_fleet", {"question": "survive", **given})["error"]["field"] == field


def test_where_each_instance_may_go_is_told_with_how_and_why_not_elsewhere(capsys):
    kept = [{"name": "before", "made_at": 1, "taken": "running", "size_gb": 1, "disks": ["root"]}]
    it = controller(
        views={"a": {"spec": {**view("a")["spec"], "snapshots": kept}}}, more={"b": {"locked": "ann: mine"}}
    )
    answer = it.run("ask_fleet", {"question": "movability"})["answer"]
    assert (answer["a"]["how"], answer["a"]["to"]) == ("cold", ["h2", "h3"])
    assert (answer["b"]["how"], answer["b"]["host"], answer["b"]["to"]) == ("no", "h1", [])
    assert "b, not anywhere: InstanceIsLocked" in capsys.readouterr().out


def test_capacity_says_where_without_the_hosts_that_stay_free(capsys):
    assert controller().run("ask_fleet", {"question": "capacity", "kept_free": 3})["answer"]["small"]["count"] == 0
    assert "small 0 nowhere" in " ".join(capsys.readouterr().out.split())


def test_movability_tells_of_the_selected_instances_alone(capsys):
    it = controller(inventory=("a", "b", "c"))
    assert set(it.run("ask_fleet", {"question": "movability", "about": ["a", "c"]})["answer"]) == {"a"}
    assert "c is on no host that answers" in capsys.readouterr().out


def test_members_of_an_affinity_group_move_cold_where_one_of_them_does():
    kept = [{"name": "before", "made_at": 1, "taken": "running", "size_gb": 1, "disks": ["root"]}]
    it = in_affinity_group(snapshots={"a": kept})
    answer = it.run("ask_fleet", {"question": "movability"})["answer"]
    assert {name: (told["how"], told["to"]) for name, told in answer.items()} == {
        "a": ("cold", ["h2", "h3"]),
        "b": ("cold", ["h2", "h3"]),
    }
    assert set(plan(it)["plan"]["stays"]) == {"a", "b"} and len(plan(it, migration="cold")["plan"]["waves"][0]) == 2


def test_what_would_be_without_a_host_and_with_one_more_is_told_beside_today(capsys):
    it = controller()
    answer = it.run("ask_fleet", {"question": "what_if", "gone": ["h1", "h1"], "like": ["h2", "h2"]})["answer"]
    assert answer["without_place"] == [] and answer["survive_then"]["survives"]
    counts = answer["capacity"]["small"]
    assert counts["today"] < counts["then"] < 2 * counts["today"]
    told = capsys.readouterr().out
    assert "MORE TODAY" in told and "all instances of h1 find a place" in told
    assert "then: the instances of any host find a place on the others" in told


def test_what_would_be_has_the_plan_by_which_the_hosts_become_empty_on_those_that_come(capsys):
    """h2 and h3 take nothing, so that all goes to the new host."""
    it = controller(more={"b": {"locked": "ann: mine"}})
    for host in ("h2", "h3"):
        document = it.answers[host]["ansible_facts"]["berth_host"]
        document["service"] = {**document["service"], "disabled": True}
    it.register("localhost", __berth_facts={"answers": it.answers})
    plan = it.run("ask_fleet", {"question": "what_if", "gone": ["h1"], "like": ["h2"]})["answer"]["plan"]
    (((move,),), stays) = plan["waves"], plan["stays"]
    assert (move["instance"], move["to"]) == ("a", "h2 again, 1") and "ann: mine" in stays["b"] and "state" not in plan
    assert "leaves h1" in capsys.readouterr().out


@pytest.mark.parametrize("given", [{}, {"gone": ["h9"]}, {"like": ["h9"]}])
def test_what_would_be_with_hosts_that_there_are_not_is_refused(given):
    done = controller().run("ask_fleet", {"question": "what_if", **given})
    assert done["error"]["field"] == ("berth_hosts_like" if "like" in given else "berth_hosts_gone")


def silenced(it, host, why="UNREACHABLE: no route"):
    it.register("localhost", __berth_facts={"answers": {**it.answers, host: {"reason": why}}})
    return it


@pytest.mark.parametrize("option", ["like", "gone"])
def test_a_host_that_does_not_answer_cannot_be_had_once_more_nor_be_thought_away(option):
    """Nobody knows what it holds, and so not whether that finds a place."""
    done = silenced(controller(), "h1").run("ask_fleet", {"question": "what_if", option: ["h1"]})
    assert done.get("error_code") == "InvalidInput"
    assert done["error"]["field"] == "berth_hosts_" + option and "a host that answers" in done["msg"]


def asserted(tmp_path, *entries, check_mode=False, it=None, **given):
    path = tmp_path / "placement.yml"
    path.write_text(yaml.safe_dump(list(entries)))
    args = {"question": "assert", "assertions": str(path), **given}
    return (it or controller()).run("ask_fleet", args, check_mode=check_mode)


def test_a_pipeline_does_not_pass_while_a_host_is_silent_that_nobody_closed(tmp_path):
    holds, junit = {"name": "a is gone", "query": "length(instances[?name=='a']) == `0`"}, tmp_path / "junit.xml"
    done = asserted(tmp_path, holds, it=silenced(controller(), "h1"), junit=str(junit))
    assert done.get("failed") and done["msg"] == "all hosts answer: see above"
    assert [(each["name"], each["holds"]) for each in done["answer"]] == [
        ("a is gone", True),
        ("all hosts answer", False),
    ]
    assert "h1: UNREACHABLE: no route" in junit.read_text()
    assert not asserted(
        tmp_path, holds, it=silenced(controller(), "h1", silence.closed("", "by the inventory", ""))
    ).get("failed")


def test_an_assertion_about_more_failures_than_can_be_tried_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ask_fleet, "MOST_SETS", 2)
    done = asserted(tmp_path, {"name": "two may fail", "survive": 2})
    assert (done["error"]["field"], done["error_code"]) == ("berth_assertions: two may fail", "InvalidInput")


def test_a_pipeline_fails_where_an_assertion_does_not_hold_and_gets_all_as_junit(tmp_path, capsys):
    good = {"name": "a is there", "query": "length(instances[?name=='a']) == `1`"}
    bad = {"name": "spread", "instances": "starts_with(host, 'h')", "spread": "host"}
    junit = tmp_path / "junit.xml"
    done = asserted(tmp_path, good, bad, junit=str(junit))
    assert done["failed"] and done["msg"] == "spread: see above"
    assert [each["holds"] for each in done["answer"]] == [True, False]
    (suite,) = [ElementTree.parse(junit).getroot()]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is None for case in suite] == [True, False]
    assert "h1 has a, b" in capsys.readouterr().out and "h1 has a, b" in suite[1][0].get("message")
    assert not asserted(tmp_path, good, junit=str(junit)).get("failed")
    assert ElementTree.parse(junit).getroot().get("failures") == "0"


def test_a_file_that_is_no_result_of_assertions_is_not_replaced(tmp_path):
    mine = tmp_path / "mine.xml"
    mine.write_text("mine")
    assert asserted(tmp_path, {"name": "x", "survive": 1}, junit=str(mine))["error_code"] == "InvalidInput"
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("text", [None, "nothing\n", "[{", "- {name: x}\n", "[]\n"])
def test_a_file_without_assertions_is_refused(tmp_path, text):
    path = tmp_path / "placement.yml"
    if text is not None:
        path.write_text(text)
    assert (
        controller().run("ask_fleet", {"question": "assert", "assertions": str(path)})["error_code"] == "InvalidInput"
    )
