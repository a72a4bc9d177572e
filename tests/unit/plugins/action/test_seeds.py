# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed of a decision's random choices: drawn for each, kept in its receipt, repeated by berth_seed (S09)."""

from __future__ import annotations

import json

import pytest
from placement_case import VM, controller, place
from plan_moves_case import plan
from receipt_case import create, files, replay

from ansible_collections.berth.kvm.plugins.plugin_utils import receipts

pytestmark = pytest.mark.long

HOSTS = ("h1", "h2", "h3", "h4")
CHANCE = {"berth_placement": {"driver": "chance"}}
DRAWING = {
    "chance": {"driver": "chance"},
    "host_subset_size": {"host_subset_size": 4},
    "shuffle_best_same_weighed_hosts": {"shuffle_best_same_weighed_hosts": True},
}


def decided(variables=None, **more):
    """(the seed, the host) of one instance."""
    placed = place({"a": VM}, {**CHANCE, **(variables or {})}, hosts=HOSTS, **more)
    return placed["approval"]["a"]["seed"], placed["selections"]["a"]["host"]


@pytest.mark.parametrize("option", DRAWING)
def test_runs_on_equal_hosts_do_not_all_choose_the_same_one(option):
    """S06, S09: that 40 drawn seeds choose one host of four happens once in 10^23 times."""
    found = [decided({"berth_placement": DRAWING[option]}) for _run in range(40)]
    assert len({seed for seed, _host in found}) > 30 and len({host for _seed, host in found}) > 1


@pytest.mark.parametrize("given", [17, "17"], ids=["a number", "text, as of -e"])
def test_berth_seed_repeats_the_choice_of_a_run(given):
    assert decided({"berth_seed": given}) == decided({"berth_seed": 17}) == decided(args={"seed": 17})
    assert decided({"berth_seed": given})[0] == 17
    assert len({decided({"berth_seed": seed})[1] for seed in range(40)}) == len(HOSTS)


@pytest.mark.parametrize("wrong", [-1, 10**9, "10" * 5000, "x", 1.5, True, [1]], ids=lambda wrong: str(wrong)[:9])
def test_a_seed_that_is_no_whole_number_is_refused_by_its_name(wrong):
    refused = place({"a": VM}, {**CHANCE, "berth_seed": wrong}, hosts=HOSTS)
    assert refused["error_code"] == "InvalidInput" and "berth_seed" in refused["msg"]


def test_the_receipt_has_the_seed_and_replay_draws_the_same(own_state):
    for _run in range(10):
        created = create({"web1": VM, "web2": VM}, CHANCE, hosts=HOSTS)
        path = files(own_state)[-1]
        assert replay(path)["hosts"] == {name: [one["host"]] for name, one in created["selections"].items()}
    seeds = [receipts.read(str(path))[1]["seed"] for path in files(own_state)]
    assert len(set(seeds)) > 1


def test_create_draws_what_was_approved():
    for _run in range(10):
        shown = place({"a": VM, "b": VM}, CHANCE, hosts=HOSTS)
        approved = {**CHANCE, "berth_approved": shown["approval"]}
        made = place({"a": VM, "b": VM}, approved, {"plan": True}, hosts=HOSTS)
        assert not made.get("failed"), made
        hosts = {name: one["host"] for name, one in made["ansible_facts"]["berth_plan"]["instances"].items()}
        assert hosts == {name: one["host"] for name, one in shown["approval"].items()}


def test_an_approval_of_before_seeds_were_drawn_was_drawn_with_0():
    shown = place({"a": VM}, {**CHANCE, "berth_seed": 0}, hosts=HOSTS)
    del shown["approval"]["a"]["seed"]
    made = place({"a": VM}, {**CHANCE, "berth_approved": shown["approval"]}, {"plan": True}, hosts=HOSTS)
    assert not made.get("failed"), made


def test_a_move_draws_its_own_seed_which_its_receipt_has(tmp_path):
    def seed(number, **variables):
        directory = tmp_path / str(number)
        plan(variables={"berth_receipt_dir": str(directory), **variables})
        (path,) = directory.glob("placement-*.json")
        return json.loads(path.read_text())["seed"]

    assert len({seed(number) for number in range(10)}) > 8
    assert seed("given", berth_seed="17") == 17


@pytest.mark.parametrize("option", DRAWING)
def test_an_instance_whose_host_was_drawn_says_so(option):
    """S06: not that it is the best, nor the only one that fits."""
    variables = {"berth_placement": DRAWING[option], "berth_seed": 5}
    it = controller({"a": VM}, variables, HOSTS)
    made = it.run("placement", {"instances": ["a"], "plan": True})["ansible_facts"]["berth_plan"]["instances"]["a"]
    assert made["why"] == "drawn among 4 hosts, seed 5"
    text = place({"a": VM}, variables, hosts=HOSTS)["explanation"]
    assert text.startswith("a: %s, drawn among 4 of 4 hosts\n" % made["host"])


def test_an_instance_of_which_nothing_was_drawn_says_what_was_best():
    assert "a: h1, the best of 4 of 4 hosts\n" in place({"a": VM}, hosts=HOSTS)["explanation"]
    fake = place({"a": VM}, {"berth_placement": {"driver": "fake"}}, hosts=HOSTS)["explanation"]
    assert fake.startswith("a: h1, the first of 4 of 4 hosts\n") and "every weigher" not in fake
