# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook runs that are forks of a process which has Ansible loaded and keeps the modules that it packed.

Loading Ansible and the collection and packing the modules anew is half of the CPU time of a run. A run sees the same playbooks,
plugins and environment as one of ansible-playbook, and is a session of its own that the fault may kill.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

# What a run loads of the collection and keeps nothing of its own in: an action has the id of its run.
LOADED = ("model", "placement", "conductor")
OWN = "BERTH_"  # the variables that each run has for itself; with all others Ansible is loaded


class Warm:
    """Forks of Ansible for one lab; ``environment``: what all runs have."""

    def __init__(self, environment):
        self.environment = environment
        self.loaded = {}

    def start(self, argv, env, apart=False):
        """-> Run; ``apart``: with standard error in a file of its own"""
        of_run = {key: value for key, value in env.items() if key.startswith(OWN)}
        loaded_with = {**self.environment, **{key: value for key, value in env.items() if key not in of_run}}
        key = json.dumps(loaded_with, sort_keys=True)
        if key not in self.loaded:
            self.loaded[key] = subprocess.Popen(
                [sys.executable, __file__],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **loaded_with},
                cwd=Path(__file__).resolve().parents[1],
            )
        return Run(self.loaded[key], argv, of_run, apart)

    def end(self):
        for loaded in self.loaded.values():
            loaded.stdin.close()
            loaded.wait()
        self.loaded = {}


class Run:
    """One run; the next begins after ``communicate`` has told of its end."""

    def __init__(self, loaded, argv, env, apart):
        self.loaded, self.returncode, self.began = loaded, None, time.monotonic()
        self.files = [tempfile.NamedTemporaryFile(mode="r", errors="replace") for _file in range(2 if apart else 1)]
        asked = {"argv": [str(word) for word in argv], "env": env, "files": [file.name for file in self.files]}
        loaded.stdin.write(json.dumps(asked) + "\n")
        loaded.stdin.flush()
        self.pid = int(loaded.stdout.readline())

    def communicate(self, timeout):
        """-> (output, errors), as subprocess.Popen has it."""
        if not select.select([self.loaded.stdout], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("ansible-playbook", timeout)
        self.returncode = int(self.loaded.stdout.readline())
        return self.files[0].read(), "".join(file.read() for file in self.files[1:])

    def kill(self):
        """-> what it had printed; without its end the next run would be told of it"""
        os.killpg(self.pid, signal.SIGKILL)
        return self.communicate(None)[0]


def serve():
    """Of standard input: each line asks for a run. Tells its pid, then how it ended."""
    from ansible.cli.playbook import PlaybookCLI
    from ansible.executor import playbook_executor  # noqa: F401  (loaded for the runs)
    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader()
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    for name in LOADED:
        load("ansible_collections.berth.kvm.plugins.module_utils." + name)
    answer = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if not pid:
            run(PlaybookCLI, asked)
        print(pid, file=answer, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answer, flush=True)


def load(package):
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        importlib.import_module(found.name)


def run(cli, asked):
    """In the fork: as ansible-playbook does it, but what was packed is kept."""
    os.setsid()
    os.environ.update(asked["env"])
    outputs = [os.open(name, os.O_WRONLY | os.O_APPEND) for name in asked["files"]]
    for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, outputs[0]), (2, outputs[-1])):
        os.dup2(file, number)
    code = 250
    try:
        cli.cli_executor(asked["argv"])
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
