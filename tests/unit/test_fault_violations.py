# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kill sweep would call a violation: of what it sees on the hosts, and of what a guest writes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("tests/faults", "lab")]

import acknowledged  # noqa: E402
import agreement  # noqa: E402
import chain as chains  # noqa: E402
import ends  # noqa: E402
import found_guest  # noqa: E402
import hosts  # noqa: E402
import invariants  # noqa: E402
import operations  # noqa: E402
from hosts import View  # noqa: E402

UUID = "c26570c3-6efe-583a-9532-38a5d1328ce3"


def view(role=None, state=None, files=("root.qcow2", "seed.iso", "owner", "attached.json"), up=True, **more):
    record = {
        "role": role,
        "name": "mover",
        "generation": [1, 3],
        "resources": {"memory_mb": 128},
        "spec": {},
        **more,
    }
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
        (
            "a_disk_is_there",
            view("OWN", files=["seed.iso", "owner", "attached.json", "root.qcow2.tmp"]),
            view("IN"),
            "I3",
        ),
        ("a_disk_is_there", view("OUT", files=[]), view("OWN", files=["root.qcow2.incoming-1"]), "I3"),
        ("a_disk_is_there", view(files=[]), view(files=[]), None),
        ("a_disk_is_there", view("OWN", files=[], phase="deleting"), view(files=[]), None),
        ("a_disk_is_there", view("OWN", files=[], spec={"shelved": {"backup": "1"}}), view(files=[]), None),
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


def looked(watcher, *shown):
    watcher.hosts = [
        SimpleNamespace(name="kvm%d" % at, view=lambda each=each: each) for at, each in enumerate(shown, 1)
    ]
    return (watcher._look() or "").partition(" ")[0]


def test_a_guest_that_libvirt_alone_made_may_run_and_has_no_disk_of_berths():
    watcher = invariants.Watcher([])
    assert looked(watcher, view(None, "running", files=[])) == "I1"
    watcher.forget(found=UUID)
    assert looked(watcher, view(None, "running", files=[])) == looked(watcher, view("OWN", "running", files=[])) == ""
    assert looked(watcher, view("OUT", "running", files=[])) == "I1"


def test_the_generation_of_each_instance_only_grows():
    watcher = invariants.Watcher([])
    clone = view("OWN")
    clone.records["other"] = {**clone.records[UUID], "generation": [9, 9]}
    assert looked(watcher, clone) == looked(watcher, view("OWN")) == ""
    assert looked(watcher, view("OWN", generation=[1, 2])) == "I12"


@pytest.mark.parametrize(
    ("recorded", "files", "defined", "violated"),
    [
        (False, [], True, None),
        (False, [], False, "I9"),
        (True, [], True, "I5"),
        (False, ["root.qcow2"], True, "I5"),
    ],
)
def test_what_is_left_of_an_instance_that_became_a_guest_again_is_seen(recorded, files, defined, violated):
    there = View(
        up=True,
        records={found_guest.UUID: {"role": "OWN"}} if recorded else {},
        files=["%s/%s" % (found_guest.UUID, name) for name in files],
        defined=[found_guest.UUID] if defined else [],
    )
    said = None
    try:
        found_guest.check_left({"kvm1": there, "kvm2": View(up=True)}, "kvm1")
    except invariants.Violation as violation:
        said = str(violation).partition(" ")[0]
    assert said == violated


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
        ("paused", {}, None),
        ("paused", {"power_state": "running"}, "I4"),
        ("paused", {"guest": "running"}, "I4"),
        ("suspended", {}, None),
        ("suspended", {"guest": "running"}, "I4"),
        ("suspended", {"permits": [UUID]}, "I4"),
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
        ("plugged", {}, None),
        ("plugged", {"nics": 1}, "I4"),
        ("plugged", {"metadata": {}}, "I4"),
        ("active", {"nics": 2}, "I4"),
        ("shelved", {}, None),
        ("shelved", {"power_state": "running"}, "I4"),
        ("shelved", {"guest": "running"}, "I4"),
        ("shelved", {"defines": [UUID]}, "I5"),
        ("renamed", {}, None),
        ("renamed", {"name": "mover"}, "I4"),
        ("active", {"name": "other"}, "I4"),
    ],
)
def test_a_record_that_libvirt_does_not_agree_with_is_seen(end, changed, violated):
    operation = next(operation for operation in operations.OPERATIONS.values() if operation.end == end)
    has = ["v"] * (end == "attached")
    off = dict.fromkeys(("stopped", "suspended", "shelved"), "shutdown")
    more = {
        "power_state": {**off, "paused": "paused"}.get(end, "running"),
        "lock": {"by": "me"} if end == "locked" else None,
        "name": operations.OTHER if end == "renamed" else "mover",
    }
    more.update((key, changed[key]) for key in more if key in changed)
    shown = {**dict.fromkeys(off), "paused": "paused"}.get(end, "running")
    spec = {
        "volumes": [{"name": "data"} for _name in has],
        "networks": [{}] * changed.get("nics", 1 + (end == "plugged")),
        "metadata": changed.get("metadata", {"role": "db"} if end == "plugged" else {}),
    }
    there = view("OWN", changed.get("guest", shown), spec=spec, **more)
    there.permits, there.defined = changed.get("permits", []), changed.get("defines", [])
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


def test_a_generation_that_falls_is_seen():
    """I12."""

    class Host:
        name = "kvm1"

    watcher = invariants.Watcher([Host])
    for generation, said in (([1, 3], None), ([2, 0], None), ([1, 9], "I12")):
        Host.view = staticmethod(lambda generation=generation: view("OWN", generation=generation))
        assert (watcher._look() or "").partition(" ")[0] == (said or "")


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


class Console:
    """A host, as far as its guest's console goes."""

    def __init__(self, path):
        self.path = path

    def console(self, _uuid):
        return self.path

    def says(self, *events):
        with open(self.path, "a") as file:
            file.writelines("berth-guest %s end\n" % event for event in events)


@pytest.fixture
def two_consoles(tmp_path):
    consoles = {name: Console(tmp_path / name) for name in ("kvm1", "kvm2")}
    return acknowledged.Acknowledged(consoles), consoles["kvm1"], consoles["kvm2"]


def test_a_guest_that_finds_less_than_it_acknowledged_on_any_host_is_a_violation(two_consoles):
    guests, first, second = two_consoles
    first.says("verify result=none", "ack n=7")
    guests.look(UUID)
    second.says("verify result=ok:7", "ack n=9")
    guests.look(UUID)
    first.says("verify result=ok:8")
    with pytest.raises(invariants.Violation, match="acknowledged 9"):
        guests.look(UUID)


def test_a_revert_may_take_back_what_was_written_once_and_a_new_move_ends_that(two_consoles):
    guests, first, second = two_consoles
    first.says("ack n=5")
    second.says("verify result=ok:5", "ack n=9")
    guests.look(UUID)
    guests.reverts(UUID)
    second.says("verify result=ok:9")  # it was booting still
    first.says("verify result=ok:5", "ack n=6")
    guests.look(UUID)
    guests.reverts(UUID)
    guests.moves(UUID)
    second.says("verify result=ok:5")
    with pytest.raises(invariants.Violation, match="acknowledged 6"):
        guests.look(UUID)


def test_what_is_broken_is_a_violation_also_after_a_revert_and_a_new_instance_begins_anew(two_consoles):
    guests, first, _second = two_consoles
    first.says("ack n=5")
    guests.look(UUID)
    guests.forget(UUID)
    first.says("verify result=none", "ack n=1")
    guests.look(UUID)
    guests.reverts(UUID)
    first.says("verify result=bad:1:1")
    with pytest.raises(invariants.Violation):
        guests.look(UUID)
