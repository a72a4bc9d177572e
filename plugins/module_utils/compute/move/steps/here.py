# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resize on the same host: the disks stay, and the old ones are only renamed. The confirm drops them, see
confirm.py and disks.py."""

from __future__ import annotations

from ....model import host_hints
from ....model import migration as names
from ....model.lifecycle import CONFIRMING, OWN, RESIZED, RESTORING, REVERTING
from ....model.move_errors import InstanceNotResized, MigrationConflict, MigrationNotReady
from .common import attempt_of, existing, is_past, moved, put
from .fencing import fenced


def check_one_host(host, record):
    """Raise MigrationConflict if the move goes to another host: the disks here must stay as they are."""
    move = record.migration
    if move is not None and not names.same_host(move):
        raise MigrationConflict(
            "%s is moved from %s to %s: that is no resize on one host"
            % (record.name, move["source"]["name"], move["destination"]["name"]),
            role=record.role,
        )


def resize_here(host, uuid, token, peer=None, **_ignored):
    """Keep the old disks under another name, grow the new ones, define the new flavor, write RESIZED."""
    if is_past(host.store.read(uuid), token["op"], (OWN, RESIZED)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    check_one_host(host, record)
    if record.migration["frozen"] != token["attempt"] or host.effects.running(uuid):
        raise MigrationNotReady("%s is not stopped for this attempt" % uuid)
    host.effects.check_disks(record)
    new = moved(record, verified=token["attempt"], frozen=None)
    new = moved(new, waits_since=host.since_boot())
    new = new.replace(phase=RESIZED, spec=record.migration["new_spec"])
    host.effects.keep_disks(new)
    host.effects.define(new)
    put(host, record, new, "resized on the same host")
    return True


def restore_here(host, uuid, token, peer=None, stop_timeout=60, **_ignored):
    """Go back to the kept disks and the old flavor; also gives up an unfinished resize."""
    record = existing(host, uuid, token["op"])
    if record.role == OWN and (record.op is None or record.phase == RESTORING):
        return False
    if record.op != token["op"] or record.role != OWN or record.phase == CONFIRMING:
        raise InstanceNotResized(uuid)
    check_one_host(host, record)
    on_new = is_on_new(host, record)
    if on_new:
        host.effects.check_disks(record)
        host.effects.check_restorable(record)
    if on_new and host.effects.running(uuid):
        hint = host_hints.bring_network_back_or_confirm(host.identity["name"], record.name)
        host.effects.check_networks(record, hint)
    if record.phase != REVERTING:
        fenced(host, uuid, token, (OWN,))
        taken = moved(record, attempt=attempt_of(record) + 1)
        record = put(host, record, taken.replace(phase=REVERTING), "revert begins")
    if on_new:
        host.effects.stop(uuid, stop_timeout)
    old = moved(record, frozen=None).replace(
        phase=RESTORING, spec=record.migration["old_spec"], resources=record.migration["old_resources"]
    )
    host.effects.stop_transfer(uuid)
    host.effects.restore_disks(record)
    host.effects.define_unless_changed(old)
    put(host, record, old, "taken back")
    return True


def is_on_new(host, record):
    """Whether the guest may have the new flavor or disks. One that boots from a volume may have no kept disk."""
    return record.spec["flavor"] != record.migration["old_spec"]["flavor"] or host.effects.has_kept_disks(record)
