# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kill sweep would call a violation, and where it strikes: the sweep itself runs on the lab (tests/faults)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

import agreement  # noqa: E402
import chain as chains  # noqa: E402
import ends  # noqa: E402
import hosts  # noqa: E402
import invariants  # noqa: E402
import operations  # noqa: E402
import run  # noqa: E402
import warm  # noqa: E402
from hosts import View  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences  # noqa: E402

UUID = "c26570c3-6efe-583a-9532-38a5d1328ce3"


def view(role=None, state=None, files=("root.qcow2", "seed.iso", "owner"), up=True, **more):
    record = {"role": role, "generation": [1, 3], "resources": {"memory_mb": 128}, **more}
    return View(
        up=up,
        records={UUID: record} if role else {},
        domains={UUID: (state, 128)} if state else {},
        files=["%s/%s" % (UUID, name) for name in files],
    )


@pytest.mark.parametrize(
    ("rule", "first", "other", "violated"),
    [
        ("one_runs", view("OWN", "running"), view("IN", "paused"), None),
        ("one_runs", view("OWN", "running"), view("OWN", "running"), "I1"),
        ("one_runs", view("OUT", "running"), view("OWN"), "I1"),
        ("one_runs", view("IN", "running"), view(), "I1"),
        ("one_runs", view(None, "running"), view(), "I1"),
        ("claims_hold", view("OWN", "running"), view(), None),
        ("claims_hold", view("OWN", "running", resources={"memory_mb": 127}), view(), "I2"),
        ("claims_hold", view(None, "paused"), view(), "I2"),
        ("a_disk_is_there", view("OUT"), view("IN", files=["root.qcow2.incoming-1"]), None),
        ("a_disk_is_there", view("OUT", files=[], up=False), view("IN", files=[]), None),
        ("a_disk_is_there", view("OWN", files=["seed.iso", "owner", "root.qcow2.tmp"]), view("IN"), "I3"),
        ("a_disk_is_there", view("OUT", files=[]), view("OWN", files=["root.qcow2.incoming-1"]), "I3"),
        ("a_disk_is_there", view(files=[]), view(files=[]), None),
        ("a_disk_is_there", view("OWN", files=[], phase="deleting"), view(files=[]), None),
    ],
)
def test_an_invariant_that_holds_at_any_moment_is_seen_to_break(rule, first, other, violated):
    said = getattr(invariants, rule)({"kvm1": first, "kvm2": other})
    assert (said or "").partition(" ")[0] == (violated or "")


def test_on_shared_storage_a_disk_may_be_seen_by_the_other_host_alone():
    """I3: a host that was just booted has not mounted it yet."""
    views = {"kvm1": view("OWN", files=[]), "kvm2": view("IN")}
    assert invariants.a_disk_is_there(views, shared=True) is None
    assert invariants.a_disk_is_there(views).startswith("I3")


@pytest.mark.parametrize(("holder", "violated"), [(UUID, None), ("another", "I13"), (None, "I13")])
def test_a_guest_with_a_volume_that_is_not_its_own_is_seen(holder, violated):
    """I13: so no volume has two writers, and none is free while a guest has it."""
    there = view("OWN", "running")
    there.has_volumes = {UUID: ["v"]}
    there.volumes = {"v": {"spec": {"instance": holder and {"uuid": holder, "name": "mover"}}}}
    assert (invariants.one_writes({"kvm1": there}) or "").partition(" ")[0] == (violated or "")


@pytest.mark.parametrize(
    ("end", "changed", "violated"),
    [
        ("stopped", {}, None),
        ("stopped", {"power_state": "running"}, "I4"),
        ("stopped", {"permits": [UUID]}, "I4"),
        ("locked", {}, None),
        ("locked", {"lock": None}, "I4"),
        ("active", {"lock": {"by": "somebody"}}, "I4"),
        ("attached", {}, None),
        ("attached", {"live": []}, "I13"),
        ("attached", {"defined": []}, "I13"),
        ("attached", {"holder": None}, "I13"),
        ("attached", {"files": []}, "I3"),
        ("detached", {}, None),
        ("detached", {"live": ["v"]}, "I13"),
        ("detached", {"holder": UUID}, "I13"),
    ],
)
def test_a_record_that_libvirt_does_not_agree_with_is_seen(end, changed, violated):
    operation = next(operation for operation in operations.OPERATIONS.values() if operation.end == end)
    has = ["v"] * (end == "attached")
    more = {
        "power_state": "shutdown" if end == "stopped" else "running",
        "lock": {"by": "me"} if end == "locked" else None,
    }
    more.update((key, changed[key]) for key in more if key in changed)
    there = view(
        "OWN", None if end == "stopped" else "running", spec={"volumes": [{"name": "data"} for _name in has]}, **more
    )
    there.permits = changed.get("permits", [])
    there.has_volumes = {UUID: changed.get("live", has)}
    there.names_volumes = {UUID: changed.get("defined", has)}
    holder = changed.get("holder", UUID if has else None)
    spec = {"instance": holder and {"uuid": holder}}
    there.volumes = {"v": {"name": "data", "spec": spec, "resources": {"disk_gb": 1}}}
    there.volume_files = changed.get("files", ["v/disk.qcow2"])
    try:
        agreement.check(operation, there, UUID, 1)
        said = ""
    except invariants.Violation as violation:
        said = str(violation).partition(" ")[0]
    assert said == (violated or "")


def test_what_is_one_step_in_all_is_hit_once_by_each_kind_on_its_host():
    legs = [{"number": 1, "label": "Stop the instance", "changed": True, "seconds": 2.0, "took": {"act": 2.0}}]
    faults = operations.faults_of("stop", legs)
    assert [str(fault) for fault in faults] == [
        "stop:%s:1.act+1400" % kind for kind in operations.KINDS if not kind.endswith("destination")
    ]
    assert operations.described(faults[0], legs) == "Stop the instance, on the source, step act"


def test_only_the_operations_that_are_asked_for_are_learned():
    assert run.may_begin_so("reboot", ["reboot:crash"]) and run.may_begin_so("reboot_hard", ["reboot"])
    assert not run.may_begin_so("stop", ["start:"]) and run.may_begin_so("stop", [])


def test_a_generation_that_falls_is_seen():
    """I12."""

    class Host:
        name = "kvm1"

    watcher = invariants.Watcher([Host])
    for generation, said in (([1, 3], None), ([2, 0], None), ([1, 9], "I12")):
        Host.view = staticmethod(lambda generation=generation: view("OWN", generation=generation))
        assert (watcher._look() or "").partition(" ")[0] == (said or "")


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
}  # fmt: skip


def legs_of(name):
    """The legs of a sequence as a run would tell of them, up to where the hosts end a live migration between them. The
    long steps are those in which disks and memory are copied or a guest is stopped."""
    found = []
    for leg in sequences.SEQUENCES[name].legs:
        took = {step: 9.0 if step in ("presend", "migrate_live", "freeze", "revert") else 0.1 for step in leg.steps}
        took.pop("take_over", None)
        if leg.side != sequences.FLEET:
            told = {"number": len(found) + 1, "label": leg.label, "changed": True, "took": took}
            found.append({**told, "seconds": sum(took.values()) + 1})
        if leg.may_be_last:
            return found
    return found


def test_the_sweep_has_all_the_faults_that_it_is_said_to_have():
    assert set(WALKED) == {name for name, operation in operations.OPERATIONS.items() if operation.moves}
    faults = [fault for name, walked in WALKED.items() for fault in operations.faults_of(name, legs_of(walked))]
    assert len(set(map(str, faults))) == len(faults) >= 404


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
        assert operations.OPERATIONS[name].end == operations.BASE.get(state, "active")
    for state, name in operations.PREPARE.items():
        assert operations.OPERATIONS[name].begin == operations.BASE.get(state, "active")
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


class GuestsHost:
    """A host with one guest; ``said``: what its console gets while somebody waits, a piece at a time."""

    def __init__(self, directory, monkeypatch, running=True):
        self.log = directory / "console.log"
        self.log.write_text("")
        self.running, self.said = running, []
        monkeypatch.setattr(ends.time, "sleep", lambda _seconds: self.say(self.said.pop(0)) if self.said else None)

    def say(self, text):
        with open(self.log, "a", encoding="ascii") as file:
            file.write(text)

    def console(self, _uuid):
        return self.log

    def log_of_console(self, _uuid):
        return "%d bytes" % self.log.stat().st_size

    def seconds_of_cpu(self, _uuid):
        return 0.0

    def view(self):
        return view("OWN", "running" if self.running else None)


def test_a_console_log_that_stays_empty_is_told_from_one_that_was_removed(tmp_path, monkeypatch):
    class Lab:
        state = tmp_path

    host = hosts.HostFiles(Lab, "kvm1")
    log = host.console(UUID)
    log.parent.mkdir(parents=True)
    log.write_text("")
    pid = tmp_path / "root" / "proc" / "7"
    (pid / "fd").mkdir(parents=True)
    (pid / "comm").write_text("virtlogd\n")
    (pid / "fd" / "9").symlink_to(log)
    monkeypatch.setattr(hosts.HostFiles, "root", tmp_path / "root")
    assert host.log_of_console(UUID) == "0 bytes, virtlogd has open ['%s']" % log
    log.unlink()
    (pid / "fd" / "9").unlink()
    assert host.log_of_console(UUID) == "no file, virtlogd has open nothing of it"


def ack(number):
    return "berth-guest ack n=%d up=3 end\n" % number


BOOTS = "berth-guest verify result=ok:12 end\n"


def test_the_mark_is_taken_when_a_guest_that_a_power_cut_ended_writes_on(tmp_path, monkeypatch):
    """What it said before the cut does not tell that it writes: its boot would come after the mark."""
    host = GuestsHost(tmp_path, monkeypatch)
    guest = ends.Guest({"kvm1": host})
    host.say(ack(12))
    host.said = ["", BOOTS, "", ack(13)]
    guest.expect("kvm1", 10, starts=None)
    assert guest.mark("kvm1") == 13
    host.said = [ack(14)]
    guest.expect("kvm1", 13, starts=False)


def test_a_guest_that_is_started_anew_where_it_must_not_be_is_seen(tmp_path, monkeypatch):
    host = GuestsHost(tmp_path, monkeypatch)
    guest = ends.Guest({"kvm1": host})
    host.said = [BOOTS, ack(13)]
    with pytest.raises(invariants.Violation, match="started it anew"):
        guest.expect("kvm1", 12, starts=False)


@pytest.mark.parametrize(
    ("name", "running", "expected"),
    [("unlock", True, [False]), ("unlock", False, ["start", True]), ("lock", True, [False]), ("lock", False, [])],
)
def test_a_guest_that_the_sweep_starts_itself_has_to_boot(tmp_path, monkeypatch, name, running, expected):
    """A power cut before an operation that starts nothing left it off."""

    class Lab:
        hosts, state = [], tmp_path

    class Case:
        lab, shared = Lab, False

        @staticmethod
        def play(playbook, env, check=True):
            seen.append(playbook)

    seen = []
    sweep = chains.Chain(Case)
    sweep.hosts = {"kvm1": GuestsHost(tmp_path, monkeypatch, running), "kvm2": None}
    sweep.source, sweep.destination = "kvm1", "kvm2"
    sweep.guest = ends.Guest({"kvm1": sweep.hosts["kvm1"]})
    sweep.guest.expect = lambda _host, _written, starts: seen.append(starts)
    monkeypatch.setattr(chains.Chain, "_check_lock", lambda self: None)
    monkeypatch.setattr(ends, "check", lambda *_all: None)
    monkeypatch.setattr(agreement, "check", lambda *_all: None)
    sweep._leave(operations.OPERATIONS[name], 10, starts=False)
    assert seen == expected


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
