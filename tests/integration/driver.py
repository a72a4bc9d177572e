# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a lab host: calls the collection's own code as its modules do, and ends, waits or fails at a chosen step.

driver.py '{"call": ..., "uuid": ..., "spec": ..., "seed": ..., "token": ..., "at": STEP NUMBER, "how": exit|wait|fail}'
prints one JSON line: {result | error, steps}.
"""

from __future__ import annotations

import json
import os
import sys
import time

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.host import Host
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.claim import claim_all, withdraw_all
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError

WAITING = "/run/berth-driver-waits"


class Observer:
    """Counts the steps; at number ``at`` does ``how``. ``fail_step`` fails, then only what follows is counted."""

    def __init__(self, at, how, fail_step):
        self.at, self.how, self.fail_step = at, how, fail_step
        self.steps = []

    def __call__(self, step):
        if self.fail_step:
            if step == self.fail_step:
                self.fail_step = None
                raise BuildFailed("the test fails this step")
            return
        self.steps.append(step)
        if len(self.steps) - 1 != self.at:
            return
        if self.how == "exit":
            os._exit(9)
        if self.how == "wait":
            with open(WAITING, "w", encoding="ascii") as stream:
                stream.write(step)
            time.sleep(300)


def main():
    given = json.loads(sys.argv[1])
    host = Host.here("test")
    observer = Observer(given.get("at", -1), given.get("how", "exit"), given.get("fail_step"))
    instance = (
        Instance(host, given["uuid"], timeout=given.get("timeout", 20), observe=observer) if "uuid" in given else None
    )
    calls = {
        "claim": lambda: claim_all(host, given["claims"]),
        "withdraw": lambda: withdraw_all(host, given["claims"]),
        "started": lambda: instance.started(given.get("token"), given.get("seed")),
        "stopped": lambda: instance.stopped(given.get("grace", 1)),
        "absent": instance and instance.absent,
        "summary": instance and instance.summary,
    }
    try:
        answer = {"result": calls[given["call"]]()}
    except BerthError as error:
        answer = {"error": error.to_dict()}
    print(json.dumps({**answer, "steps": observer.steps}))


if __name__ == "__main__":
    main()
