# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a host's volumes in memory, and what the steps of a move do to them, by the functions that ship."""

from __future__ import annotations

import functools
import json
import pickle

from memory_names import VOLUME, Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import StaleRecord
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import volume_move, volume_store
from ansible_collections.berth.kvm.plugins.module_utils.model import volumes
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record


def record_of(data):
    """As it is read from the disk: a new one each time, checked (once for each that there ever was)."""
    return pickle.loads(_checked(json.dumps(data))) if data else None


@functools.lru_cache(maxsize=None)
def _checked(text):
    return pickle.dumps(Record.from_dict(json.loads(text)))


class Volumes:
    """What volume_move needs of a store."""

    def __init__(self, world, name):
        self.world, self.name = world, name

    def read(self, uuid):
        data = self.world.volumes[self.name] if uuid == VOLUME else None
        return record_of(data)

    def compare_and_swap(self, expected, new):
        found = self.read(VOLUME)
        if (found and found.version()) != (expected and expected.version()):
            raise StaleRecord("changed")
        volumes.check_change(found and found.state(), new and new.state())
        if expected and new and list(new.generation) <= list(expected.generation):
            raise Violation("I12 the generation of the volume does not grow")
        self.world.tick()
        self.world.volumes[self.name] = new.to_dict() if new else None
        return new

    def detach(self):
        volume = self.read(VOLUME)
        if volume and volume.spec["instance"]:
            volume_store.change(self, volume, "detach", None)


class VolumeEffects:
    """Part of the effects; ``volumes`` are those of the host."""

    def tell_volumes(self, record):
        self.own_volumes(record)
        return volume_move.reported(self.volumes, record)

    def expect_volumes(self, record, said):
        volume_move.expect(self.volumes, record, said)

    def reserve_volumes(self, record):
        pass

    def publish_volumes(self, record):
        if self.world.volume and not record.migration["shared"]:
            self.world.tick()
            if self.world.parts[self.name] is not None:
                self.world.volume_files[self.place] = True
            self._check_file()

    def _check_file(self):
        if not self.world.volume_files[self.place]:
            raise BerthError("the file of the volume is not there")

    def let_go_of_volumes(self, record):
        volume_move.let_go(self.volumes, record)

    def own_volumes(self, record):
        for volume in volume_move.moving(self.volumes, record):
            self._check_file()
            volume_move.take(self.volumes, volume)

    def take_given_volumes(self, record):
        if self.world.volume_files[self.place]:
            self.own_volumes(record)

    def forget_volumes(self, record):
        if not self.world.shared and volume_move.leaving(self.volumes, record):
            self.world.tick()
            self.world.volume_files[self.place] = False
        volume_move.forget(self.volumes, record)
