# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts at once: how many, in which order their results come, and what each task is made of."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.module_utils._internal._messages import Event, WarningSummary
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.utils.multiprocessing import context
from ansible.vars.manager import VariableManager

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, host_limits


@pytest.fixture
def run(monkeypatch):
    """run(do, hosts, at_once) -> results, where ``do(host)`` in a thread stands for the process that runs the module."""

    def run(do, hosts, at_once=2):
        class Asked(delegates._Asked):
            def kill(self):
                """A thread cannot be ended."""

        def start(task, module, arguments, at):
            receiver, sender = context.Pipe(duplex=False)
            orders, order = context.Pipe(duplex=False)
            started.append(order)

            def work():
                # a process that is killed says nothing, and one whose order never comes ends
                with contextlib.suppress(OSError, EOFError):
                    for host, _seconds in iter(orders.recv, (None, None)):
                        sender.send(("begun", None))
                        sender.send(("result", do(host)))
                sender.close()

            thread = threading.Thread(target=work)
            thread.start()
            process = SimpleNamespace(pid=0, join=thread.join, exitcode=1)
            return Asked(process, receiver, order, None)

        started.clear()
        monkeypatch.setattr(delegates, "_start", start)
        return delegates.run_on(hosts, "m", dict.fromkeys(hosts), None, at_once, dict.fromkeys(hosts, 60))

    started = run.started = []
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
    assert results["h1"]["failed"] and "without an answer" in results["h1"]["msg"]
    assert results["h2"] == {"changed": True}


def test_a_process_asks_the_next_host_when_it_has_the_answer_of_the_last(run):
    hosts = ["h%d" % number for number in range(20)]
    assert list(run(lambda host: time.sleep(0.02) or {"asked": host}, hosts, 3).values()) == [
        {"asked": host} for host in hosts
    ]
    assert len(run.started) <= 3


def test_a_process_that_has_grown_asks_no_other_host(run, monkeypatch):
    """What one host sent would be counted against the next one."""
    monkeypatch.setattr(delegates, "MAX_GROWTH", -(1 << 60))
    assert len(run(lambda host: {}, ["h1", "h2", "h3"], 1)) == 3
    assert len(run.started) == 3


def test_a_host_whose_process_ended_before_it_was_asked_is_asked_by_another(run):
    """The time of the host before it may have ended then, or an operator has killed it."""

    def do(host):
        if host == "h1":
            run.started[0].close()  # nobody hears the next order
        return {"asked": host}

    assert run(do, ["h1", "h2"], 1) == {"h1": {"asked": "h1"}, "h2": {"asked": "h2"}}
    assert len(run.started) == 2


def asking_task(**keywords):
    loader = DataLoader()
    task = {"debug": {"msg": "stands for ask_hosts"}, "delegate_to": "localhost", **keywords}
    play = {"hosts": "localhost", "gather_facts": False, "become": True, "connection": "ssh", "tasks": [task]}
    return Play.load(play, variable_manager=VariableManager(loader=loader), loader=loader).tasks[0].block[0]


def test_the_task_of_a_host_has_the_askers_keywords_but_not_what_is_about_the_asker():
    keywords = {"no_log": True, "check_mode": True, "environment": [{"A": "b"}]}
    mine = asking_task(when="true", register="got", loop=[1], until="true", changed_when="false", **keywords)
    before = (mine.delegate_to, mine.register, mine.loop)
    copy = delegates._for_host(mine, "h1", "berth.kvm.claim")
    assert (copy.action, copy.args, copy.delegate_to) == ("berth.kvm.claim", {}, "h1")
    assert (copy.become, copy.no_log, copy.check_mode, copy.environment) == (True, True, True, [{"A": "b"}])
    assert not any((copy.when, copy.register, copy.loop, copy.until, copy.changed_when))
    assert (mine.delegate_to, mine.register, mine.loop) == before


def test_the_process_that_asks_has_the_arguments_as_they_are_with_the_defaults_of_the_module(monkeypatch):
    """Ansible would render them again for each host."""
    asker = delegates._Worker.__new__(delegates._Worker)
    asker.arguments, asker.asked = {"h1": {"told": {"a": "{{ b }}"}}}, "h1"
    monkeypatch.setattr(delegates.worker, "current_worker", asker)
    action = SimpleNamespace(_task=SimpleNamespace(args={"timeout": 5, "told": {}}))
    given = delegates.apart(action, "h1", {}, lambda: action._task.args)
    assert given == {"timeout": 5, "told": {"a": "{{ b }}"}}


def test_a_host_is_never_asked_over_the_askers_connection():
    """The task runs on localhost, and a claim must not."""
    mine = asking_task()
    mine.connection = "local"
    assert delegates._for_host(mine, "h1", "berth.kvm.claim").connection == "ssh"


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
def test_the_result_goes_to_the_asker_and_what_is_shown_goes_on_made_harmless(sent):
    received = []
    queue = delegates._Results(SimpleNamespace(send=received.append))
    queue.send_task_result(*sent)
    queue.send_display("_verbose_display", "a\nb\x1b[2J", host="h1", caplevel=2)
    queue.send_display("_warning", WarningSummary(event=Event(msg="w\x9b")))
    queue.send_callback("v2_runner_retry", None)
    queue.send_prompt(prompt="password?")
    assert received == [
        ("result", {"unreachable": True, "msg": "no route"}),
        ("_verbose_display", (("a\nb?[2J",), {"host": "h1", "caplevel": 2})),
        ("warning", (("w?",), {})),
    ]


def test_what_ansible_says_of_a_host_has_its_words_made_harmless():
    received = []
    said = {
        "unreachable": True,
        "msg": "Failed to connect to the host via ssh: \x1b[2Jhello\r\n\u202eroot",
        "exception": "\x1b[2J",
        "invocation": {"module_args": {}},
        "warnings": [WarningSummary(event=Event(msg="found /\x9b1m")), "a\nb"],
    }
    delegates._Results(SimpleNamespace(send=received.append)).send_task_result(SimpleNamespace(_return_data=said))
    ((_kind, result),) = received
    assert result == {
        "unreachable": True,
        "msg": "Failed to connect to the host via ssh: ?[2Jhello ?root",
        "warnings": ["found /?1m", "a b"],
    }


def test_a_host_shows_only_so_many_messages(monkeypatch):
    monkeypatch.setattr(delegates, "MAX_MESSAGES", 3)
    receiver, sender = context.Pipe(duplex=False)
    shown = []
    queue = SimpleNamespace(send_display=lambda method, text, **how: shown.append(text))
    asked = delegates._Asked(SimpleNamespace(pid=0), receiver, SimpleNamespace(send=lambda order: None), queue)
    asked.ask("h1", 60)
    for number in range(9):
        sender.send(("display", (("%d" % number,), {})))
    sender.close()
    while asked.hear():
        pass
    assert shown == ["0", "1", "2"]


def test_what_a_process_said_of_a_host_before_it_was_killed_for_its_memory_is_the_answer_of_no_other_host(monkeypatch):
    """It was on its way when the process was looked at."""
    receiver, sender = context.Pipe(duplex=False)
    process = SimpleNamespace(pid=os.getpid(), join=lambda: None, kill=lambda: None, exitcode=-signal.SIGKILL)
    display = SimpleNamespace(send_display=lambda *_what, **_how: None)
    monkeypatch.setattr(delegates.os, "killpg", lambda *_who: None)
    asked = delegates._Asked(process, receiver, SimpleNamespace(send=lambda order: None, close=lambda: None), display)
    with selectors.DefaultSelector() as selector:
        asking = delegates._Asking(lambda: asked, ["h1", "h2"], {"h1": 60, "h2": 60}, selector)
        asking._begin()
        for message in (("begun", None), ("display", (("warned",), {})), ("result", {"of": "h1"})):
            sender.send(message)
        sender.close()
        monkeypatch.setattr(host_limits, "resident", lambda *_pid: 1 << 60)
        asked.look()
        monkeypatch.setattr(host_limits, "resident", lambda *_pid: 0)  # of a process that has ended
        while asked in asking.running:
            asking._hear(asked)
    assert "h2" not in asking.results and asking.waiting == ["h2"], "another process asks it"
    assert set(asking.results) == {"h1"}


class Asking(context.Process):
    """A process that asks, with a child as ssh is one, which notes its own number."""

    def __init__(self, sender, note, seconds=60):
        super().__init__()
        self.sender, self.note, self.seconds = sender, note, seconds
        self._final_q = delegates._Results(sender)

    def run(self):
        delegates._Worker._detach(self)
        child = subprocess.Popen(["sleep", "300"])
        self.note.write_text(str(child.pid))
        self.work()

    def work(self):
        time.sleep(300)


class Greedy(Asking):
    def work(self):
        kept = []
        while True:
            kept.append(bytearray(8 << 20))
            time.sleep(0.01)


@pytest.fixture
def asking(monkeypatch, tmp_path):
    """asking(kind, seconds) -> (result, the child's process number)."""

    def run(kind, seconds=60, **limit):
        for name, value in limit.items():
            monkeypatch.setattr(host_limits, name, value)

        def start(*_given):
            receiver, sender = context.Pipe(duplex=False)
            process = kind(sender, tmp_path / "child", seconds)
            process.start()
            sender.close()
            return delegates._Asked(process, receiver, context.Pipe(duplex=False)[1], None)

        monkeypatch.setattr(delegates, "_start", start)
        result = delegates.run_on(["h1"], "m", {"h1": {}}, None, 1, {"h1": seconds})["h1"]
        return result, int((tmp_path / "child").read_text())

    return run


def is_ended(pid):
    """Whether the process is over, or is within a moment: the kernel takes its time."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if " Z" in Path("/proc/%d/stat" % pid).read_text():
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_a_host_that_does_not_answer_in_time_is_silent_and_its_ssh_is_ended(asking):
    began = time.monotonic()
    result, child = asking(Asking, seconds=3)
    assert result == {"unreachable": True, "msg": "no answer within 3 s (berth_host_timeout)"}
    assert time.monotonic() - began < 60 and is_ended(child)


def test_a_process_that_takes_too_much_memory_is_ended_and_the_host_has_failed(asking):
    result, child = asking(Greedy, MEMORY=64 << 20)
    assert result == {"failed": True, "msg": "the reply takes more than 64 MiB"}
    assert is_ended(child)


def test_who_is_interrupted_ends_those_that_ask_for_him(asking, tmp_path):
    """Ansible's own handler is told after that."""

    def handler(number, _frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handler)
    threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            asking(Asking)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert is_ended(int((tmp_path / "child").read_text()))


def test_who_outlives_a_controller_that_was_killed_ends_those_that_ask_for_him(asking, tmp_path):
    """Else a host would work on for a run that is not there any more."""
    child = tmp_path / "child"
    controller = os.fork()
    if controller == 0:
        if os.fork() == 0:
            try:
                asking(Asking)
            finally:
                os._exit(0)
        while not (child.exists() and child.read_text()):
            time.sleep(0.05)
        os._exit(0)
    os.waitpid(controller, 0)
    assert is_ended(int(child.read_text()))
