# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the host was drained for maintenance. It is kept with the host's state, so that every controller knows: the host
takes no instance until it is returned. Which instances come home then, their own records say (``home`` of the request).
"""

from __future__ import annotations

import json

from ...model.errors import BerthError
from ...model.safe_text import clean
from .. import durable
from ..host import boot_time
from . import journal, state_file

FILE = "drained.json"
LONGEST = {"reason": 200, "by": 255, "at": 40, "boot_id": 64}  # characters


class HostDrained(BerthError):
    """The host was drained for maintenance and takes no instance until berth.kvm.return opens it."""

    retryable = True


def read(state_dir):
    """Return {reason, by, at, rebooted}, or None if the host is open. ``rebooted``: whether it was booted since it was closed."""
    found = state_file.read(state_dir, FILE, _parse, None)
    if found is not None:
        found["rebooted"] = found.pop("boot_id") not in ("", boot_time.boot_id())
    return found


def _parse(data):
    kept = {"boot_id": "", **data}  # an earlier version did not note it
    return {name: clean(state_file.text(kept[name]), longest) for name, longest in LONGEST.items()}


def drain(store, reason, dry=False):
    """Close the host. Return whether that is news: a drain that goes on keeps who began it, and takes a new reason."""
    with store.host_lock():
        before = state_file.read(store.state_dir, FILE, _parse, None)
        began = before or {"reason": "", "by": journal.who(), "at": journal.now(), "boot_id": boot_time.boot_id()}
        after = {**began, "reason": clean(reason, LONGEST["reason"]) or began["reason"]}
        if after != before and not dry:
            durable.write_in(store.state_dir, FILE, json.dumps(after).encode(), create=True)
        return after != before


def reopen(store, dry=False):
    """Open the host again. Return the maintenance that it was in, or None."""
    with store.host_lock():
        before = read(store.state_dir)
        if before is not None and not dry:
            durable.remove_at("%s/%s" % (store.state_dir, FILE))
        return before


def describe(drained):
    """Return why the host is closed, in one line."""
    why = " (%s)" % clean(drained["reason"], 200) if drained["reason"] else ""
    return "drained for maintenance by %s at %s%s" % (clean(drained["by"], 100), clean(drained["at"], 30), why)


def check_open(state_dir, name):
    """Raise HostDrained if the host takes no instance such as ``name``. The caller holds the host's lock."""
    drained = read(state_dir)
    if drained is not None:
        raise HostDrained("no place for %s: this host was %s" % (name, describe(drained)))
