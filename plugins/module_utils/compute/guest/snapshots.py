# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of the disks of an instance, if asked with its memory: made while the guest runs or is off, gone back to while it
is off, deleted.

Each is inside the qcow2 file of each disk. A disk that stands on an image is made independent of it first, since only then a
move takes disk and snapshots along as one file. The record names a snapshot, with its room, before anything is done, and says
when it is whole; so the next run finishes one that was killed. Volumes, disks that the guest only reads, and the raw ephemeral
and swap disks, are left out: they are no part of what is gone back to. Those of an adopted instance stand on nothing, or it has
no snapshot.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, List, Sequence, Set
from xml.etree import ElementTree

from ...model import adopted, disk_formats, hints, host_hints, snapshot_hints, snapshots
from ...model.errors import BerthError
from ...model.safe_text import clean
from ...model.vm_states import ACTIVE, CHANGES, said
from .. import paths
from ..disk import disk as disks
from ..disk import disk_chain, inside, layers, virtual_size
from ..disk.inside import MEMORY
from ..errors import MemoryNotRestored, SnapshotFailed, SnapshotIncomplete, SnapshotNotPossible
from ..move import block_jobs
from ..move.merge import merge, unstartable
from ..record import journal, ledger
from . import agent, domain, qemu_nodes, snapshot_memory, startable
from .update_disks import note

SNAPSHOT, REVERT, DELETE = "snapshot", "revert_snapshot", "delete_snapshot"
OFF, FROZEN, RUNNING = "off", "frozen", "running"  # how the guest was when a snapshot was taken
LAST, NOT_RESTORED = ("event", "snapshot", "memory"), "not restored"  # in the history, of a revert


def snapshot(instance, name, memory=False):
    """Make the snapshot unless it is there. Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_snapshot(instance, name, memory):
            return False
        instance.host.require_prepared()
        record = instance.at_rest(SNAPSHOT)
        startable.own_disks(instance.host, record)
        record = _claim(instance, record, name, memory)
        try:
            record = _make(instance, record, name)
        except BerthError as error:
            _give_up(instance, name, error)
            raise
        note(instance, record)
        return True


def would_snapshot(instance, name, memory=False):
    record, host = instance.at_rest(SNAPSHOT), instance.host
    entry = snapshots.find(record.spec, snapshots.check_name(name))
    if entry and entry["made_at"]:
        _check_whole(instance, record, entry)
        if memory and not entry.get("memory"):
            raise SnapshotNotPossible(
                "%s has a snapshot %s, without its memory. Give the new one another name" % (record.name, name)
            )
        return False
    startable.check_owner(host, record)
    startable.check_reverted(record)
    if entry is None:
        snapshots.check_room(record.name, record.spec)
    has = included(host, record)
    memory = _has_memory(entry, memory)
    if memory:
        snapshot_memory.check(instance, record)
    check_alone(host, record, has)
    disk_chain.check_snapshot(host, record)
    _check_no_others_jobs(instance, record)
    with instance.store.host_lock():
        _begun(instance, record, name, memory)
    instance.told = left_out(host, record)
    return True


def after_snapshot(instance, name, memory):
    """What of the summary a snapshot changes."""
    record = instance.store.read(instance.uuid)
    with instance.store.host_lock():
        entry = _begun(instance, record, name, memory)[0]
    return {"snapshots": snapshots.shown(snapshots.with_one(record.spec, entry))}


def revert(instance, name):
    """Make the disks of the guest, which is off, what they were. Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_revert(instance, name):
            return False
        record = instance.at_rest(REVERT)
        startable.own_disks(instance.host, record)
        entry = snapshots.find(record.spec, name)
        is_back, why = _is_back(instance, entry), None
        goes_on = is_back or snapshot_memory.fits(instance, record, entry)
        if is_back:
            domain.start(instance.host.connection, instance.uuid)  # the run that was killed may have left it paused
        else:
            record = _disks_back(instance, record, entry)
            why = snapshot_memory.bring_back(instance, record, entry) if goes_on else None
        now = said(ACTIVE) if goes_on and not why else {}
        details = {"snapshot": name, "made_at": entry["made_at"], **({"memory": NOT_RESTORED} if why else {})}
        record = journal.noted(instance.store.read(instance.uuid), REVERT, **details)
        record = journal.faulted(record, why) if why else record
        at_rest = {part: value for part, value in entry.items() if part != "reverting"}
        instance.swap(record.replace(spec=snapshots.with_one(record.spec, at_rest), task_state=None, **now))
        if why:
            raise MemoryNotRestored(
                "the disks of %s are those of snapshot %s, and libvirt does not bring its memory back: %s"
                % (record.name, name, why),
                hint=hints.start_it(record.name),
            )
        return True


def _disks_back(instance, record, entry):
    spec = snapshots.with_one(record.spec, dict(entry, reverting=True))
    record = instance.swap(record.replace(spec=spec, task_state=CHANGES[REVERT].task))
    for path in _files(instance, record, entry["disks"]):
        instance.observe("revert disk")
        inside.go_back(path, snapshots.tag(entry["name"]))
    instance.observe("reverted")
    return record


def would_revert(instance, name):
    """A guest that nothing was done to since an earlier revert to it is where it should be, unless libvirt did not bring its memory
    back: that is tried again."""
    record = instance.store.read(instance.uuid)
    last = record.history[-1] if record and record.history else {}
    if record and record.task_state is None and [last.get(part) for part in LAST] == [REVERT, name, None]:
        return False
    record = instance.at_rest(REVERT)
    entry = snapshots.need(record.name, record.spec, snapshots.check_name(name))
    if snapshots.reverting(record.spec) not in (None, name):
        startable.check_reverted(record)
    _check_whole(instance, record, entry, [MEMORY])
    if _is_back(instance, entry):
        return True
    if domain.is_active(instance.host.connection, instance.uuid):
        raise SnapshotFailed(
            "%s is stopped by its record, and its guest runs" % record.name,
            hint=snapshot_hints.stop_first(record.name),
        )
    startable.check_owner(instance.host, record)
    disk_chain.check_unsaved(instance.host, record)
    disk_chain.check(instance.host, record)
    if entry.get("memory"):
        _check_goes_on(instance, record, entry)
    return True


def _is_back(instance, entry):
    """Whether a run that was killed has brought the guest back with its memory."""
    begun = entry.get("memory") and entry.get("reverting")
    return bool(begun) and domain.is_active(instance.host.connection, instance.uuid)


def _check_goes_on(instance, record, entry):
    """Check that the guest could start here, or say why its memory is of no use."""
    why = snapshot_memory.misfit(instance, record, entry)
    if why:
        instance.told = [
            "the memory of snapshot %s %s. So the next start boots it from the disks" % (entry["name"], why)
        ]
    else:
        instance.host.require_prepared()
        spec = snapshots.with_one(record.spec, dict(entry, reverting=False))
        startable.check(instance.host, record.replace(spec=spec))


def after_revert(instance, name):
    """What of the summary a revert changes."""
    record = instance.store.read(instance.uuid)
    goes_on = snapshot_memory.fits(instance, record, snapshots.find(record.spec, name))
    return {"state": "running"} if goes_on else {}


def delete(instance, name):
    """Delete the snapshot from all disks and give its room back. Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_delete(instance, name):
            return False
        record = instance.at_rest(DELETE)
        startable.own_disks(instance.host, record)
        entry = snapshots.find(record.spec, name)
        spec = snapshots.with_one(record.spec, dict(entry, made_at=None)) if entry else record.spec
        record = instance.swap(record.replace(spec=spec, task_state=CHANGES[DELETE].task))
        _stand_alone(instance, record, None, only_begun=True)
        _delete_from_disks(instance, record, name)
        instance.observe("snapshot deleted")
        record = journal.noted(forgotten(record, name), DELETE, snapshot=name)
        note(instance, instance.swap(record.replace(task_state=None)))
        return True


def would_delete(instance, name):
    """One that is on a disk alone is deleted, too: the record may be from a backup."""
    record = instance.at_rest(DELETE)
    startable.check_owner(instance.host, record)
    startable.check_reverted(record)
    tag = snapshots.tag(snapshots.check_name(name))
    there = any(tag in layers.snapshots_in(path) for path in _files(instance, record))
    there |= os.path.lexists(snapshot_memory.path(instance, record, name))
    if there or snapshots.find(record.spec, name):
        _check_no_others_jobs(instance, record)
        return True
    return False


def _check_no_others_jobs(instance, record):
    connection = instance.host.connection
    block_jobs.check_no_others_jobs(connection, record, connection.getHostname(), "none of its snapshots is touched")


def _check_whole(instance, record, entry, needless=()):
    """``needless``: what of it may be gone."""
    found = inside.lacking(instance.host.pool_of(record), record, entry)
    lacking = [name for name in found if name not in needless]
    if lacking or not entry["made_at"]:
        raise SnapshotIncomplete(
            "snapshot %s of %s is not whole%s"
            % (entry["name"], record.name, ": it is not in %s" % ", ".join(lacking) if lacking else ""),
            hint=snapshot_hints.delete_rest(record.name, entry["name"]),
        )


def _files(instance, record, names=None):
    """Return the paths of the disks of these names, by default of all that can have a snapshot."""
    pool_path = instance.host.pool_of(record)
    found = {disk.name: disk for disk in disks.plan(record.spec) if disk.format == "qcow2"}
    wanted = found if names is None else names
    return [paths.instance(pool_path, record.uuid, found[each].file) for each in wanted if each in found]


def _has_memory(entry, asked):
    """Whether the snapshot gets the memory: one that was begun with it is finished with it."""
    return bool(asked or entry and entry.get("memory"))


def _claim(instance, record, name, memory):
    """Write the record that names the snapshot and has its room."""
    with instance.store.host_lock():
        entry, more = _begun(instance, record, name, memory)
        resources = ledger.with_more(record.resources, more) if more else record.resources
        spec = snapshots.with_one(record.spec, entry)
        instance.observe("snapshot record")
        return instance.swap(record.replace(spec=spec, resources=resources, task_state=CHANGES[SNAPSHOT].task))


def _begun(instance, record, name, memory):
    """Return (its entry until it is made, the room to claim for it). The caller holds the host's lock."""
    entry = snapshots.find(record.spec, name)
    names = [disk.name for disk in included(instance.host, record)]
    memory, had = _has_memory(entry, memory), (entry or {}).get("size_gb", 0)
    files = _files(instance, record, names)
    size_gb = sum(-(-virtual_size.read(path, "qcow2")[0] // disks.GIB) for path in files)
    size_gb += snapshots.memory_gb(record.spec) if memory else 0
    more = ledger.allocate(instance.host, record, size_gb - had) if size_gb > had else None
    begun = {"name": name, "made_at": None, "taken": None, "size_gb": max(size_gb, had), "disks": names}
    return {**begun, **({"memory": True} if memory else {})}, more


def _make(instance, record, name):
    _stand_alone(instance, record, snapshots.find(record.spec, name)["disks"])
    _delete_from_disks(instance, record, name)  # of a run that was killed: it may be of another moment
    instance.observe("snapshot take")
    taken = _take(instance, record, name)
    instance.observe("snapshot taken")
    entry = dict(snapshots.find(record.spec, name), made_at=journal.now(), taken=taken)
    record = journal.noted(record, SNAPSHOT, snapshot=name, taken=taken)
    return instance.swap(record.replace(spec=snapshots.with_one(record.spec, entry), task_state=None))


def _take(instance, record, name):
    """Make it on all disks at one moment. Return how the guest was."""
    entry = snapshots.find(record.spec, name)
    files, tag = _files(instance, record, entry["disks"]), snapshots.tag(name)
    guest = _running(instance)
    if entry.get("memory"):
        snapshot_memory.take(instance, record, guest, files, name)
        return RUNNING
    if guest is None:
        for path in files:
            inside.make(path, tag)
        return OFF
    with agent.frozen(guest) as frozen:
        qemu_nodes.snapshot(guest, files, tag)
    return FROZEN if frozen else RUNNING


def _stand_alone(instance, record, names, only_begun=False):
    """Make the root disk, which is among ``names``, independent of its image, while the guest runs or is off, or finish that.
    Nobody starts it until it is whole."""
    pool_path, image = instance.host.pool_of(record), record.spec.get("image") or {}
    for path in _files(instance, record, names):
        merging, below = paths.merging_file(path), layers.read_header(path).backing
        if os.path.lexists(merging) or below and not only_begun:
            instance.observe("snapshot stands alone")
            below = below or paths.image(pool_path, image["checksum"])
            with unstartable(instance.host.connection, record.uuid):
                merge(
                    instance.host.connection, record, path, below, disk_formats.in_cache(image["disk_format"]), merging
                )
                paths.remove(merging)


def _delete_from_disks(instance, record, name):
    snapshot_memory.let_go_on(instance, record)
    tag, guest = snapshots.tag(name), _running(instance)
    paths.remove(snapshot_memory.path(instance, record, name))
    for path in _files(instance, record):
        if tag in layers.snapshots_in(path):
            instance.observe("snapshot delete")
            if guest is None:
                inside.delete(path, tag)
            else:
                qemu_nodes.delete_snapshot(guest, path, tag)


def _running(instance):
    return domain.find_active(instance.host.connection, instance.uuid)


def forgotten(record, name):
    """Return the record without the snapshot and its room."""
    entry = snapshots.find(record.spec, name)
    if entry is None:
        return record
    left = ledger.less_disk(record.resources, entry["size_gb"])
    return record.replace(spec=snapshots.without(record.spec, name), resources=left)


def _give_up(instance, name, error):
    """Undo a snapshot that failed. What cannot be undone stays in the record, for the next run."""
    if host_hints.FULL in error.message and not error.hint:
        error.hint = host_hints.make_room_in_pool(instance.host.pool_of(instance.store.read(instance.uuid)))
    record = journal.faulted(instance.store.read(instance.uuid), error)
    with contextlib.suppress(BerthError):
        if not any(os.path.lexists(paths.merging_file(path)) for path in _files(instance, record)):
            _delete_from_disks(instance, record, name)
            record = forgotten(record, name)
    instance.swap(record.replace(task_state=None))


def included(host: Any, record: Any) -> List[Any]:
    """Return the disks that a snapshot has. Raise SnapshotNotPossible."""
    found = [disk for disk in disks.plan(record.spec) if disk.name == "root" or disk.kind in (disks.DATA, disks.FOUND)]
    only_read = _only_read(host, record)
    written = [disk for disk in found if disk.name not in only_read]
    raw = [disk.name for disk in written if disk.format != "qcow2"]
    if raw or not written:
        none = "its guest only reads its disks" if found else "it has volumes alone, of which no snapshot is made"
        why = "its disk %s is raw" % raw[0] if raw else none
        raise SnapshotNotPossible("%s can have no snapshot: %s" % (record.name, why))
    return written


def left_out(host: Any, record: Any) -> List[str]:
    """Return in words what a snapshot leaves out beside drives, volumes and the flavor's own disks."""
    only_read = _only_read(host, record)
    said = [each for each in adopted.disks(record.spec) if each["target"] in only_read]
    return [
        "its disk %s (%s) is left out: its guest only reads it" % (clean(each["target"], 50), clean(each["path"], 1000))
        for each in said
    ]


def _only_read(host: Any, record: Any) -> Set[str]:
    """Return the targets of the disks of an adopted instance to which its guest can write neither now nor after its next start."""
    found = adopted.of(record.spec)
    if not found:
        return set()
    guest = domain.find(host.connection, record.uuid)
    texts = [text for text in domain.definitions(guest) if text] if guest is not None else [found["definition"]]
    return set.intersection(*(_marked(ElementTree.fromstring(text)) for text in texts))


def _marked(root: ElementTree.Element) -> Set[str]:
    elements = [each for each in root.iterfind("devices/disk") if each.find("readonly") is not None]
    return {str(target.get("dev")) for each in elements for target in each.iterfind("target")}


def check_alone(host: Any, record: Any, found: Sequence[Any]) -> None:
    """Raise SnapshotNotPossible for disks of an adopted instance that stand on another file, of which no record says what it is."""
    pool_path = host.pool_of(record)
    files = {disk.name: paths.instance(pool_path, record.uuid, disk.file) for disk in found if disk.kind == disks.FOUND}
    below = {name: layers.read_header(path).backing for name, path in files.items()}
    on = ["its disk %s stands on %s" % (name, clean(path, 1000)) for name, path in below.items() if path]
    if on:
        running = ["virsh blockpull %s %s --wait" % (record.uuid, name) for name in files if below[name]]
        off = [layers.pull(files[name]) for name in files if below[name]]
        raise SnapshotNotPossible(
            "%s can have no snapshot: %s" % (record.name, ", ".join(on)),
            hint=snapshot_hints.make_independent(host.connection.getHostname(), running, off),
        )
