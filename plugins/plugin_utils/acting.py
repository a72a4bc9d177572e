# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs this playbook, and the id of the run: what the history of an instance records for each action, and what the facts
have that the actions of one run keep for each other."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import secrets
import signal
import socket
import threading
from typing import Any, Callable, Dict, Mapping

from ansible.executor.task_queue_manager import TaskQueueManager

from ..module_utils.model import fleet_hints
from ..module_utils.model.safe_text import clean
from .screen import warn

# Modules that write events into records.
NOTING = (
    "build_instances",
    "claim",
    "group_members",
    "host_maintenance",
    "instance",
    "instance_backup",
    "instance_copy",
    "migration",
    "volume",
)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


# Ansible's strategy loads the actions before it forks, so all its processes share these two.
WHO = clean("%s@%s" % (_user(), socket.gethostname()), 128)
RUN = "r-" + secrets.token_hex(4)
# Facts of localhost. A fact cache keeps them for later runs, too, where nobody may act on them: each has the id of its run.
FACTS = ("berth_chosen", "berth_located", "berth_moves", "berth_plan", "berth_results")


def by():
    """The argument ``by`` of modules that write events."""
    return {"who": WHO, "run": RUN}


def stamped(result: Dict[str, Any]) -> Dict[str, Any]:
    """The result of an action, with the id of this run in each of these facts that it has."""
    facts = result.get("ansible_facts") or {}
    own = {name: {**fact, "run": RUN} for name, fact in facts.items() if name in FACTS}
    return {**result, "ansible_facts": {**facts, **own}} if own else result


def of_this_run(fact: Any) -> Mapping[str, Any]:
    """The fact if an action of this run made it, else nothing."""
    return fact if isinstance(fact, Mapping) and fact.get("run") == RUN else {}


# What a person reads who ends a run with Ctrl-C or SIGTERM: Ansible itself says nothing about what to do then.

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def announce_interruption() -> None:
    """Tell it before Ansible's own handler ends the run. In any other program, or thread, nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if isinstance(getattr(handler, "__self__", None), TaskQueueManager):
            signal.signal(number, functools.partial(_tell, handler, os.getpid()))


def _tell(ansible: Callable[[int, Any], Any], controller: int, number: int, frame: Any) -> None:
    """The processes that run tasks inherit this until they have handlers of their own: they say nothing."""
    if os.getpid() == controller:
        # It came while a line was being written, or the terminal is gone.
        with contextlib.suppress(RuntimeError, OSError):
            warn("The run was interrupted. %s" % fleet_hints.run_again_after_interruption())
    ansible(number, frame)


announce_interruption()
