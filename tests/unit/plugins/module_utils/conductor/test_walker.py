# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The procedure of a move: which leg it asks for, what each leg gets to know, and what follows a failure (R18, R22, R27)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences
from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import Candidate, Move, Token, Walk
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import move as procedure
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import TAKING

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


class Walker:
    """A move that is carried out answer by answer. ``asked``: (module, {host: arguments}) of the leg that is next."""

    def __init__(self, plan, settings=None, only_prepare=False):
        self.walk = Walk(plan)
        self.steps = procedure.move(self.walk, procedure.Run(settings or {}, only_prepare=only_prepare))
        self.labels, self.asked = [], None
        self.send(None)

    def send(self, answers):
        try:
            step = self.steps.send(answers)
            while not isinstance(step, Ask):
                self.labels += [step.event["leg"]] if "leg" in step.event else []
                step = self.steps.send(None)
            self.asked = step
        except StopIteration:
            self.asked = None

    def turn(self):
        """The leg that is next: its host, and what it is given."""
        if self.asked is None:
            return None
        if self.asked.module == "rescan":
            return SimpleNamespace(host=self.walk.destination(), steps=(), looks=list(self.asked.arguments))
        [(host, given)] = self.asked.arguments.items()
        of_it = {"steps": tuple(given["steps"]), "token": Token(**given["token"]), "peer": given["peer"]}
        return SimpleNamespace(host=host, given=given, label=self.labels[-1], **of_it)

    def __getattr__(self, name):
        return getattr(self.walk, name)


def answer(walk, changed=True, at=0.0, took=None, **said):
    """The leg that is next ends well. -> (its host, its steps)"""
    turn = walk.turn()
    op, attempt = turn.token.op, turn.token.attempt + bool(set(TAKING) & set(turn.steps))
    view = {"uuid": UUID, "op": op, "by": turn.label, **said}
    token = {"op": op, "attempt": attempt}
    walk.send({turn.host: {"move": view, "token": token, "changed": changed, "at": at, "took": took or {}}})
    return turn.host, turn.steps


def fail(walk, reason="it is full", code="ClaimFailed", hint=None):
    turn = walk.turn()
    walk.send({turn.host: {"error": {"code": code, "message": reason, "hint": hint}}})
    return turn.host, turn.steps


def stands(walk):
    walk.send({host: {"instances": []} for host in ("kvm1", "kvm2")})


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
    assert to_the_end(Walker(move(name))) == [(hosts[leg.side], leg.steps) for leg in legs]


def test_the_first_leg_hears_the_view_of_the_plan_and_those_after_it_the_other_sides_last_word():
    walk = Walker(move())
    assert walk.turn().peer == THERE
    answer(walk)
    assert walk.turn().peer["by"] == "Begin the move on its source"
    answer(walk)
    assert walk.turn().peer["by"] == "Begin the move on its source"
    answer(walk, targets=["a port"])
    assert walk.turn().peer["by"] == "Open empty disks on the destination"


def test_what_a_side_said_beside_its_record_is_heard_until_it_says_it_anew():
    walk = Walker(move("live_migrate"))
    answer(walk, disks=["vda"], guest={"cpu": "x"}, ended=True)
    for _leg in ("claim", "check"):
        answer(walk)
    peer = walk.turn().peer
    assert (peer["disks"], peer["guest"]) == (["vda"], {"cpu": "x"})
    assert "ended" not in peer, "only what other steps need is kept of an older word"


def test_a_leg_that_takes_the_move_up_gives_out_the_token_and_no_other_leg_does():
    walk = Walker(move())
    assert walk.turn().token == Token("op-kvm2", 0)
    answer(walk)
    assert walk.turn().token == Token("op-kvm2", 1)
    walk.send({"kvm2": {"move": {"uuid": UUID}, "token": {"op": "op-kvm2", "attempt": 9}, "changed": True}})
    assert walk.turn().token == Token("op-kvm2", 1)


def test_a_move_that_was_begun_is_gone_on_with_by_its_own_token():
    walk = Walker(move("restore", token=Token("op", 3)))
    assert walk.turn().token == Token("op", 3)
    answer(walk)
    assert walk.turn().token == Token("op", 3)


def test_each_candidate_keeps_the_zone_of_its_own_host():
    """C20"""
    walk = Walker(move(), SETTINGS)
    assert walk.turn().given["spec"]["host_zone"] == "zone of kvm2"
    answer(walk), fail(walk)
    while walk.turn().token.op != "op-kvm3":
        answer(walk)
    assert walk.turn().given["spec"]["host_zone"] == "zone of kvm3"


def test_a_leg_gets_the_settings_that_it_needs_and_no_others():
    walk = Walker(move(), SETTINGS)
    first = walk.turn().given
    assert (first["kind"], first["spec"], first["confirm_window"]) == ("resize", BIG_THERE, 5)
    assert (first["limits"], first["destination"]["name"], first["source"]["name"]) == (
        {"vcpu": "kvm2"},
        "kvm2",
        "kvm1",
    )
    assert not {"key", "bandwidth", "timeout"} & set(first)
    answer(walk), answer(walk)
    assert set(walk.turn().given) == {"uuid", "steps", "token", "peer", "lost", "key", "stop_timeout"}


@pytest.mark.parametrize("name", ["abort_alone", "reclaim_alone", "confirm_alone", "delete_alone", "sweep"])
def test_only_where_the_other_host_is_lost_the_steps_are_told_so(name):
    assert Walker(move(name)).turn().given["lost"] is True
    with_both = name.replace("_alone", "").replace("reclaim", "revert").replace("sweep", "abort")
    assert Walker(move(with_both)).turn().given["lost"] is False


def test_all_hosts_are_looked_at_after_the_claim_where_that_is_needed_and_else_that_leg_is_left_out():
    walk = Walker(move(look=("kvm1", "kvm2")))
    answer(walk), answer(walk)
    assert (walk.asked.module, walk.turn().looks, walk.turn().host) == ("rescan", ["kvm1", "kvm2"], "kvm2")
    stands(walk)
    assert walk.turn().steps == ("receive",)
    without = Walker(move())
    answer(without), answer(without)
    assert without.turn().steps == ("receive",)


# ---- what follows a failure


def test_what_fails_before_anything_began_is_over_at_once():
    """Nothing is given up that this run has not begun: another run's move may be under way."""
    walk = Walker(move())
    fail(walk, "the guest is paused")
    assert (walk.turn(), walk.failure) == (None, "ClaimFailed: the guest is paused")


@pytest.mark.parametrize("leg", ["claim", "look"])
def test_a_claim_that_fails_is_given_up_and_the_next_candidate_is_tried_with_a_token_of_its_own(leg):
    walk = Walker(move(look=("kvm1",) if leg == "look" else ()))
    answer(walk)
    if leg == "look":
        answer(walk)
        walk.send({"kvm1": {"instances": []}})  # and kvm2 is silent, where the claim is
        assert walk.failure.startswith("HostUnknown: kvm2 did not answer after the claim of web-1")
    else:
        fail(walk)
    assert [answer(walk) for _leg in GIVEN_UP] == GIVEN_UP
    turn = walk.turn()
    assert (turn.steps, turn.token, turn.peer) == (("begin",), Token("op-kvm3", 0), THERE)
    assert turn.given["limits"] == {"vcpu": "kvm3"}
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
    walk = Walker(move(sequence))
    while leg not in walk.turn().steps:
        answer(walk)
    fail(walk)
    assert [answer(walk) for _leg in GIVEN_UP] == GIVEN_UP
    turn = walk.turn()
    assert (turn.steps, turn.token) == (("begin",), Token("op-kvm3", 0))
    answer(walk)
    assert walk.turn().host == "kvm3" and walk.failure is None
    assert walk.attempts != []


def test_when_no_candidate_is_left_the_last_cause_is_said():
    walk = Walker(move())
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
        walk.failure
        == "MaxRetriesExceeded: Exhausted all hosts available for moving web-1. Last cause: ClaimFailed: the other too"
    )


def test_where_one_host_alone_could_take_it_the_error_is_that_of_the_host():
    """R07: programs read its code."""
    walk = Walker(move(candidates=("kvm2",)))
    answer(walk)
    fail(walk, "it is full")
    for _leg in GIVEN_UP:
        answer(walk)
    assert walk.turn() is None and walk.failure == "ClaimFailed: it is full"


@pytest.mark.parametrize("legs, sequence", [(3, "resize"), (4, "resize"), (4, "live_migrate"), (5, "live_migrate")])
def test_what_fails_later_is_given_up_and_no_other_candidate_is_tried(legs, sequence):
    walk = Walker(move(sequence))
    for _leg in range(legs):
        answer(walk)
    fail(walk)
    assert to_the_end(walk) == GIVEN_UP
    assert walk.failure == "ClaimFailed: it is full"


def test_a_resize_on_the_same_host_is_reverted_there():
    walk = Walker(move("resize_here", candidates=("kvm1",)))
    answer(walk)
    fail(walk)
    assert to_the_end(walk) == [("kvm1", ("restore_here", "start", "finish"))]
    assert walk.failure == "ClaimFailed: it is full"


def test_what_is_given_up_has_the_token_that_was_taken_and_then_the_one_that_giving_up_takes():
    walk = Walker(move())
    answer(walk)
    fail(walk)
    assert walk.turn().token == Token("op-kvm2", 1)
    answer(walk)
    assert walk.turn().token == Token("op-kvm2", 2)


@pytest.mark.parametrize(
    "reason, told",
    [
        ("it does not answer", "ClaimFailed: it does not answer. Run the same again"),
        ("it hangs. Restart it, then run the same again", "ClaimFailed: it hangs. Restart it, then run the same again"),
    ],
)
def test_where_giving_up_fails_too_both_reasons_are_said_and_nothing_more_is_done(reason, told):
    walk = Walker(move())
    answer(walk)
    fail(walk, "it is full")
    fail(walk, reason)
    assert walk.turn() is None
    assert walk.failure == "ClaimFailed: it is full. The attempt to give the move up failed, too: " + told


@pytest.mark.parametrize(
    "name", ["confirm", "revert", "hand_over", "restore", "delete", "abort", "live_hand_over", "sweep"]
)
def test_what_has_no_way_back_is_not_given_up(name):
    walk = Walker(move(name))
    if len(sequences.SEQUENCES[name].legs) > 1:
        answer(walk)
    fail(walk)
    assert (walk.turn(), walk.failure) == (None, "ClaimFailed: it is full")


# ---- where it ends early


def test_a_live_migration_that_the_hosts_ended_between_them_ends_there():
    walk = Walker(move("live_migrate"))
    while "migrate_live" not in walk.turn().steps:
        answer(walk, ended=True)
    answer(walk, ended=True)
    assert (walk.turn(), walk.failure) == (None, None)


@pytest.mark.parametrize(
    "name, candidates, legs",
    [("resize", ("kvm2",), 2), ("resize", (), 0), ("resize_here", ("kvm1",), 0), ("hand_over", (), 0)],
)
def test_who_only_prepares_claims_room_and_touches_no_guest(name, candidates, legs):
    walk = Walker(move(name, candidates=candidates), only_prepare=True)
    for _leg in range(legs):
        assert not walk.prepared
        answer(walk)
    assert (walk.turn(), walk.prepared, walk.failure) == (None, True, None)


@pytest.mark.parametrize("name", ["abort", "confirm", "revert", "sweep"])
def test_what_ends_another_move_first_is_not_held_back_by_who_only_prepares(name):
    walk = Walker(move(name), only_prepare=True)
    assert len(to_the_end(walk)) == len(sequences.SEQUENCES[name].legs) and not walk.prepared


def test_what_is_being_given_up_is_not_held_back_either():
    walk = Walker(move(candidates=("kvm2",)), only_prepare=True)
    answer(walk)
    fail(walk)
    assert to_the_end(walk) == GIVEN_UP and not walk.prepared


def test_who_has_to_confirm_is_told_what_the_last_host_says():
    walk = Walker(move())
    while walk.turn():
        answer(walk, phase="resized")
    assert walk.last["phase"] == "resized"


def test_how_long_the_guest_is_away_goes_from_leg_to_leg():
    walk = Walker(move())
    for _leg in range(3):
        answer(walk)
    answer(walk, at=100.0, took={"presend": 60.0, "freeze": 3.0, "send": 2.0, "release": 0.5})
    answer(walk, at=105.0, took={"acquire": 1.0, "start": 1.0})
    assert walk.away == {"seconds": 10.5}


def test_what_the_source_of_a_live_migration_measured_is_told_at_the_end():
    walk = Walker(move("live_migrate"))
    while walk.turn():
        answer(walk, downtime_ms=431)
    assert walk.away == {"seconds": 0.431}


def test_the_failure_of_a_leg_names_the_instance_by_its_name():
    walk = Walker(move())
    fail(walk, "Cannot 'resize' instance %s while it is in task_state resize_prep" % UUID)
    assert walk.failure == "ClaimFailed: Cannot 'resize' instance web-1 while it is in task_state resize_prep"


def test_a_destination_that_falls_silent_is_asked_to_give_the_claim_up_and_a_source_is_not_asked_again():
    walk = Walker(move())
    answer(walk)
    walk.send({"kvm2": {"reason": "no route"}})
    assert walk.failure.startswith("HostUnknown: kvm2 did not answer: no route") and walk.turn().steps[0] == "abort"
    walk = Walker(move())
    for _leg in range(3):
        answer(walk)
    walk.send({"kvm1": {"reason": "no route"}})
    assert walk.turn() is None and walk.failure.startswith("HostUnknown: kvm1 did not answer: no route")


def test_every_label_is_said_of_the_same_steps_wherever_it_stands():
    """Instances whose next legs have the same label run as one task."""
    legs = [leg for sequence in sequences.SEQUENCES.values() for leg in sequence.legs]
    sides = {(leg.label, leg.side) for leg in legs}
    assert len({label for label, _side in sides}) == len(sides)


# ---- the move had ended before this run took it up -------------------------------------------------------------------


def test_a_move_that_has_ended_since_the_run_looked_is_looked_at_again_and_nothing_is_given_up():
    walk = Walker(move("confirm"))
    fail(walk, "it has just ended", "MigrationEnded")
    assert (walk.turn(), walk.met_end, walk.gives_up) == (None, True, False)


def test_what_was_only_to_be_ended_has_not_failed_if_it_has_ended():
    walk = Walker(move("abort", settles=True))
    fail(walk, "it has just ended", "MigrationEnded")
    assert (walk.turn(), walk.failure) == (None, None)


def test_a_second_look_is_the_last_one():
    walk = Walker(move("confirm", again=True))
    fail(walk, "it has just ended", "MigrationEnded")
    assert (walk.turn(), walk.met_end, walk.failure) == (None, False, "MigrationEnded: it has just ended")


def test_a_move_that_this_run_has_taken_up_is_given_up_by_it():
    walk = Walker(move())
    answer(walk)
    fail(walk, "the claim was given up", "MigrationEnded")
    assert (walk.met_end, walk.gives_up) == (False, True)


def test_a_move_that_an_earlier_run_ends_while_this_one_follows_it_is_looked_at_again():
    """A live migration whose controller died: its source had let go before this run began, and the hosts end it."""
    walk = Walker(move("live_migrate"))
    answer(walk, changed=False)
    fail(walk, "the move was given up", "MigrationEnded")
    assert (walk.turn(), walk.met_end, walk.gives_up) == (None, True, False)


def test_a_run_that_found_the_move_past_its_beginning_gives_nothing_up():
    walk = Walker(move("live_migrate"))
    answer(walk, changed=False)
    fail(walk, "the guest has not arrived", "MigrationNotReady")
    assert (walk.turn(), walk.gives_up, walk.failure) == (None, False, "MigrationNotReady: the guest has not arrived")
