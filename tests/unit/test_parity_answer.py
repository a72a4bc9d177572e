# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/parity/answer.py answers every line, whatever stands in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ANSWER = Path(__file__).resolve().parents[1] / "parity" / "answer.py"
HOST = {"host": "a", "vcpus": 4, "memory_mb": 4096, "local_gb": 50}
GOOD = {"flavor": {"vcpus": 1, "memory_mb": 512}}
LINES = {
    "no JSON": ("{", []),
    "no scenario": ("[]", []),
    "good": ({"hosts": [HOST], "requests": [GOOD]}, [["a"]]),
    "an empty fleet": ({"hosts": [], "requests": [GOOD]}, [[]]),
    "a host without a name": ({"hosts": [{}], "requests": [GOOD]}, [[]]),
    "an unknown option": ({"config": {"scheduler": {"no": 1}}, "hosts": [HOST], "requests": [GOOD]}, [[]]),
    "options of nova.conf that are not the scheduler's": (
        {
            "config": {"DEFAULT": {"debug": True}, "pci": {"device_spec": []}, "compute": {"cpu_shared_set": "0"}},
            "hosts": [HOST],
            "requests": [GOOD],
        },
        [["a"]],
    ),
    "an unknown group between good ones": (
        {"hosts": [HOST], "requests": [GOOD, {**GOOD, "group": "none"}, GOOD]},
        [["a"], [], ["a"]],
    ),
    "no flavor": ({"hosts": [HOST], "requests": [{}, GOOD]}, [[], ["a"]]),
    "no whole number": ({"hosts": [HOST], "requests": [{**GOOD, "num_instances": "x"}, GOOD]}, [[], ["a"]]),
    "a request that is none": ({"hosts": [HOST], "requests": [None, GOOD]}, [[], ["a"]]),
    "words that contradict": (
        {"hosts": [HOST], "requests": [{"flavor": {**GOOD["flavor"], "extra_specs": {"hw:numa_nodes": "x"}}}, GOOD]},
        [[], ["a"]],
    ),
}


@pytest.fixture(scope="module")
def answers():
    told = [line if isinstance(line, str) else json.dumps(line) for line, _answer in LINES.values()]
    run = subprocess.run(
        [sys.executable, str(ANSWER)], input="\n".join(told), capture_output=True, text=True, check=True
    )
    return dict(zip(LINES, map(json.loads, run.stdout.splitlines())))


@pytest.mark.parametrize("what", LINES)
def test_every_line_is_answered(answers, what):
    assert answers[what] == LINES[what][1]
