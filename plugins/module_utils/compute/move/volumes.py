# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of an instance in a move. On shared storage they stay: the destination must see the very directory that
the source has, and from then on the file ``owner`` in it says which host may use or remove it. Else their files are
copied with the instance's disks (disks.py; in a live migration by libvirt), and the source keeps its own until the move
is over.
"""

from __future__ import annotations

import os

from ...model import volume_hints, volumes
from ...model.lifecycle import IN
from ...model.migration import LIVE, same_host
from ...model.volumes import VolumeStays
from .. import paths
from ..disk import owner, volume_files
from ..record import room, volume_claim, volume_move, volume_store
from ..record.volume_store import VolumeStore
from . import disks, storage, transfer


class Volumes:
    """The volumes of one instance (``record``) on one host. ``identity`` is {uuid, name} of the host."""

    def __init__(self, host, identity, record):
        self.host, self.identity, self.record = host, identity, record
        self.entries = volumes.of(record.spec)
        self.records = VolumeStore.beside(host.store) if self.entries else None
        self.pool_path = host.pool_of(record) if self.entries else None

    def tell(self, marked=True):
        """On the source, own the volumes, even if an interrupted run had already let go of them, and mark them. Return
        what the destination has to know."""
        if marked:
            self.own()
        self.check_attached()
        if marked and not same_host(self.record.migration):
            for entry in self.entries:
                storage.mark(self.pool_path, self.record, self.identity["uuid"], entry["uuid"], paths.volume)
        return volume_move.reported(self.records, self.record)

    def check_movable(self):
        """Check that all are the instance's before the move begins, and in it that none is another host's."""
        if self.record.op is None:
            self.check_attached()
        elif self.entries:
            volume_claim.check_here(self.host, self.record)

    def check_seen(self, shared):
        """On the destination, raise VolumeStays if the volumes can neither all be seen nor be copied."""
        if self._are_copied(shared):
            for entry in self.entries:
                storage.check_no_files(self.pool_path, entry["uuid"], paths.volume)
            return
        unseen = [entry["name"] for entry in self.entries if not (shared and self._is_seen(entry))]
        if unseen:
            name, boot = self.record.name, volumes.boots_from(self.record.spec)
            raise VolumeStays(
                "%s has volume %s on %s, and %s does not have all of that storage: nothing was moved"
                % (name, ", ".join(unseen), self.record.migration["source"]["name"], self.identity["name"]),
                hint=volume_hints.stay_with_boot_volume(name, boot)
                if boot in unseen
                else volume_hints.detach_volumes(name, unseen),
                volumes=unseen,
            )

    def _are_copied(self, shared):
        """Whether they are copied. Not if the source's directory of one is visible: that copy would overwrite it."""
        return not (shared or any(map(self._is_seen, self.entries)))

    def _is_seen(self, entry):
        marked = storage.is_one(self.pool_path, entry["uuid"], self.record.op, paths.volume)
        return marked and os.path.isfile(paths.volume_file(self.pool_path, entry["uuid"]))

    def expect(self, reported):
        volume_move.expect(self.records, self.record, reported)

    def reserve(self):
        """Claim the room of volumes without a record, if the run that claimed it was killed. Needs the host's lock."""
        missing = [entry for entry in self.entries if self.records.read(entry["uuid"]) is None]
        if missing and not storage.is_shared(self.record):
            room.allocate(self.host, self.record, sum(entry["size_gb"] for entry in missing))

    def let_go(self):
        volume_move.let_go(self.records, self.record)

    def own(self):
        """Own again what is moving to or from this host: first by the owner files, then by the records."""
        for volume in volume_move.moving(self.records, self.record):
            if not self._is_here(volume):
                raise volume_files.not_there(volume.name, paths.volume_file(self.pool_path, volume.uuid))
            if self._is_third(volume):
                volume_claim.check_not_elsewhere(self.host, volume)
            self._take(volume)

    def _is_here(self, volume):
        """Whether the whole file is here. A live migration fills it under its final name until the guest arrives."""
        move = self.record.migration or {}
        live = move.get("type") == LIVE and not storage.is_shared(self.record)
        if live and volume.role == IN and move["verified"] is None:
            return False
        return os.path.isfile(paths.volume_file(self.pool_path, volume.uuid))

    def check_kept(self, hint):
        """Raise VolumeNotFound if the file of a volume that would be taken back is gone."""
        for volume in volume_move.moving(self.records, self.record):
            if not self._is_here(volume):
                raise volume_files.not_there(volume.name, paths.volume_file(self.pool_path, volume.uuid), hint)

    def take_given(self):
        """Before a delete here, if the other host let go or is lost: take the volumes that are here and no third
        host's."""
        for volume in volume_move.moving(self.records, self.record):
            if self._is_here(volume) and not self._is_third(volume):
                self._take(volume)

    def _take(self, volume):
        owner.write(self.pool_path, volume.uuid, self.identity["uuid"], paths.volume)
        volume_move.take(self.records, volume)

    def _is_third(self, volume):
        """Whether a host outside the move has the volume: then it was used since, and the records here are outdated."""
        move = self.record.migration or {}
        sides = [self.identity["uuid"], *(move[side]["uuid"] for side in ("source", "destination") if side in move)]
        return owner.read(self.pool_path, volume.uuid, paths.volume) not in (None, *sides)

    def check_attached(self):
        if self.entries:
            volume_store.check_attached(self.host.store, self.record)
            volume_claim.check_here(self.host, self.record)

    def forget(self):
        """Forget the volumes of an instance that is gone from this host. Remove copies first, then the records."""
        if not storage.is_shared(self.record):
            for volume in volume_move.leaving(self.records, self.record):
                self._remove(volume.uuid)
        volume_move.forget(self.records, self.record)

    def forget_unfinished(self):
        """Before a delete here, remove incomplete copies. The source has the volume, or had it when it was lost."""
        for volume in volume_move.moving(self.records, self.record):
            if volume.role == IN and not storage.is_shared(self.record) and not self._is_here(volume):
                self._remove(volume.uuid)
                volume_move.forget_one(self.records, volume)

    def _remove(self, uuid):
        """Remove its directory, unless another host owns it."""
        if not owner.is_another(self.pool_path, uuid, self.identity["uuid"], paths.volume):
            paths.remove_directory(paths.volume(self.pool_path, uuid))

    def settle(self):
        """Remove the marks of a move that is over."""
        for entry in self.entries:
            storage.unmark(self.pool_path, entry["uuid"], paths.volume)


class VolumeEffects:
    def _volumes(self, record):
        return Volumes(self.host.compute, self.host.identity, record)

    def tell_volumes(self, record):
        return self._volumes(record).tell(marked=not self.only_looks)

    def expect_volumes(self, record, reported):
        self._volumes(record).expect(reported)

    def reserve_volumes(self, record):
        self._volumes(record).reserve()

    def publish_volumes(self, record):
        """Publish the volumes that the source let go of: from now on there are no other copies."""
        if not storage.is_shared(record):
            transfer.close(record.uuid)
            storage.check_shared_as_claimed(self.pool_path(record), record)
            disks.publish_volumes(self.pool_path(record), record)

    def let_go_of_volumes(self, record):
        self._volumes(record).let_go()

    def own_volumes(self, record):
        self._volumes(record).own()

    def take_given_volumes(self, record):
        self._volumes(record).take_given()
