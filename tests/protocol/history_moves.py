# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves in a history: the steps and what they do to disks are the real ones, a copy over the network is one of files."""

from __future__ import annotations

import functools
import shutil
import types

import history_live
import volume_fleet_case
from history_host import closed_on_failure, header_size

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, moving_host
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common, table
from ansible_collections.berth.kvm.plugins.module_utils.compute.paths import incoming_file
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import SAID, TAKING
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

# The arguments of a leg that are steps' own; the others are options.
OF_STEPS = ("kind", "spec", "limits", "source", "lost", "when_due", "revert_volumes", "destination", "confirm_window")
DEFAULTS = {"kind": "resize", "limits": {}, "lost": False, "when_due": False, "changed_disks": False, "crashed": False,
            "revert_volumes": True, "confirm_window": 0, "key": "k", "stop_timeout": 1}  # fmt: skip
OPTIONS = {"bandwidth": 0, "copy_while_running": True, "timeout": 0, "timeout_action": "abort", "tls": True}


class Network:
    """The open ports of all hosts: port -> (host, instance, file)."""

    def __init__(self, world, monkeypatch):
        self.world, self.ports, self.number = world, {}, 0
        monkeypatch.setattr(moving_host, "gate", types.SimpleNamespace(
            permit=lambda uuid: gate.permit(uuid, world.now.host.run_dir),
            permit_arrival=lambda uuid: gate.permit_arrival(uuid, world.now.host.run_dir, world.now.host.hook),
            revoke=lambda uuid: gate.revoke(uuid, world.now.host.run_dir),
            check_writable=lambda uuid: gate.check_writable(uuid, world.now.host.run_dir),
        ))  # fmt: skip
        monkeypatch.setattr(moving_host, "transfer", types.SimpleNamespace(
            allocated=lambda _disk: 0,
            close=self.close, closed_on_failure=functools.partial(closed_on_failure, self.close),
            open_targets=self.open_targets, send=self.send,
            check_address=lambda *_: None, bytes_per_second=lambda _options: None,
        ))  # fmt: skip
        monkeypatch.setattr(moving_host.address, "of_host", lambda _setting, name: name)
        monkeypatch.setattr(moving_host.block_jobs, "check_no_others_jobs", lambda *_: None)
        monkeypatch.setattr(moving_host.watchdog.Asked, "check", lambda _self: None)
        monkeypatch.setattr(moving_host.network, "check", lambda *_: None)
        monkeypatch.setattr(moving_host.arrival, "check", lambda *_: None)
        history_live.set_up(world, monkeypatch)
        monkeypatch.setattr(moving_host.left_backup, "end_backup_of", lambda *_: None)
        monkeypatch.setattr(moving_host, "precopy", types.SimpleNamespace(
            tidy=lambda *_: None, is_possible=lambda *_: False, discard_scratch=lambda *_: None,
            what_is_missing=lambda _record, manifest: (manifest, {}),
        ))  # fmt: skip
        monkeypatch.setattr(disks, "virtual_size", header_size)
        resize = volume_fleet_case.resize_file
        monkeypatch.setattr(disks, "run", lambda command, **_how: resize(command[-2], int(command[-1])))

    def close(self, uuid):
        here = self.world.now.name
        self.ports = {port: held for port, held in self.ports.items() if held[:2] != (here, uuid)}

    def open_targets(self, uuid, wanted, _key, address, attempt):
        self.close(uuid)
        targets = []
        for each in wanted:
            path = incoming_file(each["path"], attempt)
            moving_host.paths.remove(path)
            with open(path, "wb") as stream:
                stream.write(volume_fleet_case.header(each["size"]) if each["format"] == "qcow2" else b"")
            self.number += 1
            self.ports[self.number] = (self.world.now.name, uuid, path)
            targets.append({"name": each["name"], "host": address, "port": self.number})
        return targets

    def send(self, uuid, wanted, targets, _key, _bandwidth=None, _rest=None):
        ports = {target["name"]: target for target in targets}
        for each in wanted:
            target = ports[each["name"]]
            held = self.ports.get(target["port"])
            there = held and self.world.machines[held[0]]
            if not there or not there.on or not there.up:
                raise TransferFailed("nobody listens on port %s of %s" % (target["port"], target["host"]))
            self.world.fuse.burn()
            size = header_size(held[2], each["format"])
            shutil.copyfile(each["path"], held[2])
            if each["format"] == "qcow2":
                volume_fleet_case.resize_file(held[2], max(size, header_size(held[2], "qcow2")))
        return {"bytes": 1, "seconds": 0.1}

    @staticmethod
    def views(host):
        """What host_facts tells of the moves of its instances."""
        mover = moving_host.MovingHost(host)
        return [common.view_of(mover, mover.effects.renewed(record)) for record in host.store.records()]

    @staticmethod
    def run_leg(host, uuid, steps, token, peer, **more):
        """What module migration does."""
        mover = moving_host.MovingHost(host)
        move, changed = common.view(mover, uuid), False
        given = {**DEFAULTS, **{name: more[name] for name in OF_STEPS if more.get(name) is not None}}
        for step in steps:
            did, now = table.run(mover, uuid, step, token, peer, sent=move.get("sent"), options=dict(OPTIONS), **{
                "spec": None, "source": None, "destination": None, **given})  # fmt: skip
            changed = changed or did
            if step in TAKING:
                token = {"op": token["op"], "attempt": now["attempt"]}
            move = dict({name: move[name] for name in SAID if name in move}, **now)
        return {"changed": changed, "move": move, "token": token}
