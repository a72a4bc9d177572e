# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller makes of what the hosts hold (R09-R14, R24)."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving, sides
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    DuplicateInstance,
    GroupPolicyViolation,
    HostLibvirtTimeout,
    HostNotLost,
    HostUnknown,
    InstanceSuperseded,
    MoveContradicted,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceIsLocked
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import (
    CannotResizeDisk,
    InstanceInvalidState,
    InstanceNotFound,
    InstanceNotResized,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.quota import QuotaExceeded

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
BIG = {"name": "big", "vcpus": 2, "memory_mb": 256, "root_gb": 2}


def view(role="OWN", phase="active", migration=None, **more):
    return {
        "uuid": UUID, "role": role, "phase": phase, "op": "op" if migration else None, "attempt": 1 if migration else 0,
        "vm_state": "active", "task_state": None, "migration": migration, "last_move": None,
        "running": True, "has_left": False, "spec": {"flavor": SMALL, "force_hosts": ["kvm1"], "requested_destination": "kvm1"}, **more,
    }  # fmt: skip


MOVE = {
    "type": "resize", "source": {"uuid": "u1", "name": "x"}, "destination": {"uuid": "u2", "name": "y"},
    "new_spec": {"flavor": BIG},
}  # fmt: skip
NAMES = {"u1": "kvm1", "u2": "kvm2"}


def plan(action, sides, flavor=BIG, locked=None, kind="resize", target=None):  # pylint: disable=dangerous-default-value
    return moving.plan(action, kind, UUID, "vm", sides, {"flavor": flavor}, locked, target)


def find(views, names=None, silent=(), lost=()):
    silent = silent if isinstance(silent, dict) else dict.fromkeys(silent, "down")
    return sides.find(UUID, "vm", views, names or NAMES, silent, lost)


def at_rest(**more):
    return find({"kvm1": {UUID: view(**more)}})


def resized():
    there = view("OWN", "resized", MOVE, vm_state="resized")
    return find({"kvm1": {UUID: view("OUT", "keep", MOVE)}, "kvm2": {UUID: there}})


def test_another_flavor_is_placed():
    assert plan("move", at_rest())["place"]


def test_the_same_flavor_is_no_change():
    """R09."""
    move = plan("move", at_rest(), SMALL)
    assert (move["place"], move["sequence"]) == (False, None)


def test_a_smaller_disk_is_refused_before_anything():
    """R13."""
    with pytest.raises(CannotResizeDisk):
        plan("move", at_rest(), {**BIG, "root_gb": 0})


def test_a_locked_instance_is_left_alone():
    """R10."""
    with pytest.raises(InstanceIsLocked) as raised:
        plan("move", at_rest(), locked="the owner")
    assert raised.value.details["locked_by"] == "the owner"


@pytest.mark.parametrize("action", ["confirm", "revert"])
def test_what_was_not_resized_is_neither_confirmed_nor_reverted(action):
    """R14."""
    with pytest.raises(InstanceNotResized, match="has not been resized"):
        plan(action, at_rest())


def test_a_confirm_again_is_no_change():
    """I4."""
    assert plan("confirm", at_rest(last_move="confirmed"))["sequence"] is None


def test_a_busy_instance_is_refused():
    """R11."""
    with pytest.raises(InstanceInvalidState):
        plan("move", at_rest(phase="building"))


def begun():
    return find({"kvm1": {UUID: view("OWN", "frozen", MOVE)}, "kvm2": {UUID: view("IN", "incoming", MOVE)}})


OTHERS = {
    "another flavor": dict(flavor={**BIG, "name": "huge", "vcpus": 4}),
    "another kind": dict(kind="migration"),
    "another target": dict(target="kvm3"),
}


def test_a_resize_that_was_begun_goes_on():
    move = plan("move", begun(), target="kvm2")
    assert (move["sequence"], move["settles"]) == ("resize", False)


@pytest.mark.parametrize("other", OTHERS)
def test_another_move_than_the_one_begun_is_planned_after_that_is_given_up(other):
    """I4: the inventory says what is wanted, and nothing was handed over yet."""
    move = plan("move", begun(), **OTHERS[other])
    assert (move["sequence"], move["settles"]) == ("abort", True)


@pytest.mark.parametrize("other", OTHERS)
def test_another_move_of_a_resized_instance_is_refused(other):
    """R11: as in Nova, confirm or revert comes first."""
    with pytest.raises(InstanceInvalidState, match="vm_state resized.*confirm_resize or berth.kvm.revert_resize"):
        plan("move", resized(), **OTHERS[other])


def test_a_revert_of_what_was_given_up_is_no_change():
    """I4."""
    assert plan("revert", at_rest(last_move="given up"))["sequence"] is None


@pytest.mark.parametrize("action, sequence", [("confirm", "confirm"), ("revert", "revert"), ("move", "hand_over")])
def test_a_resized_instance_goes_where_it_is_wished(action, sequence):
    assert plan(action, resized())["sequence"] == sequence


def test_a_confirm_of_a_resize_that_has_not_ended_is_refused():
    with pytest.raises(InstanceNotResized):
        plan("confirm", begun())


def test_a_silent_side_is_unknown():
    """Fail closed: the other side may own the instance."""
    with pytest.raises(HostUnknown):
        find({"kvm1": {UUID: view("OUT", "keep", MOVE)}}, {"u1": "kvm1"}, ["kvm2"])


DOWN, KEPT = "UNREACHABLE: no route", {"kvm1": {UUID: view("OUT", "keep", MOVE, generation=[2, 0])}}


def without_kvm2(views=None, names=None, silent=None, lost=("y",)):
    return sides.find(UUID, "vm", views or KEPT, names or {"u1": "kvm1"}, silent or {"y": DOWN}, lost)


def test_a_silent_side_that_is_lost_for_good_is_given_up():
    """The move calls its hosts by their names in the inventory: x and y."""
    assert plan("revert", without_kvm2())["sequence"] == "reclaim_alone"
    with pytest.raises(HostUnknown) as raised:
        without_kvm2(lost=("z",))
    assert "-e berth_lost_hosts=y" in raised.value.hint


@pytest.mark.parametrize("action", ["move", "confirm"])
def test_what_a_lost_host_makes_impossible_is_refused_with_what_helps(action):
    with pytest.raises(InstanceInvalidState) as raised:
        plan(action, without_kvm2())
    assert "revert_resize -e berth_lost_hosts=y" in raised.value.hint


@pytest.mark.parametrize("reason", ["LibvirtUnavailable: no", "HostIdentityConflict: two", "did not tell its records"])
def test_a_host_that_answers_is_not_lost_whatever_it_says(reason):
    with pytest.raises(HostNotLost):
        without_kvm2(silent={"y": reason})


def test_a_host_that_has_a_part_of_the_move_is_not_lost_and_one_that_was_made_anew_is():
    names = {"u1": "kvm1", "u2": "y"}
    held = {**KEPT, "y": {UUID: view("OWN", "resized", MOVE, generation=[2, 3])}}
    with pytest.raises(HostNotLost):
        without_kvm2(held, names, {"other": DOWN})
    assert plan("revert", without_kvm2({**KEPT, "y": {}}, names, {"y": DOWN}))["sequence"] == "reclaim_alone"


def test_the_kept_copy_is_not_taken_back_while_a_third_host_is_silent():
    """I1: the instance may have gone on to it after this host was given up as lost."""
    with pytest.raises(HostUnknown, match="kvm3"):
        without_kvm2(silent={"y": DOWN, "kvm3": DOWN})
    assert without_kvm2(silent={"y": DOWN, "kvm3": DOWN}, lost=("y", "kvm3"))


def returned(role, phase, generation, lost=(), teller="kvm1"):
    """kvm2 is back; kvm1 has ended the move without it, or ``teller`` says so."""
    there = {UUID: view(role, phase, MOVE, generation=generation)}
    owner = view(generation=[3, 4], lost_moves=["op"], last_move="reverted")
    return sides.find(UUID, "vm", {teller: {UUID: owner}, "kvm2": there}, NAMES, {}, lost)


def test_the_copy_of_a_host_that_returned_counts_for_nothing_and_goes_only_when_it_is_named():
    """I1, I3: it has what the guest wrote last, so nobody removes it by the way."""
    with pytest.raises(InstanceSuperseded) as raised:
        returned("OWN", "resized", [2, 7])
    assert "-e berth_lost_hosts=kvm2" in raised.value.hint
    move = plan("revert", returned("OWN", "resized", [2, 7], lost=["kvm2"]))
    assert (move["sequence"], move["destination"], move["settles"], move["token"]["op"]) == (
        "sweep",
        "kvm2",
        True,
        "op",
    )


@pytest.mark.parametrize("role, phase", [("IN", "incoming"), ("OUT", "keep")])
def test_what_returned_and_never_owned_or_had_let_go_is_removed_by_any_run(role, phase):
    assert plan("move", returned(role, phase, [2, 0]))["sequence"] == "sweep"


@pytest.mark.parametrize("role, phase", [("IN", "incoming"), ("OUT", "keep"), ("OWN", "resized")])
def test_what_a_host_says_of_a_move_that_was_not_its_own_has_nothing_removed(role, phase):
    """The instance may have gone on to it; or it lies."""
    with pytest.raises(InstanceSuperseded):
        returned(role, phase, [2, 0], teller="kvm3")
    assert plan("move", returned(role, phase, [2, 0], teller="kvm3", lost=["kvm2"]))["sequence"] == "sweep"


def test_two_owners_of_one_generation_are_an_error_whatever_one_says_of_the_other():
    """I1."""
    with pytest.raises(DuplicateInstance):
        returned("OWN", "resized", [3, 4])


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
    assert [(entry["op"], entry["host"], entry["destination"]["uuid"]) for entry in found] == [
        ("a", "kvm2", "u2"),
        ("b", "kvm3", "u3"),
    ]


@pytest.mark.parametrize(
    "phase, confirm_in, due",
    [("resized", 0, True), ("resized", 1, False), ("resized", None, False), ("confirming", None, True)],
)
def test_due_is_what_its_own_host_says_is_due_and_a_confirm_that_was_begun(phase, confirm_in, due):
    """R05: no clock of the controller is asked."""
    owner = dict(view("OWN", phase, MOVE), confirm_in=confirm_in)
    lying = dict(view("OUT", "keep", MOVE), confirm_in=0)
    sides = find({"kvm1": {UUID: lying}, "kvm2": {UUID: owner}})
    assert moving.is_due(plan("confirm", sides)) is due


@pytest.mark.parametrize(
    "confirm_in, said",
    [(None, "waits for confirm_resize or revert_resize"), (3600, "confirm_due confirms it in 3600 s")],
)
def test_what_waits_says_for_what_and_how_long(confirm_in, said):
    """R02, R05."""
    assert moving.unconfirmed(confirm_in).endswith(said)


@pytest.mark.parametrize("kind, begins", [("resize", "resize"), ("live-migration", "live_migrate")])
def test_a_move_whose_room_was_not_claimed_is_given_up_and_placed_anew(kind, begins):
    """Only the source would know where it was to go, and as what."""
    move = dict(MOVE, type=kind)
    unclaimed = find({"kvm1": {UUID: view("OWN", "resizing", move)}, "kvm2": {}})
    planned = plan("move", unclaimed, kind=kind)
    assert (planned["sequence"], planned["settles"]) == ("abort", True)
    assert plan("revert", unclaimed)["sequence"] == "abort"
    claimed = find({"kvm1": {UUID: view("OWN", "resizing", move)}, "kvm2": {UUID: view("IN", "incoming", move)}})
    assert plan("move", claimed, kind=kind)["sequence"] == begins


def claimed_move(policy=None, kind="resize", sequence="resize"):
    group = {"name": "web", "uuid": "web-uuid", "policy": policy, "members": []} if policy else None
    spec = {"uuid": UUID, "name": "vm", "project_id": "p", "flavor": BIG, "group": group}
    return {
        "uuid": UUID, "name": "vm", "kind": kind, "sequence": sequence, "spec": spec,
        "views": {"source": {"role": "OWN"}, "destination": {"role": None}},
    }  # fmt: skip


def told(uuid, role="OWN", group=None, **more):
    return {
        "uuid": uuid, "role": role, "project_id": "p", "group": group, "vcpus": 1, "pcpus": 0, "memory_mb": 128, **more
    }  # fmt: skip


QUOTAS = {"p": {"cores": 3}}


@pytest.mark.parametrize(
    "move, quotas, looks",
    [
        (claimed_move(), {}, False),
        (claimed_move(), QUOTAS, True),
        (claimed_move(sequence="resize_here"), QUOTAS, True),
        (claimed_move(kind="migration"), QUOTAS, False),
        (claimed_move("affinity", "migration"), {}, True),
        (claimed_move("affinity", "live-migration", "live_migrate"), {}, True),
        (claimed_move("anti-affinity", "migration"), {}, False),
        (claimed_move("affinity", sequence="hand_over"), QUOTAS, False),
        (claimed_move("affinity", sequence=None), QUOTAS, False),
    ],
)
def test_all_hosts_are_read_after_a_claim_where_no_host_alone_can_decide(move, quotas, looks):
    assert moving.needs_a_look(move, quotas) is looks


def test_a_claim_that_the_quota_does_not_allow_any_more_is_given_up():
    """I7: another run has claimed meanwhile."""
    scans = {"kvm1": {"instances": [told(UUID)]}, "kvm2": {"instances": [told(UUID, "IN", vcpus=2)]}}
    moving.check_claim(claimed_move(), "kvm2", scans, QUOTAS)
    scans["kvm3"] = {"instances": [told("other", "IN")]}
    with pytest.raises(QuotaExceeded):
        moving.check_claim(claimed_move(), "kvm2", scans, QUOTAS)
    moving.check_claim(claimed_move(kind="migration"), "kvm2", scans, QUOTAS)


@pytest.mark.parametrize("role", ["OWN", "IN", "CLAIM"])
def test_a_claim_away_from_the_members_of_an_affinity_group_is_given_up(role):
    """I6."""
    scans = {
        "kvm1": {"instances": [told(UUID, group="web")]},
        "kvm2": {"instances": [told(UUID, "IN", "web"), told("friend", group="web")]},
    }
    moving.check_claim(claimed_move("affinity"), "kvm2", scans, {})
    scans["kvm3"] = {"instances": [told("other", role, "web")]}
    with pytest.raises(GroupPolicyViolation, match="kvm3"):
        moving.check_claim(claimed_move("affinity"), "kvm2", scans, {})
    scans["kvm3"]["instances"][0]["project_id"] = "another"
    moving.check_claim(claimed_move("affinity"), "kvm2", scans, {})


@pytest.mark.follows("run_again")
def test_a_claim_on_a_host_that_fell_silent_is_given_up_and_stands_when_it_is_back():
    scans = {"kvm1": {"instances": [told(UUID)]}, "kvm2": {"reason": "UNREACHABLE"}}
    with pytest.raises(HostUnknown, match="kvm2.*Run the same again"):
        moving.check_claim(claimed_move("affinity"), "kvm2", scans, {})
    scans["kvm2"] = {"instances": [told(UUID, "IN")]}
    moving.check_claim(claimed_move("affinity"), "kvm2", scans, {})


def test_two_resizes_that_claim_and_then_look_never_exceed_the_quota():
    """I7: in every order of two claims and two looks at least one run sees the other."""
    for order in sorted(set(itertools.permutations("aabb"))):
        held = {"kvm1": [told("a"), told("b")], "kvm2": [], "kvm3": []}
        to, steps, stands = {"a": "kvm2", "b": "kvm3"}, {"a": 0, "b": 0}, []
        for name in order:
            if steps[name] == 0:
                held[to[name]].append(told(name, "IN", vcpus=2))
            else:
                move = dict(claimed_move(), uuid=name, spec=dict(claimed_move()["spec"], uuid=name))
                scans = {host: {"instances": list(records)} for host, records in held.items()}
                try:
                    moving.check_claim(move, to[name], scans, {"p": {"cores": 5}})
                    stands.append(name)
                except QuotaExceeded:
                    held[to[name]] = []
            steps[name] += 1
        assert len(stands) <= 1, order


LIE = {
    "id": "op",
    "type": "resize",
    "source": {"uuid": "u9", "name": "kvm1"},
    "destination": {"uuid": "u2", "name": "kvm2"},
}


@pytest.mark.parametrize("lie", [LIE, {**LIE, "source": {"uuid": "u1", "name": "kvm1"}}])
@pytest.mark.parametrize("role, phase", [("OUT", "keep"), ("IN", "incoming")])
def test_no_host_speaks_for_the_owner_of_an_instance_at_rest(lie, role, phase):
    """A lying host must not make anybody give up the good one, nor move, end or remove what it has."""
    views = {"kvm1": {UUID: view(generation=[3, 1])}, "kvm2": {UUID: view(role, phase, lie, generation=[9, 0])}}
    with pytest.raises(MoveContradicted) as raised:
        sides.find(UUID, "vm", views, NAMES, {})
    assert "kvm2" in str(raised.value) and "berth_lost_hosts" not in str(raised.value)
    assert raised.value.hint is None, "its record is the later one: nobody is told to forget that"


def test_a_host_that_tells_of_a_move_between_others_is_not_believed():
    told = {**LIE, "source": {"uuid": "u1", "name": "kvm1"}}
    with pytest.raises(MoveContradicted, match="kvm3"):
        sides.find(UUID, "vm", {"kvm3": {UUID: view("OUT", "keep", told)}}, {**NAMES, "u3": "kvm3"}, {})


def test_nobody_is_told_to_give_up_a_host_that_answers_because_another_says_it_is_gone():
    views = {"kvm1": {}, "kvm2": {UUID: view("IN", "incoming", LIE)}}
    with pytest.raises(HostUnknown) as raised:
        sides.find(UUID, "vm", views, NAMES, {})
    assert "kvm1" in str(raised.value) and "berth_lost_hosts" not in str(raised.value)


def test_no_operation_is_not_the_same_as_another_without_one():
    """A null is equal to a null, and tells nothing: at rest there is no operation."""
    owner, other = view(generation=[3, 4], lost_moves=[None]), view("CLAIM", "claimed", generation=[2, 0])
    other["role"] = "OWN"
    with pytest.raises(DuplicateInstance):
        sides.find(UUID, "vm", {"kvm1": {UUID: owner}, "kvm2": {UUID: other}}, NAMES, {})


def test_who_names_a_copy_that_may_go_is_told_whose_word_it_is_and_to_look_first():
    with pytest.raises(InstanceSuperseded) as raised:
        returned("OWN", "resized", [2, 7])
    assert "Only kvm1 says so" in raised.value.hint and "log in" in raised.value.hint


@pytest.mark.follows("no_copy_to_revert_to")
def test_a_revert_with_nothing_on_the_source_is_refused_and_a_confirm_ends_the_move():
    sides_now = find({"kvm1": {}, "kvm2": {UUID: view("OWN", "resized", MOVE)}})
    with pytest.raises(InstanceNotResized) as refused:
        plan("revert", sides_now)
    assert refused.value.hint == hints.no_copy_to_revert_to()
    assert plan("confirm", sides_now)["sequence"] == "confirm"


@pytest.mark.follows("confirm_without")
@pytest.mark.parametrize("action", ["revert", "confirm", "move"])
def test_a_revert_that_was_begun_and_has_no_copy_left_says_how_the_guest_goes_on(action):
    held = {"kvm1": {}, "kvm2": {UUID: view("OWN", "reverting", MOVE)}}
    with pytest.raises(InstanceNotResized) as refused:
        plan(action, find(held))
    assert refused.value.hint == hints.confirm_without("kvm1")
    assert plan("confirm", find(held, lost=["kvm1"]))["sequence"] == "confirm_alone"


@pytest.mark.follows("restart_hung_libvirt")
def test_a_hung_libvirt_is_not_an_instance_that_could_not_be_found():
    """What was not answered is not absent; with libvirt restarted the instance is there."""
    silent = {"kvm1": "LibvirtTimeout: opening qemu:///system did not end in time"}
    with pytest.raises(HostLibvirtTimeout, match="libvirt of kvm1 does not answer") as refused:
        find({"kvm2": {}}, silent=silent)
    assert refused.value.hint == hints.restart_hung_libvirt() and refused.value.details["hosts"] == ["kvm1"]
    assert find({"kvm1": {UUID: view()}, "kvm2": {}})[0] == "kvm1"
