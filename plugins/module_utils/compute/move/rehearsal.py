# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode of a move: a step makes its checks as in a real run, and ends where it would change the host for the first time.

What it would write is kept in memory, so that the other host's checks see what they would see. No lock is taken.
"""

from __future__ import annotations

import contextlib

from ...model.lifecycle import OUT, OWN, RESIZING
from ...model.migration import TAKING
from .steps.common import checked_view, view
from .steps.table import run

# The steps with checks that refuse a move before anything has changed. The checks of later ones are of what these have begun.
CHECKED = (
    "begin",
    "claim",
    "inspect_live",
    "check_live",
    "see_kept",
    "confirm",
    "revert",
    "restore_here",
    "purge",
    "erase",
)
# What the effects of a step only look at, besides their check_...
LOOKS = (
    "allocate", "arrived", "describe_live", "disks", "end_left_backup", "executing", "halted", "has_kept_disks", "has_left", "health",
    "inspect_live", "power_state", "renewed", "running", "tell_volumes",
)  # fmt: skip


class WouldChange(Exception):
    """The step has made its checks, and would now change the host."""


class Store:
    """Reads the host's records, and keeps what a step writes."""

    def __init__(self, store):
        self.real, self.written = store, {}

    def read(self, uuid):
        return self.written[uuid] if uuid in self.written else self.real.read(uuid)

    def compare_and_swap(self, old, new):
        self.written[(new or old).uuid] = new
        return new

    def host_lock(self):
        return contextlib.nullcontext()

    def instance_lock(self, _uuid):
        return contextlib.nullcontext()

    def bury(self, op):
        """Nothing looks whether a move is buried that has just been."""

    def is_buried(self, op):
        return self.real.is_buried(op)


class Effects:
    def __init__(self, effects):
        self.real = effects
        effects.only_looks = True

    def __getattr__(self, name):
        return getattr(self.real, name) if name.startswith("check_") or name in LOOKS else would_change


def would_change(*_given, **_options):
    raise WouldChange


class Host:
    def __init__(self, host):
        self.real = host
        self.store, self.effects = Store(host.store), Effects(host.effects)

    def __getattr__(self, name):
        return getattr(self.real, name)


def rehearse(host, uuid, steps, token, peer, **options):
    """Make the checks of the steps. Return (whether one would change something, the view as it would be, the token)."""
    host, changes, said = Host(host), False, {}
    _take_for_begun(host, uuid, token, peer)
    for step in steps:
        if step not in CHECKED or (step == "purge" and _is_kept(host, uuid)):
            break  # the rest of the leg is about what this would have done
        try:
            changed, said = run(host, uuid, step, token, peer, **options)
        except WouldChange:
            changed, said = True, {**said, **view(host, uuid)}
        changes = changes or changed
        token = {"op": token["op"], "attempt": said["attempt"]} if step in TAKING else token
    return changes, {**said, **view(host, uuid)}, token


def _take_for_begun(host, uuid, token, peer):
    """On the source, what an earlier leg would have written, as the destination has it."""
    record, seen = host.store.read(uuid), checked_view(peer)
    if record and seen and (record.role, record.op) == (OWN, None) and seen["op"] == token["op"] and seen["migration"]:
        migration = dict(seen["migration"], attempt=token["attempt"])
        host.store.compare_and_swap(None, record.replace(op=token["op"], phase=RESIZING, migration=migration))


def _is_kept(host, uuid):
    """Whether the host owns the instance: a purge comes after it would have let go of it."""
    record = host.store.read(uuid)
    return record is not None and record.role != OUT
