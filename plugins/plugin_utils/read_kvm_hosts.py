# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the KVM hosts of an inventory from within an inventory plugin: runs the playbook berth.kvm.host_facts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from ansible.errors import AnsibleParserError

from .set_by_the_run import REPORT_FILE

BEGUN = "__BERTH_KVM_HOSTS_ARE_READ"  # an environment variable: the playbook's process has to know it, too
MOST_REASONS = 5
# Instead of what the outer run has in its environment or its ansible.cfg, which would make the playbook ask for a password, or
# leave out its tasks.
OWN_SETTINGS = {"ANSIBLE_ASK_VAULT_PASS": "false", "ANSIBLE_RUN_TAGS": "all", "ANSIBLE_SKIP_TAGS": ""}
OF_THE_OUTER_RUN = "ANSIBLE_VAULT_PASSWORD_FILE"


def is_begun() -> bool:
    """Whether this inventory is read for the sake of its KVM hosts, by the plugin itself."""
    return BEGUN in os.environ


@contextlib.contextmanager
def begun() -> Iterator[None]:
    """While this lasts, ``is_begun`` here and in the processes that this one starts."""
    os.environ[BEGUN] = "1"
    try:
        yield
    finally:
        del os.environ[BEGUN]


def playbook_command() -> str:
    """Return the ansible-playbook next to the running interpreter, else the one in PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "ansible-playbook")
    return beside if os.access(beside, os.X_OK) else "ansible-playbook"


def read_hosts(sources: List[str], pattern: str, become: bool, loader: Any) -> Dict[str, Any]:
    """Return {hosts, verdicts, addresses} as berth.kvm.host_facts reports them: it checks and limits every reply.

    Raises AnsibleParserError if no host answered: that is no empty fleet, and AWX would remove what it knows.
    """
    with tempfile.TemporaryDirectory(prefix="berth-") as room:
        report = os.path.join(room, "report.json")
        extra_vars: Dict[str, Any] = {REPORT_FILE: report, "berth_kvm_hosts": pattern}
        if not become:
            extra_vars["ansible_become"] = False
        inventory = [part for source in sources for part in ("-i", source)]
        done = _run([playbook_command(), *inventory, "-e", json.dumps(extra_vars), "berth.kvm.host_facts"], loader)
        try:
            with open(report, encoding="utf-8") as stream:
                found = json.load(stream)
        except FileNotFoundError:
            output = " ".join((done.stderr or done.stdout).split())[-500:]
            raise AnsibleParserError("the hosts of %s could not be read: %s" % (", ".join(sources), output)) from None
    if found["verdicts"] and not found["hosts"]:
        raise AnsibleParserError("no host of %s answered: %s" % (", ".join(sources), _reasons(found["verdicts"])))
    return found


def _reasons(verdicts: Dict[str, str]) -> str:
    shown = ["%s: %s" % (host, reason) for host, reason in sorted(verdicts.items())[:MOST_REASONS]]
    more = len(verdicts) - len(shown)
    return "; ".join(shown + ["%d more" % more if more else ""]).rstrip("; ")


def _run(command: List[str], loader: Any) -> "subprocess.CompletedProcess[str]":
    with begun(), _in_pipes(loader._vault.secrets or ()) as secrets:
        environment = {**os.environ, **OWN_SETTINGS}
        environment.pop(OF_THE_OUTER_RUN, None)
        if secrets:  # instead of what is set, which would ask for a password once more
            environment["ANSIBLE_VAULT_IDENTITY_LIST"] = ",".join("%s@/dev/fd/%d" % secret for secret in secrets)
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=environment,
            pass_fds=[pipe for _name, pipe in secrets],
        )


@contextlib.contextmanager
def _in_pipes(secrets: Iterable[Tuple[str, Any]]) -> Iterator[List[Tuple[str, int]]]:
    """Give [(vault id, a pipe with its password)]: the playbook cannot ask for what was typed, and no file has it."""
    with contextlib.ExitStack() as ends:
        pipes = []
        for name, secret in secrets:
            reader, writer = os.pipe()
            ends.callback(os.close, reader)
            with os.fdopen(writer, "wb") as stream:
                stream.write(secret.bytes)
            pipes.append((name, reader))
        yield pipes
