# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory with the inventory of one KVM host, kvm1, that tells of one instance, db; and what ansible-inventory lists."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from told_instance import one

REPOSITORY = Path(__file__).resolve().parents[4]
HOST = json.loads((REPOSITORY / "tests/unit/plugins/action/host.json").read_text())
PLAIN = {
    "vm_state": "active", "task_state": None, "vcpus": 1, "pcpus": 0, "memory_mb": 128, "disk_gb": 1, "pool": None,
    "image_props": {}, "flavor": {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1},
}  # fmt: skip
NOT_OF_THE_TEST = ("ANSIBLE_", "__BERTH_")


class AskedHost:
    def __init__(self, room):
        self.room, self.asked, self.python = room, room / "asked", room / "python"
        self.answer()
        host = {
            "ansible_connection": "local",
            "ansible_pipelining": True,
            "ansible_python_interpreter": str(self.python),
        }
        (room / "inventory").mkdir()
        (room / "inventory/hosts.yml").write_text(
            json.dumps({"all": {"children": {"kvm_hosts": {"hosts": {"kvm1": host}}}}})
        )

    def answer(self):
        document = {**HOST, "instances": [{**one("db"), **PLAIN}], "num_instances": 1}
        reply = json.dumps({"changed": False, "ansible_facts": {"berth_host": document}})
        self.python.write_text("#!/bin/sh\ncat > /dev/null\necho >> '%s'\ncat <<'END'\n%s\nEND\n" % (self.asked, reply))
        self.python.chmod(0o755)

    def fall_silent(self):
        self.python.write_text("#!/bin/sh\nexit 1\n")

    def write_source(self, **options):
        """Make inventory/z.berth.yml, which is named before hosts.yml only where it is given alone."""
        source = self.room / "inventory/z.berth.yml"
        asks = {"plugin": "berth.kvm.instances", "kvm_inventory": ["hosts.yml"], "become": False}
        source.write_text(json.dumps({**asks, **options}))
        return source

    def listed(self, source, *more, typed=None, **environment):
        """What ansible-inventory lists, how often it asked the host, and what it said beside."""
        self.asked.write_text("")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(NOT_OF_THE_TEST)}
        collections = str(REPOSITORY / ".cache" / "collections")
        command = [Path(sys.executable).parent / "ansible-inventory", "-i", source, "--list", *more]
        settings = {**clean, "ANSIBLE_COLLECTIONS_PATH": collections, **environment}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, env=settings, start_new_session=True, **pipes) as process:
            try:
                found, said = process.communicate(typed, timeout=100)
            except subprocess.TimeoutExpired:  # one that starts itself again and again leaves many
                os.killpg(process.pid, signal.SIGKILL)
                raise
        assert process.returncode == 0, said
        return json.loads(found), len(self.asked.read_text().splitlines()), said
