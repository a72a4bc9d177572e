# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that answer with too much, without end or not at all: each loses its own answer, and the run goes on.

Real Ansible asks hosts that are names for this machine; the Python of each is a small script that plays the host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
SHAPE = "is not valid in the reply"
# Host -> what its Python prints, and what is said of it.
HOSTS = {
    "good": ("""echo '{"changed": false, "results": [], "withdrawn": []}'""", None),
    "huge": ("head -c 2147483648 /dev/zero | tr '\\0' x", "the reply takes more than 384 MiB"),
    "endless": ("exec yes x", "the reply takes more than 384 MiB"),
    "endless_error": ("exec yes x >&2", "the reply takes more than 384 MiB"),
    "silent": ("exec sleep 300", "no answer within 4 s (berth_host_timeout)"),
    "long": ("""printf '{"results": "'; head -c 20000000 /dev/zero | tr '\\0' x; echo '"}'""", SHAPE),
    "many": ("""printf '{"results": [[]'; yes ',[]' | head -n 1500000; echo ']}'""", SHAPE),
    "deep": ("""printf '{"results": '; yes '[' | head -n 200; yes ']' | head -n 200; echo '}'""", SHAPE),
    "abyss": ("""printf '{"results": '; yes '[' | head -n 100000; yes ']' | head -n 100000; echo '}'""", SHAPE),
    "escape": (r"""printf '{"failed": true, "msg": "\\u001b[2J\\u009b"}'""", "?[2J?"),
}
# Asked in one task, and one of them in a task of its own.
ALONE = ["endless", "silent", "escape"]
# Runs a playbook in this very process, and writes down the most memory that it had: the main process's alone.
MAIN = """
import re, sys
from ansible.cli.playbook import main
try:
    main(["ansible-playbook"] + sys.argv[2:])
finally:
    peak = re.search("VmHWM:\\\\s+([0-9]+) kB", open("/proc/self/status").read())[1]
    open(sys.argv[1], "w").write(peak)
"""


def play(room, hosts):
    """(host -> answer, MiB that the main process had at most)."""
    fleet = {}
    for name in hosts:
        python = room / name
        python.write_text("#!/bin/sh\ncat > /dev/null\n%s\n" % HOSTS[name][0])
        python.chmod(0o755)
        fleet[name] = {
            "ansible_connection": "local",
            "ansible_pipelining": True,
            "ansible_python_interpreter": str(python),
            "berth_host_timeout": 4 if name == "silent" else 300,
        }
    (room / "hosts.json").write_text(json.dumps({"all": {"children": {"kvm_hosts": {"hosts": fleet}}}}))
    asking = [{"berth.kvm.ask_hosts": {"hosts": list(hosts), "module": "claim"}, "register": "asked"}]
    for host in ALONE if len(hosts) > 1 else ():
        single = {"berth.kvm.claim": {}, "delegate_to": host, "register": host}
        asking.append({**single, "ignore_errors": True, "ignore_unreachable": True})
    told = {"copy": {"content": "{{ [asked.answers, %s] | to_json }}" % ", ".join(ALONE if len(hosts) > 1 else [])}}
    told["copy"]["dest"] = "{{ playbook_dir }}/answers"
    (room / "play.json").write_text(
        json.dumps([{"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": [*asking, told]}])
    )
    done = subprocess.run(
        [sys.executable, "-c", MAIN, room / "peak", "-i", room / "hosts.json", "--forks", "4", room / "play.json"],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout
    answers, *alone = json.loads((room / "answers").read_text())
    return {**answers, "alone": dict(zip(ALONE, alone))}, int((room / "peak").read_text()) / 1024, done.stdout


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    began = time.monotonic()
    found = play(tmp_path_factory.mktemp("costly"), HOSTS)
    print("%.1f s" % (time.monotonic() - began))
    return found


@pytest.mark.long
@pytest.mark.parametrize("host", [name for name in HOSTS if HOSTS[name][1]])
def test_a_host_that_costs_too_much_loses_its_answer_and_is_told_why(host, answers):
    answer = answers[0][host]
    said = answer.get("reason") or answer["error"]["message"]
    assert HOSTS[host][1] in said


@pytest.mark.parametrize("host", ALONE)
def test_a_task_on_one_host_has_the_same_limits(host, answers):
    result = answers[0]["alone"][host]
    assert HOSTS[host][1] in result["msg"]
    assert (result.get("error_code") == "HostUnknown") == (host == "silent")


def test_the_others_have_their_answer(answers):
    assert answers[0]["good"]["results"] == []


def test_the_main_process_does_not_pay_for_them(answers, tmp_path):
    _answers, peak, _shown = play(tmp_path, ["good"])
    assert answers[1] < peak + 50


def test_the_screen_stays_clean(answers):
    assert all(line.isprintable() for line in answers[2].split("\n"))
