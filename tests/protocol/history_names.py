# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of a history: what the inventory calls its instances, and the playbook that renames one. A step names an instance as it
was called first, whatever it is called since."""

from __future__ import annotations

import itertools
from typing import ClassVar

import history_found
from memory_names import Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import is_owner
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import own_name
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import operate
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

NEW = ("web8", "web9")  # beside the names that the instances of a history have


class Entries:
    """``called``: first name -> the one now; ``own``: name -> the uuid that the inventory says; ``by_uuid``: each that ever was in
    it, with its last name."""

    def __init__(self, names):
        self.first, self.own = list(names), dict(history_found.UUIDS)
        self.called = {name: name for name in [*names, *history_found.NAMES]}
        self.by_uuid = {self.uuid(name): name for name in self.called}
        self.unused = map("web{}".format, itertools.count(20))

    def names(self):
        return [self.called[name] for name in self.first]

    def uuid(self, name):
        return self.own.get(name) or instance_uuid("default", name)

    def uuids(self):
        return [self.uuid(name) for name in self.called.values()]

    def call(self, uuid, new):
        """That instance has this name from now on; the entry that had it gets one that nobody had."""
        had_it = [first for first, name in self.called.items() if name == new]
        has_uuid = [first for first, name in self.called.items() if self.uuid(name) == uuid]
        if not has_uuid + had_it:
            return
        for other in had_it:
            self.called[other] = next(self.unused)
        first = (has_uuid + had_it)[0]
        self.own.pop(self.called[first], None)
        self.called[first] = new
        self.own[new] = uuid
        self.by_uuid.update({self.uuid(name): name for name in self.called.values()})

    def forget(self, name):
        """The instance is gone: the next one of that name has the uuid that follows from it."""
        if self.own.get(name) not in history_found.UUIDS.values():
            self.own.pop(name, None)

    def named(self, document):
        """The document of a host, with the names that the inventory gives to uuids that do not follow from one."""
        names = {uuid: name for name, uuid in self.own.items()}
        known = (
            {**each, "name": names.get(each["uuid"], each["uuid"])} if own_name(each) else each
            for each in document["instances"]
        )
        return {**document, "instances": list(known)}


def check_only(machines, uuid, name):
    """Of these hosts none has another instance of that name."""
    for machine in machines:
        for record in machine.host.store.records():
            if is_owner(record) and record.name == name and record.uuid != uuid:
                raise Violation("H8 %s is called %s, as %s on %s is" % (uuid, name, record.uuid, machine.name))


class Names:
    """The playbook. What a person writes into the inventory after a run: ``renamed``, uuid -> the new name, and who is ``gone``."""

    renamed: ClassVar = {}
    gone = ()

    def rename(self):
        tasks = yield from self._found("rename")
        yield from self._change(tasks, lambda left: operate.rename(left, {}, False, self.changes))
        self.renamed = {
            task["uuid"]: task["new_name"] for name, task in tasks.items() if task["hosts"] and name not in self.errors
        }
