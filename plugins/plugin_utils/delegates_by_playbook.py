# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As delegates.py, for an ansible-core whose private parts have another form: ansible-playbook asks the hosts, one task on each.
Its inventory and the keywords of its task are what Ansible documents. It starts anew for each question, so a run is slow; the
time of a question is limited for all its hosts together, and the memory of a reply only when it is checked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible import constants as C  # noqa: N812 -- Ansible's usual name for them
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from . import acting, host_limits
from .known_ansible import FOLDER
from .plain import plain
from .screen import visible_line

FILE = "__berth_file"
COLLECTIONS = Path(__file__).parents[5]
START = 60  # seconds that ansible-playbook may take beside its tasks
KEYWORDS = ("become", "become_exe", "become_flags", "become_method", "become_user", "remote_user", "check_mode", "diff")
PASSWORDS = {"ansible_password": "password", "ansible_become_password": "become_pass"}  # of -k and -K


def run_on(hosts, module, arguments, task, at_once, seconds, at=None, asker=None):
    """As in delegates.py. What did not answer may have done it all the same. ``asker``: (the action that asks, its variables)."""
    at, longest = {asked: (at or {}).get(asked, asked) for asked in hosts}, max(seconds[asked] for asked in hosts)
    # XDG_RUNTIME_DIR is in memory
    with tempfile.TemporaryDirectory(dir=os.environ.get("XDG_RUNTIME_DIR")) as name:
        folder = Path(name)
        files = {asked: folder / str(number) for number, asked in enumerate(at)}
        for asked, file in files.items():
            by = {"by": acting.by()} if module.rpartition(".")[2] in acting.NOTING else {}
            file.write_text(json.dumps(plain({**arguments[asked], **by})))
        reached = {host: _reached(host, *asker) for host in at.values()}
        asking = {asked: {**reached.get(asked, {}), FILE: str(file)} for asked, file in files.items()}
        (folder / "hosts.yml").write_text(_inventory({**reached, **asking}, asking))
        (folder / "ask.yml").write_text(json.dumps([_play(module, task, longest, at)]))
        said = _ran(folder, at_once, START + longest * (len(at) // at_once + 1))
        return {asked: _answer(file, longest, said) for asked, file in files.items()}


def is_apart():
    """Whether this is a run of ansible-playbook that another task has begun."""
    return FOLDER in os.environ


def apart(action, host, task_vars, work):
    """The result of the action's ``work()``, within the host's time: a run of ansible-playbook does it, which comes here, too."""
    if not is_apart():
        name, arguments = action._task.action, dict(action._task.args)
        seconds = host_limits.task_seconds(task_vars, host, name.rpartition(".")[2], arguments.get("state"))
        asker = (action, task_vars)
        return run_on([host], name, {host: arguments}, action._task, 1, {host: seconds}, asker=asker)[host]
    file = Path(task_vars[FILE])
    action._task.args = json.loads(file.read_text())  # Ansible would render arguments in the play
    try:
        result = work()
    except AnsibleConnectionFailure as error:
        result = {"unreachable": True, "msg": visible_line(error)}
    file.with_suffix(".answer").write_text(json.dumps(plain(result)))
    return result


def _reached(host, action, task_vars):
    """What Ansible needs to reach the host."""
    known, found = task_vars["hostvars"], {}
    for name in known[host] if host in known else ():
        if name.startswith("ansible_") and name != "ansible_facts":
            try:
                found[name] = plain(known[host][name])
            except AnsibleError:
                continue  # a template of what only a task has
    given = {name: getattr(action._play_context, part, None) for name, part in PASSWORDS.items()}
    return {**{name: plain(word) for name, word in given.items() if word}, **found}


def _inventory(hosts, asking):
    """YAML, in which no value is a template."""
    lines = ["all:", "  hosts:"]
    for host, values in hosts.items():
        lines.append("    %s:" % json.dumps(host))
        for name, value in values.items():
            lines.append("      %s: %s%s" % (name, "!unsafe " if isinstance(value, str) else "", json.dumps(value)))
    names = ["        %s:" % json.dumps(host) for host in asking]
    return "\n".join([*lines, "  children:", "    __asked:", "      hosts:", *names, ""])


def _play(module, task, seconds, at):
    words = {name: plain(getattr(task, name)) for name in KEYWORDS if getattr(task, name) is not None}
    elsewhere = {asked: host for asked, host in at.items() if asked != host}
    return {
        "hosts": "__asked", "gather_facts": False, "strategy": "ansible.builtin.free", "any_errors_fatal": False,
        "vars": {"__berth_at": elsewhere},
        "tasks": [
            {
                module: {}, **words, "environment": plain(task.environment or []), "timeout": seconds,
                "delegate_to": "{{ __berth_at[inventory_hostname] | default(inventory_hostname) }}",
            }
        ],
    }  # fmt: skip


def _ran(folder, at_once, seconds):
    """Run it; return the last line that it said."""
    paths = os.pathsep.join([str(COLLECTIONS), *C.COLLECTIONS_PATHS])
    environment = {
        **os.environ, FOLDER: str(folder), "ANSIBLE_COLLECTIONS_PATH": paths, "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.default",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "ANSIBLE_NOCOLOR": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "ansible", "playbook", "-i", folder / "hosts.yml", "-f", str(at_once)]
    try:
        done = subprocess.run(
            [*command, folder / "ask.yml"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ""
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if "[ERROR]" in line]
    return visible_line(lines[-1]) if lines else ""


def _answer(file, seconds, said):
    answer = file.with_suffix(".answer")
    if answer.exists():
        return json.loads(answer.read_text())
    why = "the run that asked ended without an answer: %s" % said
    return {"unreachable": True, "msg": why if said else "no answer within %d s (berth_host_timeout)" % seconds}
