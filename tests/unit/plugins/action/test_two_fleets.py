# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""E6: one user has two fleets whose hosts have the same names: what is kept of one is never told of the other."""

from __future__ import annotations

import json

import pytest
from controller import Controller
from placement_case import VM, controller, facts
from receipt_case import files
from test_remembered_failures import HUGE

from ansible_collections.berth.kvm.plugins.plugin_utils import receipts
from ansible_collections.berth.kvm.plugins.plugin_utils.whose_fleet import Fleet, machines

HOSTS = ("h1", "h2", "h3")


class OneFleet:
    """Hosts h1 to h3. ``site``: how they are reached; ``machines``: which they are."""

    def __init__(self, site, machines=HOSTS):
        self.variables = {"ansible_ssh_common_args": "-J %s" % site}
        self.facts = dict(zip(HOSTS, map(facts, machines)))

    def decide(self, **flavors):
        instances = {name: {**VM, "berth_flavor": flavor} for name, flavor in flavors.items()}
        it = controller(instances, self.variables, HOSTS, self.facts)
        return it.run("placement", {"instances": list(instances), "plan": True})

    def why(self, name="web1"):
        return Controller({"kvm_hosts": HOSTS}, {"all": self.variables}).run("show_decision", {"name": name})

    def known(self, answer=True):
        it = Controller({"kvm_hosts": HOSTS}, {"all": self.variables})
        if answer:
            it.register("localhost", __berth_facts={"answers": {h: {"ansible_facts": self.facts[h]} for h in HOSTS}})
        return Fleet(machines(it.task_vars(), HOSTS))

    def decided(self, **known):
        heads = receipts.heads(receipts.Settings(None, 1, 1), self.known(**known))
        return [sorted(head["instances"]) for _path, head in heads]

    def show(self, name="web1"):
        it = Controller({"kvm_hosts": HOSTS, "vms": [name]}, {"all": self.variables, name: HUGE})
        answers = {h: {"ansible_facts": self.facts[h], "notes": {}} for h in HOSTS}
        it.register("localhost", __berth_facts={"answers": answers})
        return it.run("show_instances", {"instances": [name]}, it.task_vars())["outcomes"][0]


@pytest.fixture
def staging(own_state):
    return OneFleet("staging.example.org", machines=("s1", "s2", "s3"))


@pytest.fixture
def production(own_state):
    return OneFleet("example.org")


def test_why_never_answers_with_the_other_fleets_decision(staging, production):
    staging.decide(web1="tiny")
    assert production.why()["error_code"] == "ReceiptNotFound"
    mine = production.decide(web1="tiny")["receipt_file"]
    theirs = staging.decide(web1="tiny")["receipt_file"]
    assert (production.why()["receipt_file"], staging.why()["receipt_file"]) == (mine, theirs)


def test_who_asked_the_hosts_sees_no_decision_of_machines_that_were_reached_so_before(production):
    OneFleet("example.org", machines=("old1", "old2", "old3")).decide(old="tiny")
    assert production.decided() == []
    production.decide(web1="tiny")
    assert production.decided() == [["web1"]]
    assert production.decided(answer=False) == [["web1"]], "the newest says which machines these are"


def test_a_fleet_that_is_reached_in_another_way_now_keeps_its_decisions(production):
    production.decide(web1="tiny")
    production.variables = {"ansible_host": "192.0.2.{{ 3 + 4 }}"}
    assert production.decided() == [["web1"]] and production.decided(answer=False) == []
    production.decide(db="tiny")
    assert production.decided(answer=False) == [["db"], ["web1"]]


@pytest.mark.parametrize(
    "of, is_of",
    [(("h1",), True), (("h1", "h2", "h3", "n4"), True), (("h1", "n2"), True), (("h1", "n2", "n3"), False), ((), False)],
)
def test_half_of_the_machines_are_the_fleet_as_hosts_come_and_go_and_one_may_have_changed_sides(production, of, is_of):
    kept = {"kvm-%s" % name: {"uuid": facts(name)["berth_host"]["uuid"], "reached": "x"} for name in of}
    assert production.known().has(kept) is is_of


@pytest.mark.parametrize("nonsense", [{}, {"h1": None}, {"h1": {"uuid": None}}, {"h1": {"reached": []}}, "h1", 7, [7]])
def test_a_file_that_names_no_machine_is_of_no_fleet(production, nonsense):
    assert not production.known().has(nonsense)


def test_files_of_earlier_versions_are_of_each_fleet_with_one_of_their_hosts(production):
    assert production.known().has(["h3", "k9"]) and not production.known().has(["k9"])


def test_without_an_inventory_why_shows_the_decisions_of_every_fleet(production, staging):
    production.decide(web1="tiny")
    staging.decide(db="tiny")
    for name in ("web1", "db"):
        assert Controller({}).run("show_decision", {"name": name}).get("decision")


def test_a_receipt_tells_nobody_the_addresses(production, own_state):
    production.decide(web1="tiny")
    (path,) = files(own_state)
    head, _receipt, _documents = receipts.read(str(path))
    assert set(head["hosts"]) == set(HOSTS) and "example.org" not in json.dumps(head)


def test_a_request_that_failed_in_both_is_told_and_forgotten_in_each_alone(production, staging, own_state):
    for fleet in (production, staging):
        fleet.decide(web1="tinny")
    assert len(list((own_state / "failed").iterdir())) == 2
    staging.decide(web1="tinny")
    assert len(list((own_state / "failed").iterdir())) == 2, "one for each"
    ended = OneFleet("elsewhere.example.org", machines=("e1", "e2", "e3"))
    assert ended.show()["state"] == "absent"
    assert production.show()["state"] == staging.show()["state"] == "error"
