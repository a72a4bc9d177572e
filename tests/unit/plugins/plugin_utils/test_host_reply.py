# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The door for replies: whatever a host sends becomes a checked reply or a typed error of that host."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils._internal._messages import Event, WarningSummary
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase

from ansible_collections.berth.kvm.plugins.module_utils.conductor import build_results, plan, silence
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, input_hints
from ansible_collections.berth.kvm.plugins.plugin_utils import answers_of_hosts, host_reply, known_ansible

SYSTEM = {"os_family": "Debian", "service_manager": "systemd"}


def action_on_host(become, run):
    """An action for kvm1, whose login becomes root by ``become``."""
    return SimpleNamespace(
        _task=SimpleNamespace(delegate_to="kvm1"),
        _connection=SimpleNamespace(become=become and SimpleNamespace(name=become)),
        _execute_module=lambda **_how: run(),
    )


def door(run, module="host_system"):
    return host_reply.run_module(action_on_host(None, run), module, {}, {})


def raising(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    "module, is_logged",
    [("build_instances", False), ("instance", False), ("migration", False), ("claim", True), ("host_system", True)],
)
def test_no_module_that_gets_secrets_has_ansible_write_its_arguments_into_the_hosts_system_log(module, is_logged):
    """Ansible masks a secret by its text, and there it stands as Python writes it: with \\n for each line break."""
    given = {}
    action = action_on_host(None, dict)
    action._execute_module = lambda **how: given.update(how) or {}
    host_reply.run_module(action, module, {}, {"x": 1})
    is_off = constants.config.get_config_value("DEFAULT_NO_TARGET_SYSLOG", variables=given["task_vars"])
    assert is_off is not is_logged and given["task_vars"]["x"] == 1


def test_a_module_gets_the_arguments_that_the_action_decided_and_not_those_of_its_task():
    given = {}
    action = action_on_host(None, dict)
    action._execute_module = lambda **how: given.update(how) or {}
    host_reply.run_module(action, "host_system", {"decided": 1}, {})
    assert given.get("module_args") == {"decided": 1}


def test_what_ansible_would_act_upon_ends_here():
    sent = {
        "ansible_facts": {"create_host": "kvm9"},
        "add_host": {"host_name": "x"},
        "ansible_stats": {"data": {"a": 1}},
    }
    assert door(lambda: {**SYSTEM, **sent, "invocation": {}, "skipped": True}) == {"changed": False, **SYSTEM}


def test_warnings_are_text_that_may_be_shown_whatever_ansible_made_of_them():
    warnings = [WarningSummary(event=Event(msg="found \x1b[2J/usr/bin/python3")), "plain"]
    assert door(lambda: {**SYSTEM, "warnings": warnings})["warnings"] == ["found ?[2J/usr/bin/python3", "plain"]


@pytest.mark.parametrize(
    "error", [RecursionError("deep"), ValueError("no JSON"), TypeError("x"), MemoryError(), KeyError("x")]
)
def test_what_ansible_itself_cannot_read_is_an_error_of_that_host(error):
    result = door(raising(error))
    assert result["failed"] and result["error_code"] == "InvalidReply" and "kvm1" in result["msg"]


def test_what_a_module_raised_that_nothing_caught_is_told():
    """Ansible keeps it beside the reply, as an object."""
    result = door(lambda: {"failed": True, "exception": SimpleNamespace(event=Event(msg="no \x1b[31mspace left"))})
    assert result["error"]["message"] == "the module failed: no ?[31mspace left"


def test_a_host_that_cannot_be_reached_is_ansibles_to_tell():
    with pytest.raises(AnsibleConnectionFailure):
        door(raising(AnsibleConnectionFailure("no route")))


SILENT = {"unreachable": True, "msg": "UNREACHABLE: no route"}


CLOSED = {"berth_host_disabled": True, "berth_host_disabled_reason": "new disks"}


def told_of(monkeypatch, action, delegate, result, variables=None, role=None):
    """What the task of instance web-1 gets from an action on ``delegate``, in a play or in ``role``."""
    edge = SimpleNamespace(apart=lambda *_how: result, is_apart=lambda: False)
    monkeypatch.setattr(known_ansible, "delegates", lambda: edge, raising=True)
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_more: {})
    plugin = object.__new__(action)
    of_role = SimpleNamespace(get_name=lambda: role) if role else None
    plugin._task = SimpleNamespace(delegate_to=delegate, args={"spec": {}}, _role=of_role, _parent=None)
    known = SimpleNamespace(raw_get=lambda _name: variables or {}, _loader=DataLoader())
    return plugin.run(task_vars={"inventory_hostname": "web-1", "hostvars": known, "groups": {"all": ["kvm1"]}})


def test_a_silent_delegate_fails_the_task_of_its_instance_and_names_itself_why_and_what_to_do(monkeypatch):
    """Ansible takes the host of an unreachable task out of the run: no rescue gives the move up, and no table is shown."""
    told = told_of(monkeypatch, host_reply.HostAction, "kvm1", SILENT)
    assert told["failed"] and "unreachable" not in told and told["error_code"] in host_reply.UNKNOWN
    assert "kvm1 did not answer: UNREACHABLE: no route" in told["msg"]
    assert told["error"]["hint"] == hints.bring_back_or_lost(["kvm1"])


def test_a_silent_delegate_that_the_inventory_closed_is_not_advised_to_be_given_up(monkeypatch):
    told = told_of(monkeypatch, host_reply.HostAction, "kvm1", SILENT, CLOSED)
    assert "kvm1 did not answer: closed by the inventory (new disks)" in told["msg"]
    assert told["error"]["hint"] == hints.bring_back(["kvm1"])


@pytest.mark.parametrize("role", [None, "mine.lab.hosts"])
def test_why_a_module_failed_is_in_the_result_for_a_play_or_role_of_somebodys_own(monkeypatch, role, capsys):
    assert "no route" in told_of(monkeypatch, host_reply.HostAction, "kvm1", SILENT, role=role)["msg"]
    assert "no route" not in capsys.readouterr().out


def test_why_a_module_failed_in_a_role_of_ours_is_told_once(monkeypatch, capsys):
    told = told_of(monkeypatch, host_reply.HostAction, "kvm1", SILENT, role="berth.kvm.kvm_host")
    assert told["msg"].endswith(": see above") and capsys.readouterr().out.count("no route") == 1


def test_a_task_of_the_silent_host_itself_is_ansibles_to_tell(monkeypatch):
    assert told_of(monkeypatch, host_reply.HostAction, None, SILENT) == SILENT


def test_what_ansible_says_of_a_module_that_never_ran_is_told_as_its_error():
    result = door(raising(AnsibleError("no temporary \x1b[31mdirectory")))
    assert result["error"] == {
        "code": "ModuleFailed", "message": "no temporary ?[31mdirectory", "retryable": False,
    }  # fmt: skip


@pytest.mark.follows("correct_login")
@pytest.mark.parametrize(
    "said, todo",
    [
        ("'mgmt_ip' is undefined", fleet_hints.correct_login()),
        ("Error processing keyword 'become_pass': it is none", fleet_hints.correct_login()),
        ("Attempting to decrypt but no vault secrets found.", input_hints.give_vault_password()),
    ],
)
def test_a_host_whose_login_cannot_be_read_from_the_inventory_was_not_asked_and_is_not_at_fault(said, todo):
    error = host_reply.answer_of({"failed": True, "msg": said})["error"]
    assert (error["code"], error["hint"]) == ("HostNotAsked", todo)
    reason = answers_of_hosts.reason_of({"error": error})
    assert silence.describe("h1", {"h1": reason}) == "h1 (%s)" % reason
    assert silence.hint(["h1"], {"h1": reason}) == hints.run_again()
    assert host_reply.answer_of({"changed": True}) == {"changed": True}


def test_the_end_of_what_a_module_wrote_before_it_died_is_in_its_error():
    result = door(lambda: {"failed": True, "msg": "no Python", "module_stderr": " sh: not found\n", "rc": 127})
    assert result["error"]["message"] == "no Python: sh: not found"


@pytest.mark.parametrize(
    "reply",
    [{"failed": True, "error": [1]}, {"failed": True, "error": {"code": "A", "message": "x", "retryable": "yes"}}],
)
def test_a_build_whose_reply_is_no_reply_is_tried_nowhere_else(reply):
    """What the host did is not known: the guest may run there."""
    instance = {
        "uuid": "u", "name": "web-1", "project": "p", "spec": {}, "host": "kvm1", "attempts": [], "state": "building",
        "alternates": [{"host": "kvm2", "host_uuid": "h2"}], "token": "t", "error": None,
    }  # fmt: skip
    hosts = {"kvm1": {"uuid": "h1"}, "kvm2": {"uuid": "h2"}}
    made = plan.new_plan("r", {"web-1": instance}, hosts, 3)
    made["build"] = ["web-1"]
    build_results.settle(made, {"web-1": host_reply.answer_of(door(lambda: reply, "instance"))})
    assert (instance["state"], instance["error"]["code"]) == ("failed", "HostUnknown")
    assert "InvalidReply" in instance["error"]["message"]


def failed_with(become, **failure):
    action = action_on_host(become, lambda: {"failed": True, **failure})
    return host_reply.run_module(action, "host_system", {}, {})


def died(said):
    """What Ansible makes of output that is no module's reply."""
    return {"msg": "Module result deserialization failed: No start of json char found", "module_stderr": said}


@pytest.mark.parametrize(
    "become, failure, quoted",
    [
        ("sudo", {"msg": "Missing sudo password"}, "Missing sudo password"),
        ("ansible.builtin.sudo", {"msg": "Task failed: Incorrect sudo password"}, "Incorrect sudo password"),
        ("sudo", {"msg": "Timeout (12s) waiting for privilege escalation prompt: "}, "Timeout (12s) waiting"),
        ("sudo", died("/bin/sh: 1: sudo: not found\n"), "/bin/sh: 1: sudo: not found"),
        ("sudo", died("bash: line 1: sudo: command not found"), "sudo: command not found"),
        ("sudo", died("sudo: a password is required"), "sudo: a password is required"),
        ("sudo", died("olga is not in the sudoers file."), "olga is not in the sudoers"),
        ("sudo", died("Sorry, user olga is not allowed to execute '/bin/sh' as root on kvm1."), "olga is not allowed"),
        ("community.general.doas", died("doas: Operation not permitted"), "Operation not permitted"),
    ],
)
def test_that_the_user_cannot_become_root_is_said_with_the_host_and_the_words_of_the_method(become, failure, quoted):
    result = failed_with(become, **failure)
    assert (result["error_code"], result["retryable"], result["changed"]) == ("BecomeFailed", False, False)
    assert quoted in result["error"]["message"] and result["error"]["message"].startswith("kvm1: ")
    assert fleet_hints.allow_become("kvm1", become.rpartition(".")[2]) in result["msg"]


@pytest.mark.parametrize(
    "become, failure",
    [
        (None, {"msg": "Missing sudo password"}),
        ("sudo", died("sudo: unable to resolve host kvm1: Name or service not known")),
        ("sudo", died("sudo: something is odd\nTraceback (most recent call last):\nKeyError: 1")),
        ("sudo", died("sudo: unable to send audit message\nKilled")),
        ("sudo", died("sudo: setrlimit(RLIMIT_CORE): Operation not permitted\nKilled")),
        ("sudo", {"error": {"code": "HostNotPrepared", "message": "sudo: no"}}),
    ],
)
def test_a_module_that_failed_for_another_reason_keeps_its_own_error(become, failure):
    assert failed_with(become, **failure)["error_code"] in ("ModuleFailed", "HostNotPrepared")


@pytest.mark.follows("correct_python")
@pytest.mark.parametrize(
    "become, failure",
    [
        (None, {"msg": "The module interpreter '/usr/bin/python2' was not found."}),
        ("sudo", died("sudo: unable to send audit message\n/bin/sh: 1: /usr/bin/python3: not found")),
        (None, {"msg": "ansible-core requires a minimum of Python version 3.9. Current version: 3.6.8"}),
        ("sudo", died("SyntaxError: future feature annotations is not defined")),
    ],
)
def test_a_python_that_is_not_there_or_too_old_is_told_with_the_variable_that_names_another(become, failure):
    result = failed_with(become, **failure)
    assert result["error_code"] == "PythonUnusable"
    assert fleet_hints.correct_python("kvm1") in result["msg"]


@pytest.mark.parametrize("has_action, runs", [(True, "ansible.builtin.package"), (False, "ansible.builtin.normal")])
def test_a_module_of_ansibles_own_runs_by_its_action_if_it_has_one(has_action, runs):
    """``package`` finds the package manager of the host by its action; ``systemd_service`` has none."""
    task = SimpleNamespace(action="berth.kvm.host_task", args={"module": "package"}, delegate_to="kvm1")
    task.copy = lambda: SimpleNamespace(**vars(task))
    asked = []

    def get(name, **given):
        asked.append((name, given["task"].action, given["task"].args))
        return SimpleNamespace(run=lambda task_vars: {"changed": True})

    loader = SimpleNamespace(has_plugin=lambda name: has_action, get=get)
    action = SimpleNamespace(
        _task=task,
        _connection=SimpleNamespace(become=None),
        _play_context=None,
        _loader=None,
        _templar=None,
        _shared_loader_obj=SimpleNamespace(action_loader=loader),
    )
    assert host_reply.run_builtin(action, "package", {"name": "qemu-utils"}, {})["changed"] is True
    assert asked == [(runs, "ansible.builtin.package", {"name": "qemu-utils"})]
