# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module on several hosts at once, on each exactly as ``delegate_to`` would run it.

Ansible has no public way to do that: a task has one delegate at a time, a loop takes them one after the other. So each
host gets one of Ansible's own worker processes, whose constructor is the same in ansible-core 2.19, 2.20 and 2.21; what
is private to Ansible is used here and nowhere else.
"""

from __future__ import annotations

from multiprocessing import connection

from ansible.executor.process import worker
from ansible.utils.multiprocessing import context

# What the asking task has for itself; a copy of it that asks a host has none of that.
OF_THE_ASKER = {
    "loop": None, "loop_with": None, "when": [], "until": [], "retries": None, "changed_when": [], "failed_when": [],
    "register": None, "notify": None, "async_val": 0,
}  # fmt: skip


def run_on(hosts, module, arguments, task, at_once):
    """Host -> result of the module's task there, of which ``at_once`` run at a time.

    ``arguments``: host -> the module's arguments. A failure of any kind is that host's result: with ``unreachable`` or
    ``failed``, and ``msg``.
    """
    waiting, running, results = list(hosts), {}, {}
    while waiting or running:
        while waiting and len(running) < at_once:
            host = waiting.pop(0)
            receiver, process = _start(_for_host(task, host, module, arguments[host]))
            running[receiver] = host, process
        for receiver in connection.wait(list(running)):
            host, process = running.pop(receiver)
            try:
                results[host] = receiver.recv()
            except EOFError:
                results[host] = {"failed": True, "msg": "the process that asked %s ended without an answer" % host}
            receiver.close()
            process.join()
    return {host: results[host] for host in hosts}


def _for_host(task, host, module, arguments):
    """The copy of the task that runs the module on the host: with its become, environment, check mode and no_log."""
    copy = task.copy(exclude_parent=True, exclude_tasks=True)
    copy._parent = task._parent
    # From 2.21 on a running task has its own host's connection, such as local; each host shall have the play's or its own.
    own = {"action": module, "args": arguments, "delegate_to": host, "connection": task._parent.connection}
    for name, value in {**OF_THE_ASKER, **own}.items():
        setattr(copy, name, value)
    return copy


def _start(task):
    """(what will receive the result, the running process)."""
    asker = worker.current_worker
    receiver, sender = context.Pipe(duplex=False)
    process = _Worker(
        final_q=_Results(asker._final_q, sender),
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
    process.start()
    sender.close()  # the process has it: when that ends, so does the pipe
    return receiver, process


class _Worker(worker.WorkerProcess):
    def _detach(self):
        """The asker has no terminal any more, and its process group is what an interrupt ends."""


class _Results:
    """The queue to Ansible's main process for everything but the result, which goes to the asker."""

    def __init__(self, queue, sender):
        self._queue = queue
        self._sender = sender

    def __getattr__(self, name):
        return getattr(self._queue, name)

    def send_task_result(self, *sent):
        """A result with its task and host in it up to 2.20; host, task and result from 2.21 on."""
        result = sent[-1]._return_data if len(sent) == 1 else sent[-1].as_result_dict(for_round_trip=True)
        if "msg" in result:
            result["msg"] = str(result["msg"]).removeprefix("Task failed: ")  # so it begins whatever a task failed of
        self._sender.send(result)
