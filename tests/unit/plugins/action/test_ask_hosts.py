# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action ask_hosts: whatever becomes of a host, it is that host's answer and not the task's."""

from __future__ import annotations

import pytest
from ansible.module_utils._internal._messages import Event, WarningSummary
from controller import Controller

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, fan_out

HOSTS = ["h1", "h2"]
GOOD = {"changed": True, "failed": False, "results": [1]}
WARNING = WarningSummary(event=Event(msg="found /usr/bin/python3"))
FACTS = {
    "changed": False,
    "ansible_facts": {"berth_host": {"schema": 1}, "discovered_interpreter_python": "/usr/bin/x"},
}
BUSY = {"code": "HostBusy", "message": "locked", "retryable": True}


def ask(monkeypatch, results, asker="localhost", **args):
    """The result of ask_hosts where the hosts' modules have these results, and what was asked of whom."""
    asked = {}

    def run_on(hosts, module, arguments, task, at_once, seconds):
        asked.update(arguments)
        return {host: dict(results[host]) for host in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)
    it = Controller({"kvm_hosts": HOSTS})
    values = {
        **it.task_vars(),
        "inventory_hostname": asker,
        "ansible_forks": 5,
        "ansible_play_hosts_all": [asker],
    }
    return it.run("ask_hosts", {"hosts": list(results), "module": "claim", **args}, values), asked


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (GOOD, {"changed": True, "results": [1]}),
        (
            {**GOOD, "warnings": [WARNING], "exception": None, "_ansible_parsed": True},
            {"changed": True, "results": [1]},
        ),
        ({"unreachable": True, "msg": "timed out"}, {"changed": False, "reason": "UNREACHABLE: no answer in time"}),
        ({"failed": True, "msg": "locked", "error": BUSY}, {"changed": False, "error": BUSY}),
        (
            {"failed": True, "msg": "no such\x1b[2Juser"},
            {
                "changed": False,
                "error": {"code": "ModuleFailed", "message": "no such?[2Juser", "retryable": False},
            },
        ),
    ],
    ids=["answer", "what Ansible notes", "unreachable", "typed error", "what Ansible says"],
)
def test_each_end_of_a_module_is_the_answer_of_its_host_and_leaves_the_others(result, answer, monkeypatch):
    done, _asked = ask(monkeypatch, {"h1": result, "h2": GOOD})
    assert done["answers"] == {"h1": answer, "h2": {"changed": True, "results": [1]}}
    assert not done.get("failed")


def test_where_no_host_is_asked_the_code_of_the_modules_is_not_read(monkeypatch):
    monkeypatch.setattr(fan_out.sent_code, "of_files", None)
    assert ask(monkeypatch, {})[0]["answers"] == {}


def test_the_task_has_changed_something_where_one_host_has(monkeypatch):
    assert ask(monkeypatch, {"h1": {"changed": False}, "h2": GOOD})[0]["changed"]
    assert not ask(monkeypatch, {"h1": {"changed": False}, "h2": {"unreachable": True, "msg": ""}})[0]["changed"]


def test_warnings_of_all_hosts_are_those_of_the_task(monkeypatch):
    warned = {"changed": False, "warnings": [WARNING]}
    assert ask(monkeypatch, {"h1": warned, "h2": warned})[0]["warnings"] == [WARNING, WARNING]


def test_nobody_to_ask_is_skipped(monkeypatch):
    done, _asked = ask(monkeypatch, {})
    assert (done["skipped"], done["answers"], done["changed"]) == (True, {}, False)


def test_a_host_gets_what_is_for_all_and_what_is_for_it(monkeypatch):
    given = {"arguments": {"about": ["u"]}, "host_arguments": {"claims": {"h1": [1]}, "withdraw": {"h3": [3]}}}
    _done, asked = ask(monkeypatch, {"h1": GOOD, "h2": GOOD}, **given)
    assert asked == {"h1": {"about": ["u"], "claims": [1]}, "h2": {"about": ["u"]}}


@pytest.mark.parametrize(("asker", "kept"), [("h1", {"berth_host": {"schema": 1}}), ("web", None)])
def test_facts_stay_with_the_host_that_asked_itself_and_go_to_nobody_else(asker, kept, monkeypatch):
    """Ansible would note an instance's Python, or localhost's, as the one that was found on a KVM host."""
    assert ask(monkeypatch, {"h1": FACTS, "h2": FACTS}, asker)[0].get("ansible_facts") == kept


@pytest.mark.parametrize(
    ("forks", "askers", "each"), [(5, 1, 5), (50, 1, 50), (10, 3, 3), (5, 4, 1), (5, 5, 1), (5, 300, 1), (1, 1, 1)]
)
def test_all_askers_together_keep_to_the_forks(forks, askers, each):
    values = {"ansible_forks": forks, "ansible_play_hosts_all": ["vm%d" % number for number in range(askers)]}
    assert fan_out.at_once(values, alone=False) == each
    assert fan_out.at_once(values, alone=True) == forks
    assert each * min(askers, forks) <= forks
