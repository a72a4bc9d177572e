# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module on several hosts at once, on each exactly as ``delegate_to`` would run it.

Ansible has no public way to do that: a task has one delegate at a time, a loop takes them one after the other. So each
host gets one of Ansible's own worker processes, whose constructor is the same in the versions that known_ansible.py names;
what is private to Ansible is used here and nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import signal
from multiprocessing import connection

from ansible.executor.process import worker
from ansible.utils.multiprocessing import context

from ..module_utils.model.safe_text import visible
from . import limits

# What the asking task has for itself; a copy of it that asks a host has none of that.
OF_THE_ASKER = {
    "loop": None, "loop_with": None, "when": [], "until": [], "retries": None, "changed_when": [], "failed_when": [],
    "register": None, "notify": None, "async_val": 0, "timeout": 0,
}  # fmt: skip
LOOK = 0.1  # s between two looks at the memory of those that ask
MESSAGES = 1000  # that one host may cause on the screen, which -vvv shows


def run_on(hosts, module, arguments, task, at_once, seconds):
    """Host -> result of the module's task there, of which ``at_once`` run at a time.

    ``arguments``: host -> the module's arguments; ``seconds``: host -> how long it may take. A failure of any kind is
    that host's result: with ``unreachable`` or ``failed``, and ``msg``.
    """
    waiting, running, results = list(hosts), {}, {}
    controller = os.getppid()
    with _ended_with(running):
        while waiting or running:
            if os.getppid() != controller:
                # It was killed, and nobody goes on with what the hosts do: ssh has to end, so that they know.
                os.kill(os.getpid(), signal.SIGTERM)
            while waiting and len(running) < at_once:
                host = waiting.pop(0)
                asked = _start(_for_host(task, host, module, arguments[host]), seconds[host])
                running[asked.receiver] = host, asked
            for receiver in connection.wait(list(running), LOOK):
                host, asked = running[receiver]
                if not asked.hear():
                    results[host] = asked.end()
                    del running[receiver]
            for _host, asked in running.values():
                asked.look()
    return {host: results[host] for host in hosts}


def apart(action, host, task_vars, work):
    """The result of the action's ``work()``, done in a process of its own with limits: by the same action on the same host."""
    asker = worker.current_worker
    if not isinstance(asker, worker.WorkerProcess) or isinstance(asker, _Worker):
        return work()  # this is that process, or no process of Ansible's at all
    name = action._task.action
    seconds = limits.task_seconds(task_vars, host, name.rpartition(".")[2])
    result = run_on([host], name, {host: dict(action._task.args)}, action._task, 1, {host: seconds})[host]
    return {key: value for key, value in result.items() if not key.startswith("_ansible_")}


@contextlib.contextmanager
def _ended_with(running):
    """Whatever ends the asker ends those that still ask: they are in process groups of their own."""

    def end(number, _frame):
        for _host, asked in running.values():
            asked.kill()
        signal.signal(number, before[number])
        os.kill(os.getpid(), number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for _host, asked in running.values():
            asked.kill()
            asked.end()
        for number, handler in before.items():
            signal.signal(number, handler)


def _for_host(task, host, module, arguments):
    """The copy of the task that runs the module on the host: with its become, environment, check mode and no_log."""
    copy = task.copy(exclude_parent=True, exclude_tasks=True)
    copy._parent = task._parent
    # From 2.21 on a running task has its own host's connection, such as local; each host shall have the play's or its own.
    own = {"action": module, "args": arguments, "delegate_to": host, "connection": task._parent.connection}
    for name, value in {**OF_THE_ASKER, **own}.items():
        setattr(copy, name, value)
    return copy


def _start(task, seconds):
    """The host that is being asked."""
    asker = worker.current_worker
    receiver, sender = context.Pipe(duplex=False)
    process = _Worker(
        final_q=_Results(sender),
        task_vars=dict(asker._task_vars),
        host=asker._host,
        task=task,
        # As Ansible made it for the play: the task's own has the addresses and passwords of its host by now.
        play_context=asker._play_context.copy(),
        loader=asker._loader,
        variable_manager=asker._variable_manager,
        shared_loader_obj=asker._shared_loader_obj,
        worker_id=asker.worker_id,
        cliargs=asker._cliargs,
    )
    process.seconds = seconds
    process.start()
    sender.close()  # the process has it: when that ends, so does the pipe
    return _Asked(process, receiver, asker._final_q)


class _Worker(worker.WorkerProcess):
    def _detach(self):
        """The asker has no terminal any more. The group of its own has ssh in it, and is what an interrupt ends."""
        os.setpgid(0, 0)
        # The kernel ends it at its time, whatever it is at by then, and also where nobody is left who asked.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(self.seconds)


class _Asked:
    """A host that is being asked, seen from the asker."""

    def __init__(self, process, receiver, queue):
        self.process = process
        self.receiver = receiver
        self._queue = queue
        self._result = None
        self._messages = 0
        self._most = limits.resident() + limits.MEMORY

    def hear(self):
        """Take what it said; false where nothing more will come."""
        try:
            kind, said = self.receiver.recv()
        except (EOFError, OSError):
            return False
        if kind == "result":
            self._result = said
        elif self._messages < MESSAGES:
            self._messages += 1
            with contextlib.suppress(OSError):  # the controller was killed, and what goes on without it ends by itself
                self._queue.send_display(kind, *said[0], **said[1])
        return True

    def look(self):
        """End it where it takes too much memory: a reply that is long, or never ends, is all in there."""
        if limits.resident(self.process.pid) > self._most:
            self._result = {"failed": True, "msg": "the reply takes more than %d MiB" % (limits.MEMORY >> 20)}
            self.kill()

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()  # should it have no group yet

    def end(self):
        """Its result, when the process is over."""
        self.receiver.close()
        if self._result is None:
            self.kill()  # what it has started and left; its own exit code stays
        self.process.join()
        return self._silence() if self._result is None else self._result

    def _silence(self):
        """It ended without a word."""
        if self.process.exitcode == -signal.SIGALRM:
            return {"unreachable": True, "msg": "no answer within %d s (berth_host_timeout)" % self.process.seconds}
        return {"failed": True, "msg": "the process that asked ended without an answer"}


class _Results:
    """What the process that asks has in place of the queue to Ansible's main process: a pipe to the asker.

    It may be ended at any moment, and must not hold the lock of that queue then.
    """

    def __init__(self, sender):
        self._sender = sender

    def send_display(self, method, *args, **how):
        """A text, which a warning has in an object; a host's words may be in it."""
        text, *others = args
        if hasattr(text, "event"):
            method, text = "warning", text.event.msg
        shown = "\n".join(visible(line) for line in str(text).split("\n"))
        self._sender.send((method, ((shown, *others), how)))

    def send_callback(self, *_sent):
        """Nothing of one host's is an event of the play."""

    def send_prompt(self, **_sent):
        """Nobody is asked anything; who waits for it ends at his time."""

    def send_task_result(self, *sent):
        """A result with its task and host in it up to 2.20; host, task and result from 2.21 on."""
        result = sent[-1]._return_data if len(sent) == 1 else sent[-1].as_result_dict(for_round_trip=True)
        # Ansible shows these as they are, and has the host's words in them: what ssh said, which Python was found.
        told = {key: value for key, value in result.items() if key not in ("exception", "deprecations", "invocation")}
        if "msg" in told:
            told["msg"] = shown(told["msg"]).removeprefix("Task failed: ")  # so it begins whatever a task failed of
        if "warnings" in told:
            told["warnings"] = [shown(warning) for warning in told["warnings"]]
        self._sender.send(("result", told))


def shown(said):
    """One visible line of a text, which a warning has in an object."""
    return visible(" ".join(str(said.event.msg if hasattr(said, "event") else said).split()))
