# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the kill sweep strikes, what it replays, and which run it ends: the sweep itself runs on the lab (tests/faults)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

import chain as chains  # noqa: E402
import ends  # noqa: E402
import operations  # noqa: E402
import run  # noqa: E402
import warm  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences  # noqa: E402


def test_what_is_one_step_in_all_is_hit_once_by_each_kind_on_its_host():
    legs = [{"number": 1, "label": "Stop the instance", "changed": True, "seconds": 2.0, "took": {"act": 2.0}}]
    faults = operations.faults_of("stop", legs)
    assert [str(fault) for fault in faults] == [
        "stop:%s:1.act+1400" % kind for kind in operations.KINDS if not kind.endswith("destination")
    ]
    assert operations.described(faults[0], legs) == "Stop the instance, on the source, step act"


def test_a_backup_on_a_backup_host_is_hit_at_several_moments_on_both_hosts():
    legs = [{"number": 1, "label": "Back up", "changed": True, "seconds": 10.0, "took": {"act": 10.0}}]
    faults = operations.faults_of("backup_away", legs)
    assert len(faults) == len(operations.KINDS) * len(operations.MOMENTS_OF_ORDER)
    assert operations.Fault("backup_away", "crash-destination", 1, "act", 9000) in faults


def test_only_the_operations_that_are_asked_for_are_learned():
    assert run.may_begin_so("reboot", ["reboot:crash"]) and run.may_begin_so("reboot_hard", ["reboot"])
    assert not run.may_begin_so("stop", ["start:"]) and run.may_begin_so("stop", [])


LEGS = [
    {"number": 1, "label": "Begin the move on its source", "changed": True, "seconds": 1.2, "took": {"begin": 0.2}},
    {
        "number": 2, "label": "Take the instance back on the source and start its guest", "changed": False,
        "seconds": 10.0, "took": {"take_back": 1.0, "start": 8.0},
    },
]  # fmt: skip
STARTING = [(2, "start", 3600), (2, "start", 6000), (2, "start", 8400)]


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        (
            "controller",
            [(1, "begin", 0), (1, "begin", 1100), (2, "take_back", 0), (2, "start", 2000), *STARTING, ("end",)],
        ),
        ("crash-source", [(1, "begin", 0), (2, "take_back", 0), (2, "start", 2000), *STARTING, ("end",)]),
    ],
)
def test_a_fault_strikes_before_every_step_and_within_the_long_ones_and_at_the_end(kind, points):
    assert operations.points(kind, LEGS) == points


def test_every_fault_says_its_leg_its_step_and_its_side():
    told = [operations.described(fault, LEGS) for fault in operations.faults_of("revert", LEGS)]
    assert told[0] == "Begin the move on its source, on the source, step begin"
    assert told.count("the end") == len(operations.KINDS)


# operation -> the sequence that it walks
WALKED = {
    "resize": "resize", "confirm": "confirm", "revert": "revert", "cold": "resize", "live": "live_migrate",
    "resize_here": "resize_here", "confirm_here": "confirm_here", "revert_here": "revert_here",
    "grow_here": "resize_here", "shrink_here": "revert_here", "drain": "live_migrate", "return": "live_migrate",
}  # fmt: skip


def legs_of(operation):
    """The legs of an operation as a run would tell of them, up to where the hosts end a live migration between them. The
    long steps are those in which disks and memory are copied or a guest is stopped."""
    found = []
    for leg in sequences.SEQUENCES[WALKED[operation]].legs:
        took = {step: 9.0 if step in ("presend", "migrate_live", "freeze", "revert") else 0.1 for step in leg.steps}
        took.pop("take_over", None)
        if leg.side != sequences.FLEET:
            told = {"number": len(found) + 1, "label": leg.label, "changed": True, "took": took}
            found.append({**told, "seconds": sum(took.values()) + 1})
        if leg.may_be_last and operation != "resize_here":
            return found
    return found


def test_the_sweep_has_all_the_faults_that_it_is_said_to_have():
    assert set(WALKED) == {
        name for name, operation in operations.OPERATIONS.items() if operation.moves and not operation.loses
    }
    faults = [fault for name in WALKED for fault in operations.faults_of(name, legs_of(name))]
    assert len(set(map(str, faults))) == len(faults) >= 404


def test_an_evacuation_is_hit_on_the_host_that_takes_over_as_the_other_one_is_dead():
    act = {"number": 1, "label": "Claim room", "changed": True, "seconds": 5.0, "took": {operations.ACT: 5.0}}
    kinds = {fault.kind for fault in operations.faults_of("evacuate", [act])}
    assert kinds == {"controller", "libvirtd-destination", "crash-destination", "cut-destination"}


@pytest.mark.parametrize(
    "name",
    [
        "resize:controller:3.receive",
        "cold:cut-source:4.freeze+450",
        "live:crash-source:end",
        "live:crash-source:Hand the.tell+20",
    ],
)
def test_a_fault_is_replayed_by_its_name(name):
    assert str(operations.Fault.called(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "resize:controller", "resize:controller:3", "shrink:controller:3.claim", "resize:flood:3.claim",
        "resize:cut-source:3.claim+x", "resize:cut-source:end.claim",
    ],
)  # fmt: skip
def test_a_name_of_no_fault_is_refused(name):
    with pytest.raises(ValueError, match="names no fault"):
        operations.Fault.called(name)


def test_every_operation_begins_where_another_one_ends():
    states = {operation.end for operation in operations.OPERATIONS.values()}
    assert {operation.begin for operation in operations.OPERATIONS.values()} == states - {"gone"}
    new = {"active", *operations.BASE.values()}
    assert {operations.OPERATIONS[name].end for name in operations.PREPARE.values()} == states - {"gone", *new}
    for state, name in operations.END.items():
        assert operations.OPERATIONS[name].end == {"snapped_off": "snapped"}.get(
            state, operations.BASE.get(state, "active")
        )
    for state, name in operations.PREPARE.items():
        assert operations.OPERATIONS[name].begin == {"snapped_off": "snapped"}.get(
            state, operations.BASE.get(state, "active")
        )
        assert operations.OPERATIONS[name].end == state


def test_a_sweep_that_was_ended_goes_on_with_what_did_not_pass():
    output = "ok live:controller:1.begin+134 (Begin; 25 s, 1 done)\n  as it was\nVIOLATION cold:cut-source:2.claim (x; 9 s, 2 done)\n"
    assert run.passed(output) == {operations.Fault.called("live:controller:1.begin+134")}


def test_a_fault_that_passed_at_the_times_of_another_run_has_passed():
    def named(*names):
        return [operations.Fault.called("live:controller:" + name) for name in names]

    faults = named("1.begin", "1.begin+700", "6.migrate_live+900", "6.migrate_live+1900", "end")
    assert run.left(faults, named("1.begin+300", "6.migrate_live+2100", "2.claim", "end")) == named(
        "1.begin", "6.migrate_live+900"
    )


ANSWER = """
- name: Tell what the run has for itself
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Tell
      ansible.builtin.debug:
        msg: "word {{ lookup('env', 'BERTH_WORD') }} with {{ word }}"
    - name: Fail
      ansible.builtin.fail:
      when: word == "wrong"
"""


def test_each_run_of_a_loaded_ansible_has_its_own_words_and_its_own_end(tmp_path):
    """A fork that kept something of the run before would judge another fault than it says."""
    playbook = tmp_path / "answer.yml"
    playbook.write_text(ANSWER)
    forks = warm.Warm({"ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(tmp_path)})
    seen = []
    for word in ("first", "wrong", "third"):
        argv = ["ansible-playbook", "-i", "localhost,", playbook, "-e", json.dumps({"word": word})]
        this = forks.start(argv, {"BERTH_WORD": "of " + word})
        output = this.communicate(timeout=60)[0]
        seen.append((this.returncode, "word of %s with %s" % (word, word) in output, "first" in output))
    forks.end()
    assert seen == [(0, True, True), (2, True, False), (0, True, False)]


def test_a_run_that_is_killed_is_told_from_one_that_ends_and_the_next_goes_on(tmp_path):
    playbook = tmp_path / "wait.yml"
    playbook.write_text(ANSWER.replace("ansible.builtin.fail:", "ansible.builtin.pause: {seconds: 60}"))
    forks = warm.Warm({"ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(tmp_path)})

    def started(word):
        return forks.start(["ansible-playbook", "-i", "localhost,", playbook, "-e", "word=" + word], {})

    waiting = started("wrong")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.communicate(timeout=0.5)
    waiting.kill()
    after = started("right")
    after.communicate(timeout=60)
    forks.end()
    assert (waiting.returncode, after.returncode) == (-9, 0)


@pytest.mark.parametrize(
    ("name", "hosts_hold", "came"),
    [
        ("live:controller:3.receive_seed", ["same", "same"], "as it was"),
        ("live:cut-destination:3.receive_seed", ["same", "same"], "as it was"),
        ("live:cut-source:3.receive_seed", ["same", "other"], "converged"),
        ("live:cut-source:6.migrate_live+900", ["same", "same"], "converged"),
        ("live:libvirtd-source:3.receive_seed", ["same", "same"], "converged"),
        ("live:crash-source:3.receive_seed", ["same", "same"], "converged"),
    ],
)
def test_only_what_leaves_nothing_at_work_and_the_hosts_as_they_were_goes_without_a_re_run(
    tmp_path, monkeypatch, name, hosts_hold, came
):
    class Lab:
        hosts, state = [], tmp_path

    class Case:
        lab, shared = Lab, False

    runs = []
    held = iter(hosts_hold)
    sweep = chains.Chain(Case)
    monkeypatch.setattr(ends, "held", lambda _hosts: next(held))
    sweep.heal = lambda: None
    sweep._enter = lambda name: (operations.OPERATIONS[name], {}, 7)
    sweep._run = lambda *_all: runs.append("hit") or ""
    sweep._again = lambda *_all: runs.append("again") or ""
    sweep._play = lambda *_all: runs.append("quiet") or chains.cases.Done(0, "", "", 1.0)
    sweep._leave = lambda _operation, _written, starts: runs.append("judged")
    assert sweep.suffer(operations.Fault.called(name)) == came
    assert runs == (["hit"] if came == "as it was" else ["hit", "again", "quiet", "judged"])


@pytest.mark.parametrize("in_a_worker", [False, True], ids=["of one module", "of a leg, in the process of its task"])
def test_a_run_that_ends_before_its_fault_is_due_is_hit_at_its_end(tmp_path, monkeypatch, in_a_worker):
    harmed = tmp_path / "harmed"
    monkeypatch.syspath_prepend(str(chains.CALLBACKS))
    monkeypatch.setenv(
        "BERTH_FAULT", json.dumps({"leg": 1, "delay_ms": 200, "command": "sleep 0.2; touch %s" % harmed})
    )
    import berth_fault

    monkeypatch.setattr(berth_fault.legs_said, "before_each", lambda _begins: None)
    callback = berth_fault.CallbackModule()
    worker = os.fork() if in_a_worker else 0
    if not worker:
        callback._begin("Stop the instance")
    if in_a_worker and not worker:
        os._exit(0)
    if worker:
        os.waitpid(worker, 0)
    callback.v2_playbook_on_stats(None)
    assert harmed.exists()
