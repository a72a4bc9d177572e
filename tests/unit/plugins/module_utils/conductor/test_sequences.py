# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sequence a run begins with, and that every step is in one."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps.table import STEPS
from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences


def test_every_step_of_a_sequence_exists():
    walked = {step for sequence in sequences.SEQUENCES.values() for leg in sequence.legs for step in leg.steps}
    assert walked | {"thaw"} == set(STEPS), "a source whose controller has died thaws by itself"


def view(role, phase=None, kind="resize", here=False, running=True, has_left=False, halted=False):
    if role is None:
        return {"role": None}
    sides = {"source": {"uuid": "s", "name": "s"}, "destination": {"uuid": "s" if here else "d", "name": "d"}}
    move = {"type": kind, **sides} if phase != "active" else None
    guest = {"running": running, "has_left": has_left, "halted": halted}
    return {"role": role, "phase": phase, "migration": move, **guest}


def views(state, kind="resize"):
    """What the two hosts hold in a state that the table names: (source, destination)."""
    if state == sequences.LOST:
        return view("OWN", "resizing", "live-migration", running=False), view(None)
    source, destination = {
        sequences.REST: (("OWN", "active"), (None,)),
        sequences.BEGUN: (("OWN", "frozen"), ("IN", "incoming")),
        sequences.RELEASED: (("OUT", "keep"), ("IN", "verified")),
        sequences.RESIZED: (("OUT", "keep"), ("OWN", "resized")),
        sequences.CONFIRMING: (("OUT", "keep"), ("OWN", "confirming")),
        sequences.REVERTING: (("OUT", "keep"), ("OUT", "reverted")),
        sequences.RESTORING: (("OWN", "restoring"), ("OUT", "reverted")),
        sequences.ERASING: (("OWN", "erasing"), ("IN", "verified")),
    }[state]
    return view(*source, **({"kind": kind} if len(source) > 1 else {})), view(
        *destination, **({"kind": kind} if len(destination) > 1 else {})
    )


# A + says that the run looks again after it, - that nothing can be done for the action.
PAIRS = """
state       move        other       confirm     revert      delete
rest        resize      resize      -           -           -
begun       resize      abort+      -           abort       delete
lost        abort+      abort+      -           abort       delete
released    hand_over   hand_over+  hand_over+  hand_over+  delete_there
resized     hand_over   -           confirm     revert      delete_there
confirming  confirm+    confirm+    confirm     confirm+    delete_there
reverting   revert+     revert+     revert+     revert      delete
restoring   restore+    restore+    restore+    restore     delete
erasing     -           -           -           -           delete
"""


def pairs():
    head, *rows = [line.split() for line in PAIRS.strip().splitlines()]
    return [(row[0], action, said) for row in rows for action, said in zip(head[1:], row[1:])]


@pytest.mark.parametrize("state, action, expected", pairs())
def test_what_comes_first_for_each_state_found_and_each_action(state, action, expected):
    """I4: one run ends what it finds and goes on to what is asked for."""
    name, reaches = sequences.next_sequence(action, *views(state))
    assert (name or "-") + ("+" if name and not reaches else "") == expected


ALONE = """
lost         state       move            other           confirm         revert          delete
destination  begun       abort_alone+    abort_alone+    -               abort_alone     delete_alone
destination  lost        abort_alone+    abort_alone+    -               abort_alone     delete_alone
destination  restoring   abort_alone+    abort_alone+    -               abort_alone     delete_alone
destination  released    -               -               -               reclaim_alone   delete_alone
destination  erasing     -               -               -               -               delete_alone
source       released    -               -               -               -               delete_there_alone
source       resized     hand_over       -               confirm_alone   -               delete_there_alone
source       confirming  confirm_alone+  confirm_alone+  confirm_alone   confirm_alone+  delete_there_alone
source       reverting   -               -               -               -               delete_there_alone
"""


def alone():
    head, *rows = [line.split() for line in ALONE.strip().splitlines()]
    return [(row[0], row[1], action, said) for row in rows for action, said in zip(head[2:], row[2:])]


@pytest.mark.parametrize("lost, state, action, expected", alone())
def test_what_comes_first_where_one_host_is_lost_for_good(lost, state, action, expected):
    """Without the destination only a revert gets the disks of before; without the source what has been handed over stays."""
    source, destination = views(state)
    gone = {"role": None, "lost": True}
    name, reaches = sequences.next_sequence(
        action, gone if lost == "source" else source, gone if lost == "destination" else destination
    )
    assert (name or "-") + ("+" if name and not reaches else "") == expected


@pytest.mark.parametrize("action", ["move", "other", "confirm", "revert"])
def test_what_a_host_that_was_lost_brings_back_is_removed_first_whatever_the_action(action):
    left = {**view("OWN", "resized"), "left": True}
    assert sequences.next_sequence(action, view("OWN", "active"), left) == ("sweep", False)


@pytest.mark.parametrize(
    "source, destination, expected",
    [
        (("OUT", "keep"), (None,), "delete_alone"),
        ((None,), ("IN", "incoming"), "delete_there_alone"),
        ((None,), ("OWN", "resized"), "delete_there"),
    ],
)
def test_the_rest_of_a_move_whose_other_host_was_deleted_alone_is_deleted_too(source, destination, expected):
    """I5."""
    assert sequences.deletion(view(*source), view(*destination)) == expected


@pytest.mark.parametrize("action", ["move", "other", "confirm", "revert"])
@pytest.mark.parametrize("state", [sequences.RESIZED, sequences.CONFIRMING])
def test_a_live_migration_on_its_way_to_the_end_is_ended_whatever_the_action(state, action):
    name, reaches = sequences.next_sequence(action, *views(state, "live-migration"))
    assert name == {sequences.RESIZED: "live_hand_over", sequences.CONFIRMING: "confirm"}[state]
    assert reaches == (action == "move" or (action, state) == ("confirm", sequences.CONFIRMING))


def of_shelved(state):
    found = [dict(each) for each in views(state, "migration")]
    for each in found:
        each["vm_state"] = "shelved_offloaded"
        if each.get("migration"):
            each["migration"] = {**each["migration"], "vm_state_before": "shelved_offloaded"}
    return found


@pytest.mark.parametrize("action", ["move", "other", "confirm", "revert"])
@pytest.mark.parametrize(
    "state, expected", [("begun", None), ("released", "hand_over_shelved"), ("resized", "hand_over_shelved"), ("confirming", "confirm")]
)  # fmt: skip
def test_the_move_of_a_shelved_instance_is_ended_whatever_the_action_once_its_source_has_let_go(
    state, expected, action
):
    name, reaches = sequences.next_sequence(action, *of_shelved(state))
    assert name == (expected or {"move": "migrate_shelved", "confirm": None}.get(action, "abort"))
    assert reaches or action != "move"


def test_a_move_of_a_shelved_instance_begins_with_its_own_sequence():
    source, _none = of_shelved("rest")
    assert sequences.beginning("migration", source, False) == "migrate_shelved"
    assert sequences.beginning("migration", view("OWN", "active"), False) == "resize"
    assert sequences.beginning("live-migration", view("OWN", "active"), False) == "live_migrate"
    assert sequences.beginning("resize", view("OWN", "active"), True) == "resize_here"


LIVE = {
    "its guest runs": (dict(), dict(running=False), "live_migrate"),
    "its guest has gone over": (dict(running=False, has_left=True), dict(), "live_migrate"),
    "its guest stands on the source, and a copy waits": (dict(halted=True), dict(halted=True), "abort"),
    "its guest stands on the source, and nothing has arrived": (dict(halted=True), dict(running=False), "abort"),
    "its guest died on its way": (dict(running=False, has_left=True), dict(running=False), "abort"),
    "its guest died before it had all gone over": (dict(running=False), dict(), "abort"),
}  # fmt: skip


@pytest.mark.parametrize("case", LIVE)
def test_a_live_migration_goes_on_where_its_guest_lives_and_else_starts_it_first(case):
    """R30, I4."""
    source, destination, expected = LIVE[case]
    found = sequences.next_sequence(
        "move",
        view("OWN", "resizing", "live-migration", **source),
        view("IN", "incoming", "live-migration", **destination),
    )
    assert found == (expected, expected == "live_migrate")


def test_the_deletion_of_a_revert_that_has_not_been_given_back_is_the_destinations():
    assert sequences.deletion(view("OUT", "keep"), view("OWN", "reverting")) == "delete_there"


HERE = {
    "begun": ("resizing", {"move": "resize_here", "revert": "revert_here", "other": "revert_here"}),
    "resized": (
        "resized",
        {"move": "start_here", "confirm": "confirm_here", "revert": "revert_here", "delete": "delete_here"},
    ),
    "confirming": ("confirming", {"move": "confirm_here", "confirm": "confirm_here", "revert": "confirm_here"}),
    "restoring": ("restoring", {"move": "revert_here", "confirm": "revert_here", "revert": "revert_here"}),
}


@pytest.mark.parametrize("state", HERE)
def test_on_one_host_the_sequences_are_those_of_one_host(state):
    """R04."""
    phase, expected = HERE[state]
    here = view("OWN", phase, here=True)
    assert {action: sequences.next_sequence(action, here, view(None))[0] for action in expected} == expected
