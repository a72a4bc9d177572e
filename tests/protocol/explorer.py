# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explore every interleaving of a few controllers with kills, host crashes and a writing guest.

A state is the world and where each controller stands. In every state reached, everything dies and the operator runs
again: the move must come to one of its ends, leave no orphan, and the run after that must change nothing.
"""

from __future__ import annotations

import copy
import random

from memory_controller import Controller
from memory_names import ON, PAUSED, D, Killed, S, Violation

from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import OUT, OWN

KILL_POINTS = 4
GOALS = ("resize", "revert")  # what a person may run after all of it


class State:
    def __init__(self, world, controllers, kills, crashes, writes, after):
        self.world, self.controllers = world, controllers
        self.kills, self.crashes, self.writes, self.after = kills, crashes, writes, after

    def key(self):
        return (self.world.key(), tuple(c.key() for c in self.controllers), self.kills, self.crashes, self.writes)

    def copied(self):
        controllers = copy.deepcopy(self.controllers)
        return State(self.world.copied(), controllers, self.kills, self.crashes, self.writes, self.after)

    def choices(self):
        for i, controller in enumerate(self.controllers):
            waits = self.after.get(i)
            if controller.state != "run" or (waits is not None and self.controllers[waits].state == "run"):
                continue
            yield ("step", i)
            if self.kills:
                yield ("kill", i)
                for point in range(KILL_POINTS + 3 * self.world.volume):
                    yield ("kill inside", i, point)
        if self.crashes:
            yield ("crash", S)
            yield ("crash", D)
        if self.writes:
            yield ("write",)

    def apply(self, choice):
        kind = choice[0]
        if kind == "step":
            self.controllers[choice[1]].advance(self.world)
        elif kind == "kill":
            self.kills -= 1
            self.controllers[choice[1]].state = "dead"
        elif kind == "kill inside":
            self.kills -= 1
            self.world.fuse = choice[2]
            try:
                self.controllers[choice[1]].advance(self.world)
            finally:
                self.world.fuse = None
            self.controllers[choice[1]].state = "dead"
        elif kind == "crash":
            self.crashes -= 1
            self.world.crash_host(choice[1])
        elif kind == "write":
            self.writes -= 1
            self.world.write()
        self.world.check()


def run_once(world, action, op):
    controller = Controller(action, op)
    for _turn in range(60):
        if controller.state != "run":
            break
        controller.advance(world)
    return controller


def operator_action(world, action):
    """What a person runs again: the delete once it began, else the action."""
    records = [r for r in world.records.values() if r]
    return "delete" if world.deleted or any(r["phase"] in ("deleting", "erasing") for r in records) else action


def converge(world, action):
    """Run again once: it ends all that was left and comes to what is asked for. The run after that must be quiet."""
    world.lose_finish = False
    again = run_once(world, operator_action(world, action), "again")
    quiet = run_once(world, operator_action(world, action), "quiet")
    error = getattr(quiet, "error", None)
    off = world.kind == "live-migration" and "power_state shutdown" in (error or "")
    if quiet.changed or not (quiet.state == "done" or off):
        raise Violation("I4 does not converge: %s, %s" % (getattr(again, "error", None), error))
    check_end(world, action)


def check_end(world, action):
    world.check()
    records = {n: world.records[n] for n in (S, D)}
    owners = [n for n in (S, D) if records[n] and records[n]["role"] == OWN]
    if world.volume:
        check_volume(world, owners)
    if world.deleted:
        if any(records.values()) or any(world.disks.values()) or any(world.guest.values()) or any(world.kept.values()):
            raise Violation("I5 orphans after a delete: %s %s" % (records, world.disks))
        return
    if len(owners) != 1:
        raise Violation("I4 no owner")
    owner = owners[0]
    other = D if owner == S else S
    record = records[owner]
    on = {"active": ON, "paused": PAUSED}.get((record["migration"] or {}).get("vm_state_before", record["vm_state"]), 0)
    if record["phase"] == "active":
        disk = None if world.shared else world.disks[other]
        if records[other] or disk or world.guest[other] or any(world.kept.values()) or world.parts[other]:
            raise Violation("I5 orphans of a finished move on %s" % other)
        if world.guest[owner] != on and world.crashed is False:
            raise Violation("I4 the guest is not as it was")
    elif record["phase"] == "resized":
        old = world.kept[S] if world.shared else world.disks[other]
        if world.kind != "here" and not (records[other] and records[other]["role"] == OUT and old):
            raise Violation("I3 no way back")
        if world.guest[owner] != on:
            raise Violation("I4 the guest is not as it was")
    else:
        raise Violation("I4 stuck in %s" % record["phase"])
    if world.grows and on and world.flavor != record["spec"]["flavor"]["name"]:
        raise Violation("I2 the guest has CPUs and memory of another flavor than its record")
    if world.channel[S] or world.channel[D]:
        raise Violation("I5 a port is left open")


def check_volume(world, owners):
    """It is where its instance is, or free on one host, and no other knows of it where the move is over."""
    known = {n: v for n, v in world.volumes.items() if v}
    at = [n for n, v in known.items() if v["role"] == OWN]
    if len(at) != 1 or (owners and at != owners):
        raise Violation("I4 the volume is owned by %s, its instance by %s" % (at, owners))
    over = world.deleted or world.records[owners[0]]["phase"] == "active"
    if over and len(known) > 1 or world.deleted and known[at[0]]["spec"]["instance"]:
        raise Violation("I5 what is left of the volume: %s" % known)


def beginning(make, actions, kills, crashes, writes, after):
    controllers = [Controller(action, "op%d" % number) for number, action in enumerate(actions)]
    first = State(make(), controllers, kills, crashes, writes, after or {})
    first.world.crashed = bool(crashes)
    return first


# Steps of a walk: who waits for a receipt whose sender is dead would wait for ever.
LONGEST = 200


def sample(make, actions, walks, seed, kills=1, crashes=0, writes=0, after=None):
    """Some walks to the end, the same for the same seed. -> (states, violation or None, the path that led to it)."""
    dice, states = random.Random(seed), 0
    for _walk in range(walks):
        state, path = beginning(make, actions, kills, crashes, writes, after), ()
        try:
            for _step in range(LONGEST):
                choices = list(state.choices())
                if not choices:
                    break
                steps = [choice for choice in choices if choice[0] == "step"]
                path += (dice.choice(steps if steps and dice.random() < 0.9 else choices),)
                state.apply(path[-1])
                states += 1
                if dice.random() < 0.1:
                    converge(state.world.copied(), dice.choice(GOALS))
            converge(state.world, dice.choice(GOALS))
        except (Violation, Killed) as violation:
            return states, violation, path
    return states, None, ()


def explore(make, actions, kills=1, crashes=0, writes=0, after=None, limit=400000):
    """Walk every state. -> (states, violation or None, the path that led to it)."""
    first = beginning(make, actions, kills, crashes, writes, after)
    stack, seen, converged = [(first, ())], {first.key()}, set()
    while stack:
        state, path = stack.pop()
        for choice in state.choices():
            following = state.copied()
            here = path + (choice,)
            try:
                following.apply(choice)
                key = following.key()
                if key in seen:
                    continue
                seen.add(key)
                world = following.world.whole()
                if world not in converged:
                    # The runs after it see nothing of where the controllers stood.
                    converged.add(world)
                    for goal in GOALS:
                        converge(following.world.copied(), goal)
            except (Violation, Killed) as violation:
                return len(seen), violation, here
            if len(seen) > limit:
                return len(seen), Violation("too many states"), here
            stack.append((following, here))
    return len(seen), None, ()
