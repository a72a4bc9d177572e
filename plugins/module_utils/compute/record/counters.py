# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two small counters of a host, kept beside its records: the generation of its state, and its failed builds.

Neither reads the wall clock: the generation counts changes, failed builds fade with the host's uptime.
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
GENERATION = "generation.json"
FAILED_BUILDS = "failed_builds.json"
HALF_LIFE = 3600  # s


def generation(fingerprint, save=True, state_dir=STATE_DIR):
    """A number that grows whenever ``fingerprint`` (text) is another than the time before.

    With ``save`` false nothing is written, and the answer is what a saving run would give now. 0 without a state
    directory.
    """
    last = _peek(state_dir, GENERATION)
    if last is None:
        return 0
    if last.get("of") == fingerprint:
        return last["n"]
    if not save:
        return last.get("n", 0) + 1
    with _locked(state_dir) as directory:
        last = _read(directory, GENERATION)
        if last.get("of") != fingerprint:
            last = {"n": last.get("n", 0) + 1, "of": fingerprint}
            _write(directory, GENERATION, last)
        return last["n"]


def failed_builds(state_dir=STATE_DIR):
    """How many builds failed here of late: the count halves with each hour of uptime."""
    state = _peek(state_dir, FAILED_BUILDS)
    return round(_faded(state)) if state else 0  # rounded down, the first one would be forgotten at once


def build_failed(state_dir=STATE_DIR):
    """Count a failed build. Not for a broken group policy, a lost claim or bad input: they say nothing of the host."""
    with _locked(state_dir) as directory:
        count = _faded(_read(directory, FAILED_BUILDS)) + 1
        _write(directory, FAILED_BUILDS, {"count": count, **boot_time.now()})


def build_succeeded(state_dir=STATE_DIR):
    """Forget the failed builds, as Nova does after one that worked."""
    if failed_builds(state_dir):
        with _locked(state_dir) as directory:
            durable.remove(directory, FAILED_BUILDS)


def _faded(state):
    if not state:
        return 0.0
    # after a reboot the time it took is unknown: only the new uptime counts
    now = boot_time.now()
    since = state["uptime"] if state["boot_id"] == now["boot_id"] else 0.0
    return state["count"] * 0.5 ** (max(0.0, now["uptime"] - since) / HALF_LIFE)


@contextlib.contextmanager
def _locked(state_dir):
    def busy(who):
        return HostBusy("the counters of the host are locked by %s" % who, holder=who)

    directory, fd = lock.acquire(lambda: durable.open_directory(state_dir), LOCK, LOCK_TIMEOUT, "counters", busy)
    try:
        yield directory
    finally:
        os.close(fd)
        os.close(directory)


def _peek(state_dir, name):
    """The state without the lock: it is replaced by a rename. None where there is no state directory."""
    try:
        directory = durable.open_directory(state_dir)
    except FileNotFoundError:
        return None
    try:
        return _read(directory, name)
    finally:
        os.close(directory)


def _read(directory, name):
    return state_file.decode(durable.read(directory, name), name, PARSERS[name], {})


def _parse_generation(data):
    return {"n": state_file.whole(data["n"]), "of": state_file.text(data["of"])}


def _parse_failed_builds(data):
    count, uptime = state_file.count(data["count"]), state_file.count(data["uptime"])
    return {"count": count, "uptime": uptime, "boot_id": state_file.text(data["boot_id"])}


PARSERS = {GENERATION: _parse_generation, FAILED_BUILDS: _parse_failed_builds}


def _write(directory, name, state):
    durable.write(directory, name, json.dumps(state).encode("utf-8"))
