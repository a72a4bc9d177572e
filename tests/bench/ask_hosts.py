# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long one instance under --limit takes to ask many hosts, against a loop with delegate_to over the same hosts.

The hosts are names for this machine whose Python is a script that takes a second to answer: what is measured is the
waiting and the controller's own work, not hosts that share its CPUs. Writes .bench/ask_hosts.json: [{name, value, unit,
against, ratio}], where ratio is value / against, both in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HOST = """#!/bin/sh
cat > /dev/null
sleep 1
echo '{"changed": false}'
"""
LOOP = {"berth.kvm.host_facts": {}, "loop": "{{ groups.fleet }}", "delegate_to": "{{ item }}"}
AT_ONCE = {
    "berth.kvm.ask_hosts": {"hosts": "{{ groups.fleet }}", "module": "host_facts"},
    "delegate_to": "localhost",
    "register": "asked",
    "failed_when": "asked.answers.values() | selectattr('changed', 'false') | length != groups.fleet | length",
}


def timed(room, task, hosts, forks):
    """Seconds of the whole run, of which Ansible's start is about one."""
    python = room / "python"
    python.write_text(HOST)
    python.chmod(0o755)
    variables = {
        "ansible_connection": "local",
        "ansible_pipelining": True,
        "ansible_python_interpreter": str(python),
    }
    fleet = {"hosts": {"kvm%d" % number: variables for number in range(hosts)}}
    (room / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"web": {}}, "children": {"fleet": fleet}}}))
    (room / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    playbook = Path(sys.executable).parent / "ansible-playbook"
    began = time.perf_counter()
    subprocess.run(
        [playbook, "-i", room / "hosts.yml", "--limit", "web", "--forks", str(forks), room / "play.yml"],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def measure(hosts, forks, room):
    loop = timed(room, LOOP, hosts, 5)
    for each in forks:
        value = timed(room, AT_ONCE, hosts, each)
        yield {
            "name": "ask %d hosts with %d forks" % (hosts, each),
            "value": round(value, 1),
            "unit": "s",
            "against": round(loop, 1),
            "ratio": round(value / loop, 3),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--forks", type=int, nargs="+", default=[5, 50])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        rows = list(measure(options.hosts, options.forks, Path(room)))
    for row in rows:
        print("%(name)s: %(value)s s, in a loop %(against)s s, ratio %(ratio)s" % row)
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / "ask_hosts.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
