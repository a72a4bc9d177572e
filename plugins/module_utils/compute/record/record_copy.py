# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The copy of a record in the definition of its guest, and how a lost record is restored from it.

The copy has what the guest was defined from and does not change with every write. Only the controller, which has read
all hosts, can know that the instance belongs to this host and no other.
"""

from __future__ import annotations

import json
import secrets

from ...model import state_hints, vm_states
from ...model.errors import BerthError
from ...model.lifecycle import ACTIVE, OWN
from ...model.move_errors import InstanceInvalidState
from ...model.record import Record
from ..connection import require_libvirt
from ..disk import owner
from ..guest import domain, hardware
from ..guest.domain_xml import COPIED
from . import journal, registry_mark, state_directory, volume_claim, whereabouts


class RecordUnrecoverable(BerthError):
    """The host has no guest of this instance, or the guest's definition has no copy of its record."""


def take_back(instance, after, dry=False, moved_by=None):
    """Restore the record of the guest that is here, in a later epoch than any other host knows of. Return whether that
    was needed. ``moved_by``: {op, epoch} of the move that brought it here, whose source let go in that epoch: it has ended
    without that host.

    A record that exists but is older than others have seen counts as the newest that is left.
    """
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        state_directory.check(instance.store)
        record = instance.store.read(instance.uuid)
        if record is not None and list(record.generation) >= list(after):
            return False
        registry_mark.check(instance.store)
        if record is not None and (record.role != OWN or record.op or record.phase != ACTIVE):
            raise InstanceInvalidState(
                record.name,
                "phase",
                record.phase,
                "recover",
                rule="the record is of an instance at rest, owned by this host",
                role=record.role,
                phase=record.phase,
            )
        new = record or _from_copy(instance, moved_by)
        if not dry:
            epoch = max(after[0], new.generation[0], whereabouts.epoch(instance.store, instance.uuid)) + 1
            taken = journal.noted(new.replace(generation=[epoch, 0]), "record taken back")
            volume_claim.take_back(instance.host, taken)  # first: nothing is restored once its record exists
            instance.store.compare_and_swap(record, taken) if record else instance.store.restore(taken)
        return True


def _from_copy(instance, moved_by=None):
    """Return the record of a guest at rest, from its definition and its disks."""
    guest, inactive = domain.find(instance.host.connection, instance.uuid), require_libvirt().VIR_DOMAIN_XML_INACTIVE
    try:
        text = guest.XMLDesc(inactive)
        copy = json.loads(domain.mark(text)["record"])
        parts = {name: copy[name] for name in COPIED}
        parts["spec"] = hardware.keep(parts["spec"], text)
    except (AttributeError, TypeError, ValueError, KeyError):
        raise RecordUnrecoverable(
            "there is no copy of the record of %s here" % instance.uuid,
            hint=state_hints.restore_backup_of_record(instance.uuid),
        )
    host = instance.host
    pool_path = host.pool_path(parts["spec"].get("pool"))
    owner.check(pool_path, instance.uuid, parts["spec"]["name"], host.identify())
    runs = domain.is_active(host.connection, instance.uuid)
    record = Record(
        role=OWN,
        generation=[copy["epoch"], 0],
        token=secrets.token_hex(16),
        phase=ACTIVE,
        lost_moves=[moved_by["op"]] if moved_by else [],
        **vm_states.said(vm_states.found(parts["spec"], runs)),
        **parts,
    )
    if record.uuid != instance.uuid:
        raise RecordUnrecoverable(
            "the definition here is that of %s" % record.uuid,
            hint=state_hints.restore_backup_of_record(instance.uuid),
        )
    record = Record.from_dict(record.to_dict())
    if moved_by:
        _check_arrived(record, moved_by["epoch"], owner.read(pool_path, record.uuid))
    return record


def _check_arrived(record, epoch, whose):
    """Raise RecordUnrecoverable unless this is what the source let go of in that epoch: what it kept is removed after that.
    The guest was defined here for the move, in the epoch before, or since. ``whose``: the owner of the disks here."""
    if whose is None:
        why = "the disks of %s had not been taken over here from the source of its move"
    elif record.generation[0] < epoch - 1:
        why = "the guest of %s here is from before its move"
    else:
        return
    raise RecordUnrecoverable(why % record.name, hint=state_hints.restore_backup_of_record(record.uuid))
