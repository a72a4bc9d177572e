# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks for volumes in a history: update_disks attaches, detaches, creates and grows, delete_volume deletes. And update,
which does that, too, and gives the instance other limits and another seed."""

from __future__ import annotations

import dataclasses

from history_backups import Backups
from history_plans import Plans
from volume_fleet_case import MakesVolumes

from ansible_collections.berth.kvm.plugins.module_utils.conductor import volume_hosts
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import rebuild, update, update_disks
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

NAMES = ("db", "logs")
MOST_GB = 3


class Runs(MakesVolumes, Backups, Plans):
    """``berth_volumes``: the names of the volumes that the instances should have; ``host`` is a number for which to grow or
    delete; ``entries`` is what the inventory says of them."""

    def hosts(self):
        return self.inventory

    def new_token(self):
        return self.token()

    def entries(self, names):
        sizes = self.world.volume_sizes
        return [{"name": name, "size_gb": sizes.get(name, 1), "delete_on_termination": False} for name in names]

    def update_disks(self):
        for volume in self.options.get("grown") or ():
            self.world.volume_sizes[volume] = min(MOST_GB, self.world.volume_sizes.get(volume, 1) + 1)
        tasks = yield from self._found("update_disks", more=self._wanted)
        yield from self._change(tasks, lambda left: update_disks.update_disks(left, {}, self._makes()))

    def _makes(self):
        return dataclasses.replace(self._run_of_disks(), changes=self.changes)

    def _wanted(self, name, task):
        return self._volumes_of(self.seen, self.options.get("berth_volumes") or ())(name, task)

    def update(self):
        requests = {}

        def more(name, task):
            spec, seed = self.world.request(name)
            limits = {"quota:cpu_shares": str(self.dice.randint(1, 3))}
            told = {"role": self.dice.choice("ab")}
            requests[name] = {**seed, "metadata": told}
            spec = {**spec, "metadata": told, "flavor": {**spec["flavor"], "extra_specs": limits}}
            return {**self._wanted(name, task), "spec": spec, "only_new": None, "discards": []}

        tasks = yield from self._found("update", more=more)
        run = update.Run(self._makes(), lambda name, _spec: requests[name])
        yield from self._change(tasks, lambda left: update.update(left, {}, run))

    def rebuild(self):
        tasks = yield from self._found("rebuild")
        for name in tasks:
            self.world.gives_up(name)
        requests = {name: self.world.request(name) for name in tasks}
        wanted = {name: {**task, "spec": requests[name][0]} for name, task in tasks.items()}
        given = {name: {"discards_root": name} for name in tasks}
        yield from self._carry_out(rebuild.rebuild(wanted, given, lambda name, _spec: requests[name][1], False))

    def rescue(self):
        tasks = yield from self._found("rescue")
        images = {name: self.world.request(name)[0]["image"] for name in tasks}
        wanted = {name: {**task, "rescue_image": images[name], "pool": "berth"} for name, task in tasks.items()}
        yield from self._carry_out(rebuild.rescue(wanted, {}, False))

    def delete_volume(self):
        for volume in self.options.get("berth_volumes") or ():
            seen = yield from self.read()
            uuid = volume_uuid("default", volume)
            try:
                host = volume_hosts.to_delete(seen, volume, uuid, NAMES, self.lost)
            except BerthError:
                continue
            if host:
                self.world.gives_up_volume(uuid)
                yield from self.ask(host, "volume_task", uuid=uuid)
