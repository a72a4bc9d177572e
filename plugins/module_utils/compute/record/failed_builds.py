# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failed build counts against its host, and fades: the count halves with each hour of the host's uptime.

No wall clock is read. BuildFailureWeigher weighs the count (Nova: stats.failed_builds).
"""

from __future__ import annotations

from .. import durable
from ..host import boot_time
from . import state_file
from .counter_file import CounterFile, locked
from .store import STATE_DIR

HALF_LIFE = 3600  # s


def _parse(data):
    count, uptime = state_file.count(data["count"]), state_file.count(data["uptime"])
    return {"count": count, "uptime": uptime, "boot_id": state_file.text(data["boot_id"])}


FILE = CounterFile("failed_builds.json", _parse)


def count(state_dir=STATE_DIR):
    return reported(state_dir)["failed_builds"]


def reported(state_dir=STATE_DIR):
    """Return for the facts {failed_builds, failed_build_age_s}: how many, and while any counts how long ago the last was."""
    state = FILE.peek(state_dir)
    found = _count(state)
    return {"failed_builds": found, **({"failed_build_age_s": int(_age(state))} if found else {})}


def add(state_dir=STATE_DIR):
    """Count a failed build. A broken group policy, a lost claim or bad input say nothing about the host."""
    with locked(state_dir) as directory:
        FILE.write(directory, {"count": _faded(FILE.read(directory)) + 1, **boot_time.now()})


def forget(state_dir=STATE_DIR):
    """Forget the failed builds, as Nova does after a build that worked."""
    if count(state_dir):
        with locked(state_dir) as directory:
            durable.remove(directory, FILE.name)


def _count(state):
    return round(_faded(state))  # rounding down would forget the first one at once


def _faded(state):
    return state["count"] * 0.5 ** (_age(state) / HALF_LIFE) if state else 0.0


def _age(state):
    # how long a reboot took is unknown: only the new uptime counts
    now = boot_time.now()
    since = state["uptime"] if state["boot_id"] == now["boot_id"] else 0.0
    return max(0.0, now["uptime"] - since)
