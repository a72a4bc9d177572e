# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live migrations and resizes on one host in a history: the steps are the real ones, what libvirt and qemu-img would do to
the guest and its disks is done here, file by file, so that it can be killed in between."""

from __future__ import annotations

import shutil
import types

import volume_fleet_case
from history_host import header_size
from libvirt_names import BY_USER, MIGRATED, PAUSED

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, live_checks, moving_host, onlooker
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.live import has_arrived
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationError


class NobodyListens:
    """The two hosts of a migration have no channel here: the controller's legs do all that is left."""

    @staticmethod
    def receive(_is_wanted):
        return None


def set_up(world, monkeypatch):
    live = Live(world)
    monkeypatch.setattr(moving_host, "live", types.SimpleNamespace(
        abort=lambda *_: None, has_arrived=has_arrived, follow=live.follow, prepare=live.prepare, migrate=live.migrate,
    ))  # fmt: skip
    monkeypatch.setattr(moving_host, "live_checks", types.SimpleNamespace(
        describe=lambda *_: {"cpu": None}, look=lambda *_: {"problems": []}, judge=judge,
    ))  # fmt: skip
    monkeypatch.setattr(moving_host.Effects, "channel_to_source", lambda *_: NobodyListens)
    monkeypatch.setattr(onlooker, "is_migrating", lambda _guest: False)
    monkeypatch.setattr(disks, "lay_over", lay_over)


def judge(_guest, record, *_seen):
    return list(live_checks._snapshots_left(record))


class Live:
    def __init__(self, world):
        self.world = world

    @staticmethod
    def follow(connection, uuid, _options, _goes_on):
        return onlooker.has_left(connection, uuid)

    @staticmethod
    def prepare(effects, record, manifest, _arrived):
        wanted = [entry for entry in disks.expected(effects.pool_path(record), record, manifest)
                  if not disks.is_read_only(entry)]  # fmt: skip
        if not effects.running(record.uuid):
            effects.define(record)
            for entry in wanted:
                make_empty(entry)
        return {"address": effects.address(), "paths": {entry["name"]: entry["path"] for entry in wanted}}

    def migrate(self, effects, record, targets, _options, _there=None):
        """The guest stops here when all its disks are there, and waits there, paused."""
        here, there = self.world.now, self.world.machines[targets["address"]]
        guest = here.host.connection.domains.get(record.uuid)
        if onlooker.has_left(effects.connection, record.uuid):
            return None, None
        arriving = there.host.connection.domains.get(record.uuid)
        if guest is None or not guest.isActive() or not there.on or not there.up or arriving is None:
            raise MigrationError("the guest does not run, or nobody takes it")
        for entry in disks.manifest(effects.pool_path(record), record, with_path=True):
            if entry["name"] in targets["paths"]:
                self.world.fuse.burn()
                shutil.copyfile(entry["path"], targets["paths"][entry["name"]])
        arriving.now, arriving.reason = PAUSED, BY_USER
        guest.end(MIGRATED)
        return None, None


def make_empty(entry):
    with open(entry["path"], "wb") as stream:
        stream.write(volume_fleet_case.header(entry["size"]) if entry["format"] == "qcow2" else b"")


def lay_over(disk, source, _backing, path, size):
    """A copy in place of a layer: who reads it finds the same."""
    shutil.copyfile(source, path)
    if disk.format == "qcow2":
        volume_fleet_case.resize_file(path, max(header_size(source, "qcow2"), size or 0))
