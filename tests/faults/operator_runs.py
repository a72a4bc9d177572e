# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A careless operator of three instances: what the inventory says by now, and which playbook is run next."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cases import LADDER, STEPS, WRITER

from playbooks import catalog, vm

INSTANCES = ("ant", "bee", "cow")
# playbook -> how often, compared with the others
PLAYBOOKS = {
    "create": 14, "resize": 10, "confirm_resize": 8, "revert_resize": 6, "cold_migrate": 6, "live_migrate": 10,
    "stop": 4, "start": 5, "reboot": 3, "delete": 2, "recover": 3, "lock": 1, "unlock": 2, "confirm_due": 1,
    "update_disks": 3, "prepare_hosts": 1, "show": 1, "doctor": 1,
}  # fmt: skip
OF_ALL = ("recover", "confirm_due", "prepare_hosts", "show", "doctor")  # run without --limit
SENSIBLE = 0.8  # how often a playbook that the state of the instance would refuse is passed over


@dataclass
class Wanted:
    """What the inventory says of an instance."""

    step: int = 1  # of the flavors
    state: str | None = None
    volume: bool = False

    def variables(self, name):
        found = vm("step%d" % self.step, user_data=WRITER)
        found.update({"berth_state": self.state} if self.state else {})
        return found | ({"berth_volumes": ["data-" + name]} if self.volume else {})


@dataclass
class Command:
    """A playbook, with or without --limit, and its variables."""

    playbook: str
    name: str | None
    variables: dict

    def words(self):
        return ["berth.kvm." + self.playbook, *(("--limit", self.name) if self.name else ())]

    def __str__(self):
        return " ".join([*self.words(), *("%s=%s" % pair for pair in self.variables.items())])


class Operator:
    def __init__(self, random, hosts, image, path):
        self.random, self.hosts, self.image, self.path = random, hosts, image, path
        self.wanted = {name: Wanted() for name in INSTANCES}

    def inventory(self):
        """Write it -> its path."""
        variables = catalog(self.image)
        variables["berth_flavors"] = {**variables["berth_flavors"], **LADDER}
        variables["berth_volumes_defined"] = {"data-" + name: {"size_gb": 1} for name in INSTANCES}
        found = {name: wanted.variables(name) for name, wanted in self.wanted.items()}
        self.path.write_text(json.dumps({"all": {"vars": variables, "children": {"instances": {"hosts": found}}}}))
        return self.path

    def command(self, seen):
        """The next one. ``seen``: {name: {"resized", "running"}} of the instances that are on a host."""
        name, playbook = self.random.choice(INSTANCES), chosen(self.random, PLAYBOOKS)
        while self.random.random() < SENSIBLE and not makes_sense(playbook, seen.get(name)):
            playbook = chosen(self.random, PLAYBOOKS)
        wanted = self.wanted[name]
        for_all = playbook in OF_ALL or playbook == "create" and self.random.random() < 0.6
        return Command(playbook, None if for_all else name, self._variables(playbook, wanted))

    def _variables(self, playbook, wanted):
        """Its variables; the inventory is changed as for what the playbook does."""
        found = {"berth_shutdown_timeout": 10} if playbook in ("resize", "cold_migrate") else {}
        if playbook in ("resize", "cold_migrate", "live_migrate") and self.random.random() < 0.4:
            found["berth_target_host"] = self.random.choice(self.hosts)
        if playbook == "resize":
            wanted.step = min(wanted.step + 1, STEPS)
            found.update({"berth_allow_resize_to_same_host": True} if self.random.random() < 0.3 else {})
        if playbook == "revert_resize":
            wanted.step = max(wanted.step - 1, 1)
        if playbook == "update_disks":
            wanted.volume = not wanted.volume
        if playbook == "create" and self.random.random() < 0.3:
            wanted.state = self.random.choice([None, "active", "stopped"])
        return found


def chosen(random, weights):
    return random.choices(list(weights), weights.values())[0]


def makes_sense(playbook, seen):
    """Whether the state of the instance, None where there is none, would not refuse the playbook."""
    if seen is None:
        return playbook == "create"
    if playbook in ("confirm_resize", "revert_resize"):
        return seen["resized"]
    if playbook in ("resize", "cold_migrate", "update_disks"):
        return not seen["resized"]
    return playbook not in ("live_migrate", "stop", "reboot") or seen["running"] and not seen["resized"]
