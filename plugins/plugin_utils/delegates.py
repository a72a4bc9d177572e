# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module on several hosts at once, on each exactly as ``delegate_to`` would. A host that takes longer than
berth_host_timeout is stopped here and counts as no answer; one that takes too much memory has failed.

Ansible has no public way to do that: a task has one delegate at a time, and a loop takes them one after the other. So
Ansible's own worker processes ask, each of them one host after the other, since starting a process costs more than
asking a host. Their constructor is the same in the versions that known_ansible.py names. Private parts of Ansible are
used only in this file.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time

from ansible.executor.process import worker
from ansible.utils.multiprocessing import context

from ..module_utils.model.safe_text import visible
from . import host_limits
from .screen import visible_line

# Keywords of the asking task that its copies, which ask the hosts, do not get.
ASKING_TASK_KEYWORDS = {
    "loop": None, "loop_with": None, "when": [], "until": [], "retries": None, "changed_when": [], "failed_when": [],
    "register": None, "notify": None, "async_val": 0, "timeout": 0,
}  # fmt: skip
MEMORY_CHECK_INTERVAL = 0.1  # seconds between two checks of the processes' memory
MAX_MESSAGES = 1000  # lines that one host may print on the screen with -vvv
MAX_GROWTH = 32 << 20  # bytes; a process that grew more is not used for another host
IDLE_TIMEOUT = 60  # seconds that a process waits for its next host


def run_on(hosts, module, arguments, task, at_once, seconds, at=None):
    """Return host -> the result of the module's task there. At most ``at_once`` run at a time.

    ``arguments``: host -> the module's arguments; ``seconds``: host -> how long it may take. With ``at`` (name -> host)
    all of these are by such a name, so that one host can run several at a time. A failure of any kind becomes the result
    of that host, with ``unreachable`` or ``failed``, and ``msg``.
    """
    with selectors.DefaultSelector() as selector:
        asking = _Asking(lambda: _start(task, module, arguments, at or {}), hosts, seconds, selector)
        with _ended_with(asking.running):
            # not os.getppid(): a controller that was killed before this asked anybody would not be missed
            results = asking.ask_all(at_once, getattr(worker.current_worker, "_parent_pid", None) or os.getppid())
    return {host: results[host] for host in hosts}


def apart(action, host, task_vars, work):
    """The result of the action's ``work()``, run by the same action on the same host in its own limited process."""
    asker = worker.current_worker
    if is_apart():
        action._task.args = {**action._task.args, **asker.arguments[asker.asked]}
        return work()
    if not isinstance(asker, worker.WorkerProcess):
        return work()  # not in a worker process of Ansible
    name, arguments = action._task.action, dict(action._task.args)
    seconds = host_limits.task_seconds(task_vars, host, name.rpartition(".")[2], arguments.get("state"))
    result = run_on([host], name, {host: arguments}, action._task, 1, {host: seconds})[host]
    return {key: value for key, value in result.items() if not key.startswith("_ansible_")}


def is_apart():
    """Whether this is a process that ``apart`` or another task has begun."""
    return isinstance(worker.current_worker, _Worker)


@contextlib.contextmanager
def _ended_with(running):
    """Whatever ends the asker also ends its processes, which are in process groups of their own."""

    def end(number, _frame):
        for asked in running:
            asked.kill()
        signal.signal(number, before[number])
        os.kill(os.getpid(), number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for asked in running:
            asked.kill()
            asked.end()
        for number, handler in before.items():
            signal.signal(number, handler)


def _for_host(task, host, module):
    """The copy of the task that runs the module on the host: with its become, environment, check mode and no_log.

    It has no arguments, because Ansible would render them again for each host. ``apart`` adds them.
    """
    copy = task.copy(exclude_parent=True, exclude_tasks=True)
    copy._parent = task._parent
    # Since 2.21 a running task has its own host's connection, such as local; each host must get the play's or its own.
    own = {"action": module, "args": {}, "delegate_to": host, "connection": task._parent.connection}
    for name, value in {**ASKING_TASK_KEYWORDS, **own}.items():
        setattr(copy, name, value)
    return copy


def _start(task, module, arguments, at):
    asker = worker.current_worker
    receiver, sender = context.Pipe(duplex=False)
    orders, order = context.Pipe(duplex=False)
    process = _Worker(
        final_q=_Results(sender),
        task_vars=asker._task_vars,
        host=asker._host,
        task=task,
        play_context=asker._play_context,
        loader=asker._loader,
        variable_manager=asker._variable_manager,
        shared_loader_obj=asker._shared_loader_obj,
        worker_id=asker.worker_id,
        cliargs=asker._cliargs,
    )
    process.module, process.arguments, process.at, process.orders = module, arguments, at, orders
    process.start()
    sender.close()  # only the process keeps it open: the pipe ends with the process
    orders.close()
    return _Asked(process, receiver, order, asker._final_q)


class _Worker(worker.WorkerProcess):
    def run(self):
        """Ask one host after the other, each as if it were the first."""
        task, task_vars, play_context = self._task, self._task_vars, self._play_context
        host_vars_and_groups = self._host.vars, self._host.groups
        # The kernel ends it in time, whatever it is doing, and also if the asker is gone.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(IDLE_TIMEOUT)
        for asked, seconds in iter(self._next_host, (None, None)):
            self.asked, self.seconds = asked, seconds
            host = self.at.get(asked, asked)
            self._task, self._task_vars = _for_host(task, host, self.module), dict(task_vars)
            # A copy of the play's own: the last task has filled its copy with its host's address and passwords.
            self._play_context = play_context.copy()
            super().run()
            signal.alarm(IDLE_TIMEOUT)
            self._host.vars, self._host.groups = host_vars_and_groups  # Ansible removes them at the end of a task

    def _next_host(self):
        try:
            return self.orders.recv()
        except EOFError:
            return None, None  # the asker is gone

    def _detach(self):
        """The asker has left its terminal already. This new process group includes ssh; an interrupt ends it."""
        os.setpgid(0, 0)
        signal.alarm(self.seconds)
        self._final_q.begin()


class _Asking:
    """The hosts that still have to be asked, the running processes, and the results."""

    def __init__(self, start, hosts, seconds, selector):
        self.waiting, self.running, self.results = list(hosts), [], {}
        self._start, self._seconds, self._selector = start, seconds, selector
        self._looked = time.monotonic()

    def ask_all(self, at_once, controller):
        while self.waiting or self.running:
            if os.getppid() != controller:
                # The controller was killed: ssh has to end, so that the hosts stop too.
                os.kill(os.getpid(), signal.SIGTERM)
            more = self.waiting and sum(asked.host is not None for asked in self.running) < at_once
            if more:
                self._begin()
            # do not wait for messages if another process may start
            for key, _events in self._selector.select(0 if more else MEMORY_CHECK_INTERVAL):
                self._hear(key.data)
            if time.monotonic() > self._looked + MEMORY_CHECK_INTERVAL:
                self._looked = time.monotonic()
                for asked in self.running:
                    asked.look()
        return self.results

    def _begin(self):
        asked = self._start()
        self.running.append(asked)
        self._selector.register(asked.receiver, selectors.EVENT_READ, asked)
        self._next(asked)

    def _next(self, asked):
        host = self.waiting.pop(0) if self.waiting else None
        asked.ask(host, self._seconds.get(host))

    def _hear(self, asked):
        if asked.hear():
            if asked.has_answered():
                self.results[asked.host] = asked.result
                if asked.is_small():
                    self._next(asked)
                else:
                    asked.ask(None, None)
            return
        self._selector.unregister(asked.receiver)
        self.running.remove(asked)
        asked.end()
        if not asked.begun:
            self.waiting.insert(0, asked.host)
        elif asked.host is not None:
            self.results[asked.host] = asked.result


class _Asked:
    """A process that asks, seen from the asker. ``host``: the host that it asks, None if it should end; ``begun``:
    whether it has begun to; ``result``: the host's result, once it has answered or the process is over."""

    def __init__(self, process, receiver, order, queue):
        self.process, self.receiver = process, receiver
        self.host = self.result = None
        self.begun = True  # if the process does not even start, the host has failed
        self._is_too_large = False
        self._order, self._queue = order, queue
        self._asked = self._messages = self._seconds = 0
        self._resident = host_limits.resident()

    def ask(self, host, seconds):
        """Give the process its next host, or None if there is none."""
        self.begun = not self._asked or host is None
        self.host, self.result, self._seconds, self._messages = host, None, seconds, 0
        self._asked += 1
        with contextlib.suppress(OSError):  # the process ended while it was idle, which hear() notices next
            self._order.send((host, seconds))

    def hear(self):
        """Receive one message; return false if no more will come."""
        try:
            kind, content = self.receiver.recv()
        except (EOFError, OSError):
            return False
        if kind == "result":
            self.result = content
        elif kind == "begun":
            self.begun = True
        elif self._messages < MAX_MESSAGES:
            self._messages += 1
            with contextlib.suppress(OSError):  # the controller was killed, and this process will end by itself
                self._queue.send_display(kind, *content[0], **content[1])
        return True

    def has_answered(self):
        return self.result is not None

    def is_small(self):
        """Whether it uses little enough memory to ask another host."""
        return host_limits.resident(self.process.pid) < self._resident + MAX_GROWTH

    def look(self):
        """Kill the process if it uses too much memory: it holds the whole of a long or endless reply."""
        if host_limits.resident(self.process.pid) > self._resident + host_limits.MEMORY:
            self._is_too_large = True
            self.kill()  # hear() notices; an answer that is on its way still counts, for its host

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()  # in case it has no group yet

    def end(self):
        """Clean up after the process is over."""
        self.receiver.close()
        self._order.close()
        if self.result is None and self.host is not None:
            self.kill()  # its leftover child processes; its own exit code stays
        self.process.join()
        if self.result is None and self.host is not None:
            self.result = self._silence()

    def _silence(self):
        """The result if it ended without an answer."""
        if self._is_too_large:
            return {"failed": True, "msg": "the reply takes more than %d MiB" % (host_limits.MEMORY >> 20)}
        if self.process.exitcode == -signal.SIGALRM:
            return {"unreachable": True, "msg": "no answer within %d s (berth_host_timeout)" % self._seconds}
        return {"failed": True, "msg": "the process that asked ended without an answer"}


class _Results:
    """Replaces the queue to Ansible's main process in a process that asks: a pipe to the asker.

    The process may be killed at any moment, and must not hold the lock of that queue then.
    """

    def __init__(self, sender):
        self._sender = sender

    def begin(self):
        """From now on the host is being asked, and its time runs."""
        self._sender.send(("begun", None))

    def send_display(self, method, *args, **how):
        """Send a text, which for a warning is in an object; it may contain a host's words."""
        text, *others = args
        if hasattr(text, "event"):
            method, text = "warning", text.event.msg
        shown = "\n".join(visible(line) for line in str(text).split("\n"))
        self._sender.send((method, ((shown, *others), how)))

    def send_callback(self, *_sent):
        """No event of one host is an event of the play."""

    def send_prompt(self, **_sent):
        """Nobody is prompted; a process that waits for an answer is ended by its time limit."""

    def send_task_result(self, *sent):
        """Up to 2.20 the argument is a result that contains its task and host; since 2.21 host, task and result."""
        result = sent[-1]._return_data if len(sent) == 1 else sent[-1].as_result_dict(for_round_trip=True)
        # Ansible shows these unchanged, and they contain the host's words: what ssh said, which Python was found.
        forwarded = {
            key: value for key, value in result.items() if key not in ("exception", "deprecations", "invocation")
        }
        if "msg" in forwarded:
            # every failure of a task begins so
            forwarded["msg"] = visible_line(forwarded["msg"]).removeprefix("Task failed: ")
        if "warnings" in forwarded:
            forwarded["warnings"] = [visible_line(warning) for warning in forwarded["warnings"]]
        self._sender.send(("result", forwarded))
