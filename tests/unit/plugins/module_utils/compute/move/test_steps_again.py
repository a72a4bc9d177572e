# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step of a move that comes again does nothing, one that comes later begins a new attempt, and none touches other disks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from move_side import ANOTHER_OP, ATTEMPT, DECIDED, OP, UUID, D, S
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import InstanceBusy
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model import migration
from ansible_collections.berth.kvm.plugins.module_utils.model import move_errors as errors
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError

DONE = [
    (("OUT", "keep"), "begin freeze presend send release check_live send_seed migrate_live"),
    (
        ("OWN", "resized"),
        "begin freeze claim receive acquire inspect_live receive_seed prepare_live verify_live resize_here",
    ),
    (("OUT", "reverted"), "revert"),
    (("OWN", "restoring"), "reclaim take_back restore_here"),
    (("OWN", "active"), "abort restore_here reclaim take_back"),
]

TOLD = {"role": None, "guest": {"cpu": "x"}, "seen": {"cpu": "x"}, "targets": {"seed": "x"}, "disks": [{}]}


@pytest.mark.parametrize("state, step", [(state, step) for state, steps in DONE for step in steps.split()], ids=str)
def test_a_step_that_was_done_already_does_nothing(source, state, step):
    """The run that asked for it was killed before it heard the answer."""
    before = source.holds(state, destination=S)
    if state == ("OWN", "active"):
        before = plant(source.store, before.replace(op=None, migration=None))
    changed, _view = source.step(step, TOLD, spec=DECIDED["spec"])
    assert (changed, source.store.read(UUID), source.effects.done) == (False, before, [])


@pytest.mark.parametrize("state, step", [(state, step) for state, steps in DONE[:3] for step in steps.split()], ids=str)
def test_a_step_that_another_move_has_done_is_not_done(source, state, step):
    before = source.holds(state, destination=S, op=ANOTHER_OP)
    with pytest.raises(BerthError):
        source.step(step, TOLD, **DECIDED)
    assert (source.store.read(UUID), source.effects.done) == (before, [])


@pytest.mark.parametrize("step", ["claim", "receive", "receive_seed", "prepare_live"])
def test_nothing_is_made_on_the_destination_once_the_source_let_go(source, destination, step):
    """The disks that came are the instance."""
    source.holds(("OUT", "keep"), epoch=4)
    before = destination.holds(("IN", "incoming"))
    changed, _view = destination.step(step, source.said(disks=[{}]), **DECIDED)
    assert (changed, destination.store.read(UUID), destination.effects.done) == (False, before, [])


@pytest.mark.parametrize("step", ["freeze", "thaw", "send", "release", "resize_here", "forget", "erase"])
def test_a_step_of_a_move_that_has_ended_here_says_so(source, step):
    before = source.holds(("OWN", "active"))
    before = plant(source.store, before.replace(op=None, migration=None))
    source.store.bury(OP)
    with pytest.raises(errors.MigrationEnded):
        source.step(step)
    assert (source.store.read(UUID), source.effects.done) == (before, [])


@pytest.mark.parametrize("phase", ["resizing", "frozen"])
def test_who_takes_a_move_up_again_begins_another_attempt(source, phase):
    """A run that is still at work on the last one does nothing from then on."""
    source.holds(("OWN", phase), frozen=ATTEMPT)
    assert source.step("begin")[0]
    record = source.store.read(UUID)
    assert (record.phase, record.migration["attempt"]) == ("resizing", ATTEMPT + 1)


def test_who_takes_an_instance_back_alone_begins_another_attempt(source):
    source.holds(("OUT", "keep"), epoch=4)
    source.step("reclaim", lost=True)
    assert source.store.read(UUID).migration["attempt"] == ATTEMPT + 1


def test_a_delete_begins_another_attempt_than_all_that_either_host_knows_of(source, destination):
    destination.holds(("IN", "incoming"))
    source.holds(("OUT", "keep"), epoch=4, attempt=ATTEMPT + 3)
    destination.step("erase", source.said())
    assert destination.store.read(UUID).migration["attempt"] == ATTEMPT + 4


@pytest.mark.parametrize(
    "state", [("IN", "incoming"), ("OUT", "reverted"), ("OWN", "frozen"), ("OWN", "resized")], ids=str
)
def test_only_who_let_go_of_an_instance_takes_it_back_alone(source, state):
    before = source.holds(state)
    with pytest.raises(errors.MigrationConflict):
        source.step("reclaim", lost=True)
    assert (source.store.read(UUID), source.effects.done) == (before, [])


# the disks

CHECKED = [
    (("OWN", "active"), "begin", {"spec": DECIDED["spec"]}),
    (("OWN", "resizing"), "begin", {}),
    (("OWN", "resizing"), "freeze", {}),
    (("OWN", "frozen"), "release", {"sent": ATTEMPT}),
    (("OWN", "frozen"), "resize_here", {}),
    (("OWN", "resized"), "restore_here", {}),
    (("OUT", "keep"), "see_kept", {}),
    (("OUT", "keep"), "reclaim", {"lost": True}),
]


class ChangedDisks(Exception):
    """The disks are not those of the record."""


def changed_disks(_record, live=False):
    raise ChangedDisks


@pytest.mark.parametrize("state, step, options", CHECKED, ids=str)
def test_a_host_does_nothing_with_disks_that_somebody_has_exchanged(source, destination, state, step, options):
    """As by a snapshot: what is not in the record would be lost."""
    before = source.holds(state, destination=S if step.endswith("here") else D, frozen=ATTEMPT)
    if state == ("OWN", "active"):
        before = plant(source.store, before.replace(op=None, migration=None))
    destination.holds(("IN", "incoming"))
    source.effects.check_disks = changed_disks
    with pytest.raises(ChangedDisks):
        source.step(step, destination.said(targets={}), **options)
    assert (source.store.read(UUID), source.effects.done) == (before, [])


def test_a_guest_whose_disks_somebody_has_exchanged_is_not_reverted(source, destination):
    source.holds(("OUT", "keep"), epoch=4)
    before = destination.holds(("OWN", "resized"), epoch=4)
    destination.effects.check_disks = changed_disks
    with pytest.raises(ChangedDisks):
        destination.step("revert", source.said())
    assert (destination.store.read(UUID), destination.effects.done) == (before, [])


@pytest.mark.parametrize("frozen, on", [(None, False), (ATTEMPT - 1, False), (ATTEMPT, True)])
def test_a_guest_is_resized_on_its_host_only_when_it_was_stopped_for_this_attempt(source, frozen, on):
    before = source.holds(("OWN", "frozen"), destination=S, frozen=frozen)
    source.effects.on = on
    with pytest.raises(errors.MigrationNotReady):
        source.step("resize_here")
    assert (source.store.read(UUID), source.effects.done) == (before, [])


# the claim on the destination


@pytest.mark.parametrize("state", [("OWN", "erasing"), ("OUT", "reverted")], ids=str)
def test_a_host_that_is_further_in_the_same_move_claims_no_room(source, destination, state):
    source.holds(("OWN", "resizing"))
    before = destination.holds(state)
    with pytest.raises(errors.MigrationConflict):
        destination.step("claim", source.said(), **DECIDED)
    assert destination.store.read(UUID) == before


def test_a_host_that_lost_its_record_claims_no_room_once_the_source_let_go(source, destination):
    """The disks that it has are the instance, and no claim says so."""
    source.holds(("OUT", "keep"), epoch=4)
    with pytest.raises(errors.MigrationNotReady):
        destination.step("claim", source.said(), **DECIDED)
    assert destination.store.read(UUID) is None


@pytest.mark.parametrize(
    "before, power_state",
    [
        ("active", "running"),
        ("paused", "paused"),
        ("stopped", "shutdown"),
        ("suspended", "shutdown"),  # in which no move begins
    ],
)
def test_the_destination_knows_from_the_claim_on_whether_the_guest_was_on(source, destination, before, power_state):
    source.holds(("OWN", "resizing"))
    told = source.said()
    destination.step("claim", dict(told, migration=dict(told["migration"], vm_state_before=before)), **DECIDED)
    record = destination.store.read(UUID)
    assert record.power_state == power_state


# live


def test_a_live_migration_with_problems_does_not_begin_and_all_of_them_are_told(source):
    """What an operator allows of it is passed on."""
    before, asked = source.holds(("OWN", "resizing"), kind=migration.LIVE), []

    def check_live(_record, seen, options, _resources):
        asked.append((seen, options))
        return ["no CPU", "no room"]

    source.effects.check_live = check_live
    with pytest.raises(errors.MigrationPreCheckError, match="no CPU.*no room"):
        source.step("check_live", {"seen": {"cpu": "x"}}, options={"allowed": True})
    assert (source.store.read(UUID), asked) == (before, [({"cpu": "x"}, {"allowed": True})])


@pytest.mark.parametrize("step, part", [("inspect_live", "guest"), ("check_live", "seen"), ("send_seed", "targets")])
def test_a_step_of_a_live_migration_waits_for_what_the_other_host_has_to_say_first(source, step, part):
    before = source.holds(("IN" if part == "guest" else "OWN", "incoming" if part == "guest" else "resizing"))
    assert source.step(step, {"role": None})[0] is False
    assert (source.store.read(UUID), source.effects.done) == (before, [])


def test_a_guest_that_arrives_without_its_run_is_taken_over_under_the_lock_of_its_instance(source, destination):
    source.holds(("OUT", "keep"), kind=migration.LIVE, epoch=4)
    destination.holds(("IN", "incoming"), kind=migration.LIVE, verified=ATTEMPT)
    receipt, locked = source.said(), []

    def take_over(_record):
        with pytest.raises(InstanceBusy), Store(destination.store.state_dir).instance_lock(UUID, timeout=0):
            pass
        locked.append(True)

    channel = SimpleNamespace(receive=lambda _wanted: receipt, ask=lambda _view: None)
    destination.effects.channel_to_source = lambda _uuid, _op: channel
    destination.effects.take_over = take_over
    assert destination.step("take_over")[0] is True and locked == [True]
