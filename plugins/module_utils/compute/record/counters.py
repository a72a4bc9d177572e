# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files of counters that a host keeps beside its records, read without a lock and changed under one: its failed
builds, and the generation of its facts.
"""

from __future__ import annotations

import contextlib
import json
import os

from .. import durable, lock
from ..errors import HostBusy
from ..host import boot_time
from . import state_file
from .store import STATE_DIR

LOCK = "counters.lock"
LOCK_TIMEOUT = 5  # s


class CounterFile:
    """One such file. ``parse`` checks its content: dict -> dict, or an error of state_file."""

    def __init__(self, name, parse):
        self.name = name
        self.parse = parse

    def peek(self, state_dir):
        """Return its content, without the lock: it is replaced by a rename. None if there is no state directory."""
        try:
            directory = durable.open_directory(state_dir)
        except FileNotFoundError:
            return None
        try:
            return self.read(directory)
        finally:
            os.close(directory)

    def read(self, directory):
        return state_file.decode(durable.read(directory, self.name), self.name, self.parse, {})

    def write(self, directory, state):
        durable.write(directory, self.name, json.dumps(state).encode("utf-8"))


@contextlib.contextmanager
def locked(state_dir):
    def busy(who):
        return HostBusy("the counters of the host are locked by %s" % who, holder=who)

    directory, fd = lock.acquire(lambda: durable.open_directory(state_dir), LOCK, LOCK_TIMEOUT, "counters", busy)
    try:
        yield directory
    finally:
        os.close(fd)
        os.close(directory)


# A failed build counts against its host, and fades: the count halves with each hour of the host's uptime.
#
# No wall clock is read. BuildFailureWeigher weighs the count (Nova: stats.failed_builds).
HALF_LIFE = 3600  # s


def _parse(data):
    count, uptime = state_file.count(data["count"]), state_file.count(data["uptime"])
    return {"count": count, "uptime": uptime, "boot_id": state_file.text(data["boot_id"])}


FAILED_BUILDS = CounterFile("failed_builds.json", _parse)


def count_failed_builds(state_dir=STATE_DIR):
    return reported_failed_builds(state_dir)["failed_builds"]


def reported_failed_builds(state_dir=STATE_DIR):
    """Return for the facts {failed_builds, failed_build_age_s}: how many, and while any counts how long ago the last was."""
    state = FAILED_BUILDS.peek(state_dir)
    found = _count(state)
    return {"failed_builds": found, **({"failed_build_age_s": int(_age(state))} if found else {})}


def add_failed_build(state_dir=STATE_DIR):
    """Count a failed build. A broken group policy, a lost claim or bad input say nothing about the host."""
    with locked(state_dir) as directory:
        FAILED_BUILDS.write(directory, {"count": _faded(FAILED_BUILDS.read(directory)) + 1, **boot_time.now()})


def forget_failed_builds(state_dir=STATE_DIR):
    """Forget the failed builds, as Nova does after a build that worked."""
    if count_failed_builds(state_dir):
        with locked(state_dir) as directory:
            durable.remove(directory, FAILED_BUILDS.name)


def _count(state):
    return round(_faded(state))  # rounding down would forget the first one at once


def _faded(state):
    return state["count"] * 0.5 ** (_age(state) / HALF_LIFE) if state else 0.0


def _age(state):
    # how long a reboot took is unknown: only the new uptime counts
    now = boot_time.now()
    since = state["uptime"] if state["boot_id"] == now["boot_id"] else 0.0
    return max(0.0, now["uptime"] - since)


# The generation of a host's facts: a number that grows with every change, to tell older facts from newer ones.


def _parse_generation(data):
    return {"n": state_file.whole(data["n"]), "of": state_file.text(data["of"])}


GENERATION = CounterFile("generation.json", _parse_generation)


def generation_of(fingerprint, save=True, state_dir=STATE_DIR):
    """Return a number that grows whenever ``fingerprint`` (text) differs from the previous one.

    With ``save`` false, nothing is written, and the number is what a saving run would return now. 0 without a state
    directory.
    """
    last = GENERATION.peek(state_dir)
    if last is None:
        return 0
    if last.get("of") == fingerprint:
        return last["n"]
    if not save:
        return last.get("n", 0) + 1
    with locked(state_dir) as directory:
        last = GENERATION.read(directory)
        if last.get("of") != fingerprint:
            last = {"n": last.get("n", 0) + 1, "of": fingerprint}
            GENERATION.write(directory, last)
        return last["n"]
