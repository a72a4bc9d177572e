# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the host was drained for maintenance. It is kept with the host's state, so that every controller knows: the host
takes no instance until it is returned, and remembers which ones it had, so that they can come home.
"""

from __future__ import annotations

import json

from ...model.errors import BerthError
from ...model.safe_text import clean
from .. import durable
from . import journal, state_file
from .store import check_uuid

FILE = "drained.json"
MOST = 10000  # instances


class HostDrained(BerthError):
    """The host was drained for maintenance and takes no instance until berth.kvm.return opens it."""

    retryable = True


def read(state_dir):
    """Return {reason, by, at, instances: [{uuid, name}]}, or None if the host is open."""
    return state_file.read(state_dir, FILE, _parse, None)


def _parse(data):
    def instance(entry):
        return {"uuid": check_uuid(entry["uuid"]), "name": state_file.text(entry["name"])}

    texts = {name: state_file.text(data[name]) for name in ("reason", "by", "at")}
    return {**texts, "instances": state_file.list_of(data["instances"], instance)}


def drain(store, reason, instances, dry=False):
    """Close the host, and remember ``instances`` [{uuid, name}] beside those of a drain that goes on. Return whether that is
    news."""
    with store.host_lock():
        before = read(store.state_dir)
        known = {each["uuid"]: each for each in (before or {}).get("instances", ())}
        known.update((check_uuid(each["uuid"]), {"uuid": each["uuid"], "name": each["name"]}) for each in instances)
        began = before or {"reason": "", "by": journal.who(), "at": journal.now()}
        after = {**began, "reason": reason or began["reason"], "instances": list(known.values())[:MOST]}
        if after != before and not dry:
            durable.write_in(store.state_dir, FILE, json.dumps(after).encode(), create=True)
        return after != before


def reopen(store, dry=False):
    """Open the host again. Return what was remembered, or None if it was open."""
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
