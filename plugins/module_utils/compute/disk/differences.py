# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a guest's disks differ from its record (see disk_chain.py): files beside them, a file that was removed or replaced
under the running guest; and the commands that undo it. None of them loses data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import stat
from typing import List, Optional, Tuple

from ...model import adopted, data_disks, guest_settings, snapshots, volumes
from ...model.errors import MOST_NAMED, BerthError
from ...model.lifecycle import ACTIVE, OWN
from ...model.state_hints import UNDEFINE
from .. import paths
from ..guest import domains, nvram
from . import attached, owner, volume_files
from . import disk as disks
from .layers import commit, layers_beside

# How a guest's disks differ from its record, see disk_chain.py.
BESIDE, MISSING, RESTORED = "beside", "missing", "restored"  # the other kinds are in disk_chain.py
GONE = "%s is missing (it was made with the instance)"


@dataclasses.dataclass(frozen=True)
class Difference:
    """One difference from the record: ``text`` describes it, ``command`` undoes it, ``files`` are not in the record."""

    kind: str
    text: str
    command: Optional[str]
    files: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Used:
    """A disk of a definition; ``live`` if it is the definition of the running guest, ``drive`` if its medium can be taken
    out of it."""

    target: str
    path: str
    format: str
    live: bool
    drive: bool


# The commands that undo what somebody did to a guest's disks with libvirt's tools. None of them loses data.
ASIDE, MADE = ".replaced", ".made"  # end the names of a disk that is kept, and of one that is being made


def commit_running(uuid, target, base):
    """Always pass --base: libvirt would otherwise commit down into the cached image, which all its instances share."""
    return "virsh blockcommit %s %s --base %s --active --pivot" % (uuid, target, shlex.quote(base))


def commit_stopped(uuid, above, base):
    """Merge the layers and remove them, with the definition, which names them. The next run defines the guest again."""
    return "%s && %s" % (commit(above, base), UNDEFINE % uuid)


def detach(uuid, target, live, drive):
    """Detach a disk from the running guest (``live``) or from its definition: virsh refuses to do both if only one has it.
    A running guest keeps a drive, without its medium: most cannot be detached."""
    if live and drive:
        return "virsh change-media %s %s --eject --live" % (uuid, target)
    return "virsh detach-disk %s %s %s" % (uuid, target, "--live" if live else "--config")


def write_back(uuid, target, path, form):
    """Write a disk whose file was removed under the running guest back to where it was, with all below it."""
    place = shlex.quote(path)
    return "virsh blockcopy %s %s --dest %s --format %s --transient-job --wait --pivot" % (uuid, target, place, form)


def put_back_running(uuid, target, path, form):
    """Write the disk of the running guest to where its record has it. What is there stays beside it."""
    return "%s && %s" % (_aside(path), write_back(uuid, target, path, form))


def put_back_stopped(uuid, used, path, form):
    """Put a copy of the disk ``used`` (a path and its format) to where the record has it, and remove the definition. What
    is there stays beside it, and the next run defines the guest again."""
    made = shlex.quote(path + MADE)
    convert = "qemu-img convert -f %s -O %s -- %s %s" % (used[1], form, shlex.quote(used[0]), made)
    return " && ".join((convert, _aside(path), "mv -- %s %s" % (made, shlex.quote(path)), UNDEFINE % uuid))


def _aside(path):
    """ln refuses where mv would replace what an earlier one has kept."""
    return "ln -- %s %s && rm -- %s" % (shlex.quote(path), shlex.quote(path + ASIDE), shlex.quote(path))


# Files that somebody made beside the disks of an instance or its volumes, such as the disks of a clone or a copy before
# a change. Where these are removed, after a move or by a delete, the whole directory goes.
# what ends the names of files that are being made, that a move writes, and that a command of ours keeps
ENDS = re.compile(
    r"(\.tmp|\.scratch|\.merging|\.incoming-\d+|\.pre-[0-9a-f]{32}|\.before|%s|%s)+\Z"
    % (re.escape(ASIDE), re.escape(MADE))
)
STARTS = (".", "moving-")  # what is being written, or removed by NFS; and the marks of moves
# a resize may change the kind of the root disk
DISKS = {"root.qcow2", "root.raw", "ephemeral0", "swap", disks.RESCUE.file}
COPIED = ("record.json", "domain.xml")  # what set_aside.py writes
KNOWN = {
    owner.FILE,
    attached.FILE,
    paths.VOLUME_FILE,
    paths.SEED,
    paths.IGNITION,
    nvram.FILE,
    *DISKS,
    *COPIED,
    *guest_settings.PROPERTIES,
}


def found_beside(pool_path, record, specs, going=None) -> List[Difference]:
    """Return a difference for each file. ``specs``: the requests of the instance. ``going``: the names of the volumes
    that are removed too, by default all."""
    own = DISKS | {data_disks.file_of(disk["name"]) for spec in specs for disk in data_disks.check(spec)}
    own |= {disk["path"] for spec in specs for disk in adopted.disks(spec)}
    own |= {snapshots.memory_file(name) for spec in specs for name in snapshots.with_memory(spec)}
    gone = [each for each in volumes.of(record.spec) if going is None or each["name"] in going]
    directories = [paths.instance(pool_path, record.uuid), *(paths.volume(pool_path, each["uuid"]) for each in gone)]
    disks = [paths.instance(pool_path, record.uuid, file) for file in own]
    disks += [paths.volume_file(pool_path, each["uuid"]) for each in volumes.check(record.spec)]
    # a layer that is merged has nothing that its disk lacks, and one that the guest uses is another difference
    layers = {layer for layer, _disk in layers_beside(disks)}
    files = [path for directory in directories for path in _strange(directory, own) if path not in layers]
    return [Difference(BESIDE, _text(path, files), None, (path,)) for path in files]


def _text(path, files):
    """Only so many are named that the hint after them is read."""
    if path in files[:MOST_NAMED]:
        return "%s lies beside its disks and is none of them" % path
    return "%d more files lie there" % (len(files) - MOST_NAMED)


def _strange(directory, own):
    paths_of = (os.path.join(directory, name) for name in sorted(paths.entries(directory)) if not _is_ours(name, own))
    return [path for path in paths_of if _is_file(path)]


def _is_file(path):
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:  # somebody has just removed it
        return False


def _is_ours(name, own):
    made_for = ENDS.sub("", name)
    # update_disks makes a data disk before the record names it
    begun = name.endswith(".tmp") and data_disks.name_of(made_for)
    return name.startswith(STARTS) or made_for in own or made_for in KNOWN or bool(begun)


# What happened to the file of a disk under its running guest: it was removed, or another was put in its place, as a
# restore from a backup does. QEMU has the old file open and writes to it: once the guest is off, that is lost.


def found_under_guest(uuid, name, used, planned):
    """Return the differences of the disks ``used`` by the running domain of that name. ``planned``: {path: disk}."""
    own = [disk for disk in used if disk.path in planned and planned[disk.path] not in disks.NO_DISKS]
    return [difference for difference in (_found(uuid, name, disk) for disk in own) if difference]


def _found(uuid, name, disk):
    if not os.path.lexists(disk.path):
        command = write_back(uuid, disk.target, disk.path, disk.format)
        return Difference(MISSING, GONE % disk.path, command, (disk.path,))
    if domains.has_another_file_open(name, disk.path, domains.RUN_DIR):
        text = "%s was put there while the guest runs, which has the earlier file open and writes to that" % disk.path
        command = put_back_running(uuid, disk.target, disk.path, disk.format)
        return Difference(RESTORED, text, command, (disk.path,))
    return None


# Which files of an instance are gone. It only looks whether they are there: no header is read, no QEMU is asked.


def missing_of(record, pool_path):
    """Return {path: disk} of the instance's disks and volumes whose files are missing."""
    if record.role != OWN or record.op:
        return {}
    own = [
        disk for disk in disks.planned(record.spec) if disk.kind != disks.NVRAM.kind
    ]  # which the firmware makes again
    files = {paths.instance(pool_path, record.uuid, disk.file): disk for disk in own}
    files.update(volume_files.planned(pool_path, record.spec))
    return {path: disk for path, disk in files.items() if not os.path.lexists(path)}


def reported_missing(record, pool_path):
    """Return {disks_missing: [path]} of an instance that was made and lacks files, else {}. ``pool_path``: the host's, which
    has the directory of a pool from its name."""
    with contextlib.suppress(BerthError, KeyError, TypeError):  # its pool or a damaged record, which others report
        found = missing_of(record, pool_path(record.spec.get("pool"))) if record.phase == ACTIVE else ()
        return {"disks_missing": sorted(found)} if found else {}
    return {}
