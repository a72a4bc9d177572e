# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The walker: which leg it gives out, what each leg gets to know, and what follows a failure (R18, R22, R27)."""

from __future__ import annotations

import json

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences
from ansible_collections.berth.kvm.plugins.module_utils.conductor.walk import Candidate, Move, Token, Walk
from ansible_collections.berth.kvm.plugins.plugin_utils import walking

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
HERE = {"uuid": UUID, "role": "OWN", "op": None, "at": "source"}
THERE = {"uuid": UUID, "role": None, "at": "destination"}
BIG_THERE = {"flavor": "big", "host_zone": "zone of kvm2"}
SETTINGS = {"key": "a" * 64, "bandwidth": 7, "stop_timeout": 20, "tls": False, "confirm_window": 5, "timeout": None}


def move(sequence="resize", candidates=("kvm2", "kvm3"), token=None, **more):
    begins = sequence in ("resize", "live_migrate", "resize_here")
    chosen = tuple(
        Candidate("op-" + host, host, {"uuid": "u-" + host, "name": host}, {"vcpu": host}, "zone of " + host)
        for host in (candidates if begins else ())
    )
    given = {"kind": "resize", "spec": {"flavor": "big"}, "source_host": {"uuid": "u-kvm1", "name": "kvm1"}, **more}
    views = {"source": HERE, "destination": THERE}
    return Move(
        "plan", UUID, "web-1", sequence, "kvm1", "kvm2", token or Token(None), views, candidates=chosen, **given
    )


def answer(walk, changed=True, **said):
    """The leg that is next ends well. -> (its host, its steps)"""
    turn = walk.turn()
    op = turn.token.op
    attempt = turn.token.attempt + turn.leg.takes_token
    view = {"uuid": UUID, "op": op, "by": turn.leg.label, **said}
    walk.answered(view, {"op": op, "attempt": attempt}, changed)
    return turn.host, turn.leg.steps


def fail(walk, reason="it is full"):
    turn = walk.turn()
    walk.failed(reason)
    return turn.host, turn.leg.steps


def to_the_end(walk):
    walked = []
    while walk.turn():
        walked.append(answer(walk))
    return walked


GIVEN_UP = [("kvm1", ("abort", "start")), ("kvm2", ("purge",)), ("kvm1", ("finish",))]


@pytest.mark.parametrize("name", sequences.SEQUENCES)
def test_every_sequence_is_walked_leg_by_leg_each_on_the_host_of_its_side(name):
    hosts = {"source": "kvm1", "destination": "kvm2"}
    legs = [leg for leg in sequences.SEQUENCES[name].legs if leg.side != sequences.FLEET]
    assert to_the_end(Walk.begin(move(name))) == [(hosts[leg.side], leg.steps) for leg in legs]


@pytest.mark.parametrize("name", sequences.SEQUENCES)
def test_a_walk_goes_on_from_its_state_as_plain_data(name):
    """Each leg is another task: in between, the state is a registered variable."""
    whole, plan = Walk.begin(move(name)), move(name)
    parts = Walk.begin(plan)
    while whole.turn():
        parts = Walk.restore(plan, json.loads(json.dumps(parts.state())))
        assert parts.turn() == whole.turn()
        assert answer(parts) == answer(whole)
    assert parts.turn() is None


def test_the_first_leg_hears_the_view_of_the_plan_and_those_after_it_the_other_sides_last_word():
    walk = Walk.begin(move())
    assert walk.turn().peer == THERE
    answer(walk)
    assert walk.turn().peer["by"] == "Begin the move on its source"
    answer(walk)
    assert walk.turn().peer["by"] == "Begin the move on its source"
    answer(walk, targets=["a port"])
    assert walk.turn().peer["by"] == "Open empty disks on the destination"


def test_what_a_side_said_beside_its_record_is_heard_until_it_says_it_anew():
    walk = Walk.begin(move("live_migrate"))
    answer(walk, disks=["vda"], guest={"cpu": "x"}, ended=True)
    for _leg in ("claim", "check"):
        answer(walk)
    peer = walk.turn().peer
    assert (peer["disks"], peer["guest"]) == (["vda"], {"cpu": "x"})
    assert "ended" not in peer, "only what other steps need is kept of an older word"


def test_a_leg_that_takes_the_move_up_gives_out_the_token_and_no_other_leg_does():
    walk = Walk.begin(move())
    assert walk.turn().token == Token("op-kvm2", 0)
    answer(walk)
    assert walk.turn().token == Token("op-kvm2", 1)
    walk.answered({"uuid": UUID}, {"op": "op-kvm2", "attempt": 9}, True)
    assert walk.turn().token == Token("op-kvm2", 1)


def test_a_move_that_was_begun_is_gone_on_with_by_its_own_token():
    walk = Walk.begin(move("restore", token=Token("op", 3)))
    assert walk.turn().token == Token("op", 3)
    answer(walk)
    assert walk.turn().token == Token("op", 3)


def test_each_candidate_keeps_the_zone_of_its_own_host():
    """C20"""
    walk = Walk.begin(move())
    assert walk.turn().arguments(SETTINGS)["spec"]["host_zone"] == "zone of kvm2"
    answer(walk), fail(walk)
    while walk.turn().token.op != "op-kvm3":
        answer(walk)
    assert walk.turn().arguments(SETTINGS)["spec"]["host_zone"] == "zone of kvm3"


def test_a_leg_gets_the_settings_that_it_needs_and_no_others():
    walk = Walk.begin(move())
    first = walk.turn().arguments(SETTINGS)
    assert (first["kind"], first["spec"], first["confirm_window"]) == ("resize", BIG_THERE, 5)
    assert (first["limits"], first["destination"]["name"], first["source"]["name"]) == (
        {"vcpu": "kvm2"},
        "kvm2",
        "kvm1",
    )
    assert not {"key", "bandwidth", "timeout"} & set(first)
    answer(walk), answer(walk)
    assert set(walk.turn().arguments(SETTINGS)) == {"uuid", "steps", "token", "peer", "lost", "key", "stop_timeout"}


@pytest.mark.parametrize("name", ["abort_alone", "reclaim_alone", "confirm_alone", "delete_alone", "sweep"])
def test_only_where_the_other_host_is_lost_the_steps_are_told_so(name):
    assert Walk.begin(move(name)).turn().arguments({})["lost"] is True
    assert Walk.begin(move(name.replace("_alone", "").replace("reclaim", "revert").replace("sweep", "abort"))).turn(
    ).arguments({})["lost"] is False  # fmt: skip


def test_all_hosts_are_looked_at_after_the_claim_where_that_is_needed_and_else_that_leg_is_left_out():
    walk = Walk.begin(move(look=("kvm1", "kvm2")))
    answer(walk), answer(walk)
    assert (walk.turn().leg.side, walk.turn().host) == (sequences.FLEET, "kvm2")
    walk.stands()
    assert walk.turn().leg.steps == ("receive",)
    without = Walk.begin(move())
    answer(without), answer(without)
    assert without.turn().leg.steps == ("receive",)


# ---- what follows a failure


def test_what_fails_before_anything_began_is_over_at_once():
    """Nothing is given up that this run has not begun: another run's move may be under way."""
    walk = Walk.begin(move())
    fail(walk, "the guest is paused")
    assert (walk.turn(), walk.failure) == (None, "the guest is paused")


@pytest.mark.parametrize("leg", ["claim", "look"])
def test_a_claim_that_fails_is_given_up_and_the_next_candidate_is_tried_with_a_token_of_its_own(leg):
    walk = Walk.begin(move(look=("kvm1",) if leg == "look" else ()))
    answer(walk)
    if leg == "look":
        answer(walk)
    fail(walk)
    assert [answer(walk) for _leg in GIVEN_UP] == GIVEN_UP
    turn = walk.turn()
    assert (turn.leg.steps, turn.token, turn.peer) == (("begin",), Token("op-kvm3", 0), THERE)
    assert turn.arguments({})["limits"] == {"vcpu": "kvm3"}
    answer(walk)
    assert walk.turn().host == "kvm3"
    assert walk.failure is None


@pytest.mark.parametrize(
    "sequence, leg",
    [
        ("resize", "receive"),
        ("live_migrate", "claim"),
        ("live_migrate", "inspect_live"),
        ("live_migrate", "check_live"),
    ],
)
def test_a_move_that_fails_while_its_guest_is_as_before_goes_on_to_the_next_candidate(sequence, leg):
    """Nova's migrate_max_retries."""
    walk = Walk.begin(move(sequence))
    while leg not in walk.turn().leg.steps:
        answer(walk)
    fail(walk)
    assert [answer(walk) for _leg in GIVEN_UP] == GIVEN_UP
    turn = walk.turn()
    assert (turn.leg.steps, turn.token) == (("begin",), Token("op-kvm3", 0))
    answer(walk)
    assert walk.turn().host == "kvm3" and walk.failure is None
    assert Walk.restore(walk.move, walk.state()).attempts == walk.attempts != []


def test_when_no_candidate_is_left_the_last_cause_is_said():
    walk = Walk.begin(move())
    for reason in ("one is full", "the other too"):
        answer(walk)
        fail(walk, reason)
        for _leg in GIVEN_UP:
            answer(walk)
    assert walk.turn() is None
    assert [(entry["attempt"], entry["host"], entry["cause"]) for entry in walk.attempts] == [
        (1, "kvm2", "one is full"),
        (2, "kvm3", "the other too"),
    ]
    assert (
        walk.failure == "MaxRetriesExceeded: Exhausted all hosts available for moving web-1. Last cause: the other too"
    )


def test_where_one_host_alone_could_take_it_the_error_is_that_of_the_host():
    """R07: programs read its code."""
    walk = Walk.begin(move(candidates=("kvm2",)))
    answer(walk)
    fail(walk, "ClaimFailed: it is full")
    for _leg in GIVEN_UP:
        answer(walk)
    assert walk.turn() is None and walk.failure == "ClaimFailed: it is full"


@pytest.mark.parametrize("legs, sequence", [(3, "resize"), (4, "resize"), (4, "live_migrate"), (5, "live_migrate")])
def test_what_fails_later_is_given_up_and_no_other_candidate_is_tried(legs, sequence):
    walk = Walk.begin(move(sequence))
    for _leg in range(legs):
        answer(walk)
    fail(walk)
    assert to_the_end(walk) == GIVEN_UP
    assert walk.failure == "it is full"


def test_a_resize_on_the_same_host_is_reverted_there():
    walk = Walk.begin(move("resize_here", candidates=("kvm1",)))
    answer(walk)
    fail(walk)
    assert to_the_end(walk) == [("kvm1", ("restore_here", "start", "finish"))]
    assert walk.failure == "it is full"


def test_what_is_given_up_has_the_token_that_was_taken_and_then_the_one_that_giving_up_takes():
    walk = Walk.begin(move())
    answer(walk)
    fail(walk)
    assert walk.turn().token == Token("op-kvm2", 1)
    answer(walk)
    assert walk.turn().token == Token("op-kvm2", 2)


@pytest.mark.parametrize(
    "reason, told",
    [
        ("it does not answer", "it does not answer. Run the same again"),
        ("it hangs. Restart it, then run the same again", "it hangs. Restart it, then run the same again"),
    ],
)
def test_where_giving_up_fails_too_both_reasons_are_said_and_nothing_more_is_done(reason, told):
    walk = Walk.begin(move())
    answer(walk)
    fail(walk, "it is full")
    fail(walk, reason)
    assert walk.turn() is None
    assert walk.failure == "it is full. The attempt to give the move up failed, too: " + told


@pytest.mark.parametrize(
    "name", ["confirm", "revert", "hand_over", "restore", "delete", "abort", "live_hand_over", "sweep"]
)
def test_what_has_no_way_back_is_not_given_up(name):
    walk = Walk.begin(move(name))
    if len(sequences.SEQUENCES[name].legs) > 1:
        answer(walk)
    fail(walk)
    assert (walk.turn(), walk.failure) == (None, "it is full")


# ---- where it ends early


def test_a_live_migration_that_the_hosts_ended_between_them_ends_there():
    walk = Walk.begin(move("live_migrate"))
    while not walk.turn().leg.may_be_last:
        answer(walk, ended=True)
    answer(walk, ended=True)
    assert (walk.turn(), walk.failure) == (None, None)


@pytest.mark.parametrize(
    "name, candidates, legs",
    [("resize", ("kvm2",), 2), ("resize", (), 0), ("resize_here", ("kvm1",), 0), ("hand_over", (), 0)],
)
def test_who_only_prepares_claims_room_and_touches_no_guest(name, candidates, legs):
    walk = Walk.begin(move(name, candidates=candidates))
    for _leg in range(legs):
        assert not walk.is_prepared()
        answer(walk)
    assert walk.is_prepared()


@pytest.mark.parametrize("name", ["abort", "confirm", "revert", "sweep"])
def test_what_ends_another_move_first_is_not_held_back_by_who_only_prepares(name):
    assert not Walk.begin(move(name)).is_prepared()


def test_what_is_being_given_up_is_not_held_back_either():
    walk = Walk.begin(move())
    answer(walk)
    fail(walk)
    assert not walk.is_prepared()


def told_at_the_end(walk):
    """What the closing table learns of the record; nothing before the move has ended."""
    return walking.fact(walk, 1, False, {})["ansible_facts"][walking.FACT]["move"]


def test_who_has_to_confirm_is_told_only_when_it_is_resized():
    walk = Walk.begin(move())
    while walk.turn():
        assert told_at_the_end(walk) is None
        answer(walk, phase="resized")
    assert told_at_the_end(walk)["phase"] == "resized"
    confirmed = Walk.begin(move("confirm"))
    while confirmed.turn():
        answer(confirmed, phase="active")
    assert told_at_the_end(confirmed)["phase"] == "active"


def test_every_label_is_said_of_the_same_steps_wherever_it_stands():
    """Instances whose next legs have the same label run as one task."""
    legs = [leg for sequence in sequences.SEQUENCES.values() for leg in sequence.legs]
    sides = {(leg.label, leg.side) for leg in legs}
    assert len({label for label, _side in sides}) == len(sides)


# ---- the move had ended before this run took it up -------------------------------------------------------------------


def test_a_move_that_has_ended_since_the_run_looked_is_looked_at_again_and_nothing_is_given_up():
    walk = Walk.begin(move("confirm"))
    walk.failed("MigrationEnded: it has just ended", ended=True)
    assert (walk.turn(), walk.met_end, walk.gives_up) == (None, True, False)


def test_what_was_only_to_be_ended_has_not_failed_if_it_has_ended():
    walk = Walk.begin(move("abort", settles=True))
    walk.failed("MigrationEnded: it has just ended", ended=True)
    assert (walk.turn(), walk.failure) == (None, None)


def test_a_second_look_is_the_last_one():
    walk = Walk.begin(move("confirm", again=True))
    walk.failed("MigrationEnded: it has just ended", ended=True)
    assert (walk.turn(), walk.met_end, walk.failure) == (None, False, "MigrationEnded: it has just ended")


def test_a_move_that_this_run_has_taken_up_is_given_up_by_it():
    walk = Walk.begin(move())
    answer(walk)
    walk.failed("MigrationEnded: the claim was given up", ended=True)
    assert (walk.met_end, walk.gives_up) == (False, True)


def test_a_move_that_an_earlier_run_ends_while_this_one_follows_it_is_looked_at_again():
    """A live migration whose controller died: its source had let go before this run began, and the hosts end it."""
    walk = Walk.begin(move("live_migrate"))
    answer(walk, changed=False)
    walk.failed("MigrationEnded: the move was given up", ended=True)
    assert (walk.turn(), walk.met_end, walk.gives_up) == (None, True, False)


def test_a_run_that_found_the_move_past_its_beginning_gives_nothing_up():
    walk = Walk.begin(move("live_migrate"))
    answer(walk, changed=False)
    fail(walk, "MigrationNotReady: the guest has not arrived")
    assert (walk.turn(), walk.gives_up, walk.failure) == (None, False, "MigrationNotReady: the guest has not arrived")
