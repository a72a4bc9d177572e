# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup of an instance as it describes itself, and how people restore one by hand.

    TO/UUID/ID/        one backup. ID: the time of the guest's disks in it, in UTC, which sorts
        root.qcow2     a whole disk, or what was written since the backup before: then that one's file is its backing file
        nvram.fd       the UEFI variables, and tpm2-00.permall what the TPM keeps, as far as the guest has them
        backup.json    written last: without it there is no backup
        RESTORE.txt    the commands of qemu-img that restore it

The files are plain qcow2, so that qemu-img alone reads a backup with all that it stands on. Sizes are in bytes.
"""

from __future__ import annotations

import shlex
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .errors import BerthError
from .messages import Document
from .schema import Fields, Flag, ListOf, MapOf, OneOf, OrNull, Text, Whole

FILE, RECIPE = "backup.json", "RESTORE.txt"
FULL, INCREMENT = "full", "increment"
TIME = "%Y%m%dT%H%M%SZ"
ID = Text(r"[0-9]{8}T[0-9]{6}Z\Z", "the id of a backup, such as 20260102T030405Z")
LARGEST = 64 << 40
VARIABLES, TPM_STATE = "nvram.fd", "tpm2-00.permall"
LARGEST_FILE = 16 << 20  # bytes of a description, and of what a guest's firmware keeps
SCHEMA = 1
MOST_NAMED = 50  # backups in one hint
LONGEST_CHAIN = 30  # backups that stand on each other, unless a run says otherwise


class BackupDamaged(BerthError):
    """A file of the backup, or of one that it stands on, is missing or is not as it was written. Nothing was changed."""


# Where people put them who restore by hand.
PLACES = {
    VARIABLES: "the file that virsh dumpxml names as nvram",
    TPM_STATE: "/var/lib/libvirt/swtpm/UUID/tpm2, UUID being that of the guest",
}


class _Anything:
    """Of a record: it is for people, and what it says is looked at by nobody here."""

    def check(self, value: Any, field: str) -> Any:
        return value


ANYTHING = _Anything()
_DISK = Fields(
    {
        "name": Text(r"[a-zA-Z0-9._-]+\Z", "the name of a disk"),
        "kind": OneOf(FULL, INCREMENT),
        "why": Text(empty=True),
        "size": Whole(1, LARGEST),
        "bytes": Whole(1, LARGEST),
        "sha256": Text(r"[0-9a-f]{64}\Z", "64 hexadecimal digits"),
    }
)
_FILE = Fields(
    {
        "name": OneOf(VARIABLES, TPM_STATE),
        "bytes": Whole(0, LARGEST_FILE),
        "sha256": Text(r"[0-9a-f]{64}\Z", "64 hexadecimal digits"),
    }
)
_BACKUP = Fields(
    {
        "schema": Whole(SCHEMA, SCHEMA),
        "id": ID,
        "uuid": Text(r"[0-9a-f-]{36}\Z", "a uuid"),
        "name": Text(),
        "project_id": Text(),
        "host": Text(),
        "previous": OrNull(ID),
        "frozen": Flag(),
        "disks": ListOf(_DISK, longest=1000),
        "record": MapOf(ANYTHING),
        "files": ListOf(_FILE, longest=2),
    },
    defaults={"previous": None, "files": []},
)


class Disk(NamedTuple):
    """One disk in a backup. ``size``: that of the guest's disk; ``bytes`` and ``sha256``: of the file; ``why``: why all of
    it was copied although there was a backup to stand on, or nothing."""

    name: str
    kind: str
    why: str
    size: int
    bytes: int
    sha256: str

    @property
    def file(self) -> str:
        return file_of(self.name)


class File(NamedTuple):
    """What the guest's firmware keeps outside of its disks: VARIABLES or TPM_STATE."""

    name: str
    bytes: int
    sha256: str


class Backup(NamedTuple):
    """``previous``: the backup that its increments stand on; ``frozen``: whether the guest's agent had written out its file
    systems; ``record``: that of the instance."""

    id: str
    uuid: str
    name: str
    project_id: str
    host: str
    previous: Optional[str]
    frozen: bool
    disks: Tuple[Disk, ...]
    record: Mapping[str, Any]
    files: Tuple[File, ...] = ()

    @property
    def kind(self) -> str:
        return INCREMENT if self.previous else FULL

    @property
    def bytes(self) -> int:
        return sum(disk.bytes for disk in self.disks)

    def disk(self, name: str) -> Optional[Disk]:
        return next((disk for disk in self.disks if disk.name == name), None)

    def to_dict(self) -> Document:
        parts = {name: [each._asdict() for each in getattr(self, name)] for name in ("disks", "files")}
        return {"schema": SCHEMA, **self._asdict(), **parts}

    @classmethod
    def from_dict(cls, found: Any) -> Backup:
        """Raise InvalidInput for what is no description of a backup."""
        read: Dict[str, Any] = dict(_BACKUP.check(found, FILE))
        del read["schema"]
        parts = {
            "disks": tuple(Disk(**each) for each in read["disks"]),
            "files": tuple(File(**each) for each in read["files"]),
        }
        return cls(**{**read, **parts})


def file_of(disk: str) -> str:
    return disk + ".qcow2"


def below(previous: str, disk: str) -> str:
    """The backing file of an increment, as the file itself names it: the whole directory of an instance can be moved."""
    return "../%s/%s" % (previous, file_of(disk))


def chain(backup: Backup, known: Mapping[str, Backup]) -> List[Backup]:
    """The backup and those that it stands on, the full one last. Raise KeyError if one of them is not ``known``."""
    found = [backup]
    while found[-1].previous:
        found.append(known[found[-1].previous])
        if len(found) > len(known):
            raise KeyError(backup.id)
    return found


def recipe(backup: Backup) -> str:
    """What lies beside a backup for people. The paths are relative, so it holds where the directory was moved to."""
    lines = [
        "Backup %s of %s (%s), made on %s. Its disks are %s." % (
            backup.id, backup.name, backup.uuid, backup.host,
            "increments on the backup %s, which must stay beside it" % backup.previous if backup.previous else "whole",
        ),
        "berth.kvm.restore restores it. By hand, with qemu-img alone, in this directory:",
        "",
        "1. Compare the files with their digests, here and in each directory that a file stands on:",
        "   qemu-img info --backing-chain FILE shows which.",
        *("   echo '%s  %s' | sha256sum -c" % (disk.sha256, disk.file) for disk in backup.disks),
        *("   echo '%s  %s' | sha256sum -c" % (file.sha256, file.name) for file in backup.files),
        "2. Write each disk to where it is to be, as raw or qcow2, whole in itself:",
        *("   qemu-img convert -f qcow2 -O qcow2 %s /PATH/%s" % (shlex.quote(disk.file), disk.file) for disk in backup.disks),
        *("   and copy %s to %s" % (file.name, PLACES[file.name]) for file in backup.files),
        "3. One file out of it, without restoring: as root",
        "   modprobe nbd; qemu-nbd --read-only --format=qcow2 --connect=/dev/nbd0 FILE; mount -o ro /dev/nbd0p1 /mnt",
        "   and afterwards: umount /mnt; qemu-nbd --disconnect /dev/nbd0",
        "",
    ]  # fmt: skip
    return "\n".join(lines)
