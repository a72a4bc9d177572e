# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups on a backup host, which has their directory and neither libvirt nor guests: what module backup_store does there.

    a backup:   looked -> opened: .partial-ID, a port for each disk -> the KVM host writes -> kept: read back, renamed to ID
    a restore:  found -> served: all is compared, a port for each disk -> the KVM host reads -> closed

Until the rename there is no new backup, and the last one is whole. The next one removes what a run left that was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import uuid as uuids
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...model import backup_hints, backups
from ...model.backups import INCREMENT, Backup
from ...model.errors import BerthError
from ...model.identity import instance_uuid
from ...model.move_errors import TransferFailed
from .. import durable, paths
from ..host import address
from ..move import listener, transfer
from ..run import PATH
from . import backup_chain, place
from .place import BackupPlaceUnfit, Place

TOOLS = "qemu-img", "qemu-nbd"
READ_ONLY = ("--read-only",)


STATES = ("listed", "looked", "opened", "kept", "found", "served", "closed", "deleted")
OPENING = ("opened", "served")
READING = ("listed", "looked", "found")


class BackupNotKept(BerthError):
    """The backup host could not keep what it was sent, or has it no more. The backups before it are as they were."""


def channel(uuid: str) -> str:
    """Whose ports and key these are: the host may also be a KVM host, on which the instance moves."""
    return str(uuids.uuid5(uuids.UUID(uuid), "backups"))


def to_guard(uuid: str, targets: Any) -> Dict[str, Any]:
    """Return what listener.guard needs. A port waits until the largest backup of the run was compared, and while libvirt writes
    what changed beside the disks."""
    guarded: Dict[str, Any] = listener.to_guard(channel(uuid), targets, 0, first=place.LONGEST_READ)
    return guarded


def outcome_of(params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """Return {changed, and what the module returns for its state}."""
    state, name = params["state"], socket.gethostname()
    to = place.check(name, params["to"], None)
    where = place.of_instance(to, params["of"] or params["uuid"], params["project_id"])
    if state == "deleted":
        found = backup_chain.deleted(where, (params["backup"] or "").split(","), params["name"], dry)
        return {"changed": bool(found), "backups": found}
    changes = state not in READING
    done: Dict[str, Any] = {} if changes and dry else _done(Store(name, params["uuid"], where), state, params)
    return {"changed": changes, **done}


def _done(store: Store, state: str, params: Dict[str, Any]) -> Dict[str, Any]:
    where, key, at = store.where, params["key"], params["address"]
    if state == "listed":
        return {"backups": backup_chain.all_told(where, params["deep"])}
    if state == "looked":
        return store.looked(params["full"], params["chain"])
    if state == "opened":
        backup_id, targets = store.opened(params["parts"], params["backup"], key, at)
        return {"backup": backup_id, "targets": targets}
    if state == "kept":
        whose = params["project_id"], params["name"]
        return {
            "backups": [backup_chain.told(store.kept(params["backup"], whose, params["keep"], params["keep_days"]))]
        }
    if state == "closed":
        store.closed(params["backup"])
        return {}
    hint = backup_hints.list_backups(params["name"], where.to)
    backup = place.chosen(where, params["backup"], params["of"] or params["name"], hint)
    if state == "found":
        return {"newest": backup_chain.fitting(backup)}
    return {"targets": store.served(backup, key, at)}


class Store(NamedTuple):
    """The backups of an instance in the directory of this backup host. ``name``: of the host; ``uuid``: of the instance that is
    backed up or restored, whose backups or another's are in ``where``."""

    name: str
    uuid: str
    where: Place

    @property
    def channel(self) -> str:
        return channel(self.uuid)

    def looked(self, full: bool, chain: int) -> Dict[str, Any]:
        """Return the newest backup that is whole, whether the next one has whole disks, and which may go if there is no room."""
        newest = next(self.where.whole(), None)
        spare = backup_chain.spare(self.where)
        if newest is None:
            return {"newest": None, "full": True, "spare": spare}
        due = full or backup_chain.is_full_due(self.where, newest, chain)
        return {"newest": backup_chain.fitting(newest), "full": due, "spare": spare}

    def opened(self, parts: Sequence[Dict[str, Any]], newest: Optional[str], key: str, at: Optional[str]) -> Any:
        """Make the directory of a new backup with an empty file for each disk, each behind a port. Return (id, targets)."""
        at = self._address(at)
        if place.PAPERS in {part["name"] for part in parts}:
            raise TransferFailed("a disk has the name of the papers, which have a port of their own")
        transfer.close(self.channel)
        backup_id = backup_chain.next_id(self.where)
        self.where.remove_partial()
        paths.make_directory(self.where.path())
        directory = self.where.partial(backup_id)
        paths.make_directory(directory)
        files = {}
        with durable.private():
            for part in parts:
                below = newest if part["kind"] == INCREMENT else None
                files[part["name"]] = backup_chain.make_target(self.where, backup_id, part["name"], part["size"], below)
            received = os.path.join(directory, place.PAPERS)
            transfer.make_empty(received, "raw", place.LARGEST_PAPERS)
        return backup_id, self._targets(key, at, files, received, transfer.WRITABLE)

    def kept(
        self, backup_id: str, whose: Tuple[str, str], keep_last: Optional[int], keep_days: Optional[int]
    ) -> Backup:
        """Make what was written a backup: it is read back, described and named. Older ones that no wish keeps are removed.
        ``whose``: project and name, as the controller knows them."""
        transfer.close(self.channel)
        directory = self.where.partial(backup_id)
        received = os.path.join(directory, place.PAPERS)
        try:
            draft = place.unpack_papers(received, directory)
            if (draft.id, draft.uuid) != (backup_id, self.where.uuid):
                raise TransferFailed("the description is that of another backup, %s of %s" % (draft.id, draft.uuid))
            paths.remove(received)
            self._check_whose(draft, whose)
            self._check_disks(draft, directory)
            made = draft._replace(disks=tuple(backup_chain.read_back(directory, disk) for disk in draft.disks))
            backup_chain.publish(self.where, made, lambda _step: None)
            self._check_kept(made)
        except (OSError, ValueError, BerthError) as error:
            with contextlib.suppress(OSError, BerthError):
                paths.remove_directory(directory)
            words = error.message if isinstance(error, BerthError) else str(error)
            raise BackupNotKept("%s could not keep the backup %s: %s" % (self.name, backup_id, words), host=self.name)
        backup_chain.remove_old(self.where, keep_last, keep_days, made)
        return made

    def _check_whose(self, draft: Backup, whose: Tuple[str, str]) -> None:
        """A restore by name finds the backup of another instance by its description. The uuid of an adopted one follows from nothing."""
        if instance_uuid(*whose) == draft.uuid and (draft.project_id, draft.name) != whose:
            raise TransferFailed("the description is that of %s of project %s" % (draft.name, draft.project_id))

    def _check_disks(self, draft: Backup, directory: str) -> None:
        """The papers come from a KVM host: they describe all disks that were opened, and no others."""
        opened = {name for name in paths.entries(directory) if name.endswith(backups.file_of(""))}
        if opened != {disk.file for disk in draft.disks}:
            raise TransferFailed("the description is not that of the disks %s" % ", ".join(sorted(opened)))

    def _check_kept(self, made: Backup) -> None:
        """Older backups go only after one that can be restored. What the papers say is not what counts."""
        known = self.where.known()
        faults = self.where.faults(made, known) if made.id in known else ["its description cannot be read"]
        if faults:
            self.where.remove(made.id)
            raise TransferFailed("it could not be restored: %s" % "; ".join(faults[:5]))

    def served(self, backup: Backup, key: str, at: Optional[str]) -> List[Dict[str, Any]]:
        """Return the targets from which the disks of the backup are read, after all of it was compared."""
        at = self._address(at)
        place.check_whole(self.where, backup, deep=True)
        transfer.close(self.channel)
        transfer.make_directories(self.channel)
        packed = transfer.directory(self.channel, place.PAPERS)
        place.pack_papers(backup, self.where.path(backup.id), packed)
        files = {disk.name: self.where.path(backup.id, disk.file) for disk in backup.disks}
        return self._targets(key, at, files, packed, READ_ONLY)

    def closed(self, backup_id: Optional[str]) -> None:
        """Close the ports, and remove what was written of a backup that failed."""
        transfer.close(self.channel)
        if backup_id:
            paths.remove_directory(self.where.partial(backup_id))

    def _targets(self, key: str, at: str, files: Dict[str, str], of_papers: str, how: Any) -> List[Dict[str, Any]]:
        wanted = [(name, "qcow2", path) for name, path in files.items()] + [(place.PAPERS, "raw", of_papers)]
        with transfer.closed_on_failure(self.channel):
            transfer.write_key(self.channel, key)
            return [
                {
                    "name": name,
                    "host": at,
                    "port": transfer.serve(self.channel, {"name": name, "format": form}, path, at, how),
                }
                for name, form, path in wanted
            ]

    def _address(self, configured: Optional[str]) -> str:
        """Return the address at which KVM hosts reach this host."""
        for tool in TOOLS:
            if not shutil.which(tool, path=PATH):
                hint = backup_hints.install_tools(self.name)
                raise BackupPlaceUnfit("%s has no %s" % (self.name, tool), hint=hint, host=self.name)
        found = address.of_host(configured, self.name)
        transfer.check_address(found, self.name, backup_hints.correct_address(self.name))
        return str(found)
