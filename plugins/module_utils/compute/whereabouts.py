# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host remembers of the whereabouts of instances on other hosts.

There is no database: an instance is known by its own host only. When that host is down, nobody could tell an instance
that lives there from one that never was, and a create run again would make a second one. So each run that reads all
hosts also tells them what it knows, and a later run asks: a host that is silent and is remembered to hold the instance
means unknown, and unknown is refused. Facts of a host that does answer always count more than what others remember.
"""

from __future__ import annotations

import json

from . import durable

FILE = "whereabouts.json"


def recall(store, uuids):
    """What is remembered of these instances: {uuid: {host, host_uuid, run}}; nothing where nothing was ever told."""
    notes = _read(store)
    return {uuid: notes[uuid] for uuid in uuids if uuid in notes}


def remember(store, answered, told):
    """Replace what was known of the hosts in ``answered`` (uuids) by ``told`` {uuid: {host, host_uuid, run}}; other hosts' stay."""
    with store.host_lock():
        before = _read(store)
        kept = {uuid: note for uuid, note in before.items() if note["host_uuid"] not in answered}
        after = {**kept, **told}
        if after != before:
            durable.write_in(store.state_dir, FILE, json.dumps(after, sort_keys=True).encode(), create=True)
        return after != before


def _read(store):
    data = durable.read_in(store.state_dir, FILE)
    return json.loads(data) if data else {}
