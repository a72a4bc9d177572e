# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the steps of a move do to the hosts in memory: guests, disks, transfers. A durable action costs one tick."""

from __future__ import annotations

import copy

from memory_names import OFF, ON, PAUSED, D, S, Violation
from memory_volumes import VolumeEffects, Volumes

from ansible_collections.berth.kvm.plugins.module_utils.compute.durable import StateNotWritten
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.grow import GuestNotGrown
from ansible_collections.berth.kvm.plugins.module_utils.model import operation_hints, state_hints, volumes
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import RunEnded
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import NetworkNotFound
from ansible_collections.berth.kvm.plugins.module_utils.model.vm_states import is_meant_paused


class Effects(VolumeEffects):
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.place, self.volumes = world.place(name), Volumes(world, name)

    def running(self, uuid):
        return self.world.guest[self.name] != OFF

    def check_room(self, record, disks):
        pass

    def check_destination(self, record, disks):
        if self.world.shared:
            return True
        if self.world.disks[self.name] or self.world.parts[self.name]:
            raise BerthError("the destination holds files of the instance")
        return False

    def executing(self, uuid):
        return self.world.guest[self.name] == ON

    def power_state(self, uuid):
        return {OFF: "shutdown", ON: "running", PAUSED: "paused"}[self.world.guest[self.name]]

    def halted(self, uuid):
        return self.world.guest[self.name] == PAUSED

    def health(self, record):
        crashed = self.world.__dict__.get("crashed") == self.name
        return {"state": "crashed" if crashed else self.world.__dict__.get("seen", "answers"), "seen": "said so"}

    def check_asked(self):
        if self.world.__dict__.get("hung_up"):
            raise RunEnded("the run that asked for it has ended")

    def check_movable(self, record):
        pass

    def end_left_backup(self, record):
        pass

    def renewed(self, record):
        return record

    def has_left(self, uuid):
        return self.world.left and self.name == S

    def describe_live(self, record):
        return {"cpu": None}

    def inspect_live(self, record, guest):
        return {"problems": []}

    def check_live(self, record, seen, options, there=None):
        return seen["problems"]

    def disks(self, record):
        return [{"name": "root"}]

    def allocate(self, spec, limits):
        return {"vcpus": spec["flavor"]["vcpus"], "disk_gb": 1 + volumes.new_gb(spec), "resources": {}}

    def stop(self, uuid, timeout):
        self.world.tick()
        self.world.guest[self.name] = OFF

    def start(self, record):
        self.world.tick()
        self.world.guest[self.name] = ON
        self.world.flavor = record.spec["flavor"]["name"]
        self.world.check()

    def define(self, record):
        self.world.tick()

    define_unless_changed = define

    def check_side(self, record):
        """No third host is in this world."""

    def check_deletable(self, record):
        self.check_disks(record)

    def check_networks(self, record, hint):
        if self.world.__dict__.get("networkless") == self.name:
            raise NetworkNotFound("%s has no bridge br0" % self.name, hint=hint)

    def check_disks(self, record, live=False):
        if self.world.__dict__.get("changed") == self.name:
            raise DiskChainChanged("a snapshot's layer lies over the disk on %s" % self.name)

    def check_beside(self, record):
        if self.world.__dict__.get("beside") == self.name and not record.migration["shared"]:
            raise DiskChainChanged("a file of somebody else lies beside the disk on %s" % self.name)

    def hide(self, record):
        self.world.tick()

    def settle(self, record):
        self.world.tick()
        if self.world.disks[self.place]:
            self.world.disks[self.place].pop("of", None)

    def purge(self, record):
        self.world.tick()
        self.world.guest[self.name] = OFF
        self.world.channel[self.name] = None
        self.world.tick()
        self.world.parts[self.name] = None
        if not self.leaves_the_disks(record):
            self.world.disks[self.place] = None
        self.forget_volumes(record)

    def erase(self, record):
        self.world.deleted = True
        self.world.tick()
        self.world.channel[self.name] = None
        self.world.guest[self.name] = OFF
        self.world.tick()
        self.world.disks[self.place] = self.world.kept[self.place] = self.world.parts[self.name] = None
        if self.world.shared:
            self.world.parts[D] = None
        self.volumes.detach()

    def leaves_the_disks(self, record):
        """Of one storage the purge of a side removes nothing: by the record, and by whose the disks say they are."""
        return record.migration["shared"] or (self.world.shared and self.world.disk_owner != self.name)

    def stop_transfer(self, uuid):
        self.world.tick()
        self.world.channel[self.name] = None

    # cold copy

    def receive(self, record, disks, key):
        self.world.tick()
        self.world.parts[self.name] = None
        if record.migration["shared"]:
            return {"channel": None}
        self.world.channel[self.name] = "%s/%d" % (record.op, record.migration["attempt"])
        return {"channel": self.world.channel[self.name]}

    def presend(self, record, targets, key, options):
        return self._open(targets)

    def send(self, record, targets, key, options):
        if targets["channel"] is None:
            # The layer over the disk as it is now: a guest that ran since would make it stale.
            self.world.tick()
            self.world.parts[D] = dict(self.world.disks[S])
        return self._open(targets)

    def _open(self, targets):
        """The copy begins; the explorer lets it land later, with whatever happened in between."""
        if targets["channel"] is None:
            return {"shared": True}
        return {"pending": targets["channel"], "from": self.world.disks[self.name]["version"]}

    def complete(self, record):
        self.world.tick()
        if record.migration["shared"]:
            if self.world.parts[D] is None and self.world.kept[S] is None:
                raise BerthError("no layer")
            return
        self.publish_volumes(record)
        part = self.world.parts[self.name]
        if part is None and self.world.disks[self.name] is None:
            raise BerthError("no complete copy")
        if part is not None:
            self.world.disks[self.name], self.world.parts[self.name] = part, None
        self.world.channel[self.name] = None

    def take_over(self, record):
        world = self.world
        if record.migration["shared"] and record.migration["type"] != "live-migration":
            world.tick()
            if world.kept[S] is None:
                world.kept[S] = dict(world.disks[S])
            world.tick()
            if world.parts[D]:
                world.disks[S], world.parts[D] = dict(world.parts[D], of="new"), None
        world.tick()
        world.disk_owner = self.name
        self.own_volumes(record)

    def check_kept(self, record, hint):
        if not (self.world.disks[self.place] or self.world.kept[self.place]):
            raise BerthError("the kept disks are gone", hint=hint)
        self.check_restorable(record)

    def check_restorable(self, record):
        if self.world.__dict__.get("unwritable") == self.name:
            raise StateNotWritten("owner on %s cannot be written" % self.name, hint=state_hints.make_room(self.name))

    def take_back(self, record):
        if record.migration["shared"]:
            self.restore_disks(record)
        self.world.tick()
        self.world.disk_owner = self.name
        self.own_volumes(record)

    # live

    def receive_seed(self, record, disks, key):
        return {}

    def send_seed(self, record, targets, key):
        return {}

    def prepare_live(self, record, disks):
        self.world.tick()
        if self.world.guest[self.name] == OFF and not record.migration["shared"]:
            self.world.disks[self.name] = None
            self.world.volume_files[self.name] = False
        return {"arrived": self.world.guest[self.name] == PAUSED}

    def discard_arrived(self, record):
        self.world.tick()
        self.world.guest[self.name] = OFF

    def follow_live(self, record, options):
        """The migration that is under way fails at its end: the copy has arrived, and the guest goes on here."""
        self.world.__dict__.pop("on_its_way", None)
        return False

    def migrate_live(self, record, targets, options, there=None):
        world = self.world
        if world.guest[S] == ON or world.guest[S] == PAUSED and is_meant_paused(record):
            if world.guest[D] != OFF:
                raise BerthError("libvirt on the destination has the guest already")
            world.tick()
            world.disks[world.place(D)] = copy.deepcopy(world.disks[S])
            world.volume_files[world.place(D)] = world.volume
            world.guest[D] = PAUSED if not world.__dict__.get("unpaused") else ON
            if world.lose_finish == "halted":
                world.guest[S] = PAUSED
                raise BerthError("libvirt on the source died as Finish was on its way")
            if world.lose_finish:
                world.check()
                raise BerthError("the reply was lost, the guest is on the source as before")
            world.guest[S], world.left = OFF, True
            world.check()
            world.tick()
        elif not (world.left and (targets.get("arrived") or world.guest[D] == PAUSED)):
            raise BerthError("the guest is off and has not arrived")

    def channel_to_destination(self, uuid, op):
        return Channel(self.world)

    def downtime_ms(self):
        return 431

    def channel_to_source(self, uuid, op):
        return Channel(self.world)

    def arrived(self, record):
        return self.world.guest[self.name] == PAUSED and not self.world.__dict__.get("on_its_way")

    def resume(self, record):
        self.world.tick()
        if not is_meant_paused(record):
            self.world.guest[self.name] = ON
        self.world.check()

    # one host

    def grow(self, record):
        if self.world.__dict__.get("takes_no_more"):
            raise GuestNotGrown("no free memory device slot", hint=operation_hints.stop_and_resize(record.name))
        self.world.tick()
        self.world.flavor = "between"
        self.world.tick()
        self.world.flavor = record.spec["flavor"]["name"]

    def shrink(self, record):
        self.world.tick()
        if not self.world.clings:
            self.world.flavor = record.spec["flavor"]["name"]
        return not self.world.clings

    def keep_disks(self, record):
        self.world.tick()
        if self.world.kept[self.name] is None:
            self.world.kept[self.name] = dict(self.world.disks[self.name])
            self.world.disks[self.name]["of"] = "new"

    def has_kept_disks(self, record):
        return self.world.kept[self.place] is not None

    def restore_disks(self, record):
        self.world.tick()
        if self.world.kept[self.place] is not None:
            if self.world.guest[self.name] != OFF:
                raise Violation("the disks change under a running guest")
            self.world.latest = self.world.kept[self.place]["version"]
            self.world.disks[self.place], self.world.kept[self.place] = self.world.kept[self.place], None

    def drop_disks(self, record):
        self.world.tick()
        self.world.kept[self.place] = None


class Channel:
    """In a sequence nobody waits and no answer comes: the action "take over" stands for what both sides do then."""

    def __init__(self, world):
        self.world = world

    def ask(self, view):
        self.world.receipt = view

    def receive(self, is_wanted):
        pass
