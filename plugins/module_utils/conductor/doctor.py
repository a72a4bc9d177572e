# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong in the fleet: what each host found by itself, and what only a comparison of their answers shows.

Each finding has a stable code and says what to do. Nothing else acts on the findings, and no rule depends on a clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import textwrap
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..model import (
    copy_hints,
    cpu_models,
    disk_hints,
    fleet_hints,
    hints,
    host_hints,
    operation_hints,
    packet_hints,
    pools,
    snapshot_hints,
    state_hints,
    volume_hints,
)
from ..model import line as line_kinds
from ..model.errors import InvalidInput, shortened
from ..model.host_hints import NO_BRIDGE
from ..model.identity import project_of
from ..model.lifecycle import ACTIVE, CLAIM, OWN
from ..model.line import described
from ..model.messages import Document
from ..placement.text import table
from . import addressing, bridges, copies, drift, majority, own_uuids, silence, unconfirmed, unlisted, volume_hosts
from .fleet import Fleet, Place
from .locate import left_of_ended_move, stray_hint, to_end

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)
KINDS = {ERROR: line_kinds.FAILED, WARNING: line_kinds.WARNING}
MOST_OFF = 60  # seconds that a host's clock may differ from the controller's
WIDTH = 80


@dataclasses.dataclass(frozen=True)
class Finding:
    """``where`` is a host, ``instance`` a name, or a uuid if no name is known; both may be empty."""

    code: str
    severity: str
    where: str
    said: str
    todo: str
    instance: str = ""
    fixed: bool = False

    def to_dict(self) -> Document:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Case:
    """What is examined. ``checkups``: host -> its findings about itself; ``in_inventory``: uuid -> name of the
    inventory's instances; ``inventory``: the names of the KVM hosts; ``asked``: when the controller asked the hosts
    and had the answers; ``wished_nics``: uuid -> the NICs of the inventory's request, for instances with NICs that have
    no packet filter."""

    fleet: Fleet
    checkups: Mapping[str, Document]
    in_inventory: Mapping[str, str]
    inventory: Sequence[str]
    asked: Tuple[float, float]
    wished_nics: Mapping[str, Sequence[Document]] = dataclasses.field(default_factory=dict)

    def name(self, uuid: str) -> str:
        places = self.fleet.places.get(uuid, ())
        return self.in_inventory.get(uuid) or (places[0]["name"] if places else uuid)

    def selecting(self, uuid: str, text: str) -> str:
        """The text, whose commands select the instance as it can be selected."""
        places = self.fleet.places.get(uuid)
        if uuid in self.in_inventory or not places:
            return text
        return unlisted.selected(
            text, {places[0]["name"]: unlisted.selection(uuid, places[0], self.in_inventory.values())}
        )


# What to do about a host's findings about itself, given the host, the instance and what the host said. Any other code
# means a check that could not be made.
TODO: Dict[str, Callable[[str, str, str], str]] = {
    "BootGateMissing": lambda host, name, said: host_hints.prepare_host(host),
    "BootGateOlder": lambda host, name, said: host_hints.prepare_host(host),
    "GuestsNotConfined": lambda host, name, said: host_hints.confine_guests(),
    "PoolMissing": lambda host, name, said: host_hints.prepare_host(host),
    "PoolNotAutostarted": lambda host, name, said: host_hints.doctor_fixes(),
    "CertificatesMissing": lambda host, name, said: host_hints.prepare_host(host),
    "CertificateEnded": lambda host, name, said: host_hints.prepare_host(host),
    "CertificateEndsSoon": lambda host, name, said: host_hints.prepare_host(host),
    "ClosedToQemu": lambda host, name, said: host_hints.prepare_host(host),
    "PortClosed": lambda host, name, said: host_hints.prepare_host(host),
    "PermitWithoutRecord": lambda host, name, said: host_hints.doctor_fixes(),
    "VgpuWithoutRecord": lambda host, name, said: host_hints.doctor_fixes(),
    "DisksWithoutRecord": lambda host, name, said: hints.disks_without_record(said.rpartition(" ")[2]),
    "DisksUsed": lambda host, name, said: state_hints.undefine_users_of_disks(host),
    "DiskKept": lambda host, name, said: disk_hints.remove_kept(host, said.rpartition(": ")[2]),
    "FilesBeside": lambda host, name, said: disk_hints.take_files_away(host),
    "DisksOfAnotherHost": lambda host, name, said: state_hints.own_restored(
        said.partition(" the disks of ")[0][len("by ") :], said.rpartition(" ")[2], host
    ),
    "DisksMissing": lambda host, name, said: disk_hints.bring_files_back(host, name),
    "DisksDiffer": lambda host, name, said: disk_hints.undo_before_a_move(name),
    "SnapshotNotWhole": lambda host, name, said: snapshot_hints.delete_rest(name, said.rpartition(" ")[2]),
    "SeedMissing": lambda host, name, said: state_hints.make_seed_anew(name),
    "VolumeFileMissing": lambda host, name, said: volume_hints.mount_or_restore_volume(host),
    "VolumeDamaged": lambda host, name, said: state_hints.restore_damaged_volume(name),
    "VolumeWithoutRecord": lambda host, name, said: volume_hints.restore_volume_record(name),
    "NicNotConnected": lambda host, name, said: packet_hints.packets_of_guest(name),
    "PacketFilterNotInForce": lambda host, name, said: packet_hints.packets_of_guest(name),
    "PacketsDropped": lambda host, name, said: packet_hints.let_packets_pass(),
    "DomainMissing": lambda host, name, said: hints.start_it(name),
    "GuestPaused": lambda host, name, said: hints.let_go_on(name),
    "GuestHung": lambda host, name, said: hints.hung_guest(name),
    "GuestOff": lambda host, name, said: fleet_hints.recover_or_start(name),
    "PausedGuestOff": lambda host, name, said: hints.make_active(name, "unpause"),
    "RescuedGuestOff": lambda host, name, said: operation_hints.rescued_and_off(name),
    "GuestSaved": lambda host, name, said: disk_hints.restore_or_boot(name),
    "SavedMemoryGone": lambda host, name, said: hints.boot_without_memory(name),
    "RunsWithoutOwner": lambda host, name, said: copy_hints.find_the_right_copy(name, [host, "its owner"]),
    "StateUnsafe": lambda host, name, said: state_hints.close_to_others(host),
}


def examine(case: Case, of_registry: Iterable[Finding] = ()) -> List[Finding]:
    """All findings, the worst first. ``of_registry``: see registry/doctor.py."""
    found = [
        *of_registry,
        *_silent(case),
        *_members(case),
        *_of_hosts(case),
        *_clocks(case),
        *_left(case),
        *_strays(case),
        *_instances(case),
        *_not_built(case),
        *_unlisted(case),
        *_missing(case),
        *_same_addresses(case),
        *_duplicate_volumes(case),
        *_free_volumes(case),
        *_full_pools(case),
        *_overpromised_pools(case),
        *_different_cpus(case),
        *_different_bridges(case),
        *_failed_builds(case),
    ]
    return sorted(
        found, key=lambda finding: (SEVERITIES.index(finding.severity), finding.where, finding.code, finding.instance)
    )


def counted(findings: Sequence[Finding]) -> Dict[str, int]:
    """The number of findings of each severity, without the repaired ones. The playbook fails if one is an error."""
    return {
        severity: sum(found.severity == severity and not found.fixed for found in findings) for severity in SEVERITIES
    }


def lines(findings: Sequence[Finding]) -> List[str]:
    """A table of 80 columns for people; below each row what was found and what to do."""
    if not findings:
        return ["Nothing was found."]
    rows = [[finding.severity, finding.where or "-", finding.instance or "-", finding.code] for finding in findings]
    head, *rest = table(("SEVERITY", "HOST", "INSTANCE", "CODE"), rows, indent="")
    shown = [head]
    for line, found in zip(rest, findings):
        text = found.said + ("" if not found.fixed else " (repaired)")
        kind = line_kinds.CHANGED if found.fixed else KINDS.get(found.severity, "")
        shown += [
            *line_kinds.marked(kind, [line]),
            *_wrapped(text),
            *([] if found.fixed else _wrapped("-> " + found.todo)),
        ]
    return shown


def _wrapped(text: str) -> List[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _silent(case: Case) -> Iterator[Finding]:
    for host, reason in case.fleet.verdicts.items():
        yield Finding("HostLeftOut", ERROR, host, reason, silence.hint([host], case.fleet.verdicts))
    for host in case.fleet.unprepared():
        yield Finding(
            "HostNotPrepared", ERROR, host, "not prepared: it gets no instances", host_hints.prepare_host(host)
        )


def _members(case: Case) -> Iterator[Finding]:
    """Hosts that do not count when a new instance needs the answers of more than half of them."""
    prepared = set(case.fleet.documents) - set(case.fleet.unprepared())
    members = majority.agreed(case.fleet.member_lists)
    left = [host for host in sorted(prepared) if (members.get(case.fleet.uuids()[host]) or {}).get("name") is None]
    if left and len(prepared) >= majority.FEWEST:
        said = "the hosts have not agreed that %s belong to the fleet: two parts of a divided network could each make a new instance"
        yield Finding("MembersUnknown", WARNING, "", said % shortened(left), fleet_hints.join_the_fleet())


def _of_hosts(case: Case) -> Iterator[Finding]:
    for host, checkup in case.checkups.items():
        for finding in checkup["findings"]:
            if finding["code"] == "VolumeWithoutRecord" and _may_be_known(case, finding["uuid"]):
                continue
            if finding["code"] == "DisksWithoutRecord" and _has_guest(case, host, finding["uuid"]):
                continue  # DomainWithoutRecord says what to do: nobody may move the disks of that guest away
            name = case.name(finding["uuid"]) if finding["uuid"] else ""
            todo = TODO.get(finding["code"], lambda host, name, said: host_hints.check_again(host))(
                host, name, finding["said"]
            )
            gone = _bridge_gone(finding)
            todo = fleet_hints.make_bridge(gone, host) if gone else todo
            todo = case.selecting(finding["uuid"], todo)
            yield Finding(finding["code"], finding["severity"], host, finding["said"], todo, name, finding["fixed"])


def _bridge_gone(finding: Document) -> Optional[str]:
    """The bridge on which a tap should be, if the host has it no more: then nothing repairs the tap before it is made."""
    said = str(finding["said"])
    return said.removesuffix(NO_BRIDGE).rpartition(", not on ")[2] if said.endswith(NO_BRIDGE) else None


def _may_be_known(case: Case, uuid: str) -> bool:
    """Whether another host with the same storage has the record of a volume, or may have it."""
    return bool(case.fleet.verdicts) or uuid in [volume["uuid"] for _host, volume in case.fleet.volumes()]


def _has_guest(case: Case, host: str, uuid: str) -> bool:
    return any(stray["host"] == host and stray["managed"] for stray in case.fleet.strays.get(uuid, ()))


def _free_volumes(case: Case) -> Iterator[Finding]:
    twice = _owned_twice(case)
    for host, volume in volume_hosts.free_volumes(case.fleet):
        if volume["uuid"] in twice:
            continue  # it can be neither used nor deleted before somebody has said which is right
        since = " since %s" % volume["changed_at"] if volume.get("changed_at") else ""
        text = "no instance has volume %s of %d GiB in pool %s%s" % (
            volume["name"],
            volume["size_gb"],
            volume["pool"],
            since,
        )
        yield Finding(
            "VolumeFree", NOTE, host, text, volume_hints.use_or_delete_volume(volume["name"], volume["project_id"])
        )


def _same_addresses(case: Case) -> Iterator[Finding]:
    """For example after somebody restored an old state directory or cloned a guest. Runs look after their own claims."""
    own = {uuid: case.name(uuid) for uuid in case.fleet.places}

    def named(told: Document) -> Document:
        name = own.get(told["uuid"], "guest %s without a record" % told["uuid"])
        return {"uuid": told["uuid"], "name": name, "nics": told.get("nics")}

    held = addressing.addresses(
        {
            host: [named(told) for told in document["instances"] if told.get("role") != CLAIM]
            for host, document in case.fleet.documents.items()
        }
    )
    shared: Dict[Tuple[str, ...], List[str]] = {}
    for address, owners in held.items():
        if len(owners) > 1 and owners.keys() & own.keys():
            shared.setdefault(tuple(sorted(owners)), []).append(address)
    for uuids, addresses in shared.items():
        names = sorted(own[uuid] for uuid in uuids if uuid in own)
        text = "%s each have %s" % (" and ".join(sorted(held[addresses[0]].values())), ", ".join(sorted(addresses)))
        [first] = [uuid for uuid in uuids if own.get(uuid) == names[0]][:1]
        todo = case.selecting(first, fleet_hints.same_address(names))
        yield Finding("AddressTaken", ERROR, "", text, todo, names[0])


def _duplicate_volumes(case: Case) -> Iterator[Finding]:
    for found in _owned_twice(case).values():
        error = volume_hosts.duplicate(found[0][1]["name"], found)
        yield Finding("VolumeDuplicate", ERROR, "", error.message, error.hint or "")


def _owned_twice(case: Case) -> Dict[str, volume_hosts.Found]:
    """uuid -> the hosts that have that volume, of those that several have. What a run is making it looks after itself."""
    held: Dict[str, volume_hosts.Found] = {}
    for host, volume in case.fleet.volumes():
        if (volume["role"], volume["phase"]) == (OWN, ACTIVE):
            held.setdefault(volume["uuid"], []).append((host, volume))
    return {uuid: found for uuid, found in held.items() if len(found) > 1}


def _full_pools(case: Case) -> Iterator[Finding]:
    """Placement counts what was promised, as Nova does, so it goes on to choose a host whose disk others have filled."""
    for host, document in case.fleet.documents.items():
        for name, pool in sorted((document.get("pools") or {}).items()):
            if pool["free_gb"] < 1 and (pool["promised_gb"] or name == document.get("pool")):
                text = "less than 1 GiB is free in pool %s of %d GiB (%s), of which %d are promised to instances" % (
                    name,
                    pool["capacity_gb"],
                    pool["path"],
                    pool["promised_gb"],
                ) + pools.images(pool)
                yield Finding("PoolFull", WARNING, host, text, host_hints.make_room_in_pool(pool["path"] or name))


def _overpromised_pools(case: Case) -> Iterator[Finding]:
    for host, document in case.fleet.documents.items():
        for name, text in pools.overpromised(document):
            path = document["pools"][name]["path"] or name
            yield Finding("PoolOverpromised", WARNING, host, text, host_hints.make_room_in_pool(path))


def _different_bridges(case: Case) -> Iterator[Finding]:
    for what, text in bridges.differing(case.fleet.documents):
        if what == bridges.MTU:
            yield Finding("BridgesDiffer", WARNING, "", text, packet_hints.one_mtu())
        else:
            yield Finding("BridgesDiffer", NOTE, "", text, packet_hints.one_network())


OF_ONE_KIND = (
    "Move guests live only between hosts with CPUs of one kind: give those an aggregate or an availability zone"
)


def _different_cpus(case: Case) -> Iterator[Finding]:
    """Hosts whose guests have different CPUs: not all of them can be moved live. Named once, with the model to set."""
    cpus = {host: document["guest_cpu"] for host, document in case.fleet.documents.items() if "guest_cpu" in document}
    usable = [set(cpu["usable"]) for cpu in cpus.values()]
    models = {cpu["model"] for cpu in cpus.values()}
    if all(each == usable[0] for each in usable) or (len(models) == 1 and None not in models):
        return
    best = cpu_models.best_common(usable)
    text = "the CPU models of %s differ" % ", ".join(sorted(cpus))
    if best is None:
        yield Finding("CpusDiffer", NOTE, "", text + ", and no known one can be had on all of them", OF_ONE_KIND)
    else:
        text += "; the newest that all %d hosts can run is %s" % (len(cpus), best)
        yield Finding("CpusDiffer", NOTE, "", text, host_hints.name_cpu_model(best))


def _failed_builds(case: Case) -> Iterator[Finding]:
    for host, document in case.fleet.documents.items():
        text = described(document)
        if text:
            text += ": placement prefers other hosts (BuildFailureWeigher)"
            yield Finding("HostAvoided", WARNING, host, text, fleet_hints.forget_failed_builds(host))


def _clocks(case: Case) -> Iterator[Finding]:
    began, ended = case.asked
    for host, checkup in case.checkups.items():
        off = max(began - checkup["clock"], checkup["clock"] - ended, 0)
        if off > MOST_OFF:
            text = "its clock is %d s off the controller's" % off
            yield Finding("ClockDiffers", WARNING, host, text, host_hints.set_clock(host))


def _left(case: Case) -> Iterator[Finding]:
    """Hosts that are no longer in the inventory but hold instances, as other hosts remember, and hosts under whose names
    another machine answers now."""
    known, answers = set(case.fleet.uuids().values()) | set(case.fleet.faults), case.fleet.answers()
    held: Dict[Tuple[str, str], List[str]] = {}
    for uuid in sorted({uuid for notes in case.fleet.notes.values() for uuid in notes}):
        owner = case.fleet.notes_on(uuid).known
        if owner and owner.host_uuid not in known and (owner.host not in case.inventory or answers.is_replaced(owner)):
            if not any(place["role"] == OWN for place in case.fleet.places.get(uuid, ())):
                held.setdefault((owner.host, owner.host_uuid), []).append(case.name(uuid))
    for (host, host_uuid), names in held.items():
        if host in case.inventory:
            text = "another machine answers here than the one that had %s (it was host %s)" % (
                ", ".join(sorted(names)),
                host_uuid,
            )
            yield Finding(
                "HostReplaced", ERROR, host, text, fleet_hints.replaced(host, host_uuid, sorted(case.fleet.verdicts))
            )
        else:
            text = "it is not in the inventory any more, and holds %s" % ", ".join(sorted(names))
            yield Finding(
                "HostLeftInventory", ERROR, host, text, fleet_hints.unlisted(host, sorted(case.fleet.verdicts))
            )


def _strays(case: Case) -> Iterator[Finding]:
    for uuid, strays in case.fleet.strays.items():
        for stray in strays:
            if stray["managed"]:
                name, host = case.in_inventory.get(uuid, uuid), stray["host"]  # anybody may have named it anything
                text = stray.get("damaged") or "libvirt has a guest of berth that has no record"
                hint = stray_hint(case.fleet, name, uuid, stray)
                if stray.get("damaged"):
                    yield Finding("RecordInvalid", ERROR, host, text, hint, name)
                else:
                    yield Finding("DomainWithoutRecord", ERROR, host, text, hint, name)


def _instances(case: Case) -> Iterator[Finding]:
    for uuid in case.fleet.places:
        for found in _of_instance(case, uuid):
            yield dataclasses.replace(found, todo=case.selecting(uuid, found.todo))


def _of_instance(case: Case, uuid: str) -> Iterator[Finding]:
    name, places = case.name(uuid), case.fleet.places[uuid]
    owners = sorted(place["host"] for place in places if place["role"] == OWN)
    if len(owners) > 1:
        left = left_of_ended_move(name, uuid, places)  # keep_one would refuse the copy that is in that move
        each = copies.of([place for place in places if place["role"] == OWN])
        text = left.message if left else "owned by %s" % copies.told(each)
        todo = left.hint if left else copy_hints.find_the_right_copy(name, owners)
        yield Finding("DuplicateInstance", ERROR, "", text, todo or "", name)
        return
    if uuid in case.in_inventory:
        yield from _renamed(name, uuid, places)
    changing = [place for place in places if place["task_state"]]
    # in a move that waits for confirmation, the other side keeps the task_state in which it let go
    waits = unconfirmed.place_among(places)
    if changing and not waits:
        place = changing[0]
        text = "it is in task_state %s" % place["task_state"]
        yield Finding("ChangeNotEnded", WARNING, place["host"], text, to_end(place, name), name)
    elif waits:
        text, todo = "it " + unconfirmed.waits(waits["phase"]), unconfirmed.to_end(waits, name)
        yield Finding("NotConfirmed", NOTE, "".join(owners), text, todo, name)
    yield from _by_hand(places, name)
    yield from _unfiltered(places, case.wished_nics.get(uuid, ()), name)


def _renamed(name: str, uuid: str, places: Sequence[Place]) -> Iterator[Finding]:
    with contextlib.suppress(InvalidInput):  # a project that no inventory can have
        try:
            own_uuids.check_name(name, project_of({"berth_project": places[0]["project_id"]}), uuid, places)
        except own_uuids.InstanceRenamed as error:
            yield Finding("InstanceRenamed", WARNING, "", error.message, error.hint or "", name)


def _not_built(case: Case) -> Iterator[Finding]:
    """What no host has had. A host that was silent while another one built the instance keeps its note until a create tells it."""
    for host, failure in case.fleet.failures():
        uuid, listed = failure["uuid"], failure["uuid"] in case.in_inventory
        if not _was_built(case.fleet, uuid):
            name = case.in_inventory.get(uuid) or failure["name"]
            forget = fleet_hints.forget_unlisted_build(host, name, uuid, failure["project_id"])
            todo = hints.create_or_delete(name) if listed else forget
            text = "it could not be built: %(code)s: %(message)s" % failure
            yield Finding("BuildFailed", WARNING, host, text, todo, name)


def _was_built(fleet: Fleet, uuid: str) -> bool:
    """Also where its record is lost: a delete would remove its guest and its disks."""
    return uuid in fleet.places or uuid in fleet.strays or fleet.notes_on(uuid).known is not None


def _by_hand(places: Sequence[Place], name: str) -> Iterator[Finding]:
    for place in places:
        text = drift.by_hand(place["domain_differs"])
        if text:
            todo = "It is " + drift.repaired(name, place["domain_differs"])
            yield Finding("DomainDiffers", WARNING, place["host"], "changed in libvirt: " + text, todo, name)


def _unfiltered(places: Sequence[Place], wanted: Sequence[Document], name: str) -> Iterator[Finding]:
    for place in places:
        lacking = drift.lack_and_hint(name, place["unfiltered"] or (), wanted)
        if lacking:
            yield Finding("PacketFilterMissing", WARNING, place["host"], lacking[0], lacking[1], name)


def _unlisted(case: Case) -> Iterator[Finding]:
    held: Dict[str, List[str]] = {}
    for _uuid, place in unlisted.unlisted(case.fleet, case.in_inventory):
        held.setdefault(place["host"], []).append(place["name"])
    for host, names in held.items():
        text = "it has %s" % unlisted.told(names)
        yield Finding("InstancesNotInInventory", NOTE, host, text, fleet_hints.list_again())


def _missing(case: Case) -> Iterator[Finding]:
    """Instances of the inventory that no host has, if all hosts answered."""
    if case.fleet.verdicts:
        return
    names = case.fleet.answers().names
    not_built = {failure["uuid"] for _host, failure in case.fleet.failures()}  # BuildFailed tells more
    for uuid, name in case.in_inventory.items():
        if uuid in case.fleet.places or uuid in case.fleet.strays:
            continue
        known = case.fleet.notes_on(uuid).known
        host = names.get(known.host_uuid) if known else None
        if host:
            text = "this host held it, but has a record neither of it nor of its removal"
            yield Finding("RecordMissing", ERROR, host, text, state_hints.restore_record_or_delete(name, host), name)
        elif not known and uuid not in not_built:
            yield Finding(
                "InstanceMissing", NOTE, "", "it is in the inventory and on no host", hints.create_it(name), name
            )
