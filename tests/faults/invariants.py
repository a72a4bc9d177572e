# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The invariants that hold at any moment, watched while operations run and fail: I1, I2, I3, I12, I13.

I6 (groups) is about several instances; the tests of create have it. I7 is in the quota of chain.py.
"""

from __future__ import annotations

import threading

PAUSE = 0.1  # seconds between two looks
OWNERS = ("OWN", "OUT")  # whose disks are, or just were, the instance
DELETED = ("deleting", "erasing")  # has to have no disk any more
PARTS = (".tmp", "incoming", "seed.iso", "moving-", "/owner", "/attached.json")  # what is no complete disk


class Violation(AssertionError):
    """An invariant does not hold; the text begins with its number."""


class Watcher:
    """Looks at all hosts in a thread of its own; ``check`` raises what was seen since the last one."""

    def __init__(self, hosts, shared=False):
        self.hosts, self.shared = hosts, shared
        self.seen = []
        self.found = None  # the uuid of a guest that libvirt alone made: its disks are its own
        self.generations = {}
        self.looks = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.ended.set()
        self.thread.join()

    def check(self):
        if self.seen:
            found, self.seen = self.seen, []
            raise Violation(found[0])

    def forget(self, found=None):
        """Another instance begins, or a guest that is to be adopted."""
        self.generations, self.seen, self.found = {}, [], found

    def _watch(self):
        while not self.ended.wait(PAUSE):
            wrong = self._look()
            # Hosts are read one after the other: only what is still so at once after is so.
            if wrong and self._look() == wrong:
                self.seen.append(wrong)
            self.looks += 1

    def _look(self):
        views = {host.name: host.view() for host in self.hosts}
        for view in views.values() if self.found else ():
            if self.found not in view.records:
                view.domains.pop(self.found, None)
        return (
            one_runs(views)
            or claims_hold(views)
            or (None if self.found else a_disk_is_there(views, self.shared))
            or one_writes(views)
            or self._only_grows(views)
        )

    def _only_grows(self, views):
        """I12."""
        held = {}
        for view in views.values():
            for uuid, record in view.records.items():
                if record["role"] != "CLAIM":  # it owns nothing, and a later run may begin it anew
                    held.setdefault(uuid, []).append(record["generation"])
        for uuid, generations in held.items():
            before = self.generations.get(uuid, [0, 0])
            if max(generations) < before:
                return "I12 the generation was %s, and the hosts have %s" % (before, generations)
            self.generations[uuid] = max(generations)
        return None


def one_runs(views):
    """I1: at most one, and only where the record says OWN."""
    places = [(name, uuid) for name, view in views.items() for uuid in view.running()]
    for name, uuid in places:
        role = views[name].records.get(uuid, {}).get("role")
        if role != "OWN":
            return "I1 the guest runs on %s, where its role is %s" % (name, role)
    if len({uuid for _name, uuid in places}) < len(places):
        return "I1 the guest runs on %s" % " and ".join(name for name, _uuid in places)
    return None


def claims_hold(views):
    """I2: whatever runs or waits to run is within what its record sets aside."""
    for name, view in views.items():
        for uuid, (state, memory) in view.domains.items():
            claimed = view.records.get(uuid, {}).get("resources", {}).get("memory_mb", 0)
            if memory > claimed:
                return "I2 a %s guest has %d MiB on %s, where %d MiB are claimed" % (state, memory, name, claimed)
    return None


def a_disk_is_there(views, shared=False):
    """I3: a complete disk lies where the instance is or was last; a host that is down keeps what it has.

    ``shared``: the disks are wherever the storage is seen; a host that was just booted does not see it yet.
    """
    files = [name for view in views.values() for name in view.files] if shared else []
    holders = [
        (view, uuid)
        for view in views.values()
        for uuid, record in view.records.items()
        if record["role"] in OWNERS and record.get("phase") not in DELETED and not record["spec"].get("shelved")
    ]
    for view, uuid in holders:
        if whole_disks([*view.files, *files], uuid) or not view.up:
            return None
    return "I3 no host that owns the instance, or did last, has a disk of it" if holders else None


def has_disk(views, uuid):
    """Whether a host has a disk of the instance; one that is down keeps what it has."""
    return any(whole_disks(view.files, uuid) or not view.up and uuid in view.records for view in views)


def whole_disks(files, uuid):
    return [name for name in files if name.startswith(uuid) and not any(part in name for part in PARTS)]


def one_writes(views):
    """I13: a guest has a volume only while the volume's record says that it is that instance's."""
    for name, view in views.items():
        for uuid, had in view.has_volumes.items():
            for volume in had:
                holder = (view.volumes.get(volume, {}).get("spec", {}).get("instance") or {}).get("uuid")
                if holder != uuid:
                    return "I13 guest %s on %s has volume %s, which is that of %s" % (uuid, name, volume, holder)
    return None
