# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move over an engine: what it takes before its first leg, and how the engine follows what the hosts say."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
from procedure_case import play
from procedure_case import run as to_the_end

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "protocol"))
import history_engine  # noqa: E402
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import (  # noqa: E402
    Candidate,
    Move,
    Token,
    Walk,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import move as procedure  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.moves import MovesOnEngine  # noqa: E402

WEB, DB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "1b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
GROUP = "2b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
HOSTS = {"kvm%d" % number: "%d1111111-3c6e-5d59-9d0b-3a1c9d7f1e2a" % number for number in (1, 2, 3)}
S, D, OTHER = HOSTS.values()
OLD, NEW = (
    {"name": "s", "vcpus": 1, "memory_mb": 64, "root_gb": 1},
    {"name": "l", "vcpus": 2, "memory_mb": 128, "root_gb": 1},
)
SILENT, FULL = {"reason": "UNREACHABLE"}, {"error": {"code": "NoRoom", "message": "full"}}
NOTHING = {"uuid": WEB, "role": None}
MOVING = {
    "type": "resize",
    "source": {"uuid": S, "name": "kvm1"},
    "destination": {"uuid": D, "name": "kvm2"},
    "new_spec": {"project_id": "p", "flavor": NEW},
    "old_spec": {"project_id": "p", "flavor": OLD},
}


def at_rest(epoch=1, flavor=None):
    view = {"uuid": WEB, "role": "OWN", "phase": "active", "generation": [epoch, 4], "op": None, "migration": None}
    return {**view, "spec": {"project_id": "p", "flavor": flavor or OLD}}


def moving(role, phase, epoch, flavor=None):
    return {**at_rest(epoch, flavor), "role": role, "phase": phase, "op": "op-kvm2", "migration": MOVING}


class Case:
    """web on kvm1. ``answers``: host -> what it answers to its next legs, of which the last one counts for all that follow;
    ``asked``: which hosts were asked for which steps."""

    def __init__(self):
        self.engine, self.answers, self.asked, self.during = MemoryEngine(), {}, [], {}
        self.write(keys.META, history_engine.META)
        counts = dict.fromkeys(("serial", "generation", "provider", "read_at"), 0)
        for name, uuid in HOSTS.items():
            self.write(keys.host(uuid), {"name": name, **counts, "trusted": True, "reserved": {}, "removed": {}})
        self.has(owner=S, epoch=1, amounts={"instances": 1, "cores": 1, "ram": 64}, holds=[keys.name("p", "web")])
        self.write(keys.quota("p"), {"instances": 1, "cores": 1, "ram": 64})

    def write(self, key, document):
        return self.engine.transact(Transact(writes=(keys.written(key, document),)))["revision"]

    def read(self, key):
        return keys.document(key, self.engine.keys.get(key))

    def has(self, **more):
        entry = self.read(keys.instance(WEB)) or keys.new_instance("web", "p")
        self.revision = self.write(keys.instance(WEB), {**entry, **more})

    @property
    def entry(self):
        return self.read(keys.instance(WEB))

    def hosts(self):
        """(owner, the hosts with a part in a move)"""
        return self.entry["owner"], [each["host"] for each in self.entry["pending"]]

    def cores(self):
        """What the project uses by the quota, and the instance by its entry."""
        return self.read(keys.quota("p"))["cores"], self.entry["amounts"]["cores"]

    def has_room(self, host):
        return WEB in self.read(keys.host(host))["reserved"]

    def move(self, sequence, views, candidates=(), kind="resize", quotas=None, group=None, dry=False, goes_with=None):
        spec = {
            "name": "web",
            "project_id": "p",
            "flavor": NEW if kind == "resize" else OLD,
            "networks": [],
            "group": group,
        }
        chosen = tuple(Candidate("op-" + host, host, {"uuid": HOSTS[host], "name": host}, {}) for host in candidates)
        plan = Move(
            "plan", WEB, "web", sequence, "kvm1", "kvm2", Token("op-kvm2", 1), dict(zip(("source", "destination"), views)),
            kind=kind, spec=spec if chosen else None, candidates=chosen, machines={"kvm1": S, "kvm2": D},
            version=self.revision, goes_with=goes_with or {},
        )  # fmt: skip
        self.walk = Walk(plan)
        run = procedure.Run({}, MovesOnEngine("r1", {"p": quotas} if quotas else {}, dry))
        to_the_end(play(procedure.move(self.walk, run), self._ask, engine=self.engine))
        return self.walk

    def resize(self, *answers, candidates=("kvm2",), **more):
        for host, answer in answers:
            self.answers.setdefault(host, []).append(answer)
        return self.move("resize", (at_rest(), NOTHING), candidates, **more)

    def _ask(self, host, module, given):
        assert module == "migration"
        self.asked.append((host, *given["steps"]))
        self.during.get(given["steps"][0], lambda: None)()
        answers = self.answers.get(host, [SILENT])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        yield
        if "role" not in answer:
            return copy.deepcopy(answer)
        return {"move": copy.deepcopy(answer), "changed": True, "token": given["token"], "took": {}}


@pytest.fixture
def case():
    return Case()


BEGUN = ("kvm1", moving("OWN", "resizing", 1))
CLAIMED = ("kvm2", moving("IN", "incoming", 1, NEW))
LET_GO = ("kvm1", moving("OUT", "keep", 2))
RESIZED = ("kvm2", moving("OWN", "resized", 2, NEW))
RESIZING = (BEGUN, CLAIMED, CLAIMED, LET_GO, RESIZED)


def resized(case):
    assert case.resize(*RESIZING).failure is None
    case.answers.clear()
    return (LET_GO[1], RESIZED[1])


def test_what_it_needs_is_taken_before_any_host_is_asked(case):
    seen = []
    case.during["begin"] = lambda: seen.append((case.hosts(), case.has_room(D), case.cores()))
    case.resize(*RESIZING)
    assert seen == [((S, [D]), True, (3, 3))]


def test_the_destination_owns_it_and_the_source_keeps_its_part_until_a_confirm(case):
    views = resized(case)
    assert (case.hosts(), case.entry["epoch"], case.cores()) == ((D, [S]), 2, (3, 3))
    case.answers = {"kvm2": [moving("OWN", "confirming", 2, NEW), at_rest(2, NEW)], "kvm1": [NOTHING]}
    case.move("confirm", views)
    assert (case.hosts(), case.cores()) == ((D, []), (2, 2))
    assert case.read(keys.host(S))["removed"] == {WEB: 2}


def test_the_registry_hears_of_a_live_migration_that_the_hosts_have_ended_between_them(case):
    """The source says so, and the destination is not asked again."""
    case.answers = {"kvm1": [BEGUN[1], BEGUN[1], {**NOTHING, "ended": True}], "kvm2": [CLAIMED[1]]}
    case.move("live_migrate", (at_rest(), NOTHING), ["kvm2"], kind="live-migration")
    assert case.asked[-1] == ("kvm1", "migrate_live", "release", "tell")
    assert (case.hosts(), case.entry["epoch"], case.cores()) == ((D, []), 2, (1, 1))


def test_a_revert_gives_it_back_to_the_source_and_frees_the_destination(case):
    views = resized(case)
    case.answers = {
        "kvm1": [LET_GO[1], moving("OWN", "restoring", 3), at_rest(3)],
        "kvm2": [moving("OUT", "reverted", 3, NEW), NOTHING],
    }
    case.move("revert", views)
    assert (case.hosts(), case.entry["epoch"], case.cores()) == ((S, []), 3, (1, 1))
    assert not case.has_room(D)


def test_a_part_that_could_not_be_removed_stays_known(case):
    views = resized(case)
    case.answers = {"kvm2": [moving("OWN", "confirming", 2, NEW)], "kvm1": [SILENT]}
    case.move("confirm", views)
    assert (case.hosts(), case.cores()) == ((D, [S]), (3, 3))


def test_a_destination_that_falls_silent_may_have_it(case):
    case.resize(BEGUN, ("kvm2", SILENT))
    assert case.hosts() == (S, [D]) and case.has_room(D)


def test_a_move_that_is_given_up_holds_nothing(case):
    case.answers = {"kvm1": [BEGUN[1], moving("OWN", "restoring", 1), at_rest()], "kvm2": [FULL, NOTHING]}
    case.resize()
    assert (case.hosts(), case.has_room(D), case.cores()) == ((S, []), False, (1, 1))


def test_the_next_host_is_tried_with_an_intent_of_its_own(case):
    seen = []
    case.during["claim"] = lambda: seen.append(case.hosts())
    case.answers = {"kvm1": [BEGUN[1], moving("OWN", "restoring", 1), at_rest(), BEGUN[1], LET_GO[1]]}
    case.answers["kvm3"] = [FULL, NOTHING]
    case.answers["kvm2"] = [CLAIMED[1], CLAIMED[1], RESIZED[1]]
    assert case.resize(candidates=("kvm3", "kvm2")).failure is None
    assert seen == [(S, [OTHER]), (S, [D])] and case.hosts() == (D, [S]) and not case.has_room(OTHER)


def test_a_source_that_refuses_leaves_nothing_reserved(case):
    case.resize(("kvm1", {"error": {"code": "InstanceIsLocked", "message": "locked"}}))
    assert (case.hosts(), case.has_room(D), case.cores()) == ((S, []), False, (1, 1))


def test_a_source_that_falls_silent_may_have_begun(case):
    case.resize(("kvm1", SILENT))
    assert case.hosts() == (S, [D])


def test_both_flavors_of_a_resize_have_to_fit_into_the_quota(case):
    assert "QuotaExceeded" in case.resize(quotas={"cores": 2}).failure
    assert case.asked == [] and case.hosts() == (S, []) and case.cores() == (1, 1)


def test_a_migration_is_not_held_to_the_quota(case):
    case.resize(*RESIZING, kind="migration", quotas={"cores": 1})
    assert case.hosts() == (D, [S])


def leave_group(case, goes_with, *others_on):
    case.has(group=GROUP)
    case.write(keys.group(GROUP), {WEB: [S], DB: list(others_on)})
    return case.resize(*RESIZING, group={"name": "close", "uuid": GROUP, "policy": "affinity"}, goes_with=goes_with)


@pytest.mark.parametrize("others_on", [(S,), (D, S), (D,)])
def test_a_member_of_an_affinity_group_leaves_together_with_the_others(case, others_on):
    leave_group(case, {DB: "kvm1"}, *others_on)
    assert case.read(keys.group(GROUP)) == {WEB: [D, S], DB: list(others_on)}


@pytest.mark.parametrize("goes_with, others_on, where", [({}, S, "kvm1"), ({DB: "kvm1"}, OTHER, "kvm3")])
def test_a_member_of_an_affinity_group_does_not_leave_one_that_stays_or_went_elsewhere(
    case, goes_with, others_on, where
):
    walk = leave_group(case, goes_with, others_on)
    assert "members on " + where in walk.failure and case.asked == []


def test_a_move_does_not_begin_beside_one_that_another_run_has_begun(case):
    plan_time = case.revision
    case.has(pending=[{"run": "r2", "kind": keys.MOVE, "host": OTHER, "op": "x", "claimed": True}])
    case.revision = plan_time
    walk = case.resize()
    assert walk.error.get("code") == "ClaimConflict" and case.asked == [] and case.hosts() == (S, [OTHER])


def test_what_a_dead_run_had_begun_before_the_plan_is_given_back(case):
    case.has(pending=[{"run": "r2", "kind": keys.MOVE, "host": OTHER, "op": "x", "claimed": True}],
             amounts={"instances": 1, "cores": 9, "ram": 64})  # fmt: skip
    case.write(keys.quota("p"), {"instances": 1, "cores": 9, "ram": 64})
    host = case.read(keys.host(OTHER))
    case.write(keys.host(OTHER), {**host, "reserved": {WEB: {}}})
    case.resize(*RESIZING)
    assert (case.hosts(), case.has_room(OTHER), case.cores()) == ((D, [S]), False, (3, 3))


def test_a_run_whose_intent_was_taken_over_gives_its_claim_up(case):
    case.during["claim"] = lambda: case.has(pending=[])
    case.answers = {"kvm1": [BEGUN[1], moving("OWN", "restoring", 1), at_rest()], "kvm2": [CLAIMED[1], NOTHING]}
    walk = case.resize()
    assert walk.error.get("code") == "ClaimConflict" and ("kvm2", "purge") in case.asked
    assert case.hosts() == (S, []) and ("kvm2", "receive") not in case.asked


def test_a_move_that_was_begun_goes_on_with_its_intent(case):
    case.has(pending=[{"run": "r2", "kind": keys.MOVE, "host": D, "op": "op-kvm2", "claimed": True}])
    case.answers = {"kvm1": [BEGUN[1], LET_GO[1]], "kvm2": [CLAIMED[1], CLAIMED[1], RESIZED[1]]}
    walk = case.move("resize", (BEGUN[1], CLAIMED[1]))
    assert walk.failure is None and case.hosts() == (D, [S])


def test_an_owner_that_the_registry_knows_better_does_not_move(case):
    case.has(owner=OTHER, epoch=3)
    walk = case.resize()
    assert walk.error.get("code") == "ClaimConflict" and case.asked == []


def test_an_older_word_changes_nothing(case):
    case.during["acquire"] = lambda: case.has(owner=OTHER, epoch=7, pending=[])
    case.resize(*RESIZING)
    assert case.hosts() == (OTHER, [])


def test_what_was_not_told_is_told_by_the_confirm(case):
    views = resized(case)
    case.has(owner=S, epoch=1, pending=[{"run": "r1", "kind": keys.MOVE, "host": D, "op": "op-kvm2", "claimed": True}])
    case.answers = {"kvm2": [moving("OWN", "confirming", 2, NEW), at_rest(2, NEW)], "kvm1": [NOTHING]}
    case.move("confirm", views)
    assert (case.hosts(), case.entry["epoch"], case.cores()) == ((D, []), 2, (2, 2))


def test_without_the_registry_no_move_begins(case):
    case.engine.away = True
    assert case.resize().error.get("code") == "RegistryUnknown" and case.asked == []


def test_hosts_go_on_while_the_registry_is_away(case):
    """The guest has moved; the intent tells the next run whom to ask."""
    case.during["receive"] = lambda: setattr(case.engine, "away", True)
    walk = case.resize(*RESIZING)
    case.engine.away = False
    assert walk.failure is None and case.hosts() == (S, [D])


def test_a_lost_answer_of_the_registry_reserves_once(case):
    case.engine.lose(True)
    case.resize(*RESIZING)
    assert (case.hosts(), case.cores()) == ((D, [S]), (3, 3))


def test_check_mode_writes_nothing(case):
    before = dict(case.engine.keys)
    real = case.engine.transact
    case.engine.transact = lambda step: real(step._replace(writes=()))  # as registry_access does
    case.resize(*RESIZING, dry=True)
    assert case.engine.keys == before and ("kvm1", "begin") in case.asked


def test_a_delete_in_the_middle_of_a_move_gives_back_all(case):
    views = resized(case)
    case.answers = {"kvm2": [moving("OWN", "erasing", 2, NEW), NOTHING], "kvm1": [NOTHING]}
    case.move("delete_there", views)
    assert (case.hosts(), case.entry["holds"], case.entry["epoch"]) == ((None, []), [], 2)
    assert not any(case.read(keys.quota("p")).values())


def test_a_lost_source_is_remembered_as_given_up(case):
    _here, there = resized(case)
    case.answers = {"kvm2": [at_rest(2, NEW)]}
    case.move("confirm_alone", ({"role": None, "lost": True}, there))
    assert case.hosts() == (D, []) and case.entry["given_up"] == [S]
