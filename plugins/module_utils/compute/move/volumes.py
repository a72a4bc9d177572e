# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of an instance on its way. They stay where they are: the destination has to see the very directory that the source
has, and from then on the file ``owner`` in it says which host may use or remove what is there.
"""

from __future__ import annotations

import os

from ...model import volume_hints, volumes
from ...model.migration import RESIZE, same_host
from ...model.volume_errors import VolumeStays
from .. import paths
from ..disk import owner, volume_files
from ..record import volume_claim, volume_move, volume_store
from ..record.volume_store import VolumeStore
from . import storage


class Volumes:
    """Those of one instance (``record``) on one host. ``identity`` is {uuid, name} of the host."""

    def __init__(self, host, identity, record):
        self.host, self.identity, self.record = host, identity, record
        self.entries = volumes.of(record.spec)
        self.records = VolumeStore.beside(host.store) if self.entries else None
        self.pool_path = host.pool_of(record) if self.entries else None

    def tell(self):
        """On the source, which owns them, also where an earlier run had let go of them and of nothing else: mark them. -> what the
        destination has to know."""
        self.own()
        self.check_attached()
        if not same_host(self.record.migration):
            for entry in self.entries:
                storage.mark(self.pool_path, self.record, self.identity["uuid"], entry["uuid"], paths.volume)
        return volume_move.told(self.records, self.record)

    def check_movable(self):
        """Before the move begins all are the instance's, and always none is another host's."""
        if self.record.op is None:
            self.check_attached()
        elif self.entries:
            volume_claim.check_here(self.host, self.record)

    def check_seen(self, shared):
        """VolumeStays where this host, the destination, does not have the directories of the source."""
        unseen = [entry["name"] for entry in self.entries if not (shared and self._is_seen(entry))]
        if unseen:
            move, name = self.record.migration, self.record.name
            boot, resize = volumes.boots_from(self.record.spec), move["type"] == RESIZE
            raise VolumeStays(
                "%s has volume %s on %s, and %s does not have that storage: nothing was moved"
                % (name, ", ".join(unseen), move["source"]["name"], self.identity["name"]),
                hint=volume_hints.stay_with_boot_volume(name, boot, resize)
                if boot in unseen
                else volume_hints.detach_volumes_to_move(name, unseen, resize),
                volumes=unseen,
            )

    def _is_seen(self, entry):
        marked = storage.is_one(self.pool_path, entry["uuid"], self.record.op, paths.volume)
        return marked and os.path.isfile(paths.volume_file(self.pool_path, entry["uuid"]))

    def expect(self, said):
        volume_move.expect(self.records, self.record, said)

    def let_go(self):
        volume_move.let_go(self.records, self.record)

    def own(self):
        """What is on its way to this host or from it is this host's again: first the files say so, then the records."""
        for volume in volume_move.moving(self.records, self.record):
            if not os.path.isfile(paths.volume_file(self.pool_path, volume.uuid)):
                raise volume_files.not_there(volume.name, paths.volume_file(self.pool_path, volume.uuid))
            if self._is_third(volume):
                volume_claim.check_not_elsewhere(self.host, volume)
            self._take(volume)

    def take_given(self):
        """Before a delete here, where the other host has let go or is lost. What is gone, or a third host's, is left as it is."""
        for volume in volume_move.moving(self.records, self.record):
            if os.path.isfile(paths.volume_file(self.pool_path, volume.uuid)) and not self._is_third(volume):
                self._take(volume)

    def _take(self, volume):
        owner.write(self.pool_path, volume.uuid, self.identity["uuid"], paths.volume)
        volume_move.take(self.records, volume)

    def _is_third(self, volume):
        """Whether a host that is no part of the move has the volume: then it went on since, and what is known here is old."""
        move = self.record.migration or {}
        sides = [self.identity["uuid"], *(move[side]["uuid"] for side in ("source", "destination") if side in move)]
        return owner.read(self.pool_path, volume.uuid, paths.volume) not in (None, *sides)

    def check_attached(self):
        if self.entries:
            volume_store.check_attached(self.host.store, self.record)
            volume_claim.check_here(self.host, self.record)

    def forget(self):
        volume_move.forget(self.records, self.record)

    def settle(self):
        """The move is over, so its marks go."""
        for entry in self.entries:
            storage.unmark(self.pool_path, entry["uuid"], paths.volume)
