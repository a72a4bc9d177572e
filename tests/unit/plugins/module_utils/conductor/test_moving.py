# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller makes of what the hosts hold (R09-R14, R24)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.errors import (
    CannotResizeDisk,
    InstanceInvalidState,
    InstanceNotFound,
    InstanceNotResized,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import DuplicateInstance, HostUnknown

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
BIG = {"name": "big", "vcpus": 2, "memory_mb": 256, "root_gb": 2}


def view(role="OWN", phase="active", migration=None, **more):
    return {
        "uuid": UUID, "role": role, "phase": phase, "op": "op" if migration else None, "attempt": 1 if migration else 0,
        "vm_state": "active", "task_state": None, "migration": migration, "last_move": None,
        "spec": {"flavor": SMALL, "force_hosts": ["kvm1"], "requested_destination": "kvm1"}, **more,
    }  # fmt: skip


MOVE = {
    "type": "resize", "source": {"uuid": "u1", "name": "x"}, "destination": {"uuid": "u2", "name": "y"}, "confirm_by": None  # noqa: E501
}  # fmt: skip
NAMES = {"u1": "kvm1", "u2": "kvm2"}


def plan(wish, sides, flavor=BIG, locked=None):  # pylint: disable=dangerous-default-value
    return moving.plan(wish, "resize", UUID, "vm", sides, {"flavor": flavor}, locked)


def find(views, names=None, silent=()):
    return moving.find(UUID, "vm", views, names or NAMES, dict.fromkeys(silent, "down"))


def at_rest(**more):
    return find({"kvm1": {UUID: view(**more)}})


def resized():
    return find({"kvm1": {UUID: view("OUT", "keep", MOVE)}, "kvm2": {UUID: view("OWN", "resized", MOVE)}})


def test_another_flavor_is_placed():
    assert plan("resize", at_rest())["place"]


def test_the_same_flavor_is_no_change():
    """R09."""
    move = plan("resize", at_rest(), SMALL)
    assert (move["place"], move["sequence"]) == (False, None)


def test_a_smaller_disk_is_refused_before_anything():
    """R13."""
    with pytest.raises(CannotResizeDisk):
        plan("resize", at_rest(), {**BIG, "root_gb": 0})


def test_a_locked_instance_is_left_alone():
    """R10."""
    with pytest.raises(moving.InstanceIsLocked) as raised:
        plan("resize", at_rest(), locked="the owner")
    assert raised.value.details["locked_by"] == "the owner"


@pytest.mark.parametrize("wish", ["confirm", "revert"])
def test_what_was_not_resized_is_neither_confirmed_nor_reverted(wish):
    """R14."""
    with pytest.raises(InstanceNotResized, match="has not been resized"):
        plan(wish, at_rest())


def test_a_confirm_again_is_no_change():
    """I4."""
    assert plan("confirm", at_rest(last_move="confirmed"))["sequence"] is None


def test_a_busy_instance_is_refused():
    """R11."""
    with pytest.raises(InstanceInvalidState):
        plan("resize", at_rest(phase="building"))


@pytest.mark.parametrize("wish, sequence", [("confirm", "confirm"), ("revert", "revert"), ("resize", "hand_over")])
def test_a_resized_instance_goes_where_it_is_wished(wish, sequence):
    assert plan(wish, resized())["sequence"] == sequence


def test_a_confirm_of_a_resize_that_has_not_ended_is_refused():
    sides = find({"kvm1": {UUID: view("OWN", "frozen", MOVE)}, "kvm2": {UUID: view("IN", "incoming", MOVE)}})
    with pytest.raises(InstanceNotResized):
        plan("confirm", sides)


def test_a_silent_side_is_unknown():
    """Fail closed: the other side may own the instance."""
    with pytest.raises(HostUnknown):
        find({"kvm1": {UUID: view("OUT", "keep", MOVE)}}, {"u1": "kvm1"}, ["kvm2"])


def test_two_owners_are_an_error():
    """I1."""
    with pytest.raises(DuplicateInstance):
        find({"kvm1": {UUID: view()}, "kvm2": {UUID: view()}})


def test_an_instance_that_is_nowhere_is_said_so():
    with pytest.raises(InstanceNotFound, match="kvm3"):
        find({"kvm1": {}}, silent=["kvm3"])


def test_what_pinned_an_instance_does_not_bind_its_move():
    """R24."""
    spec = moving.request(view(), {"flavor": BIG}, "resize", ["kvm1"])
    assert (spec["force_hosts"], spec["requested_destination"], spec["ignore_hosts"]) == ([], None, ["kvm1"])
    assert spec["flavor"] == BIG


def test_a_migration_keeps_the_flavor():
    assert moving.request(view(), None, "migration", [])["flavor"] == SMALL


def test_every_candidate_has_an_operation_of_its_own():
    """R27."""
    ops = iter(["a", "b"])
    found = moving.candidates(
        {"host": "kvm2", "host_uuid": "u2", "alternates": [{"host": "kvm3", "host_uuid": "u3"}]}, lambda: next(ops)
    )
    assert [(one["op"], one["host"], one["destination"]["uuid"]) for one in found] == [
        ("a", "kvm2", "u2"),
        ("b", "kvm3", "u3"),
    ]


@pytest.mark.parametrize(
    "phase, deadline, due",
    [("resized", 99, True), ("resized", 100, True), ("resized", 101, False), ("resized", None, False),
     ("resized", 0, False), ("confirming", None, True)],
)  # fmt: skip
def test_due_is_what_waited_past_its_deadline_and_a_confirm_that_was_begun(phase, deadline, due):
    """R05."""
    move = dict(MOVE, confirm_by=deadline)
    sides = find({"kvm1": {UUID: view("OUT", "keep", move)}, "kvm2": {UUID: view("OWN", phase, move)}})
    assert moving.is_due(plan("confirm", sides), 100) is due


@pytest.mark.parametrize(
    "deadline, said",
    [(None, "waits for confirm_resize or revert_resize"), (86400, "confirms it from 1970-01-02T00:00:00Z on")],
)
def test_what_waits_says_for_what_and_until_when(deadline, said):
    """R02, R05."""
    assert moving.unconfirmed(deadline).endswith(said)
