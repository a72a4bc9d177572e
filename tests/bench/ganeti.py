# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A balance of the same fleet by Ganeti's hbal (Debian: ganeti-htools) and by a plan, with as many moves: how long each takes, and
both ends by both measures, hbal's score and how full the fullest host is.

python tests/bench/ganeti.py [--hosts 100] [--moves 20]      disks count nowhere: hbal takes them for shared
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time

import plans

from ansible_collections.berth.kvm.plugins.module_utils.fleet import goals, make_plan
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import check
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal
from ansible_collections.berth.kvm.plugins.module_utils.fleet.state import State

POLICY = "128,1,0,0,0,0|128,1,0,0,0,0;1048576,64,1048576,16,8,12|ext|16.0|32.0"


def data_of(fleet, where):
    """The fleet as hbal reads it, its instances where ``where`` says."""
    used = dict.fromkeys(fleet.documents, 0)
    rows = []
    for uuid, instance in sorted(fleet.instances.items()):
        flavor, tag = instance.request["flavor"], "apart:%s" % instance.group if instance.group else ""
        used[where[uuid]] += flavor["memory_mb"]
        rows.append(
            "%s|%d|0|%d|running|Y|%s||ext|%s|1" % (uuid, flavor["memory_mb"], flavor["vcpus"], where[uuid], tag)
        )
    nodes = [
        "%s|%d|%d|%d|1|1|%d|%s|uuid-1|1"
        % (
            *(host, each["memory_mb"], each["reserved_host_memory_mb"]),
            *(each["memory_mb"] - each["reserved_host_memory_mb"] - used[host], each["vcpus"], "N" if at else "M"),
        )
        for at, (host, each) in enumerate(sorted(fleet.documents.items()))
    ]
    sections = (["all|uuid-1|preferred||"], nodes, rows, ["htools:iextags:apart"], ["|" + POLICY, "all|" + POLICY])
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def hbal(program, data, moves):
    """(its score before, after, {instance: host} of its moves, seconds)."""
    with tempfile.NamedTemporaryFile("w", suffix=".data") as file:
        file.write(data)
        file.flush()
        began = time.monotonic()
        command = [program, "-t", file.name, "-l", str(moves), "--no-disk-moves", "--ignore-dynu", "-vv"]
        told = subprocess.run(command, check=False, capture_output=True, text=True)
        seconds = time.monotonic() - began
    if told.returncode:
        sys.exit("%s: %s" % (" ".join(command), told.stderr or told.stdout))
    before = float(re.search(r"Initial coefficients: overall ([0-9.]+)", told.stdout)[1])
    moves = re.findall(r"^ *\d+\. +(\S+) +\S+ +=> +(\S+) +([0-9.]+)", told.stdout, re.MULTILINE)
    after = float(moves[-1][2]) if moves else before
    return before, after, {uuid: host for uuid, host, _score in moves}, seconds


def fullest(fleet, moves):
    state = State(fleet)
    for uuid, host in moves.items():
        state.enter(uuid, [host])
        state.arrive()
    return max(goals.fullness(state, "MEMORY_MB").values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--hbal", default=shutil.which("hbal"))
    asked = parser.parse_args()
    if not asked.hbal:
        sys.exit("there is no hbal: apt-get install ganeti-htools")
    fleet = plans.fleet_of(asked.hosts, asked.each)
    where = {uuid: instance.host for uuid, instance in fleet.instances.items()}
    before, after, theirs, seconds = hbal(asked.hbal, data_of(fleet, where), asked.moves)
    print("hbal    %6.2f s, %3d moves, its score %.4f -> %.4f, fullest host %.3f" % (
        seconds, len(theirs), before, after, fullest(fleet, theirs)))  # fmt: skip
    began = time.monotonic()
    plan = make_plan.make(fleet, Goal("balance", max_moves=asked.moves))
    seconds = time.monotonic() - began
    check(fleet, plan.waves)
    after = hbal(asked.hbal, data_of(fleet, {**where, **dict(plan.moves)}), 0)[0]
    print("a plan  %6.2f s, %3d moves, its score %.4f -> %.4f, fullest host %.3f, %s" % (
        seconds, len(plan.moves), before, after, plan.after[0], plan.proof))  # fmt: skip


if __name__ == "__main__":
    main()
