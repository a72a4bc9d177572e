# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of a delete: those in a move, then all others with those whose move had ended, and at last all hosts forget them."""

from __future__ import annotations

import pytest
from procedure_case import played

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.delete import Moving, delete
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.plan_moves import Planned
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask, Look

H1 = "4c4c4544-0042-3510-8052-b4c04f4a3231"


def task(name):
    return {"uuid": "u-" + name, "hosts": ["h1"], "after": [1, 7], "owner": H1, "given_up": False}


def of_moves(planned, names):
    """The instances of a delete that are in a move; ``planned``: those with a plan."""

    def plan():
        yield Ask("host_facts", {"h1": {}})
        return {name: leg(name) for name in planned}

    def leg(name):
        yield Ask("migration", {"h1": {"uuid": "u-" + name}})
        return "the walk of %s" % name

    refused = Planned(errors={name: {"code": "MigrationEnded"} for name in names if name not in planned})
    return Moving(names, plan, refused.ended)


def order(asked):
    return [step if isinstance(step, Look) else (step.module, sorted(step.arguments)) for step in asked]


def test_those_in_a_move_are_deleted_first_and_those_whose_move_had_ended_with_those_at_rest():
    moving = of_moves(["web2"], ["web2", "web3"])
    procedure = delete({"web1": task("web1")}, moving, {"web3": {"changed_disks": True}}, ["h1", "h2"])
    (done, walks), asked, _said = played(procedure, again={"web3": task("web3")})
    assert order(asked) == [
        ("host_facts", ["h1"]), ("migration", ["web2 h1"]), Look(("web3",)), ("instance", ["web1", "web3"]),
        ("rescan", ["h1", "h2"]),
    ]  # fmt: skip
    assert (sorted(done), walks) == (["web1", "web3"], {"web2": "the walk of web2"})
    assert asked[3].arguments["web3"]["changed_disks"] and "changed_disks" not in asked[3].arguments["web1"]


@pytest.mark.parametrize("planned, names", [((), ()), (["web2"], ["web2"])])
def test_no_host_is_read_again_where_no_move_had_ended(planned, names):
    asked = played(delete({"web1": task("web1")}, of_moves(planned, names), {}, ["h1"]))[1]
    assert not [step for step in asked if isinstance(step, Look)]
    assert ("host_facts", ["h1"]) in order(asked) or not names


@pytest.mark.parametrize(
    "code, ended",
    [("MigrationEnded", True), ("InstanceNotFound", True), ("HostUnknown", False), ("InstanceLocked", False)],
)
def test_only_a_move_that_had_ended_or_an_instance_that_is_gone_counts_as_ended(code, ended):
    assert Planned(errors={"web1": {"code": code}}).ended() == ["web1"] * ended
