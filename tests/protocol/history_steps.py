# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a history: plain data made by dice, so that a history without some of them can be played again."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
from typing import NamedTuple, Optional, Tuple

import history_engine
import history_found
import history_hints
import history_names
import history_plans
import history_volumes
from fibers import Alone, Fiber
from history_hints import is_dead
from instance_case import Killed
from memory_names import Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import is_owner
from ansible_collections.berth.kvm.plugins.module_utils.model import shelves
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError

HOSTS, INSTANCES, STEPS = (3, 5), (3, 6), (20, 60)
BRING_BACK, NO_ROOM = re.compile(r"Bring (kvm\d) back and run the same again without"), "MEMORY_MB: needs"
STOPS = (1, 3, 10, 30)  # for which one of two runs goes on while the other one waits
ALL = 0.5  # of the runs of create, and how many of the others name one instance
# playbook -> how often
PLAYBOOKS = {
    "create": 30, "start": 6, "stop": 6, "reboot": 4, "recover": 3, "delete": 8, "recover_record": 6, "keep_one": 6,
    "pause": 3, "unpause": 3, "suspend": 3, "resume": 3, "rescue": 3, "unrescue": 3,
    "snapshot": 8, "snapshot_with_memory": 4, "revert_snapshot": 6, "delete_snapshot": 2, "shelve": 5, "unshelve": 6, "rename": 6,
    "backup": 10, "restore": 4, "image_from_instance": 2, "clone": 4, "adopt": 6, "leave": 2,
    "remove_host": 2, "prepare_hosts": 3, "resize": 8, "cold_migrate": 6, "live_migrate": 8,
    "update_disks": 7, "update": 6, "rebuild": 4, "delete_volume": 3, "confirm_resize": 5, "revert_resize": 5, "confirm_due": 1,
    "apply_plan": 6,
}  # fmt: skip
ADOPTS = 0.6  # of the histories begin with a guest that is adopted
OF_FOUND = ("adopt", "leave")  # they are for guests that somebody made
EVENTS = {
    "silent": 8, "cut_power": 4, "switch_off": 5, "switch_on": 8, "die": 1, "keep_state": 5, "restore_state": 2,
    "keep_whole": 5, "restore_whole": 2,
    "make_guest": 5, "undefine": 2, "destroy": 2, "virsh_start": 2, "remove_record": 2, "follow": 12,
}  # fmt: skip


class Asked(NamedTuple):
    """A run of a playbook. ``host``: number of the one that an option names; ``lost``: whom it gives up, see ``lost_of``;
    ``lacks``: number of the host that its inventory lacks; ``cut``: number of the host that answers only the run beside it;
    ``killed``: (calls to hosts, changes within the last one);
    ``same_host``: a resize may stay where it is; ``volumes``: those that are wanted; ``grown``: those that get larger;
    ``new``: the name that it gets, that of the instance that was called so first, or its own first one; ``disks_of``: the uuid of the
    host that an evacuation takes it from."""

    playbook: str
    names: Tuple[str, ...]
    dice: int
    host: int = 0
    lost: str = ""
    state: str = ""
    confirmed: bool = False
    lacks: Optional[int] = None
    killed: Optional[Tuple[int, int]] = None
    same_host: bool = False
    volumes: Tuple[str, ...] = ()
    grown: Tuple[str, ...] = ()
    cut: Optional[int] = None
    new: str = ""
    disks_of: str = ""


class Step(NamedTuple):
    """A run, two at once, or something that befalls the host of this number."""

    kind: str
    asked: Tuple[Asked, ...] = ()
    host: int = 0
    number: int = 0
    name: str = ""


def drawn(dice, weights):
    return dice.choices(list(weights), list(weights.values()))[0]


def history(seed, playbooks=None, events=None):
    """(number of hosts, names, steps) of this seed."""
    playbooks, events = playbooks or PLAYBOOKS, events or EVENTS
    dice = random.Random(seed)
    names = ["web%d" % number for number in range(1, dice.randint(*INSTANCES) + 1)]
    hosts = dice.randint(*HOSTS)
    steps = [Step("run", (Asked("create", tuple(names), dice.getrandbits(32)),))]
    found = history_found.NAMES if "adopt" in playbooks else ()
    if found and dice.random() < ADOPTS:
        steps.append(Step("make_guest", (), dice.randrange(hosts)))
        steps.append(Step("run", (Asked("adopt", found, dice.getrandbits(32)),)))
    for _step in range(dice.randint(*STEPS)):
        kind = drawn(dice, {"run": 60, "both": 8, "rivals": 10, "event": 45})
        if kind == "event":
            event = drawn(dice, events)
            of_host = dice.randrange(hosts), dice.getrandbits(16)
            steps.append(Step(event, (), *of_host, dice.choice([*names, *found])))
        elif kind == "rivals":
            one_name = "rename" in playbooks and dice.random() < 0.3
            steps += namesakes(dice, names, hosts) if one_name else rivals(dice, dice.choice(names), hosts)
        else:
            runs = tuple(asked(dice, names, hosts, playbooks, found) for _run in range(1 + (kind == "both")))
            steps.append(Step("run", runs, number=dice.getrandbits(32)))
    return hosts, names, steps


def asked(dice, names, hosts, playbooks, found):
    playbook = drawn(dice, playbooks)
    among = {"create": names, "clone": names, **dict.fromkeys(OF_FOUND, found)}
    is_whole = playbook == "create" and dice.random() < ALL
    chosen = tuple(names) if is_whole else (dice.choice(among.get(playbook, [*names, *found])),)
    return Asked(
        playbook,
        chosen,
        dice.getrandbits(32),
        dice.randrange(hosts),
        drawn(dice, {"": 70, "dead": 20, "off": 10}),
        drawn(dice, {"": 60, "active": 30, "stopped": 10}),
        dice.random() < 0.5,
        dice.randrange(hosts) if dice.random() < 0.06 else None,
        (dice.randint(1, 25), dice.randint(0, 12)) if dice.random() < 0.25 else None,
        dice.random() < 0.4,
        tuple(name for name in history_volumes.NAMES if dice.random() < 0.5),
        tuple(name for name in history_volumes.NAMES if dice.random() < 0.2),
        dice.randrange(hosts) if dice.random() < 0.4 else None,
        dice.choice([*names, *history_names.NEW]) if playbook == "rename" else "",
    )


def rivals(dice, name, hosts):
    """Two creates at once of an instance that is gone; mostly, each misses another host."""
    runs = (Asked("create", (name,), dice.getrandbits(32), cut=host) for host in missed_by_two(dice, hosts))
    return after_delete(dice, name, runs)


def namesakes(dice, names, hosts):
    """A create of an instance that is gone, and another one that gets its name; mostly, each run misses another host."""
    (name, other), (of_create, of_rename) = dice.sample(names, 2), missed_by_two(dice, hosts)
    made = Asked("create", (name,), dice.getrandbits(32), cut=of_create)
    return after_delete(dice, name, (made, Asked("rename", (other,), dice.getrandbits(32), cut=of_rename, new=name)))


def missed_by_two(dice, hosts):
    return dice.sample(range(hosts), 2) if dice.random() < 0.8 else (None, None)


def after_delete(dice, name, runs):
    runs, gone = tuple(runs), Asked("delete", (name,), dice.getrandbits(32))
    return [Step("run", (gone,)), Step("run", runs, number=dice.getrandbits(32))]


class Player:
    """Plays steps in a world. ``told``: what the last runs were refused with, and for which instance."""

    def __init__(self, world):
        self.world, self.told, self.kept_on, self.named_lost = world, {}, {}, set()
        self.lies = []  # of each run that gave up a host that is only off: the machines that heard of it
        self.last = {}  # instance -> the playbook that nothing befell and that was refused last, and its options
        self.unconfirmed = []  # what the last run that nothing befell says to be confirmed
        self.away, self.backup = 0, None  # for how many steps the engine still is; the last backup of it
        self.trail = []  # what was refused to whom nothing befell

    def machine(self, number):
        machines = list(self.world.machines.values())
        return machines[number % len(machines)]

    def play(self, step):
        getattr(self, step.kind)(step)
        self.away = max(0, self.away - 1)
        if self.world.engine:
            self.world.engine.away = bool(self.away)
        self.world.write()
        self.world.check()
        for machine in self.world.machines.values():
            machine.silent_for = max(0, machine.silent_for - 1)
            machine.up = machine.on and not machine.silent_for

    # runs

    def run(self, step):
        runs = [self.begun(asked, self.cut_off(step.asked)) for asked in step.asked]
        begin = Alone if len(runs) == 1 else Fiber
        going = [(run, begin(self.steps_of(run, asked))) for run, asked in zip(runs, step.asked)]
        try:
            self.mix(going, random.Random(step.number))
        finally:
            for _run, fiber in going:
                fiber.end()
        for run in runs:
            self.write_down(run)

    def mix(self, going, dice):
        """One goes on for some stops, then another."""
        while going:
            one = dice.choice(going)
            for _stop in range(dice.choice(STOPS)):
                goes_on = self.advance(*one)
                self.world.check_running()
                if not goes_on:
                    going.remove(one)
                    self.note(one[0])
                    break

    def cut_off(self, asked):
        """Of runs at once: who misses a host, as long as one is left that all reach and whose records count."""
        cut = {each: {self.machine(each.cut).name} for each in asked if each.cut is not None and len(asked) > 1}
        cut = {each: names for each, names in cut.items() if self.is_dispensable(self.machine(each.cut))}
        missed = set().union(*cut.values())
        others = [self.world.machines[name] for name in self.world.inventory if name not in missed]
        return cut if any(each.up and each.on and each.records_count() for each in others) else {}

    def begun(self, asked, cut_off):
        inventory, cut = list(self.world.inventory), cut_off.get(asked, set())
        if asked.lacks is not None and len(inventory) > 1:
            lacking = inventory[asked.lacks % len(inventory)]
            if self.is_dispensable(self.world.machines[lacking]) and not cut_off:
                inventory.remove(lacking)
        options = {"berth_state": asked.state, "host": self.machine(asked.host).name}
        options.update(berth_keep_on=options["host"], berth_keep_on_confirmed=asked.confirmed)
        rebuilds = asked.lost == "off" or asked.confirmed  # who wrongly gives a host up needs nothing of what it had
        names = [self.world.entries.called[name] for name in asked.names]
        options.update(berth_rebuild_lost=",".join(names) if rebuilds else "")
        new = asked.new if asked.new in asked.names else self.world.entries.called.get(asked.new, asked.new)
        options.update(berth_new_name=new, berth_disks_of=asked.disks_of or None)
        options.update(berth_allow_resize_to_same_host=asked.same_host, berth_volumes=asked.volumes, grown=asked.grown)
        run = history_volumes.Runs(
            self.world,
            inventory,
            names,
            random.Random(asked.dice),
            self.lost_of(asked, set(inventory) - cut),
            cut,
            **options,
        )
        run.playbook = asked.playbook
        return run

    def lost_of(self, asked, inventory):
        """``dead``: those that are gone for good; ``off``: who believes that one is gone that only has no power."""
        if asked.lost != "off":
            return self.world.dead() if asked.lost == "dead" else []
        heard = [machine for name, machine in self.world.machines.items() if machine.up and name in inventory]
        off = [name for name in self.world.inventory if not self.world.machines[name].on]
        if heard and off:
            self.lies.append(heard)
            self.world.outdated.update(off)
        return off if heard else []

    def is_dispensable(self, machine):
        """Whether somebody else answers who heard of each host that was given up and is not gone: nobody else knows, so
        that host, once it is back and alone, would start what another has (docs/guarantees.md). Then so has somebody who
        knows of each instance: a host that was given up does not count for the majority, which else knows of it."""
        if not self.lies:
            return True
        machines = [each for each in self.world.machines.values() if each.name in self.world.inventory]
        left = [each for each in machines if each.up and each is not machine]
        known = all(
            any(each is owner or each.remembers(uuid, owner) for each in left)
            for uuid in self.world.uuids()
            for owner in machines
            if owner.owns(uuid)
        )
        return known and all(any(other.up for other in heard if other is not machine) for heard in self.lies)

    def steps_of(self, run, asked):
        """Each call to a host, up to the one in which it is killed."""
        steps = getattr(run, run.playbook)()
        for count in itertools.count(1):
            killed = asked.killed and count == asked.killed[0]
            self.world.fuse.left = asked.killed[1] if killed else None
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self.world.fuse.left = None
            if killed:
                return
            yield

    @staticmethod
    def advance(run, fiber):
        """To the next stop; whether the run goes on."""
        try:
            return fiber.advance()
        except Killed:
            return False
        except BerthError as error:
            for name in run.names:
                run.refused(name, error)
            return False

    def note(self, run):
        for name in run.names:
            self.told.pop(name, None)
        self.told.update(run.errors)

    def play_run(self, playbook, names, lost=(), **options):
        """One that nothing befalls. -> its errors"""
        return self.play_alone(playbook, names, lost, **options).errors

    def play_alone(self, playbook, names, lost=(), **options):
        run = history_volumes.Runs(self.world, self.world.inventory, names, random.Random(1), lost, **options)
        run.playbook = playbook
        for _call in getattr(run, playbook)():
            self.world.check_running()
        self.note(run)
        self.write_down(run)
        self.unconfirmed = run.unconfirmed
        self.last.update(dict.fromkeys(run.errors, (playbook, options)))
        if run.errors:
            self.trail += ["%s %s: %s" % (playbook, name, said(error)) for name, error in sorted(run.errors.items())]
        return run

    def write_down(self, run):
        """A person brings the inventory to what a run has done. No host that counts may have another instance of a new name."""
        for name in run.gone:
            self.world.entries.forget(name)
        for uuid, new in run.renamed.items():
            self.call(uuid, new)
            dead = [each.name for each in self.world.machines.values() if each.dead]
            # what an engine has given up for good holds no name, and is not asked
            left_out = {*self.world.outdated, *run.lost, *(dead if self.world.engine else ())}
            history_names.check_only((m for m in self.world.machines.values() if m.name not in left_out), uuid, new)

    def call(self, uuid, name):
        before = self.world.entries.names()
        self.world.entries.call(uuid, name)
        for gone in set(before) - set(self.world.entries.names()):
            self.told.pop(gone, None)

    def lost(self):
        """Whom a person who knows gives up as lost: also who is in no inventory, once a hint asks for it."""
        return sorted({*self.world.dead(), *self.named_lost})

    # what befalls a host

    def silent(self, step):
        if self.is_dispensable(self.machine(step.host)):
            self.machine(step.host).silent_for = 1 + step.number % 6
            self.machine(step.host).up = False

    def cut_power(self, step):
        self.machine(step.host).lose_power()

    def switch_off(self, step):
        machine = self.machine(step.host)
        if machine.on and self.is_dispensable(machine):
            machine.lose_power()
            machine.on = machine.up = False

    def switch_on(self, step):
        for machine in self.world.machines.values():
            if not machine.dead:
                machine.on = True

    def die(self, step):
        machine = self.machine(step.host)
        alive = [each for each in self.world.machines.values() if not each.dead]
        if len(alive) > 2:
            self.switch_off(step)
            machine.dead = not machine.on

    def keep_state(self, step):
        self.machine(step.host).keep_state()

    def restore_state(self, step):
        machine = self.machine(step.host)
        if machine.older and self.is_dispensable(machine):
            machine.restore_state(step.number)
            self.world.outdated.add(machine.name)
            for heard in self.lies:
                heard[:] = [other for other in heard if other is not machine]

    def keep_whole(self, step):
        machine = self.machine(step.host)
        if not machine.dead:
            machine.keep_whole()

    def restore_whole(self, step):
        machine = self.machine(step.host)
        if machine.whole is not None and not machine.dead and self.is_dispensable(machine):
            machine.restore_whole()
            self.world.outdated.add(machine.name)
            self.world.loses_what_was_written_since()
            for heard in self.lies:
                heard[:] = [other for other in heard if other is not machine]

    # what befalls the engine

    def engine_away(self, step):
        self.away = 1 + step.number % 3

    def engine_loses(self, step):
        """The answers of some of its next writes, that were done or not."""
        self.world.engine.lose(*(bool(step.number >> at & 1) for at in range(1 + step.number % 2)))

    def engine_backup(self, _step):
        self.backup = self.world.engine.backup()

    def engine_restored(self, step):
        if self.backup:
            self.away = 0
            history_engine.restored(self.world.engine, self.backup, "restored-%d" % step.number)

    # what a person does by hand

    def make_guest(self, step):
        with self.world.on(self.machine(step.host), "virt-install"):
            history_found.make(self.world, self.machine(step.host), history_found.NAMES[0])

    def guest(self, step):
        return self.machine(step.host).host.connection.domains.get(self.uuid(step))

    def uuid(self, step):
        return self.world.uuid(self.world.entries.called[step.name])

    def undefine(self, step):
        guest = self.guest(step)
        if guest and guest.persistent:
            guest.undefineFlags(0)

    def destroy(self, step):
        guest = self.guest(step)
        if guest and guest.isActive():
            guest.destroy()

    def virsh_start(self, step):
        guest, machine = self.guest(step), self.machine(step.host)
        if guest and machine.on and not guest.isActive():
            with self.world.on(machine, "virsh"):
                try:
                    guest.createWithFlags()
                except Exception as error:  # the gate refuses it
                    if type(error).__name__ != "libvirtError":
                        raise

    def remove_record(self, step):
        store = self.machine(step.host).host.store
        shutil.rmtree(os.path.join(store.state_dir, "instances", self.uuid(step)), ignore_errors=True)

    def follow(self, step):
        """A person does what the last error said."""
        told = sorted(self.told)
        if told:
            name = told[step.number % len(told)]
            history_hints.follow(self, name, self.told[name], random.Random(step.number))


def settle(player, rounds=8):
    """Everything works again: what is refused has to say what to do, and that has to help."""
    world = player.world
    world.inventory = [name for name in world.machines if name in world.inventory or not world.machines[name].dead]
    if world.engine:
        world.engine.away, world.engine.lost = False, []
        is_closed = history_engine.is_closed(world.engine)
    for machine in world.machines.values():
        machine.on, machine.silent_for = not machine.dead, 0
        machine.up = machine.on
    if world.engine and is_closed:
        player.play_run("audit", world.names)
    if world.plan:
        history_plans.goes_on(player)
    for name, machine in world.machines.items():
        if name in world.inventory and not machine.host.settings.prepared:  # it was removed, and comes back
            player.play_run("prepare_hosts", world.names, host=name)
    names = follow_all(player, list(world.entries.first), rounds)
    unshelve(player, names)
    if world.engine and enrol_all(player, names):
        names = follow_all(player, list(world.entries.first), rounds)
    check_end(player, names)


def enrol_all(player, names):
    """All hosts belong to the registry again. A host that was said to be lost may have another copy of an instance, which is told
    now. -> whether something had to be done for it"""
    errors = player.play_run("use_registry", names)
    for name in sorted(errors)[:1]:  # one of all
        history_hints.follow(player, name, errors[name], random.Random(7))
        player.world.check()
    if not errors or not player.play_run("use_registry", names):
        history_engine.check_hosts(player.world)
    return bool(errors)


def follow_all(player, left, rounds):
    """Creates until nothing is refused, or nothing helps. ``left``: the first names of the instances; what is followed may give them
    others. -> the names of those that can be helped"""
    world = player.world
    dice = random.Random(7)
    for _round in range(rounds):
        names = {world.entries.called[first]: first for first in left}
        errors = player.play_run("create", list(names), player.lost())
        world.write()
        world.check()
        if not errors and not player.unconfirmed:
            break
        errors = errors or player.play_run("confirm_resize", player.unconfirmed, player.lost())
        for name in sorted(errors):
            history_hints.follow(player, name, errors[name], dice)
            world.check()
            if is_beyond_help(player, player.told.get(name)):
                left.remove(names[name])
    else:
        raise Violation("H5 create is still refused: %s" % "\n  ".join(dict.fromkeys(player.trail[-12:])))
    return list(names)


def unshelve(player, names):
    """What is shelved gets its disks back where there is room: on its host, and without an engine on any other."""
    world = player.world
    shelved = {
        record.uuid
        for machine in world.machines.values()
        for record in machine.host.store.records()
        if shelves.of(record.spec) and is_owner(record) and not machine.dead
    }
    for name in [name for name in names if world.uuid(name) in shelved]:
        for error in player.play_run("unshelve", [name], player.lost()).values():
            if "Make room on" not in (error["hint"] or "") or not world.engine and world.has_room():
                raise Violation("H5 %s stays shelved: %s" % (name, said(error)))
        world.check()


def is_beyond_help(player, error):
    """Whether nothing helps, as the error says, but a backup of a record, a host that is gone for good, or more room."""
    hint = (error or {}).get("hint") or ""
    gone = BRING_BACK.match(hint)
    needs_backup = hint.startswith("Restore record.json") and "If there is none" not in hint
    return (
        needs_backup or NO_ROOM in ((error or {}).get("message") or "") or bool(gone and is_dead(player, gone.group(1)))
    )


def check_end(player, names):
    world = player.world
    run = history_volumes.Runs(world, world.inventory, names, random.Random(1), player.lost())
    for _call in run.create():
        pass
    if run.errors or run.changed:
        raise Violation("H5 the next create is not quiet: %s" % run.errors)
    for name in names:
        owners = [
            machine.name
            for machine in world.machines.values()
            if machine.records_count() and is_owner(machine.host.store.read(world.uuid(name)))
        ]
        if len(owners) != 1:
            raise Violation("H5 %s is owned by %s" % (name, owners))
    if world.engine:
        history_engine.check(world, history_found.UUIDS.values())
        player.play_run("audit", names)
        history_engine.check(world)


def said(error):
    return "%s: %s => %s" % (error["code"], error.get("message"), error.get("hint"))
