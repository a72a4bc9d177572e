# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole placement task on the hostvars of many hosts, against the bare cost of reading those hostvars; both in one run.

The hosts' facts are those of a real host. The best of all rounds is compared. Writes .bench/placement_task.json:
[{name, value, unit, against, ratio}], where ratio is value / against, both in seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ACTION_TESTS = REPOSITORY / "tests" / "unit" / "plugins" / "action"
sys.path[:0] = [str(REPOSITORY / ".cache" / "collections"), str(ACTION_TESTS)]

from controller import Controller  # noqa: E402

CATALOG = {
    "berth_flavors": {"tiny": {"vcpus": 1, "memory_mb": 128, "root_gb": 1}},
    "berth_images": {"guest": {"url": "/images/guest.qcow2", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}},
    "berth_flavor": "tiny",
    "berth_image": "guest",
}


def fleet(hosts, instances):
    """A controller that has the facts of so many hosts."""
    text = (ACTION_TESTS / "host.json").read_text()
    names = ["kvm%04d" % number for number in range(hosts)]
    facts = {
        name: {"berth_host": {**json.loads(text), "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name))}} for name in names
    }
    return Controller(
        {"kvm_hosts": names, "instances": instances}, {"instances": CATALOG, "all": CATALOG}, facts
    ), names


def timed(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def measure(hosts, count, rounds):
    instances = ["vm%d" % number for number in range(count)]
    controller, names = fleet(hosts, instances)
    task_vars = controller.task_vars()

    def bare():
        for name in names:
            task_vars["hostvars"][name]["ansible_facts"]["berth_host"]

    def raw():
        for name in names:
            task_vars["hostvars"].raw_get(name)["ansible_facts"]["berth_host"]

    def task():
        result = controller.run("placement", {"instances": instances, "plan": True}, task_vars)
        assert len(result["selections"]) == count, result

    times = [[timed(entry) for entry in (bare, raw, task)] for _round in range(rounds)]
    return [min(column) for column in zip(*times)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for count in (1, 20):
        bare, raw, task = measure(options.hosts, count, options.rounds)
        name = "placement task, %d instances on %d hosts" % (count, options.hosts)
        rows.append(
            {
                "name": name,
                "value": round(task, 3),
                "unit": "s",
                "against": round(bare, 3),
                "ratio": round(task / bare, 3),
            }
        )
        print(
            "%-48s %6.3f s, reading the hostvars %6.3f s (unrendered %6.3f s), ratio %.2f"
            % (name, task, bare, raw, task / bare)
        )
    directory = REPOSITORY / ".bench"
    directory.mkdir(exist_ok=True)
    (directory / "placement_task.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
