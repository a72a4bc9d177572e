# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances of a host that is switched off for good other hosts may take over, as its disks are on shared
storage.

It is a create in everything but the disks. The owner file beside the disks says whose they are; the new host checks it. What else
only the lost host knew, the volumes and the addresses out of pools, lies beside the disks, too: compute/disk/attached.py.
"""

from __future__ import annotations

from typing import Collection, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..model import copy_hints, nics, shelves, vm_states, volumes
from ..model.errors import BerthError, InvalidInput
from ..model.identity import is_uuid
from ..model.lifecycle import POWERING_ON
from ..model.messages import Document
from . import addressing, silence
from .errors import DisksDiffer, DisksNotShared, DisksOwnerUnknown, HostNotLost
from .fleet import Fleet, Place
from .locate import check_none_silent
from .plan import CLAIMING, Instance, fail

LOST, DISKS_OF = "berth_lost_hosts", "berth_disks_of"
VOLUME = ("name", "size_gb", "delete_on_termination", "slot", "boot_index")


class Backups(NamedTuple):
    """What is told of the backups of an instance, and the newest whole one {backup, to, host}, with its age in words."""

    told: str
    newest: Optional[Document] = None
    age: str = ""


Seen = Mapping[str, List[Tuple[str, Document]]]  # uuid -> (host, what it sees beside the disks {owner, volumes, nics})


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


def mark(
    instances: Dict[str, Instance],
    fleet: Fleet,
    lost: Collection[str],
    disks_of: Optional[str],
    seen: Seen,
    backups: Mapping[str, Backups],
    from_backup: bool = False,
) -> None:
    """Set the owner of the disks for each instance that no host has any more, also if a killed run had claimed room for
    it, and give its request the volumes and addresses that it had. Fail what cannot be taken over. ``backups``: by uuid, of each whose
    disks no host sees; ``from_backup``: it is restored from the newest."""
    check_disks_of(disks_of, fleet)
    check_lost(lost, fleet, disks_of)
    answers = fleet.answers(lost)
    for instance in instances.values():
        if instance.get("state") not in (None, CLAIMING):
            instance["from_backup"] = is_being_restored(fleet.place_on(instance["uuid"], instance.get("host")))
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
        found = backups.get(instance["uuid"])
        if found and found.newest and from_backup:
            _from(found.newest, found.age, instance, source)
            continue
        if found and instance.get("state") is None:
            text = "the disks of %s were on %s, and no host that answers sees them. %s"
            hosts = " or ".join(sorted(lost))
            hint = copy_hints.mount_or_give_up(instance["name"], ",".join(sorted(lost)), bool(found.newest))
            fail(instance, DisksNotShared(text % (instance["name"], hosts, found.told), hint=hint))
            continue
        try:
            _as_it_was(instance, _kept(instance, source, seen.get(instance["uuid"], ())))
            instance["take_over"] = source
        except BerthError as error:
            fail(instance, error)


def is_being_restored(place: Optional[Place]) -> bool:
    """Whether an evacuation has made the instance there again, and has not ended."""
    if place is None or shelves.EVACUATED not in (place["request_digests"] or {}):
        return False
    return place["vm_state"] in (vm_states.BUILDING, vm_states.SHELVED) or place["task_state"] == POWERING_ON


def _from(newest: Document, age: str, instance: Instance, lost: str) -> None:
    """Have the instance, which the host with the uuid ``lost`` had, made again as one that is shelved in that backup."""
    instance["spec"] = shelves.made_again(instance["spec"], newest, lost)
    instance["from_backup"] = True
    told = (newest["backup"], shelves.place(newest), age)
    instance["gives_up"] = "made again from its backup %s in %s, %s old" % told


def _kept(instance: Instance, source: str, seen: Collection[Tuple[str, Document]]) -> Optional[Document]:
    """What lies beside its disks: {volumes, nics}; None if nothing does. Raise DisksDiffer unless all who see them see the same."""
    found = {
        host: {part: told[part] for part in ("volumes", "nics")}
        for host, told in sorted(seen, key=lambda pair: pair[0])
        if told["owner"] == source and "volumes" in told and "nics" in told
    }
    for host, told in found.items():
        first = next(iter(found))
        if told != found[first]:
            raise DisksDiffer(
                "%s and %s see different files beside the disks of %s" % (first, host, instance["name"]),
                hint=copy_hints.mount_the_same(first, host),
            )
    return next(iter(found.values()), None)


def _as_it_was(instance: Instance, kept: Optional[Document]) -> None:
    """Give the request what the lost host knew. Raise InvalidInput if that is kept nowhere, as for what an earlier version has
    started last, and the instance has such parts by the inventory."""
    if kept is None:
        unknown = _what_only_the_lost_host_knew(instance)
        if unknown:
            raise unknown
        return
    spec, name = instance["spec"], instance["name"]
    boots, booted = volumes.boots_from(spec), volumes.boots_from(kept)
    if boots != booted:
        rule = "%s, from which it boots" % ("volume %s" % booted if booted else "no volume with boot_index 0")
        raise InvalidInput("berth_volumes", boots, rule, hint=copy_hints.describe_what_it_has(name))
    if kept["volumes"]:
        # their records are written anew
        spec["volumes"] = [
            {**{part: entry[part] for part in VOLUME if part in entry}, "new": True} for entry in kept["volumes"]
        ]
    else:
        spec.pop("volumes", None)
    had = addressing.of_nics(kept["nics"])
    for nic in spec["networks"]:
        own = had.get(nics.mac(nic["mac"]), ()) if nic.get("pool") else ()
        address = next((each for _entry, each in addressing.on_network(nic, own)), None)
        if nic.get("pool") and address is None:
            raise InvalidInput(
                "berth_networks", nic["network"], "the networks that it had", hint=copy_hints.describe_what_it_has(name)
            )
        if address:
            nic["address"] = "%s/%d" % (address, nic["prefixlen"])


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
