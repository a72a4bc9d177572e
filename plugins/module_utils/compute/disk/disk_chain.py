# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a guest's disks, by libvirt and the files' own headers, are those that its record names, and whether its
memory was saved beside them (virsh managedsave), which forbids a move, or to a file (virsh save), which forbids a start.

After a backup program's snapshot, or if a disk was attached or copied elsewhere, the newest data is not where the
record says, and using the record's names would bring back an old state. So whatever moves, starts or removes a guest
checks this first. Bitmaps, checkpoints and scratch files lie beside the chain and do not change it.
"""

from __future__ import annotations

import dataclasses
import os
from typing import List
from xml.etree import ElementTree

from ...model import adopted, data_disks, disk_hints, hints, rescues, snapshot_hints, snapshots, state_hints, volumes
from ...model.errors import shortened
from ...model.guest_settings import GuestSettings
from ...model.lifecycle import ACTIVE, FROZEN, OWN, REBOOTING_HARD, RESIZING, STARTING
from ...model.vm_states import SUSPENDED
from .. import paths
from ..errors import BuildFailed, DiskChainChanged, GuestSaved, HostNotPrepared
from ..guest import disk_users, domain
from . import disk as disks
from . import volume_files
from .differences import (
    BESIDE,
    GONE,
    MISSING,
    RESTORED,
    Difference,
    Used,
    commit_running,
    commit_stopped,
    detach,
    found_beside,
    found_under_guest,
    missing_of,
    put_back_running,
    put_back_stopped,
    write_back,
)
from .layers import chain, layers_beside, merge, pull, read_header, snapshots_in

OVERLAY, LEFT, REPLACED, BASE, SNAPSHOT, FORMAT, CONVERTED, FIRMWARE, EXTRA, IMAGELESS, SEEDLESS, UNNAMED, SWAPPED, HALF = (
    "overlay", "left", "replaced", "base", "snapshot", "format", "converted", "firmware", "extra", "imageless", "seedless",
    "unnamed", "swapped", "half",
)  # fmt: skip
FROM_HERE = (ACTIVE, RESIZING, FROZEN)  # memory that is saved in these phases is that of the guest that must continue
# The guest can start with these; a move would lose them.
ONLY_MOVES = (SNAPSHOT, EXTRA, UNNAMED)
UNDER_GUEST = (MISSING, RESTORED)  # what the running guest has open is the only copy of a disk
AT_ONCE = (MISSING, RESTORED, IMAGELESS)  # the data are at stake, or the guest does not start again
ITS_OWN_FILE = (SNAPSHOT, FORMAT)  # which a delete removes anyway


def check(host, record, live=False):
    """Raise DiskChainChanged if the guest's disks are not the record's. ``live``: before a live migration, for which the
    running QEMU reads an image whose file was removed."""
    _refuse(host, record, _found_but((IMAGELESS,) if live else (), host, record))


def check_unsaved(host, record):
    """Raise GuestSaved if the guest's memory is in a file here: it would be lost, or resume beside changed disks."""
    if record.phase in FROM_HERE and domain.is_saved(host.connection, record.uuid):
        hint = (hints.let_go_on if record.phase == ACTIVE else disk_hints.give_up_move)(record.name)
        if record.vm_state == SUSPENDED:
            hint = hints.make_active(record.name, "resume")
        raise _saved(host, record, "saved on %s, as virsh managedsave does", hint)
    check_not_in_file(host, record)


def check_not_in_file(host, record):
    """Raise GuestSaved if the guest's memory is in somebody's file (virsh save): it would boot without it, and that file
    could be restored beside changed disks. Who has stopped it since with berth wants it off; a start that was begun goes on, and
    so does a hard reboot, which was checked before."""
    if record.power_state != "running" or record.task_state in (*STARTING, REBOOTING_HARD):
        return
    if record.phase in FROM_HERE and domain.is_saved_to_file(host.connection, record.uuid):
        hint = disk_hints.restore_or_boot(record.name)
        raise _saved(host, record, "saved to a file on %s, as virsh save does", hint)


def _saved(host, record, how, hint):
    name = host.connection.getHostname()
    return GuestSaved(
        "the memory of %s (%s) was %s: it would be lost, or would come back beside disks that have changed"
        % (record.name, record.uuid, how % name),
        hint=hint,
        instance=record.name,
        host=name,
    )


def check_start(host, record):
    """Do the same check, as far as it matters for a start."""
    # QEMU says itself that it does not start from a file of another format.
    _refuse(host, record, _found_but((*ONLY_MOVES, CONVERTED), host, record))


def check_beside(host, record):
    """Raise DiskChainChanged if somebody made files beside the disks or volumes, which go where these are removed."""
    _refuse(host, record, found_beside(host.pool_of(record), record, _specs(record)))


def check_backup(host, record, live):
    """Do the same check, before a backup: it has the record's own disks, as the guest sees them now."""
    _refuse(host, record, _found_but((SEEDLESS, EXTRA, SNAPSHOT, *((IMAGELESS,) if live else ())), host, record))


def check_restore(host, record):
    """Do the same check, before other files become the record's disks: those that are replaced may be missing or damaged."""
    _refuse(host, record, _found_but((MISSING, SEEDLESS, IMAGELESS, BASE, CONVERTED, FORMAT, SNAPSHOT), host, record))


def check_stop(host, record):
    """Raise DiskChainChanged if the running guest has the only copy of a disk, whose file was removed or replaced."""
    try:
        found = found_on(host, record)
    except (HostNotPrepared, BuildFailed):
        return  # its pool was stopped in libvirt, which removes no file, or the guest has just ended
    _refuse(host, record, [each for each in found if each.kind in UNDER_GUEST and each.command])


def check_snapshot(host, record):
    """Do the same check, before a snapshot is made, which finishes what an earlier run of it has begun, or removed."""
    _refuse(host, record, _found_but((HALF, SNAPSHOT), host, record))


def check_mend(host, record):
    """Do the same check, before the definition and the seed are made again."""
    _refuse(host, record, _found_but((SEEDLESS,), host, record))


def _found_but(kinds, host, record):
    return [difference for difference in found_on(host, record) if difference.kind not in kinds]


def check_delete(host, record):
    """Do the same check; the hint says what a delete would do to files that are not the record's. Missing disks stop it
    only if the pool has no directory of instances: then its file system is not mounted, and they would reappear with
    it."""
    own = paths.instance(host.pool_of(record), record.uuid)
    disk_users.check_delete(host, record)
    found = _found_but((SEEDLESS, IMAGELESS, CONVERTED, RESTORED), host, record)
    named = _files(found)
    made = found_beside(host.pool_of(record), record, _specs(record), volumes.going(record.spec))
    made_by_others = _files(made)
    found += [each for each in made if not named.intersection(each.files)]
    others = [difference for difference in found if difference.kind != MISSING]
    if os.path.isdir(os.path.dirname(own)):
        found = others
    files = sorted(_files(each for each in others if each.kind not in ITS_OWN_FILE))
    goes = [path for path in files if os.path.dirname(path) == own or path in made_by_others]
    stays = [path for path in files if path not in goes]
    _refuse(host, record, found, hints.delete_changed_disks(goes, stays))


def _files(differing):
    return {path for each in differing for path in each.files}


def check_pool(host, record):
    """Raise DiskChainChanged if the pool has no directory of instances, so that nothing of this one can be removed."""
    directory = os.path.dirname(paths.instance(host.pool_of(record), record.uuid))
    if not os.path.isdir(directory):
        missing = Difference(MISSING, "%s is not there" % directory, None, (directory,))
        _refuse(host, record, [missing], hints.delete_changed_disks([], []))


def _refuse(host, record, differing, more=None):
    if not differing:
        return
    name = host.connection.getHostname()
    saving = [each.command for each in differing if each.kind == MISSING and each.command]
    commands = [each.command for each in differing if each.kind not in (*UNDER_GUEST, SWAPPED) and each.command]
    advice = [disk_hints.save_removed_disks(name, record.name, saving)] if saving else []
    kept = [each.command for each in differing if each.kind == RESTORED]
    advice += [disk_hints.keep_or_restore(name, record.name, record.uuid, kept)] if kept else []
    advice += [hints.take_disks_back(name, list(dict.fromkeys(commands)))] if commands else []
    left = [path for difference in differing if difference.kind == LEFT for path in difference.files]
    if left:
        advice.append(merge(name, left))
    if any(difference.kind == MISSING and not difference.command for difference in differing):
        advice.append(hints.bring_disks_back(name, record.name))
    if any(difference.kind == BESIDE for difference in differing):
        advice.append(disk_hints.take_files_away(name))
    if any(difference.kind == SEEDLESS for difference in differing):
        advice.append(state_hints.make_seed_anew(record.name))
    for difference in differing:
        if difference.kind == IMAGELESS:
            advice.append(disk_hints.bring_image_back(name, record.name, difference.files[0]))
        elif difference.kind == SNAPSHOT:
            advice.append(_about_snapshots(name, record, difference.files[0]))
        elif difference.kind == HALF:
            advice += [snapshot_hints.finish(record.name, each) for each in snapshots.unfinished(record.spec)[:1]]
        elif difference.kind == SWAPPED:
            forget = state_hints.UNDEFINE % record.uuid
            advice.append(disk_hints.choose_disk(name, difference.files[0], difference.command, forget))
        elif difference.kind == CONVERTED:
            advice.append(disk_hints.convert_back(name, difference.files[0]))
    unnamed = {
        data_disks.name_of(os.path.basename(path))
        for difference in differing
        if difference.kind == UNNAMED
        for path in difference.files
    }
    if unnamed:
        advice.append(hints.name_data_disks(record.name, sorted(unnamed)))
    raise DiskChainChanged(
        "the disks of %s (%s) on %s are not those that its record names: %s"
        % (record.name, record.uuid, name, "; ".join(dict.fromkeys(difference.text for difference in differing))),
        hint=". ".join(advice + [more] if more else advice) or None,
        instance=record.name,
        host=name,
        files=sorted(_files(differing)),
    )


def _about_snapshots(host, record, path):
    """Return what to do about snapshots that the record does not name: ours, by a record from a backup, or others'."""
    ours = [snapshots.called(each) for each in snapshots_in(path) if each not in snapshots.tags(record.spec)]
    if all(ours) and ours:
        return snapshot_hints.delete_rest(record.name, ours[0])
    return disk_hints.delete_snapshots(host, record.uuid, path)


def against_a_move(host, record, differing) -> List[Difference]:
    """Return what of ``differing`` (see found_on) would refuse a move, beside files that are gone; or else snapshots that
    libvirt has noted."""
    found = [each for each in differing if each.kind not in (*AT_ONCE, SEEDLESS)]
    guest = domain.find(host.connection, record.uuid)
    noted = guest.snapshotListNames(0) if guest is not None else []
    if noted and not found:
        text = "libvirt has noted snapshots of it, with which it migrates no running guest: %s" % shortened(noted)
        found.append(Difference(SNAPSHOT, text, None))
    return found


def found_on(host, record) -> List[Difference]:
    return differences(host.connection, record, host.pool_of(record))


def differences(connection, record, pool_path) -> List[Difference]:
    """Return how the guest's disks differ from the record, those of the running guest first."""
    planned = {
        paths.instance(pool_path, record.uuid, disk.file): disk
        for spec in _specs(record)
        for disk in disks.planned(spec)
    }
    planned.update(volume_files.planned(pool_path, record.spec))
    below = allowed_below(record, pool_path)
    guest = domain.find(connection, record.uuid)
    differing = _missing(record, pool_path) + _left_out(record, pool_path, planned)
    if guest is None:
        return differing + _unknown_overlays(record, planned)
    live, at_rest = (text and ElementTree.fromstring(text) for text in domain.definitions(guest))
    if live is not None:
        differing += found_under_guest(record.uuid, guest.name(), _all_used(live, True), planned)
    for root, is_live in ((live, True), (at_rest, False)):
        if root is not None:
            differing += _compared(record, root, planned, below, is_live, live is not None)
    if record.op:  # its own steps make, remove and check the files
        differing = [difference for difference in differing if difference.kind not in UNDER_GUEST]
    if GuestSettings.of(record.spec).tpm_version():
        differing = [_keeping_tpm(difference) for difference in differing]
    return _told_once(differing)


def _told_once(differing):
    """Tell once what both definitions say, with the commands for both; virsh blockcopy changes both."""
    found = {}
    for difference in differing:
        found.setdefault(difference.text, []).append(difference)
    told = []
    for first, *others in found.values():
        more = [] if first.kind == REPLACED else others
        commands = dict.fromkeys(each.command for each in (first, *more) if each.command)
        told.append(dataclasses.replace(first, command="; ".join(commands) or None))
    return told


def _keeping_tpm(difference):
    """Keep the state of the guest's TPM, which virsh undefine would remove too."""
    command = difference.command and difference.command.replace("--keep-nvram", "--keep-nvram --keep-tpm")
    return dataclasses.replace(difference, command=command)


def allowed_below(record, pool_path):
    """Return the allowed backing files of the instance's disks: its image, and during a move the earlier disks."""
    images = [part.get("image") or {} for part in (record.spec, rescues.of(record.spec) or {})]
    found = {paths.image(pool_path, image["checksum"]) for image in images if image.get("checksum")}
    if record.op:
        kept = {disk.file for spec in _specs(record) for disk in disks.planned(spec)}
        found |= {paths.kept_file(paths.instance(pool_path, record.uuid, file), record.op) for file in kept}
    return found


def _specs(record):
    """Return all requests: in a move the definition may be that of the old or the new flavor, with other disks."""
    return [record.spec] + [record.migration[part] for part in ("old_spec", "new_spec") if record.migration]


def _compared(record, root, planned, below, live, runs):
    used, uuid = _all_used(root, live), record.uuid
    unnamed = set(planned) - {disk.path for disk in used}
    known = snapshots.tags(*_specs(record))
    differing = []
    for disk in used:
        if disk.drive and adopted.of(record.spec):
            continue  # it may have any medium
        if disk.path in planned:
            differing += _own(uuid, disk, planned[disk.path], below, runs, known)
        else:
            differing.append(_foreign(uuid, disk, planned, unnamed, runs))
    variables = root.findtext("os/nvram")
    own = [
        path for path, disk in planned.items() if disk.kind == disks.NVRAM.kind
    ]  # none of an adopted one without any yet
    if variables and own and variables not in own:
        text = "its UEFI variables are %s, not those beside its disks" % variables
        differing.append(Difference(FIRMWARE, text, None, (variables,)))
    return differing


def _all_used(root, live):
    return [disk for disk in (_used(element, live) for element in root.iterfind("devices/disk")) if disk]


def _used(element, live):
    """Return the Used of a <disk>, or None for a drive without a medium."""
    source, driver, target = element.find("source"), element.find("driver"), element.find("target")
    if source is None:
        return None
    path = source.get("file") or source.get("dev") or "/".join(filter(None, (source.get(k) for k in LABELS)))
    form = "raw" if driver is None else driver.get("type", "raw")
    drive = element.get("device") in ("cdrom", "floppy")
    return Used("?" if target is None else target.get("dev", "?"), path, form, live, drive) if path else None


LABELS = ("protocol", "pool", "volume", "name", "dir")  # attributes that name a disk without a file


def _own(uuid, disk, planned, below, runs, known):
    """Return the differences of a disk that is the record's own file. ``known``: its snapshots."""
    if disk.format != planned.format:
        text = "%s is %s as %s, the record says %s" % (disk.target, disk.path, disk.format, planned.format)
        return [Difference(FORMAT, text, None, (disk.path,))]
    header = read_header(disk.path)
    if disk.format == "qcow2" and os.path.lexists(disk.path) and not header.is_qcow2:
        return [Difference(CONVERTED, "%s is no qcow2 file, or cannot be read" % disk.path, None, (disk.path,))]
    found = []
    layers = chain(disk.path, disk.format)
    if os.path.lexists(paths.merging_file(disk.path)):
        text = "%s is being made independent of its image for a snapshot, and is not whole" % disk.path
        found.append(Difference(HALF, text, None, (disk.path,)))
    # an adopted guest may have had any when it was adopted
    strange = [path for path in layers if os.path.realpath(path) not in _real(below) and planned.kind != disks.FOUND]
    gone = [path for path in layers if not os.path.lexists(path)]
    if strange:
        text = "%s has the backing file %s, which is not its image" % (disk.path, strange[0])
        command = pull(disk.path)
        if runs:
            command = "virsh blockpull %s %s --wait" % (uuid, disk.target)
        found.append(Difference(BASE, text, command, tuple(strange)))
    elif gone:
        text = "%s, on which %s stands, is missing" % (gone[0], disk.path)
        found.append(Difference(IMAGELESS, text, None, tuple(gone[:1])))
    others = [tag for tag in snapshots_in(disk.path) if tag not in known] if disk.format == "qcow2" else []
    if others:
        text = "%s has snapshots inside it that its record does not name: %s" % (disk.path, shortened(others))
        found.append(Difference(SNAPSHOT, text, None, (disk.path,)))
    return found


def _real(files):
    return {os.path.realpath(path) for path in files}


def _foreign(uuid, disk, planned, unnamed, runs):
    """Return the difference for a disk whose file is not the record's. ``unnamed``: those of its files that no disk has."""
    layers = [disk.path, *chain(disk.path, disk.format)]
    under = next((path for path in layers if path in planned), None)
    if under:
        above = layers[: layers.index(under)]
        text = "%s is %s, a snapshot's layer over %s: what the guest wrote since is only there" % (
            disk.target,
            disk.path,
            under,
        )
        command = commit_running(uuid, disk.target, under) if runs else commit_stopped(uuid, above, under)
        return Difference(OVERLAY, text, command, tuple(above))
    unused = sorted(path for path in unnamed if planned[path].kind not in disks.KINDS_OF_NO_DISKS)
    if unused:
        return _replaced(uuid, disk, planned, unused, runs)
    if _is_data_disk(disk, planned):
        return _unnamed(disk.path)
    text = "%s is %s, which the instance does not have" % (disk.target, disk.path)
    return Difference(EXTRA, text, detach(uuid, disk.target, disk.live, disk.drive), (disk.path,))


def _replaced(uuid, disk, planned, unused, runs):
    """Return the difference for a disk in place of the record's. Its command keeps both; if several are unused, none guesses."""
    text = "%s is %s, which is no layer over a disk of the instance; nothing uses " % (disk.target, disk.path)
    text, own = text + ", ".join(unused), unused[0]
    is_there = os.path.lexists(own)  # it is beside its place if an earlier copy to there failed
    if len(unused) > 1 or disk.drive or not (is_there or disk.live):
        return Difference(REPLACED, text, None, (disk.path,))
    if disk.live:
        put_back = put_back_running if is_there else write_back
        command = put_back(uuid, disk.target, own, planned[own].format)
        return Difference(REPLACED, text, command, (disk.path,))
    if runs:  # from its own disk: only the definition of its next start names another
        return Difference(REPLACED, text, state_hints.UNDEFINE % uuid, (disk.path,))
    command = put_back_stopped(uuid, (disk.path, disk.format), own, planned[own].format)
    return Difference(SWAPPED, text, command, (disk.path,))


def _is_data_disk(disk, planned):
    """Whether it is one of the instance's own that the record, for example one from a backup, does not name."""
    directory, file = os.path.split(disk.path)
    return directory in map(os.path.dirname, planned) and disk.format == "qcow2" and bool(data_disks.name_of(file))


def _missing(record, pool_path):
    """Return the record's disks whose files are missing."""
    return [
        Difference(SEEDLESS if disk in disks.OF_SEED else MISSING, GONE % path, None, (path,))
        for path, disk in missing_of(record, pool_path).items()
    ]


def _left_out(record, pool_path, planned):
    """Return files of data disks that the record, which may be from a backup, lacks: a move would remove them."""
    if record.role != OWN or record.op:
        return []
    directory = paths.instance(pool_path, record.uuid)
    files = sorted(filter(data_disks.name_of, os.listdir(directory))) if os.path.isdir(directory) else []
    return [_unnamed(path) for path in (os.path.join(directory, file) for file in files) if path not in planned]


def _unnamed(path):
    return Difference(UNNAMED, "its record does not name the data disk %s" % path, None, (path,))


def _unknown_overlays(record, planned):
    """If libvirt has lost the guest's definition, a layer beside the disks may be what the guest used last."""
    if record.role != OWN:
        return []
    message = "libvirt has no definition of it, and %s is a layer over %s that the guest may have used last"
    return [Difference(LEFT, message % layer, None, layer[:1]) for layer in layers_beside(planned)]
