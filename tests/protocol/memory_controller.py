# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run of a playbook over the hosts in memory, with the procedure that ships."""

from __future__ import annotations

import copy
from dataclasses import replace

from memory_names import NAME, NEW, OFF, OLD, UUID, D, Killed, S, Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common, table
from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences
from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import Candidate, Move, Token, Walk
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import move as procedure
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import OWN, IllegalChange
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import SAID, TAKING


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
    """One playbook run: look at both hosts, choose the sequence, and carry the move out by the procedure that ships. Each call
    of advance() is one step on one host. A procedure cannot be copied, so it is brought anew to where its ``answers`` lead:
    ``walk`` says how far that is, ``given`` what ``host`` is asked then. ``error`` is what failed first, also while that is
    being given up."""

    def __init__(self, action, op):
        self.action, self.op = action, op
        self.views = {}
        self.move, self.answers = None, ()
        self.walk, self.host, self.given = None, None, None
        self.steps = ()  # of the leg that is under way
        self.said, self.token, self.leg_changed = {}, None, False  # of the host, in this leg
        self.pending = None
        self.changed = False
        self.reaches, self.looks = True, 0
        self.options = {"revert_volumes": True}
        self.error = None
        self.state = "run"

    def key(self):
        views = self.walk.said if self.walk else self.views
        brief = [
            (v.get("role"), v.get("phase"), v.get("op"), v.get("attempt"), v.get("generation", [0])[0])
            for v in (*views.values(), self.said)
        ]
        transfers = [(view.get("targets"), view.get("transfer")) for view in (*views.values(), self.said)]
        asked = self.given and (self.host, *self.given["steps"])
        walked = self.walk and (self.walk.sequence, asked, self.walk.gives_up)
        said = walked, self.steps, repr(self.token), repr(self.pending), repr(brief), repr(transfers)
        taken = self.leg_changed, self.walk and self.walk.taken
        return (self.action, self.state, self.looks, self.reaches, *taken, *said)

    def __deepcopy__(self, memo):
        """Views are never changed, only replaced: a state is copied for each step that is tried."""
        other = copy.copy(self)
        other.views = dict(self.views)
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
            if isinstance(error, IllegalChange):
                raise Violation("a step did not see what the record says: %s" % error)
            self._failed(error)
        world.check()

    def _advance(self, world):
        for name in (S, D):
            if name not in self.views:
                self.views[name] = common.view(world.host(name), UUID)
                return
        if self.walk is None and not self.steps:
            self._plan(world)
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

    def _failed(self, error):
        self.error, self.steps, self.pending = self.error or "%s: %s" % (type(error).__name__, error), (), None
        if self.walk:
            self._answer({"error": error.to_dict()})
        else:
            self.state = "failed"

    def _ended_leg(self):
        if self.walk:
            self._answer({"move": self.said, "token": self.token, "changed": self.leg_changed})
        else:
            self.state = "done"

    def begin(self, move):
        self.move, self.answers = move, ()
        self.go_on()

    def _answer(self, answer):
        self.answers += ({self.host: answer},)
        self.go_on()

    def go_on(self):
        """Come to what the procedure asks next, or to its end."""
        self.walk = Walk(self.move)
        asked = after(procedure.move(self.walk, procedure.Run(self.options)), self.answers)
        self.given = None
        if asked:
            [(self.host, self.given)] = asked.arguments.items()
            self.steps, self.said, self.leg_changed = tuple(self.given["steps"]), {}, False
            self.token = self.given["token"]
        elif self.walk.failure and not self.walk.met_end:
            self.state = "failed"
        elif not self.walk.met_end and (self.reaches or self.looks):
            self.state = "done"
        else:
            # It brought nothing that was asked for, or the move had ended: look again.
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
        token = Token(owner.get("op") or op, attempt)
        move = move_of(world, name, self.views, token, begins and [op])
        self.begin(replace(move, settles=not self.reaches, again=bool(self.looks)))

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
            self.begin(move_of(world, "live_hand_over", {**self.views, S: receipt}, token))

    def _step(self, world):
        arguments, name, step = self.given, self.host, self.steps[0]
        self.steps = self.steps[1:]
        options = {key: arguments[key] for key in arguments if key not in ("uuid", "steps", "token", "peer")}
        host = world.host(name)
        host.store.fenced = step in table.UNLOCKED
        changed, said = table.run(
            host, UUID, step, self.token, arguments["peer"], sent=self.said.get("sent"), **options
        )
        if step in ("give_back", "reclaim") and changed:
            give_up_writes(world)
        self.leg_changed = self.leg_changed or changed
        self.changed = self.changed or changed
        self.said = {**{key: self.said[key] for key in SAID if key in self.said}, **said}
        if step in TAKING:
            self.token = {"op": self.token["op"], "attempt": said.get("attempt") or self.token["attempt"]}
        if step in ("send", "presend") and "pending" in (said.get("transfer") or ()):
            self.pending = (name, said["transfer"])


def after(procedure, answers):
    """The question to which a procedure comes with these answers, or None at its end."""
    left, answer = list(answers), None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration:
            return None
        answer = None
        if isinstance(step, Ask):
            if not left:
                return step
            answer = left.pop(0)


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
        "spec": world.spec(OLD if world.kind == "live-migration" else NEW),
        "source": world.host(S).identity,
        "destination": world.host(S if here else D).identity,
    }


def destroy(world, name):
    """Deleting the owner's side: guest, disks, record (module ``instance`` with state absent)."""
    host = world.host(name)
    with host.store.instance_lock(UUID):
        _destroy(world, name, host)


def _destroy(world, name, host):
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
    host.effects.volumes.detach()
    host.store.compare_and_swap(host.store.read(UUID), None)
