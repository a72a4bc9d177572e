# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An unknown variable of the prefix berth_ stops every playbook before a host is asked."""

from __future__ import annotations

import pytest
from ansible import context
from ansible.parsing.splitter import parse_kv
from ansible.template import trust_as_template
from ansible.utils.context_objects import CLIArgs
from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, input_hints, registry_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, misplaced, variables

pytestmark = pytest.mark.long


def refusal(of=None, play=None, action="check_variables", args=None, facts=None):
    """The result of the action: ``of``: host or group -> variables; ``play``: of the play."""
    groups = {"kvm_hosts": ["kvm1", "kvm2"], "web": ["web1", "web2", "web3", "web4", "web5"]}
    it = Controller(groups, of or {}, facts)
    return it.run(action, args, {**it.task_vars(), **(play or {})})


def test_what_the_collection_knows_is_accepted(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where the file of berth_report is written
    elsewhere = {"berth_where_hosts", "berth_kvm_hosts"}  # refused where no playbook evaluates it, and in the inventory
    known = dict.fromkeys(variables.KNOWN - {variables.OWN, *variables.CHECKED} - elsewhere, "x")
    assert "failed" not in refusal({"all": {**known, "berth_shutdown_timeout": 60, "bertha": 1, "other": 2}})


def test_the_pattern_of_the_kvm_hosts_is_refused_in_the_inventory_as_plays_are_chosen_without_that(monkeypatch):
    given = {"all": {"berth_kvm_hosts": "kvm1"}}
    assert "berth_kvm_hosts: 'kvm1' is not valid (given with -e, not in the inventory)" in refusal(given)["msg"]
    monkeypatch.setattr(variables, "load_extra_vars", lambda _loader: {"berth_kvm_hosts": "kvm2"})
    assert "failed" not in refusal(given)


def test_a_setting_by_novas_name_at_kvm_hosts_is_told_unless_a_template_reads_it_or_it_is_somebodys_own(capsys):
    def told(**more):
        refusal({"kvm_hosts": {"cpu_allocation_ratio": 2, **more}, "web1": {"ram_allocation_ratio": 2}})
        return " ".join(capsys.readouterr().err.split())

    said = "kvm1, kvm2: nothing of berth.kvm reads the variable cpu_allocation_ratio. Did you mean berth_host_cpu_allocation_ratio?"
    assert said in told() and "ram_allocation_ratio" not in told()
    assert said not in told(berth_host_cpu_allocation_ratio=trust_as_template("{{ cpu_allocation_ratio }}"))
    assert said not in told(berth_own_variables=["cpu_allocation_ratio"])


READ = {"action": "read_hosts", "args": {"hosts": [], "instances": []}}


@pytest.mark.parametrize("of", [{}, {"all": {"berth_flavor": "small"}}], ids=["nowhere else", "and in the inventory"])
def test_what_an_instance_is_like_in_vars_of_a_play_or_role_is_refused_since_nothing_reads_it(of):
    told = refusal(of, play={"berth_flavor": "big", "berth_ssh_keys": []}, **READ)["msg"]
    assert "berth_flavor: 'in vars of a play, a role or a task' is not valid" in told and "berth_ssh_keys" in told
    other = refusal({"all": {"berth_flavor": "small"}}, play={"berth_volumes_defined": {}}, **READ)["msg"]
    assert "in vars of a play" not in other


def test_a_name_before_1_0_is_told_once_with_the_new_one(capsys):
    result = refusal({"web1": {"resize_bandwidth": 7}, "web2": {"resize_bandwidth": 8}, "web3": {"berth_bandwidth": 8}})
    assert "failed" not in result
    told = "resize_bandwidth: its name is berth_bandwidth now, and the old one is gone with 2.0.0"
    assert " ".join(capsys.readouterr().err.split()).count(told) == 1


@pytest.mark.follows("name_members")
def test_a_playbook_for_the_members_of_a_registry_fails_where_the_inventory_has_none():
    told = refusal(args={"members": []})
    assert told["error_code"] == "InvalidInput" and registry_hints.name_members() in told["msg"]
    assert "failed" not in refusal(args={"members": ["kvm1"]})


SWITCHES = [name for name, rule in variables.CHECKED.items() if isinstance(rule, variables.Switch)]
NAMES = ["berth_keep_on", "berth_recover_on", "berth_remove_host", "berth_set_aside_on"]


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", ["flase", "maybe", 2, ["true"], {"a": 1}])
def test_what_is_neither_yes_nor_no_is_refused_before_anything_is_done(name, value):
    result = refusal({"all": {name: value}})
    assert (
        result["error_code"] == "InvalidInput"
        and "%s: %r is not valid (true or false)" % (name, value) in result["msg"]
    )


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [True, "no", "True", "1", 0, "", None])
def test_yes_and_no_may_be_said_as_ansible_takes_them(name, value):
    assert "failed" not in refusal({"all": {name: value}})


@pytest.mark.parametrize(
    "name, value, rule",
    [
        ("berth_confirm_window", "1h", "a whole number from 0 to 31622400 seconds"),
        ("resize_confirm_window", "1h", "a whole number from 0 to 31622400 seconds"),
        ("cold_migrate_bandwidth", -5, "a whole number from 0 to 1048576 MiB/s"),
        ("revert_resize_stop_timeout", "1m", "a whole number from 0 to 86400 seconds"),
        ("live_migrate_timeout_action", "force", "one of abort, force_complete"),
    ],
)
def test_a_wrong_option_of_a_move_is_told_by_its_name_before_a_host_is_asked(name, value, rule):
    result = refusal({"web1": {name: value}})
    assert "web1: %s: %r is not valid (%s)" % (name, value, rule) in result["msg"]
    for good in ("", None, rule.endswith("complete") and "abort" or "7"):
        assert "failed" not in refusal({"web1": {name: good}})


@pytest.mark.parametrize(
    "name, meant",
    [
        ("live_migrate_bandwith", "berth_bandwidth"),
        ("resize_confirm_windw", "berth_confirm_window"),
        ("prep_resize_confirm_windw", "berth_confirm_window"),
        ("kvm_host_pacakges", "berth_host_packages"),
        ("kvm_host_script", None),
        ("kvm_host_data_directory", None),
        ("kvm_host_libvirt_group", None),
        ("resize_by", None),
        ("resized_confirm_window", None),
    ],
)
def test_a_misspelled_option_of_a_role_is_unknown_and_a_name_like_none_of_them_is_somebodys_own(name, meant):
    result = refusal({"kvm1": {name: 5}})
    if meant is None:
        assert "failed" not in result
    else:
        assert "kvm1: there is no variable %s. Did you mean %s?" % (name, meant) in result["msg"]
        assert "failed" not in refusal({"all": {name: 5, variables.OWN: [name]}})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [["kvm1"], {"kvm1": 1}, 5, "kvm\x1b1"])
def test_a_name_that_is_no_text_is_refused_before_anything_is_done(name, value):
    result = refusal({"all": {name: value}})
    assert (result["error_code"], name in result["error"]["field"]) == ("InvalidInput", True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["kvm1", "", None])
def test_a_name_may_be_left_empty(name, value):
    assert "failed" not in refusal({"all": {name: value}})


def test_a_template_that_only_others_could_render_is_left_to_them():
    assert "failed" not in refusal({"web1": {"berth_mend": trust_as_template("{{ nowhere_defined }}")}})


@pytest.mark.parametrize("value", [0, "300", 86400, "{{ 100 * 3 }}"])
def test_a_time_to_shut_down_may_be_text_or_a_template(value):
    assert "failed" not in refusal({"web1": {"berth_shutdown_timeout": trust_as_template(str(value))}})


@pytest.mark.parametrize("value", [-5, "-5", 86401, "soon", True, None, [60]])
def test_a_wrong_time_to_shut_down_is_told_with_its_instance_before_anything_is_done(value):
    result = refusal({"web2": {"berth_shutdown_timeout": value}, "web1": {"berth_shutdown_timeout": 60}})
    assert (result["error_code"], result["error"]["field"]) == ("InvalidInput", "web2: berth_shutdown_timeout")
    assert "a whole number from 0 to 86400 seconds" in result["msg"]


@pytest.mark.parametrize("value", [None, 2, "2", "{{ 1 + 1 }}"])
def test_a_setting_of_kvm_hosts_may_be_null_for_the_default_text_or_a_template(value):
    given = trust_as_template(value) if isinstance(value, str) else value
    assert "failed" not in refusal({"kvm_hosts": {"berth_host_reserved_host_cpus": given}})


@pytest.mark.parametrize("value", ["two", 1.5, float("inf"), [2], ""])
def test_a_wrong_setting_of_kvm_hosts_is_told_before_a_host_is_asked(value):
    result = refusal({"kvm_hosts": {"berth_host_reserved_host_cpus": value}})
    assert result["error"]["field"] == "kvm1, kvm2: berth_host_reserved_host_cpus"
    assert "(a whole number from 0 to 8191)" in result["msg"]


def test_a_setting_of_kvm_hosts_whose_template_fails_is_told_before_they_are_prepared_and_not_elsewhere():
    given = {"kvm_hosts": {"berth_host_cpu_allocation_ratio": trust_as_template("{{ of_rack }}")}}
    result = refusal(given, args={"hosts": ["kvm1", "kvm2"]})
    assert "kvm1, kvm2: berth_host_cpu_allocation_ratio: 'a template that fails' is not valid" in result["msg"]
    assert result["msg"].count("of_rack") == 1 and result["error"]["hint"] == fleet_hints.define_or_keep()
    assert "failed" not in refusal(given)
    assert "failed" not in refusal(
        {"kvm_hosts": {**given["kvm_hosts"], "of_rack": 4}}, args={"hosts": ["kvm1", "kvm2"]}
    )


@pytest.mark.parametrize("days", [0, 4000, "soon"])
def test_days_of_certificates_that_cannot_be_are_told_before_a_host_is_asked(days):
    assert (
        "kvm1, kvm2: berth_host_certificate_days"
        in refusal({"kvm_hosts": {"berth_host_certificate_days": days}})["msg"]
    )
    assert "failed" not in refusal({"kvm_hosts": {"berth_host_certificate_days": "30"}})


def test_the_same_wrong_value_of_several_instances_is_told_once():
    result = refusal({"web": {"berth_shutdown_timeout": -5}, "kvm1": {"berth_flavour": 1}})
    fields = [result["error"]["field"], *(error["field"] for error in result["error"]["also"])]
    assert fields == ["berth_flavour", "web1, web2, web3 and 2 more: berth_shutdown_timeout"]


@pytest.mark.parametrize(
    "name, meant",
    [
        ("berth_netwroks", "berth_networks"),
        ("berth_flavour", "berth_flavor"),
        ("berth_host_ram_alocation_ratio", "berth_host_ram_allocation_ratio"),
        ("berth_instnaces", "berth_instances"),
        ("Berth_Flavor", "berth_flavor"),
        ("BERTH_IMAGE", "berth_image"),
        ("berth-image", "berth_image"),
        ("berth_shelf_of_cables", None),
    ],
)
@pytest.mark.parametrize("place", ["all", "web", "web1", "kvm_hosts", "kvm1"])
def test_an_unknown_variable_is_named_wherever_it_is_with_what_was_probably_meant(place, name, meant):
    result = refusal({place: {name: 1}})
    who = {"all": "all hosts", "web": "web1, web2, web3 and 2 more", "kvm_hosts": "kvm1, kvm2"}.get(place, place)
    assert result["error_code"] == "UnknownVariable"
    assert result["msg"].startswith("UnknownVariable: %s: there is no variable %s. " % (who, name))
    assert ("Did you mean %s?" % meant in result["msg"]) if meant else ("Did you mean" not in result["msg"])


def test_all_of_them_are_told_at_once():
    result = refusal({"web1": {"berth_flavour": 1}, "kvm2": {"berth_host_pol": 1}, "web": {"berth_netwroks": 1}})
    fields = [result["error"]["field"], *(error["field"] for error in result["error"]["also"])]
    assert fields == ["berth_flavour", "berth_host_pol", "berth_netwroks"]


def test_a_mistake_in_the_play_that_imports_a_playbook_is_found():
    assert "the play: there is no variable berth_instnaces" in refusal(play={"berth_instnaces": "web"})["msg"]


def test_one_of_the_command_line_is_named_once(monkeypatch):
    monkeypatch.setattr(variables, "load_extra_vars", lambda loader: {"berth_naem": "db"})
    result = refusal({"all": {"berth_naem": "db"}}, {"berth_naem": "db"})
    assert result["msg"].startswith("UnknownVariable: -e: there is no variable berth_naem. Did you mean berth_name?")
    assert "also" not in result["error"]


@pytest.mark.follows("quote_value")
def test_words_of_the_command_line_that_ansible_would_drop_are_refused_and_quoted_they_count(monkeypatch):
    dropped = parse_kv("berth_name=web1 web2")
    monkeypatch.setattr(variables, "load_extra_vars", lambda loader: dropped)
    said = refusal(play=dropped)["msg"]
    assert "-e: 'web2' is not valid (name=value)" in said and fleet_hints.quote_value() in said
    quoted = parse_kv('berth_lock_reason="a b"')
    monkeypatch.setattr(variables, "load_extra_vars", lambda loader: quoted)
    assert quoted == {"berth_lock_reason": "a b"} and "failed" not in refusal(play=quoted)


@pytest.mark.follows("give_option", "leave_out")
@pytest.mark.parametrize(
    "name, hint",
    [
        ("ansible_limit", input_hints.give_option("ansible_limit", "--limit")),
        ("ansible_check_mode", input_hints.give_option("ansible_check_mode", "--check")),
        ("ansible_facts", input_hints.leave_out("ansible_facts")),
        ("delete_may_fail", input_hints.leave_out("delete_may_fail")),
        ("__berth_selection_given", input_hints.leave_out("__berth_selection_given")),
        ("__move_planned", input_hints.leave_out("__move_planned")),
    ],
)
def test_what_the_run_itself_sets_is_refused_in_extra_vars_and_without_it_the_run_goes_on(monkeypatch, name, hint):
    """A delete with -e ansible_limit=web1 deleted every instance."""
    monkeypatch.setattr(variables, "load_extra_vars", lambda loader: {name: "web1"})
    refused = refusal()
    assert refused["error_code"] == "InvalidInput" and refused["error"]["hint"] == hint
    assert "-e: %s: 'web1' is not valid" % name in refused["msg"]
    monkeypatch.setattr(variables, "load_extra_vars", lambda loader: {})
    assert "failed" not in refusal()


@pytest.mark.parametrize("given, option, accepted", [("web1", None, False), ("web1", "web1", True), (None, None, True)])
def test_a_limit_that_is_no_option_but_a_variable_of_the_inventory_or_a_play_is_refused(
    monkeypatch, given, option, accepted
):
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({**context.CLIARGS, "subset": option}))
    result = refusal(play={"ansible_limit": given} if given else {})
    assert result.get("failed", False) is not accepted
    assert accepted or ("ansible_limit: 'web1'" in result["msg"] and "--limit" in result["error"]["hint"])


@pytest.mark.follows("list_own_variables")
@pytest.mark.parametrize("own", [["berth_rack", "berth_row"], "berth_rack,berth_row", trust_as_template("{{ mine }}")])
def test_variables_of_ones_own_are_listed(own):
    of = {"all": {"mine": ["berth_rack", "berth_row"]}, "web": {"berth_rack": 1}, "kvm1": {"berth_row": 2}}
    assert input_hints.list_own_variables("berth_own_variables") in refusal(of)["msg"]
    of["all"]["berth_own_variables"] = own
    assert "failed" not in refusal(of)


def test_variables_of_ones_own_count_where_they_are_listed():
    of = {"web1": {"berth_own_variables": ["berth_rack"], "berth_rack": 1}, "web2": {"berth_rack": 2}}
    assert refusal(of)["msg"].startswith("UnknownVariable: web2: there is no variable berth_rack")


def test_what_a_run_keeps_as_a_fact_is_no_variable():
    assert "failed" not in refusal(facts={"localhost": {"berth_plan": {}}, "kvm1": {"berth_host": {}}})


def test_no_host_is_asked_where_a_variable_is_unknown(monkeypatch):
    monkeypatch.setattr(delegates, "run_on", lambda *args: pytest.fail("a host was asked"))
    result = refusal({"web1": {"berth_flavour": 1}}, action="read_hosts", args={"instances": ["web1"]})
    assert result["error_code"] == "UnknownVariable"


def told(monkeypatch, of, **more):
    """The warnings of a run that is not refused."""
    lines = []
    monkeypatch.setattr(misplaced, "warn", lines.append)
    of = {**of, "web": {"berth_flavor": "tiny", **of.get("web", {})}}
    assert "failed" not in refusal(of, **more)
    return lines


@pytest.mark.follows("set_where_it_counts")
@pytest.mark.parametrize(
    "name", ["berth_host_cpu_allocation_ratio", "berth_host_timeout", "berth_host_certificate_days"]
)
@pytest.mark.parametrize("hosts", [{}, {"kvm_hosts": 8}, {"kvm1": 8}])
def test_a_setting_of_kvm_hosts_that_an_instance_has_is_told_until_it_is_where_it_counts(monkeypatch, name, hosts):
    there = {host: {name: value} for host, value in hosts.items()}
    assert told(monkeypatch, {**there, "web1": {name: 4}}) == [
        "web1: %s is a setting of KVM hosts and does nothing on an instance. %s"
        % (name, input_hints.set_where_it_counts(name, "KVM hosts"))
    ]
    assert told(monkeypatch, {"kvm_hosts": {name: 4}}) == [] and told(monkeypatch, {"kvm1": {name: 4}}) == []


@pytest.mark.follows("set_for_all")
@pytest.mark.parametrize("name", ["berth_quotas", "berth_aggregates", "berth_flavors"])
def test_a_part_of_the_catalog_that_kvm_hosts_alone_have_is_told_until_it_is_where_it_counts(monkeypatch, name):
    value = {"a": {}}
    (line,) = told(monkeypatch, {"kvm_hosts": {name: value}})
    assert line.endswith(
        "%s is a part of the catalog and does nothing on a KVM host. %s" % (name, fleet_hints.set_for_all(name))
    )
    assert told(monkeypatch, {"all": {name: value}}) == []


def test_a_variable_of_instances_that_a_kvm_host_alone_has_is_told_until_it_is_where_it_counts(monkeypatch):
    (line,) = told(monkeypatch, {"kvm1": {"berth_networks": ["lan"]}, "web1": {"berth_networks": ["dmz"]}})
    assert line.startswith("kvm1: berth_networks is a variable of instances and does nothing on a KVM host. Set")
    for there in ("all", "web1"):
        assert told(monkeypatch, {there: {"berth_networks": ["lan"]}}) == []


def test_many_instances_that_have_it_are_one_warning(monkeypatch):
    (line,) = told(monkeypatch, {"web": {"berth_host_disabled": True}})
    assert line.startswith("web1, web2, web3 and 2 more: berth_host_disabled is")


def test_what_all_have_is_no_mistake_also_where_the_kvm_hosts_have_another(monkeypatch):
    assert told(monkeypatch, {"all": {"berth_host_pool": "fast"}}) == []
    assert told(monkeypatch, {"all": {"berth_host_pool": "fast"}, "kvm_hosts": {"berth_host_pool": "x"}}) == []


def test_what_is_no_instance_may_have_it(monkeypatch):
    """A host in a group of another name, or one that this run is not about."""
    of = {"web": {"berth_host_pool": "fast"}}
    assert told(monkeypatch, of, args={"hosts": ["web1", "web2", "web3", "web4", "web5"]}) == []
    assert told(monkeypatch, {"kvm2": {"berth_host_pool": "fast"}}, args={"hosts": ["kvm1"]}) == []


@pytest.mark.parametrize(
    "given, right",
    [
        *(("flavor", "berth_flavor"), ("target_host", "berth_target_host"), ("limit", "--limit")),
        ("kvm_host", variables.A_HOST),
        *(("flavour", "berth_flavor"), ("target_hots", "berth_target_host"), ("netwroks", "berth_networks")),
    ],
)
def test_a_name_without_its_prefix_is_refused_on_the_command_line_alone(monkeypatch, given, right):
    assert "failed" not in refusal({"web1": {given: "x"}}), "a variable of somebody else's inventory"
    monkeypatch.setattr(variables, "load_extra_vars", lambda _loader: {given: "x"})
    refused = refusal()
    assert refused.get("error_code") == "UnknownVariable" and "-e: there is no variable %s" % given in refused["msg"]
    assert "Did you mean %s?" % right in refused["msg"]
    assert "failed" not in refusal({"all": {variables.OWN: [given]}}), "somebody says that it is his own"


@pytest.mark.parametrize("given", ["host", "destination", "target"])
def test_what_others_call_the_host_of_a_move_is_told_and_refused_where_it_can_only_be_ours(monkeypatch, given):
    """The move would go to another host than was meant."""
    assert "Did you mean berth_target_host" in refusal({"all": {"berth_" + given: "kvm1"}})["msg"]
    warned = []
    monkeypatch.setattr(variables, "warn", warned.append)
    monkeypatch.setattr(variables, "load_extra_vars", lambda _loader: {given: "kvm1"})
    assert "failed" not in refusal() and len(warned) == 1
    assert given in warned[0] and "Did you mean berth_target_host" in warned[0]
    assert "failed" not in refusal({"all": {variables.OWN: [given]}}) and len(warned) == 1


@pytest.mark.parametrize("given", ["app_version", "web_port", "ansible_user", "env", "awx_job_id", "release", "user"])
def test_a_name_that_is_like_none_of_ours_is_somebody_elses(monkeypatch, given):
    monkeypatch.setattr(variables, "load_extra_vars", lambda _loader: {given: "x"})
    assert "failed" not in refusal()


def test_what_only_hosts_report_is_not_suggested():
    assert "berth_kvm_host?" not in refusal({"all": {"berth_kvm_hostt": "kvm1"}})["msg"]
