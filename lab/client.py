# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab as tests see it: a small client of the lab command and of Ansible against the lab's hosts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from guest_facts import guest_facts

REPOSITORY = Path(__file__).resolve().parent.parent
CONSOLE_LOGS = "upper/var/log/libvirt/qemu"  # below a host's directory; readable when the host is down, too


class CommandFailed(AssertionError):
    """A command that had to succeed did not; the message has its whole output."""


@dataclass
class Done:
    """A command that has ended: rc, stdout, stderr, seconds."""

    rc: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def output(self):
        return self.stdout + self.stderr

    def checked(self, argv, check):
        """This; ``check`` makes a failure a CommandFailed."""
        if check and self.rc:
            raise CommandFailed("%s: exit status %d\n%s" % (" ".join(map(str, argv)), self.rc, self.output))
        return self

    @property
    def changed(self):
        """Names of the inventory hosts that a play recap counts changes for -> how many."""
        counts = {}
        for line in self.stdout.partition("PLAY RECAP")[2].splitlines():
            if "changed=" in line:
                counts[line.split()[0]] = int(line.partition("changed=")[2].split()[0])
        return counts


def run(argv, timeout=600, env=None, check=False, stdin=None):
    """Run a command to its end -> Done; ``check`` makes a failure a CommandFailed."""
    began = time.monotonic()
    done = subprocess.run(
        [str(word) for word in argv],
        text=True,
        capture_output=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        input=stdin if stdin is not None else "",
        cwd=REPOSITORY,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - began).checked(argv, check)


def tool(name):
    """A program of the environment that the tests run in (.venv), or of PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name) or name


class LabClient:
    """One lab by its name. Hosts are named NAME1, NAME2 ...; a host's argument may be its number."""

    def __init__(self, name):
        self.name = name
        self.extra_inventories = []
        self.warm = None  # or warm.Warm, which runs without an environment of their own are forks of

    # --- the lab command
    def lab(self, *argv, check=True, timeout=120):
        return run([REPOSITORY / "lab" / "lab", "--name", self.name, *argv], check=check, timeout=timeout)

    def up(self, count, *sizes):
        return self.lab("up", str(count), *(word for size in sizes for word in ("--size", size)))

    def down(self):
        return self.lab("down")

    def status(self):
        return json.loads(self.lab("status", "--json").stdout)

    def host(self, number):
        return "%s%s" % (self.name, number)

    @property
    def hosts(self):
        return [row["name"] for row in self.status()["hosts"]]

    @property
    def state(self):
        return Path(os.environ.get("BERTH_LAB_STATE") or REPOSITORY / ".cache" / "lab") / self.name

    @property
    def inventory(self):
        return self.state / "inventory.yml"

    # --- one host
    def exec(self, host, *argv, check=True, timeout=60):
        """A command on a host as root, not over SSH -> Done."""
        return self.lab("exec", str(host), *argv, check=check, timeout=timeout)

    def sh(self, host, script, check=True, timeout=60):
        return self.exec(host, "sh", "-c", script, check=check, timeout=timeout)

    def start(self, host):
        self.lab("start", str(host))

    def stop(self, host):
        self.lab("stop", str(host))

    def crash(self, host):
        self.lab("crash", str(host))

    def cut(self, host):
        self.lab("cut", str(host))

    def heal(self, host):
        self.lab("heal", str(host))

    def kill_libvirtd(self, host):
        self.lab("libvirtd-kill", str(host))

    def restart_libvirtd(self, host):
        self.lab("libvirtd", str(host))

    def hang(self, host, domain):
        self.lab("hang", str(host), domain)

    def unhang(self, host, domain):
        self.lab("unhang", str(host), domain)

    # --- Ansible
    def environment(self, **more):
        """For ansible commands: this checkout's collection, plain output, a home and fact cache of this lab's own."""
        home = self.state / "ansible"
        return {
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections"),
            "ANSIBLE_HOME": str(home),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_RETRY_FILES_ENABLED": "0",
            "ANSIBLE_HOST_KEY_CHECKING": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_TIMEOUT": "8",
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.state / "pycache"),  # compiled once, and nothing left in the checkout
            "LC_ALL": "C.UTF-8",
            **more,
        }

    def ansible_argv(self, playbook, *argv, inventory=()):
        inventories = [self.inventory, *self.extra_inventories, *inventory]
        return [
            tool("ansible-playbook"),
            *(word for path in inventories for word in ("-i", str(path))),
            playbook,
            *argv,
        ]

    def compile_modules_each_run(self):
        """Have the hosts do without the lab's cache of compiled modules, as real hosts do: for measurements."""
        for host in self.hosts:
            self.sh(host, "rm -f /usr/lib/python3/dist-packages/berth_lab_module_cache.pth")

    def ansible_playbook(self, playbook, *argv, inventory=(), extra_vars=None, env=None, check=True, timeout=300):
        """Run a playbook (berth.kvm.create or a path) against the lab -> Done.

        ``inventory``: further inventory files; ``extra_vars``: a dict; ``check``: a failure raises with all the output.
        """
        words = list(argv)
        if extra_vars:
            words += ["-e", json.dumps(extra_vars)]
        argv = self.ansible_argv(playbook, *words, inventory=inventory)
        if self.warm and not env:
            return self._run_warm(argv, timeout, check)
        return run(argv, timeout=timeout, env=self.environment(**(env or {})), check=check)

    def _run_warm(self, argv, timeout, check):
        fork = self.warm.start(argv, {}, apart=True)
        try:
            output, errors = fork.communicate(timeout)
        except subprocess.TimeoutExpired:
            fork.kill()
            raise
        return Done(fork.returncode, output, errors, time.monotonic() - fork.began).checked(argv, check)

    def start_playbook(self, playbook, *argv, inventory=(), extra_vars=None, env=None):
        """The same without waiting -> subprocess.Popen in a process group of its own (to be killed, or raced)."""
        words = list(argv) + (["-e", json.dumps(extra_vars)] if extra_vars else [])
        return subprocess.Popen(
            self.ansible_argv(playbook, *words, inventory=inventory),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.environment(**(env or {}))},
            cwd=REPOSITORY,
            start_new_session=True,
        )

    def module(self, host, name, arguments=None, check=True):
        """Run one module on one host over SSH -> its result as a dict (``rc`` of ansible in ``_rc``)."""
        argv = [tool("ansible"), "-i", str(self.inventory), str(host), "-m", name]
        argv += ["-a", json.dumps(arguments)] if arguments else []
        done = run(argv, timeout=120, env=self.environment(), check=False)
        try:
            result, _end = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("=> {") + 3 :])
        except ValueError:
            raise CommandFailed("%s on %s said no JSON\n%s" % (name, host, done.output)) from None
        if check and done.rc:
            raise CommandFailed("%s on %s failed\n%s" % (name, host, json.dumps(result, indent=1)))
        return {**result, "_rc": done.rc}

    # --- guests
    def domains(self, host, every=False):
        """Names of the running (or all) domains of a host."""
        return self.exec(host, "virsh", "-q", "list", "--name", *(["--all"] if every else [])).stdout.split()

    def consoles(self, name):
        """[(KVM host, console text)] of a guest, known by its own host name or by its uuid."""
        found = []
        for path in sorted(self.state.glob("hosts/*/" + CONSOLE_LOGS + "/*.log")):
            text = path.read_text(errors="replace")
            if path.name.startswith(name + "-") or " host=%s " % name in text:
                found.append((path.relative_to(self.state / "hosts").parts[0], text))
        return found

    def console(self, name, host=None):
        """The console text of a guest, from all hosts or one."""
        return "".join(text for place, text in self.consoles(name) if host in (None, place))

    def host_of(self, name):
        """The host that has a guest's console, None before there is one (the last by name when several have)."""
        return ([None] + [place for place, _text in self.consoles(name)])[-1]

    def guest_facts(self, name, host=None, timeout=60, until=None):
        """What the guest says of itself, once it has said it and ``until(facts)`` holds -> dict (lab/README.md)."""
        deadline = time.monotonic() + timeout
        while True:
            facts = guest_facts(self.console(name, host))
            if facts and (until is None or until(facts)):
                return facts
            if time.monotonic() > deadline:
                raise CommandFailed("guest %s did not say so within %d s; last: %r" % (name, timeout, facts))
            time.sleep(0.5)
