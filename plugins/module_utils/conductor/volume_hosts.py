# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the volumes of instances are: an instance goes to the host that has them, missing ones are created with it, those
that are too small grow, and a volume that no instance has may be deleted.

A volume that no host reports may be on a silent host, so none is created then. Two runs at once may both create one:
each reads all hosts after its claim, and a run that sees the volume on another host gives way.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..model import fleet_hints, hints, state_hints, volume_hints, volumes
from ..model.errors import BerthError
from ..model.lifecycle import ACTIVE, CLAIM, CLAIMED, DELETING, IN, OUT, OWN
from ..model.lifecycle import BUILDING as BEING_MADE
from ..model.messages import Document
from ..model.volumes import (
    VolumeConflict,
    VolumeDamaged,
    VolumeDuplicate,
    VolumeElsewhere,
    VolumeInUse,
    VolumeNotFound,
    VolumeUnknown,
)
from ..placement.text import table
from . import silence
from .fleet import Fleet
from .plan import BUILDING, CLAIMING, Instance, Plan, fail, host_of, withdraw_claim
from .similar_names import similar

Found = List[Tuple[str, Document]]  # (host, volume) of the hosts that report it


def find(fleet: Fleet, uuid: str) -> Found:
    """The hosts that own it; if none does, as in the middle of a move, the host that a revert gives it back to; if there is
    no volume yet, those where a run has claimed one. A claim beside a volume is given up by its run, or left by one that
    was killed. Raise VolumeDamaged if a host cannot read its record of it."""
    damaged = fleet.damaged_volumes().get(uuid)
    if damaged:
        raise VolumeDamaged("%s: %s" % damaged, hint=state_hints.restore_damaged_volume(uuid), uuid=uuid)
    found = [pair for pair in fleet.volumes() if pair[1]["uuid"] == uuid]
    owners = [pair for pair in found if pair[1].get("role") not in (IN, OUT, CLAIM)]
    moving = [pair for pair in found if pair[1].get("role") in (IN, OUT)]
    return owners or sorted(moving, key=lambda pair: pair[1].get("role") != OUT)[:1] or found


def settle(instances: Mapping[str, Instance], fleet: Fleet, lost_hosts: Collection[str] = ()) -> None:
    """Apply what hosts report about the volumes of instances to be created. Fail instances that cannot have theirs."""
    takers: Dict[str, str] = {}
    for instance in instances.values():
        if instance.get("state") not in (None, CLAIMING) or not instance["spec"].get("volumes"):
            continue
        try:
            for entry in volumes.of(instance["spec"]):
                if entry["uuid"] in takers:
                    raise wanted_twice(entry["name"], takers[entry["uuid"]], instance["name"])
            _settle(instance, fleet, lost_hosts)
            takers.update({entry["uuid"]: instance["name"] for entry in volumes.of(instance["spec"])})
        except BerthError as error:
            fail(instance, error)


def _settle(instance: Instance, fleet: Fleet, lost_hosts: Collection[str]) -> None:
    spec, hosts, taken_gb = instance["spec"], {}, []
    if instance.get("take_over"):
        _check_nobody_has(instance, fleet)
        return
    for entry, requested in zip(volumes.of(spec), spec["volumes"]):
        found = the_only(fleet, instance["name"], instance["uuid"], entry, lost_hosts)
        if found is None:
            requested["new"] = True
        else:
            hosts[entry["name"]], requested["size_gb"] = found[0], had_gb(found[1])
            if found[1]["phase"] == CLAIMED and found[1]["instance"]:
                requested["new"] = True  # by a run that ended before it had read all hosts again
            elif found[1]["phase"] == CLAIMED:
                taken_gb.append(requested["size_gb"])
            if found[1]["phase"] not in (CLAIMED, BEING_MADE):
                requested.pop("image", None)  # what is on it stays
    instance["taken_gb"] = taken_gb
    if len(set(hosts.values())) > 1:
        places = " and ".join("%s on %s" % pair for pair in sorted(hosts.items()))
        raise VolumeElsewhere("the volumes of %s are on more than one host: %s" % (instance["name"], places))
    if hosts:
        _go_to(instance, *next(iter(hosts.items())))


def _check_nobody_has(instance: Instance, fleet: Fleet) -> None:
    """Its volumes come from the lost host, as is kept beside its disks. Raise VolumeElsewhere if another one has one by now; a claim
    of it for this instance was left by a run that was killed."""
    for entry in volumes.of(instance["spec"]):
        for host, told in find(fleet, entry["uuid"]):
            if not (_is_begun(told) and _is_of(told, instance["uuid"])):
                raise VolumeElsewhere("volume %s of %s is on %s by now" % (entry["name"], instance["name"], host))


def _go_to(instance: Instance, volume: str, host: str) -> None:
    """Place the instance on the host that has the volume, or nowhere."""
    spec = instance["spec"]
    asked = (spec.get("requested_destination") or {}).get("host")
    if asked not in (None, host) or instance.get("host") not in (None, host):
        raise VolumeElsewhere(
            "volume %s of %s is on %s, not on %s" % (volume, instance["name"], host, asked or instance["host"])
        )
    spec["requested_destination"] = {"host": host, "why": "volume %s is on %s" % (volume, host)}


def to_have(
    fleet: Fleet,
    name: str,
    uuid: str,
    host: Optional[str],
    wanted: Iterable[Mapping[str, Any]],
    lost_hosts: Collection[str],
) -> List[str]:
    """Return the uuids of the volumes ``wanted`` [{name, uuid}] that have still to be created on ``host``, for the
    instance there.
    Raises if it cannot have them."""
    new = []
    for entry in wanted:
        found = the_only(fleet, name, uuid, entry, lost_hosts)
        if found and found[0] != host:
            raise _elsewhere(entry["name"], *found, name, host)
        if found is None or is_unused(found[1]):
            new.append(entry["uuid"])
    return new


def _elsewhere(volume: str, has: str, reported: Mapping[str, Any], name: str, host: Optional[str]) -> VolumeElsewhere:
    begun = volume_hints.delete_begun_elsewhere(str(reported["name"]), str(reported.get("project_id")), has)
    return VolumeElsewhere(
        "volume %s is on %s, %s on %s" % (volume, has, name, host), hint=begun if is_unused(reported) else None
    )


def grows_from(fleet: Fleet, entry: Mapping[str, Any]) -> Optional[int]:
    """The GiB that the volume ``entry`` {uuid, size_gb} has, if it is there and gets larger, or if a run that was
    interrupted has claimed a growth of it. Else None."""
    for _host, volume in find(fleet, entry["uuid"]):
        has = had_gb(volume)
        if not is_unused(volume) and (entry["size_gb"] > has or volume["size_gb"] > has):
            return has
    return None


def had_gb(volume: Mapping[str, Any]) -> int:
    """The size of a volume without a growth that is claimed and may be given back."""
    return int(volume.get("grows_from_gb", volume["size_gb"]))


def is_unused(volume: Mapping[str, Any]) -> bool:
    """Whether the record was left by a run that was interrupted before it created the volume."""
    return volume.get("phase") in (CLAIMED, BEING_MADE) and not volume["instance"]


def _is_begun(volume: Mapping[str, Any]) -> bool:
    """Whether nothing of the volume is there but a claim, or what no instance has and no guest has seen."""
    return volume.get("phase") == CLAIMED or is_unused(volume)


def _is_of(volume: Mapping[str, Any], uuid: str) -> bool:
    return bool(volume["instance"]) and volume["instance"]["uuid"] == uuid


def to_delete(
    fleet: Fleet, volume: str, uuid: str, defined: Collection[str], lost_hosts: Collection[str]
) -> Optional[str]:
    """The host that has the volume, or None if no host has it but the inventory defines it.
    Raise VolumeInUse if an instance has it."""
    on_hosts = find(fleet, uuid)
    if len(on_hosts) > 1 and not all(_is_begun(reported) for _host, reported in on_hosts):
        raise duplicate(volume, on_hosts)
    if on_hosts:
        host, reported = min(on_hosts, key=lambda pair: not is_unused(pair[1]))
        if reported["instance"]:
            raise _held(reported)
        return host
    check_none_silent(volume, fleet.verdicts, lost_hosts)
    check_known(fleet, volume, defined)
    return None


def check_known(fleet: Fleet, volume: str, defined: Collection[str]) -> None:
    """Raise VolumeNotFound if the inventory does not define a volume that no host has, or has for other projects only."""
    if volume in defined:
        return
    others = sorted({reported["project_id"] for _host, reported in fleet.volumes() if reported["name"] == volume})
    if others:
        raise VolumeNotFound(
            "no host has a volume %s of this project, but hosts have one of %s" % (volume, ", ".join(others)),
            hint=volume_hints.name_project(volume, others[0]),
        )
    known = {reported["name"] for _host, reported in fleet.volumes()} | set(defined)
    raise VolumeNotFound("no host has a volume %s" % volume, hint=similar(volume, known))


def the_only(
    fleet: Fleet, name: str, uuid: str, entry: Mapping[str, Any], lost_hosts: Collection[str]
) -> Optional[Tuple[str, Document]]:
    """Return (host, volume) of an instance's volume, None if no host has it. Raises if the instance cannot have it."""
    volume, on_hosts = entry["name"], find(fleet, entry["uuid"])
    if len(on_hosts) > 1 and all(_is_begun(reported) for _host, reported in on_hosts):
        on_hosts = [_of_claims(volume, uuid, on_hosts)]
    if len(on_hosts) > 1:
        raise duplicate(volume, on_hosts)
    if not on_hosts:
        check_none_silent(volume, fleet.verdicts, lost_hosts)
        return None
    host, reported = on_hosts[0]
    if _is_begun(reported):
        check_none_silent(volume, fleet.verdicts, lost_hosts)
    if reported["instance"] and not _is_of(reported, uuid):
        raise _held(reported, name)
    if reported["phase"] == DELETING:
        raise VolumeConflict(
            "volume %s on %s is being deleted" % (volume, host),
            hint=volume_hints.delete_volume_again(str(reported["name"]), str(reported.get("project_id"))),
        )
    return host, reported


def _of_claims(volume: str, uuid: str, claims: Found) -> Tuple[str, Document]:
    """Of the claims of several runs return the instance's own: its run reads all hosts after that, and gives way. Else return
    one of another instance. Raise if the only others are those of no instance: no run may go on with one of them."""
    own = [pair for pair in claims if _is_of(pair[1], uuid)]
    others = own or [pair for pair in claims if pair[1]["instance"]]
    if not others:
        host, reported = claims[0]
        raise VolumeConflict(
            "runs have begun to make volume %s on %s" % (volume, " and on ".join(host for host, _told in claims)),
            hint=volume_hints.delete_begun_elsewhere(str(reported["name"]), str(reported.get("project_id")), host),
        )
    return others[0]


def check_none_silent(volume: str, silent: Mapping[str, str], lost_hosts: Collection[str]) -> None:
    """Raise VolumeUnknown if a host that may have the volume does not answer."""
    hosts = sorted(set(silent) - set(lost_hosts))
    if hosts:
        raise VolumeUnknown(
            "no host has volume %s, and it may be on %s"
            % (volume, " and on ".join(silence.describe(host, silent) for host in hosts)),
            hint=silence.hint(hosts, silent),
        )


def duplicate(volume: str, found: Found) -> VolumeDuplicate:
    holders = " and on ".join(
        "%s (%s)" % (host, "attached to %s" % reported["instance"]["name"] if reported["instance"] else "free")
        for host, reported in found
    )
    return VolumeDuplicate(
        "there is a volume %s on %s" % (volume, holders),
        hint=volume_hints.keep_one_volume(volume, found[0][1]["uuid"], [host for host, _told in found]),
    )


def _held(volume: Mapping[str, Any], name: Optional[str] = None) -> VolumeInUse:
    """The error for a volume of another instance than ``name``: attached to it, or only claimed for it."""
    holder = volume["instance"]["name"]
    if volume.get("phase") != CLAIMED:
        return in_use(volume["name"], holder, name)
    return VolumeInUse(
        "volume %s is claimed for %s, which is not built yet" % (volume["name"], holder),
        hint=volume_hints.finish_claim(holder, volume["name"]),
        volume=volume["name"],
        instance=holder,
    )


def in_use(volume: str, holder: str, name: Optional[str] = None) -> VolumeInUse:
    """The error for a volume in use. ``name`` is the instance that wants the volume, if there is one."""
    so = ", so %s cannot have it" % name if name else ""
    return VolumeInUse(
        "volume %s is attached to %s%s" % (volume, holder, so),
        hint=volume_hints.detach_volumes(holder, [volume]),
        volume=volume,
        instance=holder,
    )


def wanted_twice(volume: str, taker: str, name: str) -> VolumeInUse:
    """The error for a volume that another instance of the same run gets."""
    return VolumeInUse(
        "volume %s is for %s in this run, so %s cannot have it" % (volume, taker, name),
        hint=fleet_hints.name_it_once(volume, [taker, name]),
        volume=volume,
        instance=taker,
    )


def check_claims(
    plan: Plan, scans: Mapping[str, Mapping[str, Any]], silent: Mapping[str, str], lost_hosts: Collection[str]
) -> None:
    """Withdraw the claims of instances whose new volume another host has, or may have. ``scans``: host -> its scan."""
    for instance in plan["instances"].values():
        if instance["state"] != BUILDING:
            continue
        for entry in volumes.of(instance["spec"]):
            if not entry.get("new"):
                continue
            try:
                may_have = {} if instance.get("take_over") else silent
                check_claim(entry, host_of(instance), scans, may_have, lost_hosts)
            except BerthError as error:
                withdraw_claim(plan, instance)
                fail(instance, error)
                break


def check_claim(
    entry: Mapping[str, Any],
    host: str,
    scans: Mapping[str, Mapping[str, Any]],
    silent: Mapping[str, str],
    lost_hosts: Collection[str],
) -> None:
    """Raise if a host other than ``host`` has the volume {name, uuid} that was claimed there, or may have it."""
    check_none_silent(entry["name"], silent, lost_hosts)
    others = [other for other, scan in scans.items() if other != host and _has(scan, entry["uuid"])]
    if others:
        raise VolumeConflict(
            "another run makes volume %s on %s" % (entry["name"], ", ".join(others)), hint=hints.run_again()
        )


def _has(scan: Mapping[str, Any], uuid: str) -> bool:
    return any(volume["uuid"] == uuid for volume in scan.get("volumes") or ())


FREE = ("FREE VOLUME", "PROJECT", "SIZE", "POOL", "HOST", "SINCE")
Free = Tuple[str, Mapping[str, Any]]  # (host, volume)


def free_volumes(fleet: Fleet) -> List[Free]:
    """Volumes of the hosts that answered that no instance has, sorted by name."""
    found = [
        (host, volume)
        for host, volume in fleet.volumes()
        if volume["instance"] is None and (volume["role"], volume["phase"]) == (OWN, ACTIVE)
    ]
    return sorted(found, key=lambda pair: (pair[1]["name"], pair[1]["project_id"], pair[0]))


def free_lines(found: Sequence[Free]) -> List[str]:
    """A table for people, or nothing if there is no free volume. Times are by the clocks of the hosts."""
    rows = [
        (
            volume["name"],
            volume["project_id"],
            "%d GiB" % volume["size_gb"],
            volume["pool"],
            host,
            volume.get("changed_at") or "-",
        )
        for host, volume in found
    ]
    return ["", *table(FREE, rows, indent="")] if rows else []
