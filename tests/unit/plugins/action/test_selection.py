# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who selects instances or hosts of which there are none is told, and what is wrong with several instances is told at once."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import jmespath
import pytest
import yaml
from ansible import context
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.utils.context_objects import CLIArgs
from placement_case import CATALOG, VM, controller, place

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.plugin_utils import berth_name, selection, selection_patterns

ROOT = Path(__file__).resolve().parents[4]
ACTIONS = [
    ("placement", {}), ("plan_moves", {"action": "cold_migrate"}), ("plan_moves", {"action": "confirm"}),
    ("locate_instances", {"method": "start"}), ("locate_instances", {"method": "delete"}),
]  # fmt: skip


def run(action, args, names=(), instances=None, limited=("h1",), **variables):
    """The action in a run that is about ``names``; ``variables`` are those of the run, such as ansible_limit."""
    it = controller(instances or {"a": VM, "web-1": VM})
    values = {**it.task_vars(), "ansible_play_hosts_all": list(limited), **variables}
    with limited_to(variables.get("ansible_limit")):
        return it.run(action, {**({} if action == "check_variables" else {"instances": list(names)}), **args}, values)


def limited_to(limit):
    """The command line has this --limit."""
    return mock.patch.object(context, "CLIARGS", CLIArgs({**context.CLIARGS, "subset": limit}))


@pytest.mark.parametrize("action, args", ACTIONS)
@pytest.mark.parametrize(
    "variables, said",
    [
        ({"ansible_limit": "h1"}, "--limit=h1 selects no instance. The instances on h1 are selected with"),
        ({"berth_instances": "web1"}, "berth_instances=web1 selects no instance. Similar names: web-1"),
        ({"berth_name": ""}, "berth_name= selects no instance"),
    ],
)
def test_who_names_instances_and_gets_none_is_told(action, args, variables, said):
    result = run(action, args, **variables)
    assert result["failed"] and result["error_code"] == "InstanceNotFound" and said in result["msg"]


@pytest.mark.follows("select_on_host")
@pytest.mark.parametrize("given", [{"ansible_limit": "h1"}, {"berth_name": "h1"}])
def test_a_kvm_host_for_instances_is_told_how_those_on_it_are_selected_and_that_query_does(given):
    names = ["h1"] if "berth_name" in given else ()
    hint = run("locate_instances", {"method": "start"}, names, **given)["error"]["hint"]
    assert hint == fleet_hints.select_on_host("h1")
    (query,) = re.findall(r'"berth_where=(.+?)"', hint)
    assert jmespath.search(query, {"host": "h1"}) and not jmespath.search(query, {"host": "h2"})


@pytest.mark.follows("adopt_on")
def test_a_kvm_host_for_an_adoption_is_told_how_its_guests_are_listed_and_that_is_accepted():
    told = run("locate_instances", {"method": "adopt"}, (), ansible_limit="h1")["error"]["hint"]
    assert told == fleet_hints.adopt_on("h1")
    (variable, host), *_name = re.findall(r"-e (\w+)=(\w+)", told)
    it = controller({"a": VM})
    assert "failed" not in it.run("show_guests", {}, {**it.task_vars(), variable: host})
    refused = it.run("show_guests", {}, {**it.task_vars(), variable: "h9"})
    assert refused["error_code"] == "KvmHostNotFound"


def test_a_kvm_host_that_inherits_a_flavor_is_not_suggested_as_an_instance():
    it = controller({"a": VM}, {"berth_flavor": "tiny"})
    with pytest.raises(selection.InstanceNotFound) as refused:
        selection.selected({**it.task_vars(), "ansible_limit": "h9"}, [], ["h1"])
    assert refused.value.hint == "Known: a"


@pytest.mark.follows("select_with_pattern")
def test_a_list_of_names_that_is_text_is_told_to_be_a_pattern():
    result = run("locate_instances", {"method": "delete"}, berth_instances="[a, web-1]")
    assert result["error"]["hint"] == fleet_hints.select_with_pattern()
    for given in ("a:web-1", ["a", "web-1"]):
        told = run(
            "locate_instances", {"method": "delete"}, names=["web-1"], instances={"web-1": VM}, berth_instances=given
        )
        assert "selects no instance" not in told.get("msg", "")


@pytest.mark.follows("select_in_one_place")
@pytest.mark.parametrize("action, args", ACTIONS)
def test_a_limit_that_leaves_nothing_of_the_names_is_told_and_without_it_they_are_found(action, args):
    result = run(action, args, ansible_limit="a", berth_name="web-1")
    assert result["error"]["hint"] == fleet_hints.select_in_one_place()
    assert "--limit=a and berth_name=web-1 together select no instance" in result["msg"]
    for alone in ({"berth_name": "web-1"}, {"ansible_limit": "web-1"}):
        assert "selects no instance" not in run(action, args, names=["web-1"], **alone).get("msg", "")


@pytest.mark.parametrize("selection", [{"ansible_limit": "a", "berth_instances": "a"}, {"berth_instances": "a"}])
def test_a_host_that_is_selected_but_no_instance_is_named_with_what_it_lacks(selection):
    """As an inventory of Molecule whose group_vars Ansible does not find."""
    result = run("locate_instances", {"method": "delete"}, names=["a"], instances={"a": {}, "web-1": VM}, **selection)
    assert result["error_code"] == "InstanceNotFound"
    assert "berth_instances=a selects a, without berth_flavor" in result["msg"]


@pytest.mark.follows("look_above")
@pytest.mark.parametrize("action, args", ACTIONS)
def test_an_inventory_without_instances_is_no_fault_where_nobody_names_any(action, args, monkeypatch):
    warned = []
    monkeypatch.setattr(selection, "warn", warned.append)
    assert not run(action, args).get("failed")
    assert "No instance is selected" in warned[0] and warned[0].endswith(fleet_hints.look_above())


@pytest.mark.parametrize("action, args", [("read_hosts", {}), ("check_variables", {"hosts": ["h1"]})])
@pytest.mark.parametrize("field", ["ansible_limit", "berth_instances", "berth_kvm_hosts"])
@pytest.mark.parametrize("pattern", ["", " ", ",", " , :", "@empty", [], ["", " "], None])
def test_a_pattern_that_names_nothing_is_refused_and_not_taken_for_everything(action, args, field, pattern, tmp_path):
    """As --limit "$WEB" is where the variable is not set: a delete took all instances."""
    if field == "ansible_limit" and not isinstance(pattern, str):
        return
    if pattern == "@empty":
        (tmp_path / "empty").write_text("\n \n")
        pattern = "@%s" % (tmp_path / "empty") if field == "ansible_limit" else ""
    result = run(action, args, **{field: pattern})
    assert result["error_code"] == "InvalidInput" and "names something" in result["msg"]
    assert field.replace("ansible_", "--") in result["msg"]


@pytest.mark.parametrize("pattern", ["", " ,", [], [" "], None])
def test_a_blank_pattern_is_none(pattern):
    with pytest.raises(InvalidInput):
        selection_patterns.check_patterns(None, {"berth_instances": pattern})


def test_the_limit_in_a_file_that_names_something_is_one(tmp_path):
    (tmp_path / "some").write_text("\nweb-1\n")
    assert not run("check_variables", {"hosts": None}, ansible_limit="@%s" % (tmp_path / "some")).get("failed")


@pytest.mark.parametrize("count", ["abc", "0", 0, "-1", "5000", "1.5"])
def test_every_playbook_refuses_a_count_that_is_none_before_a_host_is_asked(count):
    result = run("read_hosts", {}, berth_name="app", berth_count=count)
    assert result["error_code"] == "InvalidInput" and "a whole number from 1 to 1000" in result["msg"]


@pytest.mark.follows("name_the_counted")
def test_a_count_without_a_name_is_refused_before_a_host_is_asked_and_with_one_it_counts():
    result = run("read_hosts", {"instances": []}, berth_count="3")
    assert result["error_code"] == "InvalidInput" and fleet_hints.name_the_counted() in result["msg"]
    for good in ({"berth_count": "3", "berth_name": "web"}, {"berth_count": 1}, {}):
        berth_name.check_counts(good)


def requested(values):
    """The instances that read_requested.yml adds for these options of -e."""
    task = yaml.safe_load((ROOT / "playbooks" / "internal" / "read_requested.yml").read_text("utf-8"))[0]["tasks"][0]
    count = Templar(DataLoader(), values).template(trust_as_template(task["vars"]["count"]))
    loop = Templar(DataLoader(), {"count": int(count)}).template(trust_as_template(task["loop"]))
    name = trust_as_template(task["ansible.builtin.add_host"]["name"])
    return [Templar(DataLoader(), {**values, "item": item}).template(name) for item in loop]


@pytest.mark.follows("select_counted")
@pytest.mark.parametrize(
    "name, counted", [("app", ["app-1", "app-2"]), ("a.example.org", ["a-1.example.org", "a-2.example.org"])]
)
def test_what_the_hint_says_selects_exactly_what_a_count_had_made(name, counted):
    said = input_hints.select_counted(name, counted)
    assert said in str(selection.similar_instances(name, [*counted, "db"]))
    assert requested(dict(re.findall(r"-e (\w+)=(\S+?),? ", said))) == counted
    for each in counted:
        assert requested({"berth_name": each}) == [each]


@pytest.mark.parametrize("count, names", [("", ["app"]), ("1", ["app"]), ("2", ["app-1", "app-2"])])
def test_a_question_of_a_survey_without_an_answer_is_one_instance(count, names):
    berth_name.check_counts({"berth_name": "app", "berth_count": count, "berth_min_count": ""})
    values = {"berth_name": "app", "berth_count": count}
    assert requested(values) == names
    berth_name.check_group(values, {berth_name.GROUP: names})
    with pytest.raises(InvalidInput):
        berth_name.check_group(values, {berth_name.GROUP: [*names, "db"]})


@pytest.mark.follows("give_with_e")
@pytest.mark.parametrize("action, variable", [("read_hosts", "berth_name"), ("show_instances", "berth_volume")])
def test_what_chooses_the_tasks_of_a_playbook_is_refused_where_ansible_does_not_see_it_and_counts_with_e(
    action, variable
):
    """show with berth_volume in the vars of an import showed the instances instead, and ended well."""
    result = run(action, {}, **{variable: "db"})
    assert result["error"]["hint"] == fleet_hints.give_with_e(variable) and variable in result["msg"]
    berth_name.check_given({variable: "db"}, {variable: "db"}, variable)
    berth_name.check_given({}, {}, variable)


@pytest.mark.parametrize(
    "limit, play_hosts, said",
    [("web-1", ["web-1"], "--limit=web-1 selects no KVM host. Known: h1, h2"), ("h1:web-1", ["h1", "web-1"], None)],
)
def test_prepare_hosts_about_no_kvm_host_is_refused(limit, play_hosts, said):
    result = run("check_variables", {"hosts": ["h1", "h2"]}, limited=play_hosts, ansible_limit=limit)
    assert result.get("failed", False) == bool(said) and (not said or said in result["msg"])


@pytest.mark.follows("name_group_of_hosts")
def test_a_group_of_hosts_with_another_name_is_proposed_and_with_that_name_given_they_are_found():
    groups = {"all": [], "ungrouped": [], "kvm_host": ["h1"], "web": ["a"]}
    result = run("check_variables", {"hosts": []}, groups=groups)
    assert result["error"]["hint"] == fleet_hints.name_group_of_hosts("kvm_host") and "kvm_host" in result["msg"]
    assert not run("check_variables", {"hosts": groups["kvm_host"]}, groups=groups).get("failed")
    nothing = run("check_variables", {"hosts": []}, groups={"all": [], "web": ["a"]})
    assert nothing["error"]["hint"] == fleet_hints.name_group_of_hosts(None)
    assert not run("check_variables", {"hosts": ["h1"]}, groups={"all": [], "kvm_hosts": ["h1"]}).get("failed")


@pytest.mark.parametrize("pattern, hint", [("kvm_host", "Did you mean kvm_hosts?"), ("nodes", "Known: kvm_hosts, web")])
def test_a_pattern_of_kvm_hosts_that_selects_none_is_told_by_itself(pattern, hint):
    groups = {"all": ["a", "h1"], "ungrouped": [], "kvm_hosts": ["h1"], "web": ["a"]}
    result = run("read_hosts", {"hosts": []}, groups=groups, berth_kvm_hosts=pattern)
    assert result["error"]["hint"] == hint and "berth_kvm_hosts=%s selects no host" % pattern in result["msg"]


@pytest.mark.follows("give_inventory")
def test_who_gives_no_inventory_is_told_to_and_with_that_one_hosts_are_found():
    result = run("check_variables", {"hosts": []}, groups={"all": [], "ungrouped": []})
    assert result["error"]["hint"] == fleet_hints.give_inventory()
    given = {"all": ["h1"], "ungrouped": [], "kvm_hosts": ["h1"]}
    assert not run("check_variables", {"hosts": ["h1"]}, groups=given).get("failed")


@pytest.mark.follows("select_several")
@pytest.mark.parametrize("names", ["a,web-1", "a web-1", "web-*", "!a", "a:web-1", ["a", "web-1"], {"a": 1}])
def test_a_name_that_is_none_or_several_is_refused_and_with_a_limit_several_are_selected(names):
    result = run("read_hosts", {}, berth_name=names)
    assert result["error"]["hint"] == fleet_hints.select_several()
    assert result["msg"].startswith("InvalidInput: berth_name: ")
    several = run("placement", {}, names=["a", "web-1"], ansible_limit="a:web-1")
    assert not several.get("failed"), several


@pytest.mark.follows("name_as_text")
@pytest.mark.parametrize("variable", selection_patterns.NAMES)
@pytest.mark.parametrize("read", [83, 1.1, True, [83]])
def test_a_name_that_yaml_read_as_a_number_is_refused_since_it_may_be_another_and_as_text_it_is_not(variable, read):
    result = run("check_variables", {"hosts": ["h1"]}, **{variable: read})
    assert result["error_code"] == "InvalidInput" and result["error"]["field"] == variable
    assert result["error"]["hint"] == fleet_hints.name_as_text(variable)
    assert not run("check_variables", {"hosts": ["h1"]}, **{variable: "0123"}).get("failed")


def test_a_name_that_only_a_variable_of_each_instance_gives_is_no_matter_of_the_host_that_decides():
    theirs = trust_as_template("{{ preferred_host }}")
    assert not run("check_variables", {"hosts": ["h1"]}, berth_target_host=theirs).get("failed")
    number = run("check_variables", {"hosts": ["h1"]}, berth_keep_on=theirs, berth_target_host=83)
    assert number["error"]["field"] == "berth_target_host"


@pytest.mark.follows("name_instance")
@pytest.mark.parametrize("answer", [None, ""])
def test_a_survey_without_a_name_is_told_to_name_an_instance(answer):
    result = run("read_hosts", {}, berth_name=answer)
    assert result["error_code"] == "InvalidInput" and result["error"]["hint"] == input_hints.name_instance()


def test_all_faults_of_an_instance_are_told_at_once():
    wrong = {"berth_flavor": "tinny", "berth_image": "gest", "berth_networks": ["lna"], "berth_server_group": "pear",
             "berth_availability_zone": "nvoa", "berth_locked": 7, "berth_metadata": 5}  # fmt: skip
    said = place({"a": {**VM, **wrong}})["msg"]
    for name in ("tiny", "guest", "lan", "pair", "nova"):
        assert "Did you mean %s?" % name in said
    assert "berth_metadata: 5 is not valid" in said


def test_a_fault_that_instances_share_is_told_once_with_their_names():
    wrong = {**VM, "berth_flavor": "tinny"}
    result = place({**{"web-%02d" % at: wrong for at in range(12)}, "b": {**VM, "berth_image": "gest"}})
    assert result["msg"].count("Did you mean tiny?") == 1 and result["msg"].count("Did you mean guest?") == 1
    assert result["msg"].startswith("FlavorNotFound: 13 instances are not valid: web-00, web-01")
    assert "web-09 and 2 more: berth_flavor: there is no flavor tinny" in result["msg"]
    told = result["error"]["faults"]
    assert (
        told["web-03"]["message"] == "berth_flavor: there is no flavor tinny" and told["b"]["code"] == "ImageNotFound"
    )


def test_a_name_with_a_space_that_nobody_sees_is_shown_with_it():
    assert "there is no flavor 'tiny '. Did you mean tiny?" in place({"a": {**VM, "berth_flavor": "tiny "}})["msg"]
    assert "tiny" in CATALOG["berth_flavors"]


@pytest.fixture
def play(monkeypatch):
    """play(pattern, of the play, what is in it, variables): why a role in it that deletes is refused, or None."""

    def check(pattern, hosts, instances=("a", "web-1"), operation="delete", **variables):
        it = controller({name: VM for name in instances})
        values = {**it.task_vars(), "ansible_play_hosts_all": list(hosts), **variables}
        templar = SimpleNamespace(template=lambda value: variables.get("target", value))
        task = SimpleNamespace(get_play=lambda: SimpleNamespace(hosts=pattern))
        own = {name: values[name] for name in ("berth_all", "berth_delete_all") if name in values}
        action = SimpleNamespace(_templar=templar, _task=task, own_variables=lambda _vars, _names: own)
        try:
            selection.check_play(action, values, operation)
        except selection.SelectionNotExplicit as error:
            return error
        return None

    return check


EVERY = ["a", "web-1", "h1", "h2"]


@pytest.mark.follows("select_in_play")
@pytest.mark.parametrize("pattern", ["all", ["all"], "*", "all:!kvm_hosts", "!h1"])
def test_a_role_in_a_play_over_all_hosts_is_refused_until_somebody_names_what_is_meant(play, pattern):
    refused = play(pattern, EVERY)
    assert (
        refused
        and refused.hint == hints.select_in_play()
        and "about all instances of the inventory (2)" in str(refused)
    )
    assert play(pattern, EVERY, ansible_limit="all") and play(pattern, EVERY, ansible_limit="*")
    for named in ({"ansible_limit": "web*"}, {"ansible_limit": "a:web-1"}, {"berth_all": True}, {"berth_name": "a"}):
        assert play(pattern, EVERY, **named) is None, named
    for hosts in ("instances", "a", ["a", "web-1"], "instances:!h1"):
        assert play(hosts, EVERY) is None, "who names hosts or a group has selected"


@pytest.mark.parametrize(
    "hosts, instances", [(["a", "h1"], ["a", "b"]), (["a", "h1"], ["a"]), (["h1"], ["a"]), ([], [])]
)
def test_a_play_that_is_not_about_all_instances_or_about_one_alone_is_none_of_them(play, hosts, instances):
    assert play("all:!b", hosts, instances) is None


def test_a_pattern_out_of_a_variable_is_what_the_variable_says(play):
    assert play("{{ target }}", EVERY, target="all") and play("{{ target }}", EVERY, target="web") is None
