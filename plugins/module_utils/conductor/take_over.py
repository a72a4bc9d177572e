# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances of a host that is switched off for good other hosts may take over, as its disks are on shared
storage.

It is a create in everything but the disks. The owner file beside the disks says whose they are; the new host checks it.
"""

from __future__ import annotations

from typing import Collection, Dict, Optional

from ..model import copy_hints, volumes
from ..model.errors import BerthError, InvalidInput
from ..model.identity import is_uuid
from . import silence
from .errors import DisksOwnerUnknown, HostNotLost
from .fleet import Fleet
from .locate import check_none_silent
from .plan import CLAIMING, Instance, fail

LOST, DISKS_OF = "berth_lost_hosts", "berth_disks_of"


def check_lost(lost: Collection[str], fleet: Fleet, disks_of: Optional[str]) -> None:
    """Raise InvalidInput or HostNotLost unless a person named hosts as switched off and none of them answers.
    ``disks_of``, which no host of the fleet has, says that a host answering under such a name is another machine: it
    was reinstalled."""
    if not lost:
        raise InvalidInput(LOST, None, "the hosts that are switched off for good", hint=copy_hints.name_lost_hosts())
    for host in sorted(lost):
        if host in fleet.documents and disks_of is None:
            raise HostNotLost(
                "%s answers, so no instance of it is taken over" % host, hint=copy_hints.nothing_to_take_over(host)
            )
    silence.check_lost(lost, fleet.verdicts)


def check_disks_of(disks_of: Optional[str], fleet: Fleet) -> None:
    if disks_of is not None and (not is_uuid(disks_of) or disks_of in {*fleet.uuids().values(), *fleet.faults}):
        raise InvalidInput(DISKS_OF, disks_of, "the uuid of a host that is switched off for good")


def mark(instances: Dict[str, Instance], fleet: Fleet, lost: Collection[str], disks_of: Optional[str]) -> None:
    """Set the owner of the disks for each instance that no host has any more, also if a killed run had claimed room for
    it. Fail what cannot be taken over."""
    check_disks_of(disks_of, fleet)
    check_lost(lost, fleet, disks_of)
    answers = fleet.answers(lost)
    for instance in instances.values():
        if instance.get("state") not in (None, CLAIMING):
            continue
        try:
            if disks_of is not None:  # that uuid may belong to a host that is only silent for now
                check_none_silent(fleet, instance["name"], lost)
        except BerthError as error:
            fail(instance, error)
            continue
        known = fleet.notes_on(instance["uuid"]).known
        source = disks_of or (known.host_uuid if known and not answers.counts(known) else None)
        if source is None:
            message = "no host remembers that %s was on %s" % (instance["name"], " or ".join(sorted(lost)))
            fail(instance, DisksOwnerUnknown(message, hint=copy_hints.name_owner_of_disks(instance["uuid"])))
            continue
        unknown = _what_only_the_lost_host_knew(instance)
        if unknown:
            fail(instance, unknown)
        else:
            instance["take_over"] = source


def _what_only_the_lost_host_knew(instance: Instance) -> Optional[InvalidInput]:
    """The error for an instance with volumes, or with addresses from a pool; None if it can be taken over."""
    name, spec = instance["name"], instance["spec"]
    left = [entry["name"] for entry in volumes.of(spec)]
    if left:
        rule = "no volumes: only the records of the lost host say what is on %s" % ", ".join(left)
        boot = volumes.boots_from(spec)
        hint = copy_hints.bring_boot_volume_back(name, boot) if boot else copy_hints.take_over_without_volumes(name)
        return InvalidInput("berth_volumes", None, rule, hint=hint)
    pooled = [nic["name"] for nic in spec["networks"] if nic.get("pool")]
    if pooled:
        rule = "the addresses that it has on %s, which only the lost host knew" % ", ".join(pooled)
        return InvalidInput("berth_networks", None, rule, hint=copy_hints.find_its_address(instance["uuid"]))
    return None
