# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health checks that only the host itself can make: gate, confinement, pools, certificates, port, permits, disks,
domains, packets of guests, vGPUs.

They only report. On request they repair four things, never a guest, a disk or a record.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ...model import adopted, snapshots, vm_states
from ...model.errors import BerthError, shortened, worded
from ...model.identity import is_uuid
from ...model.lifecycle import ACTIVE, ALIVE, OWN
from ...model.record import Record
from ...model.safe_text import clean
from .. import paths
from ..connection import require_libvirt
from ..disk import disk_chain, inside, owner, volume_files
from ..disk.differences import ASIDE, found_beside
from ..errors import BootGateMissing, GuestHung, StateUnsafe
from ..guest import disk_users, domain, domains, gate, health, live_differences, packet_path
from ..record import whereabouts
from ..record.volume_store import VolumeStore
from ..run import run
from . import address, as_qemu, certificates, listening, mdev
from .host import Host, check_confinement

CERTIFICATE_WARNING_DAYS = 30
MENDING = 10  # s: libvirt takes seconds for the rules of each guest, and the doctor waits 30 s for a host
MOST_HUNG = 3  # libvirt answers no other call while 5 of one client wait
ERROR, WARNING = "error", "warning"
Finding = Dict[str, Any]


def finding(code: str, severity: str, text: str, uuid: str = "", fixed: bool = False) -> Finding:
    return {"code": code, "severity": severity, "said": text, "uuid": uuid or None, "fixed": fixed}


def _code_of(error: Exception) -> str:
    return error.code if isinstance(error, BerthError) else "CheckFailed"


def look(host: Host, fix: bool = False, pki: str = certificates.PKI, port: int = listening.PORT) -> List[Finding]:
    """Return all findings. A check that fails is a finding itself, and the other checks still run."""
    records = host.store.sound()
    checks: Sequence[Callable[[], Iterator[Finding]]] = (
        lambda: _gate(host),
        lambda: _confinement(host),
        lambda: _pool(host, fix),
        lambda: _certificates(pki),
        lambda: _as_qemu(host, pki),
        lambda: _port(host, pki, port),
        lambda: _permits(host, records, fix),
        lambda: _disks(host, records),
        lambda: _differing_disks(host, records),
        lambda: _used_disks(host, records),
        lambda: _replaced_disks(host, records),
        lambda: _snapshots(host, records),
        lambda: _files_beside(host, records),
        lambda: _volumes(host),
        lambda: _domains(host, records),
        lambda: _packets(host, records, fix),
        lambda: _vgpus(host, records, fix),
        lambda: _hung(host, records),
    )
    found: List[Finding] = []
    for check in checks:
        try:
            found.extend(check())
        except StateUnsafe as error:  # the doctor says what to do
            found.append(finding(error.code, ERROR, worded(error.message, error.rule, None)))
        except (BerthError, OSError, require_libvirt().libvirtError) as error:
            found.append(finding(_code_of(error), ERROR, str(error)))
    return found


def _gate(host: Host) -> Iterator[Finding]:
    try:
        gate.check("this host", host.hook, host.run_dir)
    except BootGateMissing as error:
        yield finding("BootGateMissing", ERROR, error.message.partition(":")[0])
    if gate.is_former(host.hook):
        text = "the boot gate of this host is of an earlier version of berth.kvm (%s)" % host.hook
        yield finding("BootGateOlder", WARNING, text)


def _confinement(host: Host) -> Iterator[Finding]:
    try:
        check_confinement(host.capabilities.security_models, host.settings.security_driver_none_ok)
    except BerthError as error:
        yield finding("GuestsNotConfined", ERROR, error.message)


def _pool(host: Host, fix: bool) -> Iterator[Finding]:
    try:
        host.pool_path()
    except BerthError as error:
        yield finding("PoolMissing", ERROR, error.message)
        return
    pool = host.connection.storagePoolLookupByName(host.settings.pool)
    if not pool.autostart():
        if fix:
            pool.setAutostart(1)
        text = "the storage pool %s does not start with the host" % host.settings.pool
        yield finding("PoolNotAutostarted", WARNING, text, fixed=fix)


def _certificates(pki: str) -> Iterator[Finding]:
    lacking = certificates.missing(pki)
    if lacking:
        yield finding("CertificatesMissing", WARNING, "not there: %s" % ", ".join(lacking))
        return
    for place in certificates.PLACES.values():
        path = os.path.join(pki, place.certificates[0])
        if not certificates.is_good(place, pki):
            yield finding("CertificateEnded", ERROR, "%s has ended, does not count yet, or cannot be read" % path)
        elif _ends_soon(path):
            yield finding("CertificateEndsSoon", WARNING, "%s ends within %d days" % (path, CERTIFICATE_WARNING_DAYS))


def _ends_soon(path: str) -> bool:
    try:
        seconds = CERTIFICATE_WARNING_DAYS * 24 * 3600
        run(["openssl", "x509", "-noout", "-checkend", str(seconds), "-in", path], error=BerthError)
    except BerthError:
        return True
    return False


def _as_qemu(host: Host, pki: str) -> Iterator[Finding]:
    """What keeps QEMU from its certificates and its disks."""
    qemu = as_qemu.user(host.connection.getCapabilities())
    disks = [os.path.join(path, "instances") for path in host.pool_paths()]
    for path in as_qemu.closed(qemu, as_qemu.certificates(pki), [path for path in disks if os.path.isdir(path)]):
        yield finding("ClosedToQemu", ERROR, as_qemu.told(qemu, path))


def _port(host: Host, pki: str, port: int) -> Iterator[Finding]:
    if certificates.missing(pki):
        return
    own = host.settings
    alone = own.migration_address_only and address.of_host(own.migration_address, host.connection.getHostname())
    try:
        socket.create_connection((alone or "localhost", port), timeout=2).close()
    except OSError as error:
        yield finding("PortClosed", WARNING, "libvirt does not listen on port %d for moves: %s" % (port, error))


def _permits(host: Host, records: Sequence[Record], fix: bool) -> Iterator[Finding]:
    known = {record.uuid for record in records}
    for uuid in sorted(filter(is_uuid, paths.entries(os.path.join(host.run_dir, gate.PERMITS)))):
        # An instance made during this check has its record before its permit and its disks.
        if uuid not in known and not host.store.has(uuid):
            if fix and not _without_record(host, uuid, lambda uuid: gate.revoke(uuid, host.run_dir)):
                continue
            yield finding("PermitWithoutRecord", WARNING, "may start here, and has no record here", uuid, fixed=fix)


def _without_record(host: Host, uuid: str, mend: Callable[[str], Any]) -> bool:
    """Run ``mend`` and return true, unless there is a record of the instance by now."""
    with host.store.instance_lock(uuid):
        if host.store.has(uuid):
            return False
        mend(uuid)
        return True


def _disks(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    known = {record.uuid: record for record in records}
    here: Dict[str, str] = {}
    for path in host.pool_paths():
        for uuid in filter(is_uuid, paths.entries(os.path.join(path, "instances"))):
            here[uuid] = path
            if uuid not in known and not host.store.has(uuid) and not owner.is_another(path, uuid, host.settings.uuid):
                yield finding("DisksWithoutRecord", ERROR, "disks in %s" % paths.instance(path, uuid), uuid)
    for record in records:
        if adopted.files(record.spec):
            continue  # its disks are in no directory of berth's
        if _is_at_rest(record) and record.uuid not in here:
            yield from _without_disks(host, record)
        elif _is_at_rest(record) and owner.is_another(here[record.uuid], record.uuid, host.settings.uuid):
            path = paths.instance(here[record.uuid], record.uuid, owner.FILE)
            text = "by %s the disks of %s belong to another host than %s" % (path, record.name, host.settings.uuid)
            yield finding("DisksOfAnotherHost", ERROR, text, record.uuid)
        elif _is_at_rest(record) and not adopted.of(record.spec) and not paths.has_seed(here[record.uuid], record.uuid):
            yield finding("SeedMissing", ERROR, "the seed of %s is gone, so it cannot start" % record.name, record.uuid)


def _without_disks(host: Host, record: Record) -> Iterator[Finding]:
    """Nothing if the host's own pool is gone, which _pool tells: the disks are there again with it."""
    pool, why = record.spec.get("pool"), ""
    try:
        host.pool_of(record)
    except BerthError as error:
        if pool in (None, host.settings.pool):
            return
        why = ": " + error.message
    yield finding("DisksMissing", ERROR, "%s has no disks in a pool of this host%s" % (record.name, why), record.uuid)


def _differing_disks(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    """Files that are gone or were replaced under their guest, and what a move would be refused for."""
    for record in filter(_is_at_rest, records):
        try:
            pool_path = host.pool_of(record)
            if not (adopted.files(record.spec) or os.path.isdir(paths.instance(pool_path, record.uuid))):
                continue  # told by _disks
            differing = disk_chain.found_on(host, record)
            against = disk_chain.against_a_move(host, record, differing)
        except (BerthError, *live_differences.DAMAGED):
            continue  # its pool, or a damaged record, which is reported elsewhere
        volumes = set(volume_files.planned(pool_path, record.spec))
        lost = [each for each in differing if each.kind in disk_chain.AT_ONCE and not volumes.issuperset(each.files)]
        if lost:
            yield finding("DisksMissing", ERROR, _of(record, lost), record.uuid)
        if against:
            yield finding("DisksDiffer", WARNING, "a move would be refused: " + _of(record, against), record.uuid)


def _snapshots(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    """Snapshots that nobody can go back to, while no run is at work on them."""
    for record in filter(_is_at_rest, records):
        for entry in snapshots.of(record.spec) if record.task_state is None else ():
            with contextlib.suppress(
                BerthError, *live_differences.DAMAGED
            ):  # its pool or a damaged record, told elsewhere
                lacking = inside.lacking(host.pool_of(record), record, entry)
                if lacking or not entry["made_at"]:
                    where = "in %s of %s" % (shortened(lacking), record.name) if lacking else "in %s" % record.name
                    text = "it is not whole %s: snapshot %s" % (where, entry["name"])
                    yield finding("SnapshotNotWhole", WARNING, text, record.uuid)


def _of(record: Record, differing: Sequence[disk_chain.Difference]) -> str:
    return "of %s: %s" % (record.name, "; ".join(dict.fromkeys(clean(each.text) for each in differing)))


def _used_disks(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    """Instances whose disks another domain has, such as a copy by virsh edit or virt-clone: both must not run."""
    pools, known = host.pool_paths(), {record.uuid: record.name for record in records}
    places = {uuid: [paths.instance(path, uuid) for path in pools] for uuid in known}
    files = {
        uuid: [os.path.join(place, file) for place in each for file in paths.entries(place)]
        for uuid, each in places.items()
    }
    for record in records:
        files[record.uuid] += adopted.files(record.spec)
    for uuid, users in disk_users.of_each(host.connection, files).items():
        told = disk_users.told_users(uuid, users)
        if told:
            severity = ERROR if disk_users.told_users(uuid, users, only_running=True) else WARNING
            yield finding("DisksUsed", severity, "other domains have disks of %s: %s" % (known[uuid], told), uuid)


def _replaced_disks(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    """What the commands of a DiskChainChanged kept of a disk, see differences.py: it takes room until the instance goes."""
    for record in filter(_is_at_rest, records):
        for place in (paths.instance(path, record.uuid) for path in host.pool_paths()):
            for name in sorted(paths.entries(place)):
                if name.endswith(ASIDE):
                    path = os.path.join(place, name)
                    text = "the file that a disk of %s had before it was brought back is kept: %s" % (record.name, path)
                    yield finding("DiskKept", WARNING, text, record.uuid)


def _files_beside(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    """What a move or a delete would refuse to take away. A file that a domain uses must stay where it is until that domain
    has released it: DisksUsed and DomainDiffers are told of those."""
    places: Dict[Tuple[str, str], List[str]] = {}
    names = {record.uuid: record.name for record in filter(_is_at_rest, records)}
    for record in (record for record in records if record.uuid in names):
        for found in (each for path in host.pool_paths() for each in found_beside(path, record, [record.spec])):
            places.setdefault((record.uuid, os.path.dirname(found.files[0])), []).extend(found.files)
    used = disk_users.files(host.connection) if places else set()
    for (uuid, place), files in places.items():
        unused = [clean(os.path.basename(file)) for file in files if os.path.realpath(file) not in used]
        if unused:
            text = "in %s, beside the disks of %s, and none of them: %s" % (place, names[uuid], shortened(unused))
            yield finding("FilesBeside", WARNING, text, uuid)


def _volumes(host: Host) -> Iterator[Finding]:
    store = VolumeStore.beside(host.store)
    volumes, damaged = store.sound_and_damaged()
    for uuid, error in damaged.items():
        yield finding("VolumeDamaged", ERROR, error.message, uuid)
    for volume in volumes:
        lacking = _is_at_rest(volume) and _lacking(host, volume)
        if lacking and store.read(volume.uuid) is not None:
            yield finding("VolumeFileMissing", ERROR, "the file of volume %s is gone: %s" % (volume.name, lacking))
    known = {volume.uuid for volume in volumes} | set(damaged)
    for pool_path in host.pool_paths():
        for uuid in sorted(filter(is_uuid, paths.entries(os.path.join(pool_path, "volumes")))):
            path = paths.volume_file(pool_path, uuid)
            if (
                uuid not in known
                and os.path.lexists(path)
                and store.read(uuid) is None
                and not owner.is_another(pool_path, uuid, host.settings.uuid, paths.volume)
            ):
                yield finding("VolumeWithoutRecord", ERROR, "a volume that no host has a record of: %s" % path, uuid)


def _lacking(host: Host, volume: Record) -> Optional[str]:
    """Return the path of the volume's missing file, or why its pool cannot be used; None if the file exists."""
    try:
        path = paths.volume_file(host.pool_of(volume), volume.uuid)
    except BerthError as error:
        return error.message
    return None if os.path.lexists(path) else path


def _domains(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    states = domains.states(host.connection)
    for record in records:
        power_state = states[record.uuid][1] if record.uuid in states else None
        if _is_at_rest(record) and power_state is None:
            yield from [_undefined(record)] if vm_states.is_defined(record.vm_state) else []
        elif _is_at_rest(record):
            yield from _unlike_its_record(host, record, power_state)
        elif record.role != OWN and power_state == "running" and record.task_state is None:
            yield finding(
                "RunsWithoutOwner", ERROR, "%s runs here, and this host does not own it" % record.name, record.uuid
            )


def _undefined(record: Record) -> Finding:
    code, said = vm_states.finding_undefined(record.vm_state), "%s is not defined in libvirt" % record.name
    if code:
        return finding(code, ERROR, "%s; %s" % (SAID[code] % record.name, said), record.uuid)
    return finding("DomainMissing", ERROR, said, record.uuid)


def _packets(host: Host, records: Sequence[Record], fix: bool) -> Iterator[Finding]:
    """Running guests whose packets do not go as their records say, by what the kernel has. The facts tell it to other runs."""
    names = {record.uuid: record for record in records if record.role == OWN}
    states = domains.states(host.connection)
    running = [(names[uuid], found) for uuid, (found, power) in states.items() if uuid in names and power == "running"]
    texts = [(record, domain.definitions(found)[0]) for record, found in running]
    wrong, unread = packet_path.differing([(record, live) for record, live in texts if live])
    until = time.monotonic() + MENDING
    for uuid, differences in wrong.items():
        left = _mend_packets(host, uuid) if fix and time.monotonic() < until else differences
        for difference in differences:
            said = "%s, %s: %s" % (names[uuid].name, difference["nic"], difference["said"])
            yield finding(difference["code"], ERROR, said, uuid, fixed=difference not in left)
    if unread:
        raise packet_path.PacketRulesNotRead("; ".join(unread))


def _mend_packets(host: Host, uuid: str) -> List[Dict[str, str]]:
    """Return what is left."""
    with host.store.instance_lock(uuid):
        record = host.store.read(uuid)
        return packet_path.mend_packets(host.connection, record)[1] if record is not None and not record.op else []


SAID = {
    "GuestPaused": "%s is paused, so it does not run",
    "GuestOff": "%s is off, though nobody stopped it with berth.kvm.stop",
    "PausedGuestOff": "%s is paused, and its guest is off",
    "RescuedGuestOff": "%s is rescued, and its guest is off",
    "GuestSaved": "%s is off: its memory was saved to a file with virsh save",
    "SavedMemoryGone": "%s is suspended, and its memory is gone or incomplete",
}


def _unlike_its_record(host: Host, record: Record, power_state: str) -> Iterator[Finding]:
    memory = power_state not in ALIVE and domain.has_memory(host.connection, record.uuid)
    code = vm_states.finding(record.vm_state, power_state, memory)
    if code == "GuestOff" and record.power_state not in ALIVE:
        return  # a stop that was cut off, which is told of anyway
    if code in ("GuestOff", "PausedGuestOff") and domain.is_saved_to_file(host.connection, record.uuid):
        code = "GuestSaved"
    if code:
        yield finding(code, WARNING, SAID[code] % record.name, record.uuid)


def _hung(host: Host, records: Sequence[Record]) -> Iterator[Finding]:
    """One that is silent costs the time of an answer: then no other is asked, or the whole host would answer too late."""
    hung, until = 0, time.monotonic() + health.ANSWER
    for record in filter(_is_at_rest, records):
        try:
            health.check_answers(host.connection, record.uuid, record.name, host.connection.getHostname())
        except GuestHung as error:
            yield finding("GuestHung", ERROR, error.message, record.uuid)
            hung += 1
        if hung == MOST_HUNG or time.monotonic() >= until:
            return


def _vgpus(host: Host, records: Sequence[Record], fix: bool) -> Iterator[Finding]:
    """Mediated devices with berth's uuids, of instances that this host has heard of and has no record of."""
    heard_of = {*whereabouts.heard_of(host.store), *_with_disks(host)} - {record.uuid for record in records}
    for uuid, device, parent in mdev.left_behind(host.connection, sorted(heard_of)):
        # As for permits: an instance made during this check has its record by now.
        if not host.store.has(uuid):
            if fix and not _without_record(host, uuid, lambda uuid: mdev.remove(host.connection, uuid)):
                continue
            text = "its vGPU %s still occupies the GPU %s, although it has no record here" % (device, clean(parent))
            yield finding("VgpuWithoutRecord", WARNING, text, uuid, fixed=fix)


def _with_disks(host: Host) -> Iterator[str]:
    for path in host.pool_paths():
        yield from filter(is_uuid, paths.entries(os.path.join(path, "instances")))


def _is_at_rest(record: Record) -> bool:
    return (record.role, record.phase) == (OWN, ACTIVE)
