# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""berth_where selects instances by what their hosts tell of them, and nothing else is an instance of its run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from controller import Controller
from held_case import WEB

from ansible_collections.berth.kvm.plugins.module_utils.conductor import instance_document
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, input_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import berth_where, delegates, reading

ROOT = Path(__file__).resolve().parents[4]
TOLD = {
    "uuid": WEB, "name": "web1", "project_id": "default", "role": "OWN", "phase": "active", "state": "running",
    "vm_state": "active", "task_state": None, "flavor": "small", "vcpus": 1, "memory_mb": 8192, "root_gb": 1,
    "image": "guest", "networks": [{"network": "lan", "address": "192.0.2.11/24", "mac": "52:54:00:00:00:01"}],
    "disks": {"logs": 5}, "volumes": {"db": 20}, "group": None, "locked": None, "migration": None,
    "metadata": {"tier": "gold"}, "history": [{"event": "claim", "at": "2026-01-01T00:00:00Z"}],
}  # fmt: skip


def other(name, project="default", **changes):
    return {**TOLD, "uuid": instance_uuid(project, name), "name": name, "project_id": project, **changes}


@pytest.fixture
def where(monkeypatch, capsys):
    """where(query, h1=[...], ...): (the action's result, what it said). A host of None is silent."""

    def act(query, names=("web1", "new"), selected=True, check_mode=False, more=None, web1=None, **hosts):
        values = {"berth_where": query, **(more or {})}
        monkeypatch.setattr(reading, "load_extra_vars", lambda _loader: values)
        groups = {"kvm_hosts": list(hosts), "vms": ["web1", "new"], "plain": ["jump"]}
        it = Controller(groups, {"vms": {"berth_flavor": "small"}, "all": values, "web1": web1 or {}})

        def answer(asked, module, *_rest):
            assert module == "berth.kvm.instance_info"
            silent = {"unreachable": True, "msg": "no route"}
            return {
                host: silent if hosts[host] is None else {"instances": hosts[host], "foreign": []} for host in asked
            }

        monkeypatch.setattr(delegates, "run_on", answer)
        arguments = {"instances": list(names), "hosts": list(hosts), "selected": selected}
        result = it.run("select_instances", arguments, it.task_vars(), check_mode=check_mode)
        return result, capsys.readouterr().out

    return act


def chosen(result):
    return result["ansible_facts"]["berth_chosen"]["names"]


@pytest.mark.parametrize(
    "query",
    [
        "state=='active' && flavor.memory_mb > `4096`",
        "host == 'h1' && guest == 'running' && flavor.name == 'small' && image == 'guest'",
        "addresses[?@ == '192.0.2.11'] && networks[0].network == 'lan'",
        "volumes[?name == 'db' && size_gb >= `20`] && disks[0].name == 'logs'",
        "metadata.tier == 'gold' && !locked && !group && contains(metadata.tier, 'ol')",
        "created > '2025-12-31' && created < '2026-02-01' && project == 'default' && move.type == ''",
    ],
)
def test_instances_are_selected_by_what_their_hosts_tell(where, query):
    result, said = where(query, h1=[TOLD], h2=[])
    assert chosen(result) == ["web1"] and "selects 1 of 2 instances: web1" in said


def test_what_its_owner_tells_counts(where):
    copy = {**TOLD, "role": "IN", "vm_state": "building"}
    assert chosen(where("host == 'h2' && state == 'active'", h1=[copy], h2=[TOLD])[0]) == ["web1"]


@pytest.mark.parametrize("silent, state", [(False, "absent"), (True, "unknown")])
def test_an_instance_that_no_host_has_is_absent_or_unknown_where_one_is_silent(where, silent, state):
    hosts = {"h1": [TOLD], "h2": None if silent else []}
    result, said = where("state == '%s'" % state, **hosts)
    assert chosen(result) == ["new"] and ("What h2 has was not asked" in said) is silent


def test_a_query_that_selects_none_says_so_and_is_no_error(where):
    result, said = where("state == 'stopped'", h1=[TOLD])
    assert chosen(result) == [] and "selects none of 2 instances" in said and not result.get("failed")


def test_alone_it_finds_instances_that_are_in_no_inventory_and_beside_a_selection_it_narrows(where):
    there = [TOLD, other("db", "shop"), other("web2", state="shutdown", vm_state="stopped")]
    result, _said = where("state == 'active'", selected=False, h1=there)
    fact = result["ansible_facts"]["berth_chosen"]
    assert fact["names"] == ["web1", "db"] and fact["in_no_inventory"] == [{"name": "db", "project": "shop"}]
    assert chosen(where("state == 'active'", names=["new"], h1=there)[0]) == []


@pytest.mark.parametrize(
    "liar",
    [
        other("jump"),  # a host of the inventory that is no instance
        other("h1"),  # a KVM host
        other("vms"),  # a group
        {**other("db"), "uuid": WEB},  # the uuid of another
        other("web1", "shop"),  # another project's, under a name of the inventory
        {**other("db"), "role": "OUT"},
        {**other("db"), "name": "a,b"},
    ],
)
def test_a_host_adds_no_name_that_is_somebody_elses(where, liar):
    result, _said = where("guest == 'running'", names=[], selected=False, h1=[liar])
    assert chosen(result) == []


def test_two_hosts_that_say_they_own_one_name_add_none(where):
    result, _said = where("guest", names=[], selected=False, h1=[other("db")], h2=[other("db")])
    assert chosen(result) == []


def test_what_a_host_tells_is_only_data(where):
    """No text of a host is a query, a template or a pattern."""
    text = "x' || name != '"
    result, _said = where("group == 'web'", h1=[{**TOLD, "group": text, "metadata": {"a": "{{ 1 }}"}}])
    assert chosen(result) == []


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("query, told", [("stat == 'x'", "no key stat"), ("state ==", "at character 9")])
def test_a_faulty_query_is_refused_before_a_host_is_asked(where, query, told, check_mode):
    result, _said = where(query, check_mode=check_mode, h1=NotImplemented)
    assert result["error_code"] == "InvalidInput" and told in result["msg"] and result["msg"].count("berth_where") == 1


def test_a_query_beside_a_name_is_refused(where):
    result, _said = where("state == 'active'", more={"berth_name": "web1"}, h1=[TOLD])
    assert result["error_code"] == "InvalidInput" and "berth_name" in result["msg"]


@pytest.mark.follows("where_in_playbooks")
@pytest.mark.parametrize("fact", [{}, {"berth_chosen": {"names": ["web2"], "in_no_inventory": []}}])
def test_where_no_task_evaluated_the_query_nothing_is_read_and_without_it_the_run_goes_on(monkeypatch, fact):
    monkeypatch.setattr(reading, "load_extra_vars", lambda _loader: {"berth_where": "name"})
    asked = []
    silent = {"unreachable": True, "msg": "no route"}
    monkeypatch.setattr(delegates, "run_on", lambda names, *_rest: asked.append(names) or {"h1": silent})
    groups = {"kvm_hosts": ["h1"], "vms": ["web1"]}
    arguments = {"instances": ["web1"], "hosts": ["h1"]}
    run = Controller(groups, {"vms": {"berth_flavor": "small"}, "all": {"berth_where": "name"}}, {"localhost": fact})
    refused = run.run("read_hosts", arguments)
    assert refused["error"]["hint"] == input_hints.where_in_playbooks() and not asked
    Controller(groups, {"vms": {"berth_flavor": "small"}}).run("read_hosts", arguments)
    assert asked


def test_in_the_inventory_it_is_refused(monkeypatch):
    run = Controller({"kvm_hosts": ["h1"]}, {"all": {"berth_where": "name"}})
    refused = run.run("read_hosts", {"instances": [], "hosts": ["h1"]})
    assert refused["error"]["hint"] == fleet_hints.give_with_e("berth_where")


def test_each_playbook_about_instances_evaluates_it():
    """What imports the playbook for berth_name would be refused with berth_where, if it did not import that for it, too."""
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / "playbooks").rglob("*.yml")}
    by_name = [name for name, text in texts.items() if "read_requested.yml' if berth_name is defined" in text]
    assert "operate.yml" in by_name
    assert [name for name in by_name if "read_where.yml' if berth_where is defined" not in texts[name]] == []


def test_the_page_explains_each_key_of_the_document():
    def paths(form, begin=""):
        for key, value in form.items():
            inner = value[0] if isinstance(value, list) else value
            yield begin + key
            if isinstance(inner, dict):
                yield from paths(inner, begin + key + ("[]." if isinstance(value, list) else "."))

    rows = re.findall(r"^\| `([a-z_.\[\]]+)`", (ROOT / "docs/queries.md").read_text("utf-8"), re.MULTILINE)
    assert rows == list(paths(instance_document.FORM))


def test_a_document_has_the_keys_of_its_form():
    def keys(value):
        return {key: keys(part) for key, part in value.items()} if isinstance(value, dict) else None

    full, none = instance_document.of("web1", [("h1", TOLD)]), instance_document.of_none("new", "default", "absent")
    form = keys(instance_document.FORM)
    assert keys({**full, "metadata": {}}) == form and keys(none) == form
    assert berth_where.FORM is instance_document.FORM


def test_a_renamed_instance_is_found_by_the_uuid_that_the_inventory_says(where):
    kept = instance_uuid("default", "before")
    result, _said = where("state=='active'", names=("web1",), web1={"berth_uuid": kept}, h1=[{**TOLD, "uuid": kept}])
    assert chosen(result) == ["web1"]
