# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of a creation against hosts in memory: claim, read all hosts, commit, build (C02, C10, C11, C17, C30, S45)."""

from __future__ import annotations

import itertools
import random

import pytest
from runs_of_create import HOSTS, Host, a_plan, instance, steps

from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.commit import commit
from ansible_collections.berth.kvm.plugins.module_utils.conductor.next_host import attempt_failed
from ansible_collections.berth.kvm.plugins.module_utils.model import hints


def known(host, generation=(1, 1)):
    """What a host remembers of an instance that another one owned."""
    return {"known": {"host": host, "host_uuid": host, "generation": list(generation)}, "planned": [], "gone": None}


def planned(host, run):
    return {"known": None, "planned": [{"host": host, "host_uuid": host, "run": run}], "gone": None}


def run_all(plan, hosts):
    for _step in steps(plan, hosts, map("t{:04d}".format, itertools.count())):
        pass
    return plan["instances"]


def test_claim_lost_goes_to_the_alternate():
    """C17, S45."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].capacity = 0
    result = run_all(a_plan(instance("a")), hosts)["a"]
    assert (result["state"], result["host"]) == ("active", "h2")
    assert [attempt["code"] for attempt in result["attempts"]] == ["ClaimFailed"]


def test_attempts_end_at_max_attempts_with_every_cause():
    """C10."""
    hosts = {name: Host(name, capacity=0) for name in HOSTS}
    result = run_all(a_plan(instance("a"), max_attempts=2), hosts)["a"]
    assert result["error"]["code"] == "MaxRetriesExceeded"
    assert [attempt["host"] for attempt in result["attempts"]] == ["h1", "h2"]
    assert "2 attempts for instance a. Last cause, on h2: " in result["error"]["message"]


def test_the_host_of_the_last_cause_is_told_once():
    given_up = {"name": "a", "host": "h1", "alternates": [], "attempts": []}
    plan = {"max_attempts": 3, "hosts": {}}
    attempt_failed(plan, given_up, "ClaimFailed", "h1: has 0 MiB free", True)
    assert given_up["error"]["message"].endswith("for instance a. Last cause, on h1: has 0 MiB free")


def test_no_alternate_left_says_so_as_nova_does():
    """C11."""
    hosts = {name: Host(name, capacity=0) for name in HOSTS}
    result = run_all(a_plan(instance("a", alternates=())), hosts)["a"]
    assert "Exhausted all hosts available for retrying build failures for instance a" in result["error"]["message"]


def test_one_attempt_keeps_the_error_itself():
    """C10: no retry with max_attempts 1."""
    hosts = {name: Host(name, capacity=0) for name in HOSTS}
    result = run_all(a_plan(instance("a"), max_attempts=1), hosts)["a"]
    assert result["error"]["code"] == "ClaimFailed"


def test_error_that_no_other_host_cures_stops():
    """C30."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].build = lambda uuid, token: {
        "error": {"code": "ImageInvalid", "message": "backing file", "retryable": False}
    }
    result = run_all(a_plan(instance("a")), hosts)["a"]
    assert (result["state"], result["error"]["code"], result["host"]) == ("failed", "ImageInvalid", "h1")


@pytest.mark.parametrize("retryable", [True, False])
def test_a_build_that_did_not_even_begin_gives_its_claim_back(retryable):
    """I5: such as for want of the image that the controller sends; the host's module has seen nothing of it."""
    hosts = {name: Host(name) for name in HOSTS}
    error = {"code": "UploadUnusable", "message": "it is no file", "hint": "Put it there", "retryable": retryable}
    for host in hosts.values():
        host.build = lambda uuid, token: {"error": error}
    plan = a_plan(instance("a"))
    result = run_all(plan, hosts)["a"]
    assert [host.records for host in hosts.values()] == [{}, {}, {}]
    assert result["state"] == "failed" and "it is no file. Put it there" in result["error"]["message"]


def test_the_last_host_that_answers_is_told_of_what_was_given_up():
    """C14, C15."""
    hosts = {name: Host(name, capacity=0) for name in HOSTS}
    plan = a_plan(instance("a"))
    error = run_all(plan, hosts)["a"]["error"]
    entry = {
        "uuid": "u-a",
        "name": "a",
        "project_id": "p",
        "host": "h3",
        "error": {"code": error["code"], "message": error["message"]},
    }
    assert plan["faults"] == {"h3": [entry]}


def test_a_host_that_went_silent_is_not_told():
    hosts = {name: Host(name, capacity=0) for name in HOSTS}
    hosts["h3"].up = False
    plan = a_plan(instance("a"))
    run_all(plan, hosts)
    assert list(plan["faults"]) == ["h2"]


def test_nobody_is_told_of_what_succeeded_elsewhere_or_belongs_to_another_run():
    """A note would say vm_state error of an instance that is well."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].capacity = 0
    plan = a_plan(instance("a"), instance("b", alternates=("h3",)))
    hosts["h3"].build = lambda uuid, token: {"reason": "UNREACHABLE"}
    states = {name: host["state"] for name, host in run_all(plan, hosts).items()}
    assert (states, plan["faults"]) == ({"a": "active", "b": "failed"}, {})


def test_retryable_build_failure_goes_to_the_alternate():
    """C30."""
    hosts = {name: Host(name) for name in HOSTS}

    def build(uuid, token):
        del hosts["h1"].records[uuid]
        return {"error": {"code": "NetworkNotFound", "message": "no br9", "retryable": True}}

    hosts["h1"].build = build
    result = run_all(a_plan(instance("a")), hosts)["a"]
    assert (result["state"], result["host"]) == ("active", "h2")


def test_host_silent_during_the_build_is_not_followed_by_another_host():
    """A unreachable: stop, do not try B."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].build = lambda uuid, token: {"reason": "UNREACHABLE"}
    result = run_all(a_plan(instance("a")), hosts)["a"]
    assert (result["state"], result["error"]["code"]) == ("failed", "HostUnknown")
    assert not hosts["h2"].records and not hosts["h3"].records


def test_host_silent_at_the_claim_is_followed_by_another_host():
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].up = False
    result = run_all(a_plan(instance("a")), hosts)["a"]
    assert (result["state"], result["host"], result["attempts"][0]["code"]) == ("active", "h2", "HostUnreachable")


@pytest.mark.parametrize("note", [known("h3"), planned("h3", "r0")], ids=["known", "planned"])
def test_instance_remembered_on_a_silent_host_is_refused_and_its_claim_withdrawn(note):
    """I1: a second copy of a guest that may run is never made."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h2"].notes["u-a"] = note
    hosts["h3"].up = False
    plan = a_plan(instance("a", alternates=("h2",)))
    plan["hosts"]["h3"] = {"reason": "UNREACHABLE"}
    result = run_all(plan, hosts)["a"]
    assert (result["state"], result["error"]["code"]) == ("failed", "InstanceUnknown")
    assert not hosts["h1"].records


@pytest.mark.parametrize(
    "lost, note",
    [(("h3",), known("h3")), (("h3",), planned("h3", "r0")), ((), planned("h3", "r1"))],
    ids=["known, given up as lost", "planned, given up as lost", "planned by this very run"],
)
def test_note_about_a_silent_host_does_not_count(lost, note):
    hosts = {name: Host(name) for name in HOSTS}
    plan = a_plan(instance("a"))
    rounds.prepare_round(plan, lambda: "t")
    claims = {"h1": hosts["h1"].claim(plan["claims"]["h1"])}
    hosts["h2"].notes["u-a"] = note
    commit(
        plan, claims, {"h1": hosts["h1"].rescan(), "h2": hosts["h2"].rescan(), "h3": {"reason": "x"}}, lost_hosts=lost
    )
    assert plan["build"] == ["a"]


def test_a_plan_for_a_host_that_answers_without_it_does_not_count():
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h2"].notes["u-a"] = planned("h3", "r0")
    assert run_all(a_plan(instance("a")), hosts)["a"]["state"] == "active"


def test_an_owner_that_answers_without_a_record_has_to_say_that_it_is_gone():
    """A state directory may be restored from a backup, or lost: no record is no proof."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h2"].notes["u-a"] = known("h3", (1, 5))
    assert run_all(a_plan(instance("a")), hosts)["a"]["error"]["code"] == "RecordMissing"
    hosts["h3"].notes["u-a"] = {"known": None, "planned": [], "gone": [1, 5]}
    assert run_all(a_plan(instance("a")), hosts)["a"]["state"] == "active"


def test_another_hosts_word_that_it_is_gone_does_not_count():
    """It removed the instance before that came to the one that had it last."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h2"].notes["u-a"] = known("h3", (1, 5))
    hosts["h1"].notes["u-a"] = {"known": None, "planned": [], "gone": [1, 9]}
    assert run_all(a_plan(instance("a")), hosts)["a"]["error"]["code"] == "RecordMissing"


def test_what_a_host_said_before_it_fell_silent_counts():
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h2"].up = hosts["h3"].up = False
    plan = a_plan(instance("a", notes={"h2": known("h3")}))
    assert run_all(plan, hosts)["a"]["error"]["code"] == "InstanceUnknown"


def test_a_plan_of_which_there_is_a_claim_has_not_come_to_nothing():
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h3"].records["u-a"] = {"uuid": "u-a", "role": "OWN", "token": "t", "group": None, "project_id": "p"}
    plan = a_plan(instance("a", notes={"h2": planned("h3", "r0")}))
    run_all(plan, hosts)
    assert [host["run"] for host in plan["tell"]["ended"]] == ["r1"]


def test_the_hosts_are_told_at_the_end_who_owns_it_and_what_came_to_nothing():
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].capacity = 0
    hosts["h2"].build = lambda uuid, token: {"changed": True, "instance": {"generation": [1, 4]}}
    plan = a_plan(instance("a", notes={"h2": planned("h3", "r0")}))
    run_all(plan, hosts)
    assert plan["tell"]["known"] == {"h2": {"u-a": [1, 4]}}
    assert [(host["host_uuid"], host["run"]) for host in plan["tell"]["ended"]] == [
        ("h3", "r0"), ("h1", "r1"), ("h2", "r1"),
    ]  # fmt: skip


def test_a_host_that_miscounts_what_it_made_may_have_it_and_is_told_as_no_owner():
    """The others would give the number back in their own replies, and go on from it."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].build = lambda uuid, token: {"changed": True, "instance": {"generation": [1 << 40, 0]}}
    plan = a_plan(instance("a"))
    run_all(plan, hosts)
    assert plan["planned"] and not plan["tell"]


def test_a_plan_stands_where_the_build_may_have_left_something():
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].build = lambda uuid, token: {"reason": "UNREACHABLE"}
    plan = a_plan(instance("a"))
    run_all(plan, hosts)
    assert plan["planned"] and not plan["tell"]


def test_claim_left_by_a_dead_run_is_dropped():
    """Adopt or sweep."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h2"].claim([{"spec": {"uuid": "u-a"}, "token": "0 of the dead"}])
    result = run_all(a_plan(instance("a", stale_claims=["h2"])), hosts)["a"]
    assert (result["state"], result["host"], result["attempts"]) == ("active", "h1", [])
    assert not hosts["h2"].records


def test_affinity_across_hosts_goes_to_the_members_host():
    """S41: the late check that does not work in Nova."""
    hosts = {name: Host(name) for name in HOSTS}
    group = {"name": "g", "uuid": "g", "policy": "affinity"}
    hosts["h2"].claim([{"spec": {"uuid": "u-other", "group": group}, "token": "x"}])
    hosts["h2"].records["u-other"]["role"] = "OWN"
    result = run_all(a_plan(instance("a", group=group)), hosts)["a"]
    assert (result["state"], result["host"], result["attempts"][0]["code"]) == ("active", "h2", "GroupPolicyViolation")
    assert not hosts["h1"].records


@pytest.mark.parametrize(
    "role, token, host, code",
    [
        ("OWN", "0", "h2", "InstanceExists"),
        ("OUT", "0", "h2", "InstanceMoving"),
        ("CLAIM", "another", "h1", "ClaimConflict"),
    ],
    ids=["made elsewhere meanwhile", "on the move elsewhere", "claim taken over on the same host"],
)
def test_what_is_seen_after_the_claim_ends_the_attempt(role, token, host, code):
    """Withdraw what another run overtook."""
    hosts = {name: Host(name) for name in HOSTS}
    plan = a_plan(instance("a"))
    rounds.prepare_round(plan, lambda: "t")
    claims = {"h1": hosts["h1"].claim(plan["claims"]["h1"])}
    hosts[host].records["u-a"] = {"uuid": "u-a", "role": role, "token": token, "group": None, "project_id": "p"}
    commit(plan, claims, {name: host.rescan() for name, host in hosts.items()})
    error = plan["instances"]["a"]["error"] or {}
    assert (error.get("code"), plan["build"]) == (code, [])
    assert code != "ClaimConflict" or error["hint"] == hints.another_run()
    assert ("h1" in plan["withdraw"]) == (host != "h1")


@pytest.mark.parametrize("host", ["h1", "h2"])
@pytest.mark.follows("another_new_name")
def test_a_name_that_another_instance_was_given_meanwhile_is_not_that_of_two(host):
    hosts = {name: Host(name) for name in HOSTS}
    plan = a_plan(instance("a"))
    rounds.prepare_round(plan, lambda: "t")
    claims = {"h1": hosts["h1"].claim(plan["claims"]["h1"])}
    renamed = {"uuid": "u-x", "own_name": "a", "role": "OWN", "token": "x", "group": None}
    hosts[host].records["u-x"] = {**renamed, "project_id": plan["instances"]["a"]["project"]}
    hosts["h3"].records["u-y"] = {**renamed, "uuid": "u-y", "project_id": "another"}
    commit(plan, claims, {name: host.rescan() for name, host in hosts.items()})
    error = plan["instances"]["a"]["error"] or {}
    assert (error.get("code"), plan["build"]) == ("InstanceExists", []) and host in error["message"]
    assert [entry["token"] for entry in plan["withdraw"]["h1"]] == ["t"]


def test_an_instance_that_was_renamed_and_whose_host_is_lost_is_made_again_by_its_name():
    """Its own claim shows the name, too."""
    hosts = {name: Host(name) for name in HOSTS}
    plan = a_plan(instance("a"))
    rounds.prepare_round(plan, lambda: "t")
    claims = {"h1": hosts["h1"].claim(plan["claims"]["h1"])}
    (claimed,) = hosts["h1"].records.values()
    claimed.update(own_name="a", project_id=plan["instances"]["a"]["project"])
    commit(plan, claims, {name: host.rescan() for name, host in hosts.items()})
    assert (plan["instances"]["a"]["error"], plan["build"]) == (None, ["a"])


@pytest.mark.parametrize("other, state", [("a", "failed"), ("z", "claiming")], ids=["the other's", "ours"])
def test_of_two_claims_of_one_instance_that_of_the_lower_token_goes_first(other, state):
    """Both runs see both claims: they must agree which of them gives way for good, and which tries once more."""
    hosts = {name: Host(name) for name in HOSTS}
    plan = a_plan(instance("a"))
    rounds.prepare_round(plan, lambda: "m")
    claims = {"h1": hosts["h1"].claim(plan["claims"]["h1"])}
    hosts["h2"].claim([{"spec": {"uuid": "u-a"}, "token": other}])
    commit(plan, claims, {name: host.rescan() for name, host in hosts.items()})
    assert (plan["instances"]["a"]["state"], plan["build"]) == (state, [])
    assert [entry["token"] for entry in plan["withdraw"]["h1"]] == ["m"], "each of them takes its own claim back"


def test_existing_instance_is_built_on_its_host_without_a_claim():
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h3"].records["u-a"] = {"uuid": "u-a", "role": "OWN", "token": "t", "group": None, "project_id": "p"}
    plan = a_plan(instance("a", host="h3", state=rounds.EXISTING))
    rounds.prepare_round(plan, lambda: "t")
    assert (plan["build"], plan["claims"]) == (["a"], {})


def race(seed, two_plans, hosts):
    """Both runs, step by step in a random order; tokens are drawn from one source, as nonces are."""
    random_ = random.Random(seed)
    tokens = ("%06x" % random_.randrange(1 << 24) for _n in itertools.count())
    runs = [steps(plan, hosts, tokens) for plan in two_plans]
    while runs:
        run = random_.choice(runs)
        try:
            next(run)
        except StopIteration:
            runs.remove(run)
        owners = [
            (uuid, name)
            for name, host in hosts.items()
            for uuid, record in host.records.items()
            if record["role"] == "OWN"
        ]
        assert len({uuid for uuid, _host in owners}) == len(owners), "I1: %s" % owners
        assert all(len(host.records) <= host.capacity for host in hosts.values()), "I2"


@pytest.mark.parametrize("seed", range(400))
def test_two_runs_for_the_same_instance_never_make_two(seed):
    """I1, I4, I5: of two runs that write, then read, at least one sees the other."""
    hosts = {name: Host(name) for name in HOSTS}
    first, second = a_plan(instance("a", "h1", ("h2", "h3"))), a_plan(instance("a", "h2", ("h3", "h1")), run="r2")
    race(seed, (first, second), hosts)
    left = [record for host in hosts.values() for record in host.records.values() if record["role"] == "CLAIM"]
    assert not left


@pytest.mark.parametrize("seed", range(200))
def test_affinity_holds_in_a_race(seed):
    """I6, S41: members of an affinity group are never committed on two hosts."""
    group = {"name": "g", "uuid": "g", "policy": "affinity"}
    hosts = {name: Host(name) for name in HOSTS}
    race(
        seed,
        (a_plan(instance("a", "h1", group=group)), a_plan(instance("b", "h2", ("h1", "h3"), group=group), run="r2")),
        hosts,
    )
    homes = {name for name, host in hosts.items() for record in host.records.values() if record["role"] == "OWN"}
    assert len(homes) <= 1


@pytest.mark.parametrize("seed", range(100))
def test_last_slot_is_given_once(seed):
    """I2, C17: two runs, one place left in the fleet."""
    hosts = {name: Host(name, capacity=0) for name in HOSTS}
    hosts["h1"].capacity = 1
    plans = (a_plan(instance("a")), a_plan(instance("b"), run="r2"))
    race(seed, plans, hosts)
    states = sorted(entry["state"] for plan in plans for entry in plan["instances"].values())
    assert states == ["active", "failed"]


def test_two_runs_that_claim_one_address_on_two_hosts_never_both_build():
    """In every order of two claims and two looks: each run reads all hosts after its claim."""
    for order in sorted(set(itertools.permutations("aabb"))):
        held = {"h1": [], "h2": [], "h3": []}
        plans, steps = {}, {"a": 0, "b": 0}
        for name, host in (("a", "h1"), ("b", "h2")):
            vm = instance(name, host)
            vm["spec"]["networks"] = [{"type": "bridge", "source": "br0", "mac": "02:00:00:00:00:01", "address": None}]
            plans[name] = a_plan(vm, run="run-" + name)
            rounds.prepare_round(plans[name], lambda name=name: "token-" + name)
        for name in order:
            plan, host = plans[name], plans[name]["instances"][name]["host"]
            if steps[name] == 0:
                held[host].append(
                    {"uuid": "u-" + name, "name": name, "role": "CLAIM", "token": "token-" + name, "phase": "claimed",
                     "group": None, "project_id": "p", "generation": [0, 1], "nics": ["MAC address 02:00:00:00:00:01"]}
                )  # fmt: skip
            else:
                claims = {host: {"results": [{"uuid": "u-" + name, "claimed": True}]}}
                scans = {other: {"host_uuid": other, "instances": list(found)} for other, found in held.items()}
                commit(plan, claims, scans)
                if plan["instances"][name]["state"] == "failed":
                    assert plan["instances"][name]["error"]["code"] == "AddressTaken"
                    held[host] = []
            steps[name] += 1
        built = [name for name, plan in plans.items() if plan["instances"][name]["state"] == rounds.BUILDING]
        assert len(built) <= 1, order


def test_a_claim_carries_the_limits_of_the_decision_also_on_an_alternate():
    """C28, S23: the host tests them again."""
    first, second = {"memory_mb": 1000.0}, {"memory_mb": 2000.0}
    made = {**instance("a"), "limits": first}
    made["alternates"] = [{**made["alternates"][0], "limits": second}]
    plan = a_plan(made)
    rounds.prepare_round(plan, lambda: "t")
    assert [claim["limits"] for claims in plan["claims"].values() for claim in claims] == [first]
    hosts = {name: Host(name) for name in HOSTS}
    hosts["h1"].capacity = 0
    run_all(plan, hosts)
    assert plan["instances"]["a"]["limits"] == second
