# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks for volumes in a history: update_disks attaches, detaches, creates and grows, delete_volume deletes. And update,
which does that, too, and gives the instance other limits and another seed."""

from __future__ import annotations

from typing import ClassVar

from history_move_runs import Moves
from volume_fleet_case import MakesVolumes

from ansible_collections.berth.kvm.plugins.module_utils.conductor import volumes
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import rebuild, update
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

NAMES = ("db", "logs")
MOST_GB = 3


class Runs(MakesVolumes, Moves):
    """``berth_volumes``: the names of the volumes that the instances should have; ``host`` is a number for which to grow or
    delete; ``entries`` is what the inventory says of them."""

    quotas: ClassVar = {}

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
        for name in self.names:
            seen = yield from self.read()
            try:
                uuid = self.world.uuid(name)
                task = self._to_update(seen, name, uuid, self.options.get("berth_volumes") or ())
            except BerthError as error:
                self.refused(name, error)
                continue
            done = yield from self._update(name, task, self._ask_step)
            if done.errors:
                self.errors[name] = done.errors[0]

    def update(self):
        for name in self.names:
            seen = yield from self.read()
            spec, seed = self.world.request(name)
            limits = {"quota:cpu_shares": str(self.dice.randint(1, 3))}
            told = {"role": self.dice.choice("ab")}
            spec = {**spec, "metadata": told, "flavor": {**spec["flavor"], "extra_specs": limits}}
            seed = {**seed, "metadata": told}
            try:
                uuid = self.world.uuid(name)
                task = self._to_update(seen, name, uuid, self.options.get("berth_volumes") or ())
            except BerthError as error:
                self.refused(name, error)
                continue
            task.update(spec=spec, only_new=None, disks=[])
            run = update.Run(self._run_of_disks(), lambda _name, _spec, seed=seed: seed)
            yield from self._carry_out(update.update({name: task}, {}, run))

    def rebuild(self):
        tasks = yield from self._found("rebuild")
        for name in tasks:
            self.world.gives_up(name)
        requests = {name: self.world.request(name) for name in tasks}
        wanted = {name: {**tasks[name], "spec": spec} for name, (spec, _seed) in requests.items()}
        given = {name: {"discards": name} for name in tasks}
        yield from self._carry_out(rebuild.rebuild(wanted, given, lambda name, _spec: requests[name][1], False))

    def delete_volume(self):
        for volume in self.options.get("berth_volumes") or ():
            seen = yield from self.read()
            uuid = volume_uuid("default", volume)
            try:
                host = volumes.to_delete(seen, volume, uuid, NAMES, self.lost)
            except BerthError:
                continue
            if host:
                self.world.gives_up_volume(uuid)
                yield from self.ask(host, "volume_task", uuid=uuid)
