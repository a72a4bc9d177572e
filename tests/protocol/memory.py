# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts in memory with the store and the effects that the steps of a move need, and the invariants over both.

A disk is {"version": n} of a host, or of both where they share storage; the guest writes by counting it up. ``latest`` is
the newest version that a guest on the owner wrote and that nobody agreed to give up.
A durable action costs one tick; where the fuse runs out the process is killed.
"""

from __future__ import annotations

import contextlib
import copy

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged, StaleRecord
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common, table
from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences
from ansible_collections.berth.kvm.plugins.module_utils.conductor.walk import Candidate, Move, Token, Walk
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import OWN, check_change
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import SAID, TAKING
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import RunEnded
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

NAME, PROJECT = "vm", "default"
UUID = instance_uuid(PROJECT, NAME)
S, D = "S", "D"
WHO = {"uuid": UUID, "name": NAME, "project_id": PROJECT}
OLD = {**WHO, "flavor": {"name": "old", "vcpus": 1, "memory_mb": 128, "root_gb": 1}}
NEW = {**WHO, "flavor": {"name": "new", "vcpus": 2, "memory_mb": 256, "root_gb": 2}}
OFF, ON, PAUSED = 0, 1, 2


class Killed(Exception):
    """The process died here."""


class Violation(Exception):
    """An invariant is broken."""


class World:
    def __init__(self, vm_state="active", kind="resize", shared=False):
        self.kind, self.shared = kind, shared
        self.disk_owner = S
        self.records = {S: None, D: None}
        self.disks = {S: {"version": 1}, D: None}
        self.kept = {S: None, D: None}
        self.parts = {S: None, D: None}
        self.channel = {S: None, D: None}
        self.guest = {S: ON if vm_state == "active" else OFF, D: OFF}
        self.buried = {S: [], D: []}
        self.latest = 1
        self.deleted = False
        self.nonces = 0
        self.fuse = None
        self.lose_finish = False
        self.left = False
        self.receipt = None
        self.records[S] = Record(
            **WHO, role=OWN, generation=[1, 1], token="t0", phase="active",
            vm_state=vm_state, spec=OLD, resources={"vcpus": 1}, power_state="running",
        ).to_dict()  # fmt: skip

    def place(self, name):
        """Where the disks of the host ``name`` are."""
        return S if self.shared else name

    def key(self):
        records = [
            None if r is None else (
                r["role"], r["phase"], r["op"], r["generation"][0], r["vm_state"], r["spec"]["flavor"]["name"],
                r["migration"] and tuple(r["migration"][k] for k in ("attempt", "frozen", "verified")),
            )
            for r in (self.records[S], self.records[D])
        ]  # fmt: skip
        parts = (
            self.disk_owner,
            self.disks,
            self.kept,
            self.parts,
            self.channel,
            self.guest,
            self.buried,
            self.latest,
            self.deleted,
        )
        return repr((records, parts, self.lose_finish, self.left, self.receipt and self.receipt["attempt"]))

    def tick(self):
        if self.fuse is not None:
            if self.fuse == 0:
                raise Killed()
            self.fuse -= 1

    def host(self, name):
        return Host(self, name)

    def crash_host(self, name):
        self.guest[name] = OFF
        self.channel[name] = None
        self.left = self.left and name != S

    def write(self):
        """The guest writes, wherever one runs."""
        for name in (S, D):
            disk = self.disks[self.place(name)]
            if self.guest[name] == ON and disk:
                disk["version"] += 1
                record = self.records[name]
                if record and record["role"] == OWN:
                    self.latest = disk["version"]

    def check(self):
        running = [name for name in (S, D) if self.guest[name] == ON]
        if len(running) > 1:
            raise Violation("I1 two running guests")
        owners = [name for name in (S, D) if self.records[name] and self.records[name]["role"] == OWN]
        owners = [name for name in owners if not self.is_left(name)]
        if len(owners) > 1:
            raise Violation("I1 two owners")
        for name in running:
            if name not in owners:
                raise Violation("I1 a guest runs on %s which does not own it" % name)
        if self.deleted:
            return
        if owners:
            disk = self.disks[self.place(owners[0])]
            if disk is None:
                raise Violation("I3 the owner %s has no disk" % owners[0])
            if disk["version"] < self.latest:
                raise Violation("I3 the owner's disk has %d, the latest is %d" % (disk["version"], self.latest))
            if running and disk.get("of") != self.records[owners[0]]["spec"]["flavor"]["name"] and disk.get("of"):
                raise Violation("I4 a guest runs on a disk of another flavor")
        elif not any(self.disks[n] and self.disks[n]["version"] >= self.latest for n in (S, D)):
            raise Violation("I3 nobody holds the latest disk")

    def is_left(self, name):
        """Whether the other host has ended the move of this one's record without it."""
        other = self.records[D if name == S else S]
        return bool(other) and self.records[name]["op"] in other["lost_moves"]


class Host:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.identity = {"uuid": "host-" + name, "name": name}
        self.store, self.effects = Store(world, name), Effects(world, name)

    def now(self):
        return 0

    def since_boot(self):
        return {"boot_id": "the only one", "uptime": 0}

    def nonce(self):
        self.world.nonces += 1
        return "t%d" % self.world.nonces


class Store:
    def __init__(self, world, name):
        self.world, self.name = world, name

    def read(self, uuid):
        data = self.world.records[self.name]
        return Record.from_dict(copy.deepcopy(data)) if data else None

    @contextlib.contextmanager
    def instance_lock(self, uuid):
        yield

    @contextlib.contextmanager
    def host_lock(self):
        yield

    def compare_and_swap(self, expected, new):
        found = self.read(UUID)
        if (found and found.version()) != (expected and expected.version()):
            raise StaleRecord("changed")
        check_change(found and found.state(), new and new.state())
        if expected and new and list(new.generation) <= list(expected.generation):
            raise Violation("I12 the generation does not grow")
        self.world.tick()
        self.world.records[self.name] = copy.deepcopy(new.to_dict()) if new else None
        return new

    def bury(self, op):
        self.world.tick()
        if op not in self.world.buried[self.name]:
            self.world.buried[self.name].append(op)

    def is_buried(self, op):
        return op in self.world.buried[self.name]


class Effects:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.place = world.place(name)

    def running(self, uuid):
        return self.world.guest[self.name] != OFF

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
        return {"state": "crashed" if self.world.__dict__.get("crashed") == self.name else "answers", "seen": "said so"}

    def check_asked(self):
        if self.world.__dict__.get("hung_up"):
            raise RunEnded("the run that asked for it has ended")

    def check_movable(self, record):
        pass

    def has_left(self, uuid):
        return self.world.left and self.name == S

    def describe_live(self, record):
        return {"cpu": None}

    def inspect_live(self, record, guest):
        return {"problems": []}

    def check_live(self, record, seen, options):
        return seen["problems"]

    def disks(self, record):
        return [{"name": "root"}]

    def allocate(self, spec, limits):
        return {"vcpus": spec["flavor"]["vcpus"]}

    def stop(self, uuid, timeout):
        self.world.tick()
        self.world.guest[self.name] = OFF

    def start(self, record):
        self.world.tick()
        self.world.guest[self.name] = ON
        self.world.check()

    def define(self, record):
        self.world.tick()

    define_unless_changed = define

    def check_deletable(self, record):
        self.check_disks(record)

    def check_disks(self, record):
        if self.world.__dict__.get("changed") == self.name:
            raise DiskChainChanged("a snapshot's layer lies over the disk on %s" % self.name)

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

    def erase(self, record):
        self.world.deleted = True
        self.world.tick()
        self.world.channel[self.name] = None
        self.world.guest[self.name] = OFF
        self.world.tick()
        self.world.disks[self.place] = self.world.kept[self.place] = self.world.parts[self.name] = None
        if self.world.shared:
            self.world.parts[D] = None

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

    def check_kept(self, record):
        if not (self.world.disks[self.place] or self.world.kept[self.place]):
            raise BerthError("the kept disks are gone")

    def take_back(self, record):
        if record.migration["shared"]:
            self.restore_disks(record)
        self.world.tick()
        self.world.disk_owner = self.name

    # live

    def receive_seed(self, record, disks, key):
        return {}

    def send_seed(self, record, targets, key):
        return {}

    def prepare_live(self, record, disks):
        self.world.tick()
        if self.world.guest[self.name] == OFF and not record.migration["shared"]:
            self.world.disks[self.name] = None
        return {"arrived": self.world.guest[self.name] == PAUSED}

    def discard_arrived(self, record):
        self.world.tick()
        self.world.guest[self.name] = OFF

    def migrate_live(self, record, targets, options):
        world = self.world
        if world.guest[S] == ON:
            world.tick()
            world.disks[world.place(D)] = copy.deepcopy(world.disks[S])
            world.guest[D] = PAUSED if not world.__dict__.get("unpaused") else ON
            if world.lose_finish == "halted":
                world.guest[S] = PAUSED
                raise BerthError("libvirt on the source died as Finish was on its way")
            if world.lose_finish:
                world.check()
                raise BerthError("the reply was lost, the guest resumed on the source")
            world.guest[S], world.left = OFF, True
            world.check()
            world.tick()
        elif not (world.left and targets.get("arrived")):
            raise BerthError("the guest is off and has not arrived")

    def channel_to_destination(self, uuid, op):
        return Channel(self.world)

    def channel_to_source(self, uuid, op):
        return Channel(self.world)

    def arrived(self, record):
        return self.world.guest[self.name] == PAUSED

    def resume(self, record):
        self.world.tick()
        self.world.guest[self.name] = ON
        self.world.check()

    # one host

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


def land(world, name, transfer):
    """A copy that began with ``transfer`` arrives; the channel of an older attempt is closed."""
    if world.channel[D] != transfer["pending"]:
        raise BerthError("the destination closed the channel")
    if world.disks[name] is None:
        raise BerthError("the source was deleted")
    torn = transfer["from"] != world.disks[name]["version"]
    world.parts[D] = {"version": -1 if torn else transfer["from"]}


def give_up_writes(world):
    """The commit of a revert: the user agreed to lose what came after the resize."""
    world.latest = (world.kept[S] or world.disks[S])["version"]


ACTIONS = {
    "resize": sequences.MOVE,
    "confirm": sequences.CONFIRM,
    "revert": sequences.REVERT,
    "abort": sequences.REVERT,
    "delete": sequences.DELETE,
}


class Controller:
    """One playbook run: look at both hosts, choose the sequence, walk it with the walker that ships. Each call of advance()
    is one step on one host. ``error`` is what failed first, also while that is being given up."""

    def __init__(self, action, op):
        self.action, self.op = action, op
        self.views = {}
        self.walk = None
        self.steps = ()  # of the leg that is under way
        self.said, self.token = {}, None  # of the host, in this leg
        self.pending = None
        self.changed = False
        self.reaches, self.looks = True, 0
        self.options = {}
        self.error = None
        self.state = "run"

    def key(self):
        views = self.walk.said if self.walk else self.views
        brief = [
            (v.get("role"), v.get("phase"), v.get("op"), v.get("attempt"), v.get("generation", [0])[0])
            for v in (*views.values(), self.said)
        ]
        transfers = [(view.get("targets"), view.get("transfer")) for view in (*views.values(), self.said)]
        walked = self.walk and (self.walk.sequence, self.walk.at, self.walk.candidate, self.walk.gives_up)
        said = walked, self.steps, repr(self.token), repr(self.pending), repr(brief), repr(transfers)
        return (self.action, self.state, self.looks, self.reaches, *said)

    def __deepcopy__(self, memo):
        """Views are never changed, only replaced: a state is copied for each step that is tried."""
        other = copy.copy(self)
        other.views, other.walk = dict(self.views), copy.copy(self.walk)
        if other.walk:
            other.walk.said = dict(other.walk.said)
        return other

    def is_before(self, step):
        """Whether this is the step that it does next."""
        return bool(self.steps) and self.steps[0] == step and not self.pending

    def advance(self, world):
        try:
            self._advance(world)
        except Killed:
            self.state = "dead"
        except (BerthError, KeyError) as error:
            if isinstance(error, KeyError):
                raise Violation("a step misses %s" % error)
            self._failed("%s: %s" % (type(error).__name__, error))
        world.check()

    def _advance(self, world):
        for name in (S, D):
            if name not in self.views:
                self.views[name] = common.view(world.host(name), UUID)
                return
        if self.walk is None and not self.steps:
            self._plan(world)
            if self.walk:
                self._next_leg()
            return
        if self.pending:
            name, transfer = self.pending
            self.pending = None
            land(world, name, transfer)
        elif self.walk is None:
            destroy(world, self.steps[0])
            self.steps, self.changed = (), True
        else:
            self._step(world)
        if not self.steps and not self.pending:
            self._ended_leg()

    def _failed(self, reason):
        self.error, self.steps, self.pending = self.error or reason, (), None
        if self.walk:
            self.walk.failed(reason)
            self._next_leg()
        else:
            self.state = "failed"

    def _ended_leg(self):
        if self.walk:
            self.walk.answered(self.said, self.token)
        self._next_leg()

    def _next_leg(self):
        turn = self.walk and self.walk.turn()
        if turn:
            self.steps, self.said, self.token = turn.leg.steps, {}, turn.arguments(self.options)["token"]
        elif self.walk and self.walk.failure:
            self.state = "failed"
        elif self.reaches or self.looks:
            self.state = "done"
        else:
            # It brought nothing that was asked for: look again.
            self.looks, self.views, self.walk = 1, {}, None

    def _plan(self, world):
        if self.action == "take over":
            self._plan_take_over(world)
            return
        if self.action == "delete" and not any(view.get("migration") for view in self.views.values()):
            self._plan_delete()
            return
        name, self.reaches = sequences.next_sequence(ACTIONS[self.action], self.views[S], self.views[D])
        if name is None:
            self.state = "done"
            return
        owner = next((v for v in self.views.values() if v["role"] == OWN), None) or self.views[S] or self.views[D]
        attempt = max(v.get("attempt") or 0 for v in self.views.values())
        begins, op = owner.get("op") is None and name == "resize", self.op + "'" * self.looks
        if begins:
            name = {"live-migration": "live_migrate", "here": "resize_here"}.get(world.kind, name)
        self.walk = Walk.begin(move_of(world, name, self.views, Token(owner.get("op") or op, attempt), begins and [op]))

    def _plan_delete(self):
        """Without a move role delete goes to the owner; the module there refuses where one has begun since."""
        self.steps = tuple(name for name in (S, D) if self.views[name]["role"] == OWN)[:1]
        self.state = "run" if self.steps else "done"

    def _plan_take_over(self, world):
        """The talk of who waits on the destination with the source, beside the controller: nothing happens before there
        is a receipt, each side acts on the other's last word, and any word may be the last."""
        if world.receipt:
            receipt = world.receipt
            token = Token(receipt["op"], receipt["attempt"])
            self.walk = Walk.begin(move_of(world, "live_hand_over", {**self.views, S: receipt}, token))

    def _step(self, world):
        turn = self.walk.turn()
        arguments = turn.arguments(self.options)
        name, step = turn.host, self.steps[0]
        self.steps = self.steps[1:]
        options = {key: arguments[key] for key in arguments if key not in ("uuid", "steps", "token", "peer")}
        changed, said = table.run(
            world.host(name), UUID, step, self.token, arguments["peer"], sent=self.said.get("sent"), **options
        )
        if step in ("give_back", "reclaim") and changed:
            give_up_writes(world)
        self.changed = self.changed or changed
        self.said = {**{key: self.said[key] for key in SAID if key in self.said}, **said}
        if step in TAKING:
            self.token = {"op": self.token["op"], "attempt": said.get("attempt") or self.token["attempt"]}
        if step in ("send", "presend") and "pending" in (said.get("transfer") or ()):
            self.pending = (name, said["transfer"])


def move_of(world, sequence, views, token, ops=None):
    """The move as the plan has it; where it begins, with a candidate for each of ``ops``."""
    told = decided(world)
    destination = told["destination"]
    return Move(
        "plan", UUID, NAME, sequence, S, destination["name"], token, {sequences.SOURCE: views[S], sequences.DESTINATION: views[D]},
        kind=told["kind"], spec=told["spec"] if ops else None, source_host=told["source"] if ops else None,
        candidates=tuple(Candidate(op, destination["name"], destination, {}) for op in ops or ()),
    )  # fmt: skip


def decided(world):
    """What the controller says of the move: who, what, from where to where."""
    here = world.kind == "here"
    return {
        "kind": "resize" if here else world.kind,
        "spec": OLD if world.kind == "live-migration" else NEW,
        "source": world.host(S).identity,
        "destination": world.host(S if here else D).identity,
    }


def destroy(world, name):
    """Deleting the owner's side: guest, disks, record (module ``instance`` with state absent)."""
    host = world.host(name)
    record = host.store.read(UUID)
    if record is None:
        return
    if record.role != OWN or record.op:
        raise BerthError("finish or abandon the move first")
    if record.phase != "deleting":
        record = host.store.compare_and_swap(record, record.next(phase="deleting", token=host.nonce()))
    world.deleted = True
    world.guest[name] = OFF
    world.tick()
    world.disks[name] = world.kept[name] = None
    host.store.compare_and_swap(host.store.read(UUID), None)
