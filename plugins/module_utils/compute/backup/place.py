# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where backups are: a directory of this host on storage of its own, see model/backups.py. Which of them is whole is seen
by looking at the files. What lies there is input: whoever writes to that storage may have changed it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from ...model import backup_hints, backups
from ...model.backups import INCREMENT, Backup, BackupDamaged
from ...model.errors import BerthError, InvalidInput
from ...model.identity import is_uuid
from ...model.safe_text import clean
from ...model.schema import Fields, MapOf, Text
from .. import durable, paths
from ..disk import image_check, layers
from ..errors import BuildFailed
from ..run import run

PART = 1 << 20
LONGEST_READ = 24 * 3600  # s
CHANGED = "has another digest than was noted: it was changed or is damaged"


class BackupPlaceUnfit(BerthError):
    """The directory for backups is missing on this host, or is on the root file system or among the disks of instances. Nothing was
    changed."""


class BackupNotFound(BerthError):
    """There is no such backup of the instance in that directory, or no whole one. Nothing was changed."""


def check(host_name: str, to: Any, pool: Optional[str]) -> str:
    """Return the directory. Raise BackupPlaceUnfit if it is not on storage of its own, or is in the ``pool`` of a KVM host: what
    is there counts as disks and goes with them, and a mount would hide them."""
    if not isinstance(to, str) or not os.path.isabs(to) or os.path.normpath(to) != to or clean(to, 1000) != to:
        hint = backup_hints.name_backup_directory() if to is None else None
        raise InvalidInput("berth_backup_to", to, "the absolute path of a directory", hint=hint)
    if pool and _is_in(pool, to):
        raise BackupPlaceUnfit(
            "%s on %s is in %s, where the disks of instances are" % (to, host_name, pool),
            hint=backup_hints.name_another_place(),
            host=host_name,
        )
    hint = backup_hints.mount_backups(host_name, to)
    if not os.path.isdir(to):
        raise BackupPlaceUnfit("%s on %s is no directory" % (to, host_name), hint=hint, host=host_name)
    if is_on_root(to):
        raise BackupPlaceUnfit(
            "%s on %s is on the root file system of that host, which backups would fill" % (to, host_name),
            hint=hint,
            host=host_name,
        )
    return to


def _is_in(pool: str, path: str) -> bool:
    pool = os.path.realpath(pool)
    return os.path.commonpath([pool, os.path.realpath(path)]) == pool


def is_on_root(path: str) -> bool:
    return os.stat(path).st_dev == os.stat(os.path.sep).st_dev


class Place(NamedTuple):
    """The backups of one instance below ``to``."""

    to: str
    uuid: str

    def path(self, *names: str) -> str:
        return os.path.join(self.to, self.uuid, *names)

    def partial(self, backup_id: str) -> str:
        return self.path(paths.PARTIAL + backup_id)

    def read(self) -> Dict[str, Any]:
        """Return {id: Backup, or why it is none}, the oldest first."""
        names = sorted(name for name in paths.entries(self.path()) if backups.ID.pattern.match(name))
        return {name: self._read(name) for name in names}

    def _read(self, name: str) -> Any:
        try:
            found = Backup.from_dict(json.loads(content(self.path(name, backups.FILE))))
        except (OSError, ValueError, BerthError) as error:
            return clean("%s: %s" % (backups.FILE, getattr(error, "strerror", None) or error), 300)
        if (found.id, found.uuid) != (name, self.uuid):
            return "%s is that of another backup, %s of %s" % (backups.FILE, found.id, found.uuid)
        return found

    def known(self) -> Dict[str, Backup]:
        """Return {id: Backup} of those that describe themselves, the oldest first."""
        return {name: found for name, found in self.read().items() if isinstance(found, Backup)}

    def faults(self, backup: Backup, known: Dict[str, Backup], deep: bool = False) -> List[str]:
        """Return why the backup cannot be restored, nothing if it can. ``deep``: compare all that its files contain."""
        try:
            parts = backups.chain(backup, known)
        except KeyError as error:
            return ["the backup %s, on which it stands, is not there" % error.args[0]]
        return [fault for part in parts for fault in self._faults(part, deep)]

    def _faults(self, backup: Backup, deep: bool) -> Iterator[str]:
        for disk in backup.disks:
            path = self.path(backup.id, disk.file)
            below = self.path(str(backup.previous), disk.file) if disk.kind == INCREMENT else None
            fault = _fault(path, disk, below) or (deep and _deep_fault(path, disk)) or None
            if fault:
                yield "%s/%s %s" % (backup.id, disk.file, fault)
        for file in backup.files:
            fault = _file_fault(self.path(backup.id, file.name), file)
            if fault:
                yield "%s/%s %s" % (backup.id, file.name, fault)

    def whole(self) -> Iterator[Backup]:
        """Yield those that are whole as far as their sizes and headers tell, the newest first."""
        known = self.known()
        for backup in reversed(list(known.values())):
            if not self.faults(backup, known):
                yield backup

    def remove(self, backup_id: str) -> None:
        """Remove a backup, its description first: what is cut off is none."""
        paths.remove(self.path(backup_id, backups.FILE))
        paths.sync_directory(self.path(backup_id))
        paths.remove_directory(self.path(backup_id))

    def remove_partial(self) -> None:
        """Remove what runs left that were killed, also while they removed a backup: then none stands on it."""
        stood_on = {backup.previous for backup in self.known().values()}
        for name in paths.entries(self.path()):
            is_cut = backups.ID.pattern.match(name) and not os.path.lexists(self.path(name, backups.FILE))
            if name.startswith(paths.PARTIAL) or (is_cut and name not in stood_on):
                paths.remove_directory(self.path(name))


def of_instance(to: str, whose: str, project_id: str) -> Place:
    """Return the place of the backups of ``whose``, a uuid, or a name in that project: another's is not meant by its name alone."""
    if is_uuid(whose):
        return Place(to, whose)
    places = [Place(to, name) for name in sorted(paths.entries(to)) if is_uuid(name)]
    found = [place for place in places if any(backup.name == whose for backup in place.known().values())]
    own = [place for place in found if any(backup.project_id == project_id for backup in place.known().values())]
    if not found:
        names = {backup.name for place in places for backup in place.known().values()}
        raise BackupNotFound("%s has no backup of %s" % (to, whose), hint=backup_hints.name_backed_up(list(names)))
    if len(own) != 1:
        hint = backup_hints.name_whose_backup([place.uuid for place in found])
        said = "%s has backups of %d instances with the name %s, %d of them in project %s"
        raise BackupNotFound(said % (to, len(found), whose, len(own), project_id), hint=hint)
    return own[0]


def chosen(where: Place, backup_id: Optional[str], whose: str, hint: str) -> Backup:
    """Return the backup of that id, by default the newest, if it is whole. ``whose``: in words."""
    if not backup_id:
        newest = next(where.whole(), None)
        if newest is None:
            raise BackupNotFound("%s has no whole backup of %s" % (where.to, whose), hint=hint)
        return newest
    found = where.known().get(backup_id)
    if found is None:
        raise BackupNotFound("%s has no backup %s of %s" % (where.to, backup_id, whose), hint=hint)
    check_whole(where, found)
    return found


def check_whole(where: Place, backup: Backup, deep: bool = False) -> None:
    faults = where.faults(backup, where.known(), deep)
    if faults:
        raise BackupDamaged(
            "the backup %s of %s in %s cannot be restored: %s"
            % (backup.id, backup.name, where.path(), "; ".join(faults[:5])),
            hint=backup_hints.list_backups(backup.name, where.to),
        )


def content(path: str) -> bytes:
    """Return what a small file contains."""
    return durable.read_at(path, backups.LARGEST_FILE)


def _file_fault(path: str, file: backups.File) -> Optional[str]:
    try:
        found = hashlib.sha256(content(path)).hexdigest()
    except (OSError, ValueError) as error:
        return "cannot be read: %s" % (getattr(error, "strerror", None) or error)
    return None if found == file.sha256 else CHANGED


def _fault(path: str, disk: backups.Disk, below: Optional[str]) -> Optional[str]:
    """Return what is wrong with the file by its size and its header: what it stands on decides what qemu-img reads."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return "cannot be read: %s" % error.strerror
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or os.fstat(fd).st_size != disk.bytes:
            return "has %d bytes, not %d" % (os.fstat(fd).st_size, disk.bytes)
        size = image_check.inspect(fd, "qcow2", is_disk=False, is_layer=below is not None)["virtual_size"]
    except BerthError as error:
        return "is damaged: %s" % error.message
    finally:
        os.close(fd)
    header = layers.read_header(path)
    if header.backing != below or header.backing_format != ("qcow2" if below else None):
        return "stands on %s, not on %s" % (clean(str(header.backing)), below)
    return None if size == disk.size else "is a disk of %d bytes, not %d" % (size, disk.size)


def _deep_fault(path: str, disk: backups.Disk) -> Optional[str]:
    try:
        if digest(path) != disk.sha256:
            return CHANGED
        check_qcow2(path)
    except OSError as error:
        return "cannot be read: %s" % error.strerror
    except BerthError as error:
        return "is damaged: %s" % clean(error.message, 300)
    return None


def check_qcow2(path: str, error: Any = BuildFailed) -> None:
    run(["qemu-img", "check", "-q", "-f", "qcow2", "--", path], timeout=LONGEST_READ, error=error)


def digest(path: str) -> str:
    """Return the sha256 of a file as the storage has it: what was written is read back, not what memory still has."""
    found = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        part = os.read(fd, PART)
        while part:
            found.update(part)
            part = os.read(fd, PART)
    finally:
        os.close(fd)
    return found.hexdigest()


# What a KVM host and a backup host tell each other of a backup beside its disks, through a port of its own: its description and
# what the guest's firmware keeps. The controller sees neither, since they have the guest's secrets.
PAPERS = "papers"
LARGEST_PAPERS = 4 * backups.LARGEST_FILE  # bytes: the description and two files, as base64
BLOCK = 512  # bytes: what a port gives is a multiple of it
_PAPERS = Fields({"backup": backups.ANYTHING, "files": MapOf(Text(empty=True, longest=2 * backups.LARGEST_FILE))})


def pack_papers(backup: Backup, directory: str, path: str) -> None:
    """Write the papers of the backup, whose files are in the directory, to the file ``path``."""
    files = {file.name: content(os.path.join(directory, file.name)) for file in backup.files}
    packed: Dict[str, Any] = {
        "backup": backup.to_dict(),
        "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
    }
    text = json.dumps(packed)
    durable.write_at(path, text.ljust(-(-len(text) // BLOCK) * BLOCK).encode(), durable.FILE_MODE)


def unpack_papers(path: str, directory: str) -> Backup:
    """Write the files of the papers in ``path`` to the directory, and return the backup. Raise InvalidInput or ValueError for what
    is none."""
    with open(path, "rb") as file:
        found = _PAPERS.check(json.loads(file.read(LARGEST_PAPERS).rstrip(b"\0")), PAPERS)
    backup = Backup.from_dict(found["backup"])
    for each in backup.files:
        data = base64.b64decode(found["files"].get(each.name, ""), validate=True)
        durable.write_at(os.path.join(directory, each.name), data, durable.FILE_MODE)
    return backup
