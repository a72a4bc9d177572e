# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of ansible-core that the collection was tested with. A newer one is used with a warning: with delegates.py, if the
private parts of Ansible that it uses have the form that it knows, else with delegates_by_playbook.py, which uses none. With an
older one no host is asked or changed. What sent_code.py uses only saves time: where that has another form, all code is sent
each time, as Ansible does.

delegates.py and delegates_by_playbook.py are only imported through this file.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from types import SimpleNamespace
from typing import Any, Tuple

from ansible.release import __version__ as VERSION

from ..module_utils.conductor.errors import AnsibleUnknown
from ..module_utils.model import host_hints
from .screen import warn

TRIED = ("2.19", "2.20", "2.21", "2.22")  # by tests/matrix.sh; requirements.txt says the same
REQUIREMENT = "ansible-core>=2.19,<2.23"
# In the environment of a run of delegates_by_playbook.py: where the arguments of its tasks are, and their results.
FOLDER = "BERTH_ANSWERS"
PRIVATE = {
    "ansible.executor.process.worker": ("WorkerProcess", "current_worker"),
    "ansible.utils.multiprocessing": ("context",),
}
WORKER_TAKES = {
    "final_q", "task_vars", "host", "task", "play_context", "loader", "variable_manager", "shared_loader_obj", "worker_id",
    "cliargs",
}  # fmt: skip


def check() -> None:
    """Raise AnsibleUnknown for an ansible-core that the collection cannot run on; warn of one that it was not tested with."""
    if _is_tried():
        return
    said = "this is ansible-core %s, and berth.kvm was tested with %s only" % (VERSION, ", ".join(TRIED))
    if _number(VERSION) < _number(TRIED[-1]):
        raise AnsibleUnknown(
            "%s. No host was asked and nothing was changed" % said,
            hint=host_hints.install_on_controller(REQUIREMENT),
        )
    if _is_as_known():
        warn("%s. What it uses of Ansible has not changed its form, so this run goes on" % said)
    else:
        warn(
            "%s. What it uses of Ansible has another form, so each question starts ansible-playbook, which is slow"
            % said
        )


def _is_tried() -> bool:
    return ".".join(VERSION.split(".")[:2]) in TRIED


def _number(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _is_as_known() -> bool:
    """Whether all private parts are where they were, and a worker takes what it took and needs no more."""
    try:
        modules = {name: importlib.import_module(name) for name in PRIVATE}
    except ImportError:
        return False
    if not all(hasattr(modules[name], part) for name, parts in PRIVATE.items() for part in parts):
        return False
    worker = modules["ansible.executor.process.worker"].WorkerProcess
    takes = inspect.signature(worker.__init__).parameters
    needs = {name for name, parameter in takes.items() if parameter.default is parameter.empty} - {"self"}
    return needs <= WORKER_TAKES <= set(takes)


def without_origin(task: Any) -> None:
    """Of a task that fails: show no lines of a playbook of ours. They explain nothing to who runs it."""
    task._ds = None


def delegates(asker: Any = None) -> Any:
    """The module delegates, if this ansible-core is known: imported with any other, it may end in a traceback. Else, and within a
    run that such another has begun, delegates_by_playbook, for ``asker``, (the action that asks, its variables)."""
    check()
    if FOLDER in os.environ or (not _is_tried() and not _is_as_known()):
        from . import delegates_by_playbook as slow

        return SimpleNamespace(
            run_on=functools.partial(slow.run_on, asker=asker), apart=slow.apart, is_apart=slow.is_apart
        )
    from . import delegates as known

    return known
