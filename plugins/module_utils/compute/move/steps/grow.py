# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A resize on the same host without a restart: the running guest gets CPUs and memory, up to the ceilings of its flavor, and
gives them back in a revert. Its disks stay as they are, so a revert loses nothing."""

from __future__ import annotations

from ....model import growth
from ....model.lifecycle import OWN, RESIZED, RESIZING
from .common import fenced, is_past, moved, put, was_on


def grow(host, uuid, token, peer=None, **_ignored):
    """If the new flavor takes no restart and the guest runs: write that it grows, THEN let it, then write RESIZED. Else change
    nothing: the next leg restarts it. From here the room of the new flavor is enough for both."""
    if is_past(host.store.read(uuid), token["op"], (OWN, RESIZED)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    if not (record.phase == RESIZING and needs_no_restart(record.migration) and host.effects.executing(uuid)):
        return False
    host.effects.check_asked()
    record = put(host, record, moved(record, grown=True), "the guest grows")
    new = moved(record, started=True, waits_since=host.since_boot())
    new = new.replace(phase=RESIZED, spec=record.migration["new_spec"], resources=record.migration["new_resources"])
    host.effects.grow(new)
    put(host, record, new, "resized without a restart")
    return {"ended": True}


def needs_no_restart(move):
    return growth.restart_needed(move["old_spec"], move["new_spec"]) is None


def shrinks(host, record):
    """Whether the guest has what the old flavor has, without a restart. Its disks are those of before, whatever happened."""
    if not (record.migration["grown"] and was_on(record) and host.effects.executing(record.uuid)):
        return False
    return host.effects.shrink(record.replace(spec=record.migration["old_spec"]))
