# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests in a history that somebody made by hand, with a disk outside of the pool: they are adopted, and left again."""

from __future__ import annotations

import os

from adopt_case import DEFINITION, OWN_UUID
from fake_domain import FakeDomain
from history_backups import write_header
from history_host import write_disk

from ansible_collections.berth.kvm.plugins.module_utils.conductor import adopting
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import delete, operate

UUIDS = {"old1": OWN_UUID}  # by the names that the inventory gives them
NAMES = tuple(UUIDS)
MEMORY_KIB, DISK_BYTES = 64 << 10, 1 << 30


def make(world, machine, name):
    """A person makes the guest, unless it, or a disk of its name, is somewhere: running or off, it is no instance."""
    uuid = UUIDS[name]
    known = [
        each for each in world.machines.values() if uuid in each.host.connection.domains or each.host.store.read(uuid)
    ]
    path = os.path.join(machine.found_disks, name + ".qcow2")
    if known or os.path.exists(path) or not machine.on or machine.dead:
        return
    write_header(path, DISK_BYTES)
    write_disk(path, world.new_disk_name(), 0)
    text = DEFINITION % (uuid, path)
    changes = {"Web_1": name, "pc-i440fx-7.2": "pc", 'type="kvm"': 'type="qemu"', "2097152": str(MEMORY_KIB)}
    for old, new in {**changes, 'type="raw"/><source': 'type="qcow2"/><source'}.items():
        text = text.replace(old, new)
    guest = machine.host.connection.domains[uuid] = FakeDomain(machine.host.connection, text)
    guest.createWithFlags()


class Found:
    """The playbooks."""

    def adopt(self):
        tasks = yield from self._found("adopt", more=self._as_found)
        yield from self._change(tasks, lambda left: operate.adopt(left, {}, () if self.changes else self.inventory))

    def _as_found(self, _name, task):
        return {"flavor": None, "guest": adopting.as_shown(self.seen, task["hosts"][-1], task["uuid"])}

    def leave(self):
        tasks = yield from self._found("leave")
        yield from self._carry_out(delete.and_forget("leave", tasks, {}, self.inventory, self.removes))
