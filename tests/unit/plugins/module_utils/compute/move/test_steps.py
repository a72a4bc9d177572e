# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each step of a move refuses, with nothing changed: the other host's word is about another state, or comes too late.

tests/protocol has the steps in all their orders; here each stands alone, on a record that was put there.
"""

from __future__ import annotations

import pytest
from move_side import ANOTHER_OP, ATTEMPT, DECIDED, OP, OTHER, ROOM, UUID, D, S, Side

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import claim, live
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.model import migration
from ansible_collections.berth.kvm.plugins.module_utils.model import move_errors as errors
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError


def refuses(side, error, step, *arguments, **options):
    before, done = side.store.read(UUID), list(side.effects.done)
    with pytest.raises(BerthError) as refused:
        side.step(step, *arguments, **options)
    assert (type(refused.value), side.store.read(UUID), side.effects.done) == (error, before, done)


def nothing_of(identity):
    return {"uuid": UUID, "host": identity, "role": None}


# the source lets go, the destination takes over

SENT = {
    "no word of the destination": (None, ATTEMPT),
    "nothing was sent": ({}, None),
    "it was sent in an earlier attempt": ({}, ATTEMPT - 1),
    "the destination holds nothing": ({"role": None}, ATTEMPT),
    "the destination is in another move": ({"op": ANOTHER_OP}, ATTEMPT),
    "the destination was claimed by another attempt": ({"attempt": ATTEMPT + 1}, ATTEMPT),
    "it is the word of a third host": ({"host": OTHER}, ATTEMPT),
}


@pytest.mark.parametrize("case", SENT)
def test_a_source_lets_go_only_of_what_the_destination_has_whole(source, destination, case):
    lies, sent = SENT[case]
    destination.holds(("IN", "incoming"))
    source.holds(("OWN", "frozen"), frozen=ATTEMPT)
    peer = None if lies is None else destination.said(**lies)
    refuses(source, errors.MigrationNotReady, "release", peer, sent=sent)
    source.step("release", destination.said(), sent=ATTEMPT)
    assert source.store.read(UUID).state() == ("OUT", "keep")


@pytest.mark.parametrize("frozen, on", [(ATTEMPT - 1, False), (None, False), (ATTEMPT, True)])
def test_a_source_lets_go_only_of_a_guest_that_was_stopped_for_this_attempt(source, destination, frozen, on):
    destination.holds(("IN", "incoming"))
    source.holds(("OWN", "frozen"), frozen=frozen)
    source.effects.on = on
    refuses(source, errors.MigrationNotReady, "release", destination.said(), sent=ATTEMPT)
    refuses(source, errors.MigrationNotReady, "send", destination.said(targets=[]))


RECEIPTS = {
    "none": None,
    "of a source that holds nothing": {"role": None},
    "of a source that owns it still": {"role": "OWN", "phase": "frozen"},
    "of another move": {"op": ANOTHER_OP},
    "of a move that came back": {"phase": "reverted"},
    "of another attempt": {"attempt": ATTEMPT + 1},
    "of an owner that did not count on": {"generation": [3, 9]},
    "of an owner that counted too far": {"generation": [5, 0]},
}


@pytest.mark.parametrize("case", RECEIPTS)
def test_a_destination_owns_the_instance_only_with_the_receipt_of_this_move(source, destination, case):
    destination.holds(("IN", "incoming"))
    source.holds(("OUT", "keep"), epoch=4)
    lies = RECEIPTS[case]
    refuses(destination, errors.MigrationNotReady, "acquire", None if lies is None else source.said(**lies))
    destination.step("acquire", source.said())
    assert destination.store.read(UUID).state() == ("OWN", "resized")
    assert destination.store.read(UUID).generation > source.store.read(UUID).generation


# back again


@pytest.mark.parametrize("lies", [None, {"role": None}, {"role": "OWN"}, {"op": ANOTHER_OP}, {"phase": "reverted"}])
def test_a_guest_is_reverted_only_where_its_source_kept_the_copy_of_this_move(source, destination, lies):
    destination.holds(("OWN", "resized"), epoch=4)
    destination.effects.on = True
    source.holds(("OUT", "keep"), epoch=4)
    peer = None if lies is None else source.said(**lies)
    refuses(destination, errors.InstanceNotResized, "revert", peer)
    destination.step("revert", source.said())
    assert destination.store.read(UUID).state() == ("OWN", "reverting")


def test_a_guest_that_runs_is_not_given_back(destination):
    destination.holds(("OWN", "reverting"), epoch=4)
    destination.effects.on = True
    refuses(destination, errors.MigrationNotReady, "give_back")


@pytest.mark.parametrize(
    "lies",
    [None, {"role": "OWN"}, {"op": ANOTHER_OP}, {"phase": "keep"}, {"generation": [4, 9]}, {"generation": [6, 0]}],
)
def test_a_source_takes_back_only_what_was_given_back(source, destination, lies):
    source.holds(("OUT", "keep"), epoch=4)
    destination.holds(("OUT", "reverted"), epoch=5)
    peer = None if lies is None else destination.said(**lies)
    refuses(source, errors.MigrationNotReady, "take_back", peer)
    source.step("take_back", destination.said())
    assert source.store.read(UUID).state() == ("OWN", "restoring")
    assert source.store.read(UUID).generation > destination.store.read(UUID).generation


def test_a_source_takes_nothing_back_from_a_host_that_nobody_gave_up(source):
    source.holds(("OUT", "keep"), epoch=4)
    refuses(source, errors.MigrationNotReady, "reclaim")


def test_what_is_taken_back_alone_begins_after_every_owner_that_the_host_was_told_of(source):
    """The destination confirmed the move without it, and the instance went on: were one of these back, it would be the owner."""
    source.holds(("OUT", "keep"), epoch=4)
    run = {"hosts": {}, "planned": [{"uuid": UUID, "host_uuid": S["uuid"], "run": "r"}], "after": {UUID: 7}}
    whereabouts.remember(source.store, run)
    source.step("reclaim", lost=True)
    assert source.store.read(UUID).state() == ("OWN", "restoring")
    assert source.store.read(UUID).generation == [8, 1]


# the end of a move

ENDS = {
    "confirm": (("OWN", "confirming"), "finish"),
    "revert or give up": (("OWN", "restoring"), "finish"),
    "delete": (("OWN", "erasing"), "forget"),
}


@pytest.mark.parametrize("other", [None, ("OUT", "keep"), ("IN", "incoming"), ("OUT", "reverted")], ids=str)
@pytest.mark.parametrize("how", ENDS)
def test_no_move_ends_while_the_other_host_may_hold_a_part_of_it(source, destination, how, other):
    """Nobody would look for that part any more."""
    state, step = ENDS[how]
    source.holds(state)
    if other:
        destination.holds(other)
    refuses(source, errors.MigrationNotReady, step, destination.said() if other else None)
    source.step(step, nothing_of(D))
    left = source.store.read(UUID)
    assert (left and left.state(), source.store.is_buried(OP)) == (
        None if step == "forget" else ("OWN", "active"),
        True,
    )


@pytest.mark.parametrize("state", [("OWN", "resized"), ("OWN", "confirming"), ("OWN", "restoring"), ("OWN", "active")])
def test_an_owner_is_never_purged(destination, state):
    destination.holds(state)
    refuses(destination, errors.MigrationConflict, "purge")


def test_what_is_of_another_move_is_not_purged(destination):
    destination.holds(("IN", "incoming"), op=ANOTHER_OP)
    refuses(destination, errors.MigrationConflict, "purge")


def test_an_attempt_that_is_over_purges_nothing(destination):
    destination.holds(("IN", "incoming"))
    refuses(destination, errors.MigrationFenced, "purge", attempt=ATTEMPT - 1)


def test_a_purge_is_remembered_so_that_the_move_never_comes_back(source, destination):
    destination.holds(("IN", "incoming"))
    source.holds(("OWN", "resizing"))
    destination.step("purge")
    assert destination.store.read(UUID) is None
    refuses(destination, errors.MigrationEnded, "claim", source.said(), **DECIDED)


@pytest.mark.follows("run_again")
@pytest.mark.parametrize("step", ["begin", "freeze", "send", "migrate_live", "release"])
def test_a_run_that_comes_after_a_killed_one_has_ended_the_move_is_told_to_look_again(source, destination, step):
    """What the killed run had started on the host went on, and has removed the source's record since this run looked."""
    source.holds(("OUT", "released"))
    destination.holds(("OWN", "confirming"))
    source.step("purge", destination.said())
    refuses(source, errors.MigrationEnded, step, destination.said(), **DECIDED)


@pytest.mark.parametrize("step", ["freeze", "send", "presend", "release", "resize_here", "abort"])
def test_an_attempt_that_was_taken_over_does_nothing_on_the_source(source, step):
    source.holds(("OWN", "frozen"), frozen=ATTEMPT - 1)
    refuses(source, errors.MigrationFenced, step, attempt=ATTEMPT - 1)


@pytest.mark.parametrize("step", ["acquire", "receive", "prepare_live", "receive_seed"])
def test_an_attempt_that_was_taken_over_does_nothing_on_the_destination(source, destination, step):
    destination.holds(("IN", "incoming"))
    source.holds(("OWN", "frozen"), attempt=ATTEMPT - 1)
    refuses(destination, errors.MigrationFenced, step, source.said(disks=[]), attempt=ATTEMPT - 1)


def test_what_arrives_is_erased_only_where_its_owner_let_go(source, destination):
    destination.holds(("IN", "incoming"))
    source.holds(("OWN", "frozen"))
    refuses(destination, errors.MigrationConflict, "erase", source.said())
    source.holds(("OUT", "keep"), epoch=4)
    destination.step("erase", source.said())
    assert destination.store.read(UUID).state() == ("OWN", "erasing")


# the room


def test_a_host_claims_no_room_that_is_meant_for_another(source, tmp_path):
    source.holds(("OWN", "resizing"))
    third = Side(tmp_path, OTHER)
    refuses(third, errors.MigrationConflict, "claim", source.said(), **DECIDED)


def test_an_attempt_that_is_over_takes_no_claim_up(source, destination):
    source.holds(("OWN", "resizing"), attempt=ATTEMPT - 1)
    destination.holds(("IN", "incoming"))
    refuses(destination, errors.MigrationFenced, "claim", source.said(), attempt=ATTEMPT - 1, **DECIDED)


def test_a_host_that_holds_another_record_claims_no_room(source, destination):
    source.holds(("OWN", "resizing"))
    destination.holds(("OUT", "keep"), op=ANOTHER_OP)
    refuses(destination, errors.MigrationConflict, "claim", source.said(), **DECIDED)


def test_on_one_host_the_room_of_both_flavors_is_held(source):
    record = source.holds(("OWN", "resizing"), destination=S)
    held = claim.claim_beside(source, record)
    assert held.resources == {"vcpus": 3, "memory_mb": 192}
    assert held.migration["new_resources"] == ROOM["new"]


def test_on_one_host_nothing_goes_back_that_was_confirmed(source):
    source.holds(("OWN", "confirming"), destination=S)
    refuses(source, errors.InstanceNotResized, "restore_here")


@pytest.mark.parametrize(
    "state, stops", [(("OWN", "resized"), True), (("OWN", "reverting"), True), (("OWN", "resizing"), False)]
)
def test_on_one_host_a_guest_with_the_new_flavor_is_stopped_before_it_gets_the_old_one(source, state, stops):
    """Also one that boots from a volume: it has no disk of its own that is kept. What has not begun to change runs on."""
    source.holds(state, destination=S)
    source.effects.on, source.effects.has_kept_disks = True, lambda _record: False
    source.step("restore_here")
    assert ("stop" in source.effects.done) is stops
    assert source.store.read(UUID).spec["flavor"]["name"] == "old"


def test_a_resize_is_not_confirmed_by_itself_before_its_time(destination):
    destination.holds(("OWN", "resized"), epoch=4)
    for destination.uptime in (100, 699):
        refuses(destination, errors.MigrationNotReady, "confirm", when_due=True)
    destination.uptime = 700
    destination.step("confirm", when_due=True)
    assert destination.store.read(UUID).state() == ("OWN", "confirming")


# live


def test_a_guest_that_has_not_arrived_is_not_verified(source, destination):
    destination.holds(("IN", "incoming"), kind=migration.LIVE)
    source.holds(("OWN", "resizing"), kind=migration.LIVE)
    refuses(destination, errors.MigrationNotReady, "verify_live", source.said())


@pytest.fixture
def following(source, destination):
    """following(follow): the source migrates the guest, as another run's migration is under way: ``follow`` waits for it."""

    def step(follow):
        destination.holds(("IN", "incoming"), kind=migration.LIVE)
        source.holds(("OWN", "resizing"), kind=migration.LIVE)
        source.effects.follow_live = follow
        source.step("migrate_live", destination.said(targets={}))

    return step


def test_a_run_begins_a_migration_where_the_one_that_it_followed_left_the_guest_behind(source, following):
    following(lambda _record, _options: False)
    assert source.effects.done == ["migrate_live", "hide"]


def test_a_run_begins_no_migration_where_the_guest_left_by_the_one_that_it_followed(source, following):
    following(lambda _record, _options: True)
    assert source.effects.done == ["hide"] and source.store.read(UUID).migration["frozen"] == ATTEMPT


def test_a_run_begins_no_migration_where_another_gave_the_move_up_while_it_followed_one(source, following):
    def given_up_meanwhile(_record, _options):
        source.step("abort")
        return False

    with pytest.raises(errors.MigrationFenced):
        following(given_up_meanwhile)
    assert "migrate_live" not in source.effects.done


def test_a_guest_that_was_not_verified_is_not_owned(source, destination):
    destination.holds(("IN", "incoming"), kind=migration.LIVE)
    source.holds(("OUT", "keep"), kind=migration.LIVE, epoch=4)
    refuses(destination, errors.MigrationNotReady, "acquire", source.said())


OWNED = {"role": "OWN", "phase": "confirming", "op": OP, "attempt": ATTEMPT + 1, "generation": [4, 3]}


@pytest.mark.parametrize(
    "lie",
    [{"role": "IN"}, {"phase": "resized"}, {"op": ANOTHER_OP}, {"attempt": ATTEMPT}, {"attempt": None},
     {"generation": [3, 9]}, {"generation": None}],
    ids=str,
)  # fmt: skip
def test_a_source_keeps_its_copy_until_the_destination_owns_the_guest_for_good(source, lie):
    released = source.holds(("OUT", "keep"), kind=migration.LIVE, epoch=4)
    assert live.owns_for_good(OWNED, released) is True
    assert live.owns_for_good({**OWNED, **lie}, released) is False
    assert live.owns_for_good(None, released) is False
