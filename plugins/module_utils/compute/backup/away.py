# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a KVM host in a backup that a backup host keeps, and in a restore from there; see store.py for the other part.

planned: what is to be copied -> sent: written to the ports -> noted, once the backup host has made it a backup
fits: it could be restored -> restored: read from the ports
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ...model import backup_hints
from ...model.backups import FULL, Backup, Disk
from ...model.errors import BerthError
from ...model.move_errors import TransferFailed
from .. import durable
from ..guest import domain
from ..move import left_backup, transfer
from ..record import journal
from . import backup_chain, firmware_state, make, place, restore
from .make import Part
from .port import Port


class Wish(NamedTuple):
    """``to``: the backup host and its directory, in words; ``newest``: the newest backup there, as told.fitting tells it, on
    which the next one stands unless it is ``full``; ``spare``: the ids of those there that may go; ``parts``: as planned; ``backup``:
    its id."""

    to: str
    newest: Optional[Mapping[str, Any]] = None
    full: bool = False
    spare: Sequence[str] = ()
    backup: Optional[str] = None
    parts: Sequence[Mapping[str, Any]] = ()
    targets: Sequence[Mapping[str, Any]] = ()
    key: Optional[str] = None

    def previous(self) -> Optional[Backup]:
        return of_told(self.newest) if self.newest and not self.full else None

    def ports(self, uuid: str) -> Dict[str, Port]:
        return {target["name"]: Port(uuid, target["name"], target) for target in self.targets}


def of_told(told: Mapping[str, Any]) -> Backup:
    """What is known of a backup on another host: whose it is, and the sizes of its disks."""
    known = tuple(Disk(disk["name"], FULL, "", disk["size"], *backup_chain.UNREAD) for disk in told["disks"])
    return Backup(told["id"], told["uuid"], told["name"], "", "", None, False, known, {})


def planned(instance: Any, wish: Wish, dry: bool) -> List[Dict[str, Any]]:
    """Return what is to be copied: [{name, size, kind}]."""
    if dry:
        record = _checked(instance)
        return _told(_parts(instance, record, wish, domain.find_active(instance.host.connection, record.uuid)))
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _checked(instance)
        return _told(_parts(instance, record, wish, left_backup.end(instance.host, record)))


def sent(instance: Any, wish: Wish) -> None:
    """Write the disks to the ports."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _checked(instance)
        found = left_backup.end(instance.host, record)
        instance.observe("backup")
        try:
            with _channel(record.uuid, wish.key):
                _send(instance, record, wish, found)
            if found is not None:
                left_backup.forget(found)
        except make.failures() as error:
            make.end_copy(instance.host, record)
            failure = make.failed(instance, record, wish.to, error, wish.spare)
            instance.swap(journal.faulted(record, failure))
            raise failure
        instance.observe("backup sent")


def noted(instance: Any, wish: Wish) -> None:
    """The backup host has made a backup of what it got."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = instance.at_rest(make.OPERATION)
        found = domain.find_active(instance.host.connection, record.uuid)
        parts = make.parts_of(instance.host, record, None, found, "", wish.to)
        make.leave_one_bitmap(parts, found, make.mark(wish.to, str(wish.backup)))
        kinds = {part["kind"] for part in wish.parts}
        kind = FULL if kinds == {FULL} else make.INCREMENT
        instance.swap(journal.noted(record, make.OPERATION, backup=wish.backup, kind=kind, to=wish.to))


def fits(instance: Any, wish: Wish, discards: Optional[str]) -> None:
    """Raise what keeps the backup ``newest`` from being restored, as far as its names and sizes tell."""
    record, backup = restore.checked(instance), of_told(wish.newest or {})
    restore.targets_of(instance.host, record, Origin(backup, {}, ""))
    restore.check_discards(record, backup, discards)


def restored(instance: Any, wish: Wish, discards: Optional[str]) -> Backup:
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = restore.checked(instance)
        with _channel(record.uuid, wish.key) as directory:
            ports = wish.ports(record.uuid)
            received = transfer.directory(record.uuid, place.PAPERS)
            try:
                ports[place.PAPERS].read(received, "raw")
                backup = place.unpack_papers(received, directory)
            except (BerthError, KeyError, ValueError) as error:
                raise restore.RestoreFailed("%s did not tell what the backup is: %s" % (wish.to, error))
            meant = of_told(wish.newest or {})
            if (backup.id, backup.uuid) != (meant.id, meant.uuid):
                raise restore.RestoreFailed("%s sent the backup %s of %s" % (wish.to, backup.id, backup.name))
            return restore.restored(
                instance, restore.Wish(wish.to, discards=discards), record, Origin(backup, ports, directory)
            )


class Origin:
    """A backup on a backup host, which has compared it: see restore.Origin. ``directory``: with the files of its firmware."""

    def __init__(self, backup: Backup, ports: Mapping[str, Port], directory: str):
        self.backup, self.ports, self.directory = backup, ports, directory

    def check(self) -> None:
        """The channel is authenticated."""

    def file(self, name: str) -> str:
        return "%s/%s" % (self.directory, name)

    def port(self, disk: str) -> Optional[Port]:
        return self.ports.get(disk)

    def source(self, disk: Disk) -> Sequence[str]:
        port = self.port(disk.name)
        return port.source(disk.size) if port else ()


@contextlib.contextmanager
def _channel(uuid: str, key: Optional[str]) -> Iterator[str]:
    """Have the key in place, in a directory that is removed afterwards."""
    transfer.close(uuid)
    try:
        transfer.write_key(uuid, key)
        yield transfer.directory(uuid)
    finally:
        transfer.close(uuid)


def _checked(instance: Any) -> Any:
    record = instance.at_rest(make.OPERATION)
    instance.host.require_prepared()
    make.check_disks(instance.host, record)
    return record


def _parts(instance: Any, record: Any, wish: Wish, found: Any) -> List[Part]:
    return make.parts_of(instance.host, record, wish.previous(), found, "", wish.to)


def _told(parts: Sequence[Part]) -> List[Dict[str, Any]]:
    return [{"name": part.name, "size": part.size, "kind": part.kind} for part in parts]


def _send(instance: Any, record: Any, wish: Wish, found: Any) -> None:
    host, directory = instance.host, transfer.directory(record.uuid)
    parts = _parts(instance, record, wish, found)
    if _told(parts) != list(wish.parts):
        hint = backup_hints.back_up_again(record.name)
        raise TransferFailed("its disks, or what they have recorded, changed since the run looked", hint=hint)
    ports = wish.ports(record.uuid)
    parts = [part._replace(port=ports[part.name]) for part in parts]
    make.drop_bitmaps(parts, found, make.mark(wish.to, wish.newest["id"]) if wish.newest else "")
    files = firmware_state.copy(host, record, directory, found is not None)
    previous = wish.previous()
    since, backup_id = previous and previous.id, str(wish.backup)
    with durable.private():
        frozen = make.copied(instance, found, make.mark(wish.to, backup_id), make.mark_of(wish.to, previous), parts)
    draft = make.described(instance, record, backup_id, since, frozen, parts, files)
    packed = transfer.directory(record.uuid, place.PAPERS)
    place.pack_papers(draft, directory, packed)
    ports[place.PAPERS].write_file(packed, "raw")
