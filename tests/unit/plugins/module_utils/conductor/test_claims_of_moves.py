# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claim of a move, when all hosts were read after it: quota and affinity group may have it given up."""

from __future__ import annotations

import itertools

import pytest
from moved_instance import BIG, UUID

from ansible_collections.berth.kvm.plugins.module_utils.conductor import commit_move
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import GroupPolicyViolation, HostUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import Move
from ansible_collections.berth.kvm.plugins.module_utils.model.quota import QuotaExceeded

SMALL = {"vcpus": 1, "memory_mb": 128}


def claimed_move(policy=None, kind="resize", sequence="resize"):
    group = {"name": "web", "uuid": "web-uuid", "policy": policy, "members": []} if policy else None
    spec = {"uuid": UUID, "name": "vm", "project_id": "p", "flavor": BIG, "group": group}
    return {
        "uuid": UUID, "name": "vm", "kind": kind, "sequence": sequence, "spec": spec, "source": "kvm1",
        "views": {"source": {"role": "OWN", "spec": {"flavor": SMALL}}, "destination": {"role": None}},
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
    assert commit_move.needs_a_look(move, quotas) is looks


def test_a_claim_that_the_quota_does_not_allow_any_more_is_given_up():
    """I7: another run has claimed meanwhile."""
    scans = {"kvm1": {"instances": [told(UUID)]}, "kvm2": {"instances": [told(UUID, "IN", vcpus=2)]}}
    commit_move.check_claim(claimed_move(), "kvm2", scans, QUOTAS)
    scans["kvm3"] = {"instances": [told("other", "IN")]}
    with pytest.raises(QuotaExceeded):
        commit_move.check_claim(claimed_move(), "kvm2", scans, QUOTAS)
    commit_move.check_claim(claimed_move(kind="migration"), "kvm2", scans, QUOTAS)


@pytest.mark.parametrize("role", ["OWN", "IN", "CLAIM"])
def test_a_claim_away_from_the_members_of_an_affinity_group_is_given_up(role):
    """I6."""
    scans = {
        "kvm1": {"instances": [told(UUID, group="web")]},
        "kvm2": {"instances": [told(UUID, "IN", "web"), told("friend", group="web")]},
    }
    commit_move.check_claim(claimed_move("affinity"), "kvm2", scans, {})
    scans["kvm3"] = {"instances": [told("other", role, "web")]}
    with pytest.raises(GroupPolicyViolation, match="kvm3"):
        commit_move.check_claim(claimed_move("affinity"), "kvm2", scans, {})
    scans["kvm3"]["instances"][0]["project_id"] = "another"
    commit_move.check_claim(claimed_move("affinity"), "kvm2", scans, {})


def test_members_of_an_affinity_group_that_follow_it_do_not_forbid_a_claim_while_they_are_where_the_plan_has_them():
    named = {"id": "1", "destination": "kvm2", "token": {"op": None}, "goes_with": {"friend": "kvm1"}}
    move, friend = vars(Move.from_plan({**claimed_move("affinity"), **named})), told("friend", group="web")
    scans = {"kvm1": {"instances": [told(UUID, group="web"), friend]}, "kvm2": {"instances": [told(UUID, "IN", "web")]}}
    assert move["goes_with"] == {"friend": "kvm1"}
    commit_move.check_claim(move, "kvm2", scans, {})
    with pytest.raises(GroupPolicyViolation, match="kvm1"):
        commit_move.check_claim(claimed_move("affinity"), "kvm2", scans, {})
    scans["kvm3"] = {"instances": [friend]}
    with pytest.raises(GroupPolicyViolation, match="kvm3"):
        commit_move.check_claim(move, "kvm2", scans, {})


@pytest.mark.follows("run_again")
def test_a_claim_on_a_host_that_fell_silent_is_given_up_and_stands_when_it_is_back():
    scans = {"kvm1": {"instances": [told(UUID)]}, "kvm2": {"reason": "UNREACHABLE"}}
    with pytest.raises(HostUnknown, match="kvm2.*Run the same again"):
        commit_move.check_claim(claimed_move("affinity"), "kvm2", scans, {})
    scans["kvm2"] = {"instances": [told(UUID, "IN")]}
    commit_move.check_claim(claimed_move("affinity"), "kvm2", scans, {})


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
                    commit_move.check_claim(move, to[name], scans, {"p": {"cores": 5}})
                    stands.append(name)
                except QuotaExceeded:
                    held[to[name]] = []
            steps[name] += 1
        assert len(stands) <= 1, order
