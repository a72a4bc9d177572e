# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts at once: how many, in which order their results come, and what each task is made of."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.utils.multiprocessing import context
from ansible.vars.manager import VariableManager

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates


@pytest.fixture
def run(monkeypatch):
    """run(do, hosts, at_once) -> results, where ``do(host)`` in a thread stands for the process that runs the module."""

    def run(do, hosts, at_once=2):
        def start(task):
            receiver, sender = context.Pipe(duplex=False)

            def work():
                try:
                    sender.send(do(task))
                except OSError:
                    pass  # a process that is killed says nothing
                sender.close()

            thread = threading.Thread(target=work)
            thread.start()
            return receiver, thread

        monkeypatch.setattr(delegates, "_for_host", lambda task, host, module, arguments: host)
        monkeypatch.setattr(delegates, "_start", start)
        return delegates.run_on(hosts, "m", dict.fromkeys(hosts), None, at_once)

    return run


@pytest.mark.parametrize("at_once", [1, 2, 9])
def test_as_many_run_at_a_time_as_may_and_all_are_asked_once(run, at_once):
    running, most, asked, lock = set(), [], [], threading.Lock()
    together = threading.Barrier(min(at_once, 4))  # 4 hosts: passed only when so many run at the same time

    def do(host):
        with lock:
            running.add(host)
            asked.append(host)
            most.append(len(running))
        together.wait(5)
        time.sleep(0.05)  # long enough for one too many to begin
        with lock:
            running.discard(host)
        return {"changed": False}

    hosts = ["h1", "h2", "h3", "h4"]
    assert list(run(do, hosts, at_once)) == hosts
    assert sorted(asked) == hosts
    assert max(most) == min(at_once, 4)


def test_a_host_that_takes_long_does_not_hold_up_the_others(run):
    others = threading.Semaphore(0)

    def do(host):
        if host == "slow":
            return {"waited": all(others.acquire(timeout=5) for _each in range(3))}
        others.release()
        return {}

    assert run(do, ["slow", "h1", "h2", "h3"])["slow"] == {"waited": True}


def test_a_process_that_is_killed_is_a_failure_of_its_host_alone(run):
    def do(host):
        if host == "h1":
            raise OSError("killed")
        return {"changed": True}

    results = run(do, ["h1", "h2"])
    assert results["h1"]["failed"] and "h1" in results["h1"]["msg"]
    assert results["h2"] == {"changed": True}


def asking_task(**keywords):
    loader = DataLoader()
    task = {"debug": {"msg": "stands for ask_hosts"}, "delegate_to": "localhost", **keywords}
    play = {"hosts": "localhost", "gather_facts": False, "become": True, "connection": "ssh", "tasks": [task]}
    return Play.load(play, variable_manager=VariableManager(loader=loader), loader=loader).tasks[0].block[0]


def test_the_task_of_a_host_has_the_askers_keywords_but_not_what_is_about_the_asker():
    keywords = {"no_log": True, "check_mode": True, "environment": [{"A": "b"}]}
    mine = asking_task(when="true", register="got", loop=[1], until="true", changed_when="false", **keywords)
    copy = delegates._for_host(mine, "h1", "berth.kvm.claim", {"claims": []})
    assert (copy.action, copy.args, copy.delegate_to) == ("berth.kvm.claim", {"claims": []}, "h1")
    assert (copy.become, copy.no_log, copy.check_mode, copy.environment) == (True, True, True, [{"A": "b"}])
    assert not any((copy.when, copy.register, copy.loop, copy.until, copy.changed_when))
    assert (mine.delegate_to, mine.register, mine.loop) == ("localhost", "got", [1])


def test_a_host_is_never_asked_over_the_askers_connection():
    """The task runs on localhost, and a claim must not."""
    mine = asking_task()
    mine.connection = "local"
    assert delegates._for_host(mine, "h1", "berth.kvm.claim", {}).connection == "ssh"


@pytest.mark.parametrize(
    "sent",
    [
        [SimpleNamespace(_return_data={"unreachable": True, "msg": "Task failed: no route"})],
        [
            "host",
            "task",
            SimpleNamespace(as_result_dict=lambda for_round_trip: {"unreachable": True, "msg": "no route"}),
        ],
    ],
    ids=["2.19", "2.21"],
)
def test_the_result_goes_to_the_asker_and_the_rest_to_ansible(sent):
    received, main = [], []
    queue = delegates._Results(SimpleNamespace(send_display=main.append), SimpleNamespace(send=received.append))
    queue.send_task_result(*sent)
    queue.send_display("text")
    assert (received, main) == ([{"unreachable": True, "msg": "no route"}], ["text"])
