# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of create over hosts that are silent, gone from the inventory, renamed, named twice, made anew, or back from a backup:
two hosts never own one instance (I1), and with its record intact and no later note a silent host stops nobody.

The conductor, the records and the notes of the hosts are the real ones; a host answers, or not, one call at a time.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import shutil

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import state_directory, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    build_results,
    errors,
    locate,
    recovery,
    sides,
    what_to_create,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.commit import commit
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.telling import Telling, lacking
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

WEB = instance_uuid("default", "web1")
SPEC = {"uuid": WEB, "name": "web1", "project_id": "default", "group": None, "flavor": {"vcpus": 1, "memory_mb": 64}}
NAMES = ("h1", "h2", "h3")


class Host:
    """What claim, rescan, host_facts and instance do on a host, without libvirt. ``runs``: its guest is on."""

    def __init__(self, top, name):
        self.uuid, self.up, self.runs, self.domain, self.full = "id-" + name, True, False, False, False
        self.hung = False
        self.store = Store(os.path.join(str(top), name))
        state_directory.establish(self.store)

    def record(self):
        return self.store.read(WEB)

    def facts(self):
        if self.hung:
            raise RuntimeError("LibvirtTimeout: libvirt did not answer within 30 s")
        record, instances = self.record(), []
        if record:
            instances = [
                {"foreign": False, "flavor": {}, "group": None, "uuid": WEB, "name": "web1", "project_id": "default"}
                | {key: getattr(record, key) for key in ("role", "phase", "vm_state", "task_state", "power_state")}
                | {"generation": list(record.generation)}
            ]
        elif self.domain:
            instances = [{"foreign": True, "uuid": WEB, "name": WEB, "managed": True, "power_state": "running"}]
        document = {"uuid": self.uuid, "instances": instances, "state": state_directory.look(self.store)}
        notes = whereabouts.recall(self.store, [WEB])
        return {"document": document, "notes": notes, "digests": whereabouts.digests(self.store)}

    def claim(self, claims, withdraw=()):
        state_directory.check(self.store)
        for entry in withdraw:
            record = self.record()
            self.store.bury(entry["token"])
            if record and record.role == "CLAIM" and record.token == entry["token"]:
                self.store.compare_and_swap(record, None)
        return {"results": [self.claim_one(claim) for claim in claims]}

    def claim_one(self, claim):
        record = self.record()
        if self.full or record and record.role != "CLAIM" or self.store.is_buried(claim["token"]):
            error = {"code": "ClaimFailed", "message": "no", "retryable": not record}
            return {"uuid": WEB, "claimed": False, "error": error}
        epoch = max(claim["after"][0], whereabouts.epoch(self.store, WEB))
        new = Record(
            uuid=WEB, name="web1", project_id="default", role="CLAIM", generation=[epoch, 1], token=claim["token"],
            phase="claimed", spec=dict(SPEC), resources={},
        )  # fmt: skip
        if record:
            new = new.replace(generation=[max(epoch, record.generation[0]), record.generation[1] + 1])
        self.store.compare_and_swap(record, new)
        return {"uuid": WEB, "claimed": True, "token": claim["token"]}

    def rescan(self, about=(), told=None):
        notes = whereabouts.recall(self.store, about)
        record = self.record()
        held = [{"uuid": WEB, "role": record.role, "token": record.token, "project_id": "default"}] if record else []
        whereabouts.remember(self.store, told or {})
        return {"host_uuid": self.uuid, "instances": held, "notes": notes}

    def build(self, token):
        state_directory.check(self.store)
        record = self.record()
        if record and record.role == "OWN":
            self.runs = self.domain = True
            return {"changed": False, "instance": {"generation": list(record.generation)}}
        if not record or record.token != token:
            return {"error": {"code": "ClaimRevoked", "message": "no", "retryable": False}}
        epoch = record.generation[0] + 1
        made = self.store.compare_and_swap(record, record.replace(role="OWN", phase="building", generation=[epoch, 0]))
        made = self.store.compare_and_swap(made, made.next(phase="active"))
        self.runs = self.domain = True
        return {"changed": True, "instance": {"generation": list(made.generation)}}

    def delete(self, after=None):
        self.runs = self.domain = False
        record = self.record()
        if record:
            self.store.compare_and_swap(self.store.compare_and_swap(record, record.next(phase="deleting")), None)
        if after:
            whereabouts.removed(self.store, WEB, after)

    def take_back(self, after):
        """compute/record/record_copy.py has its own tests."""
        taken = Record(
            uuid=WEB, name="web1", project_id="default", role="OWN", generation=[after[0] + 1, 0], token="t",
            phase="active", spec=dict(SPEC), resources={},
        )  # fmt: skip
        record = self.record()
        self.store.compare_and_swap(record, taken) if record else self.store.restore(taken)


def call(host, method, *args):
    """The host's answer as the controller sees it."""
    if not host.up:
        return {"reason": "UNREACHABLE"}
    try:
        return getattr(host, method)(*args)
    except Exception as error:  # an error of a module is an answer without a result
        return {"reason": str(error)}


class Fleet:
    """The hosts, and the inventory: name -> host. A run of create is a generator that stops after each call to a host."""

    def __init__(self, top):
        os.makedirs(str(top), exist_ok=True)
        self.hosts = {name: Host(top, name) for name in NAMES}
        self.inventory = dict(self.hosts)
        self.runs = itertools.count(1)
        self.error = None

    def create(self, prefer=NAMES, lost=()):
        reports = {}
        for name, host in self.inventory.items():
            reports[name] = call(host, "facts")
            yield
        run = "r%d" % next(self.runs)
        fleet = read_fleet(copy.deepcopy(reports), dict)
        instances = what_to_create.sort_out({"web1": dict(SPEC)}, fleet, lost)
        instance = instances["web1"]
        if "state" not in instance:
            able = [name for name in prefer if name in fleet.documents]
            if not able:
                self.error = "NoValidHost"
                return
            others = [{"host": name, "host_uuid": fleet.documents[name]["uuid"]} for name in able[1:]]
            instance.update(
                state=rounds.CLAIMING, host=able[0], host_uuid=fleet.documents[able[0]]["uuid"], alternates=others
            )
        hosts = {name: {"uuid": uuid} for name, uuid in fleet.uuids().items()}
        hosts.update({name: {"reason": reason} for name, reason in fleet.verdicts.items()})
        digests = {name: report.get("digests") for name, report in reports.items()}
        plan = rounds.new_plan(run, instances, hosts, 3, what_to_create.told(fleet, lost))
        tokens = ("%s-%04d" % (run, number) for number in itertools.count())
        if instance["state"] != rounds.CLAIMING:
            for name, told in lacking(plan["told"], digests).items():
                call(self.inventory[name], "rescan", (), told)
                yield
        yield from self.carry_out(plan, tokens, digests, lost)
        error = plan["instances"]["web1"]["error"] or {}
        self.error, self.hint = error.get("code"), error.get("hint")

    def carry_out(self, plan, tokens, digests, lost):
        rounds.prepare_round(plan, lambda: next(tokens))
        for _round in range(rounds.MAX_ROUNDS):
            if plan["claims"]:
                claims, scans = {}, {}
                for name in sorted(set(plan["claims"]) | set(plan["withdraw"])):
                    args = plan["claims"].get(name, ()), plan["withdraw"].get(name, ())
                    claims[name] = call(self.inventory[name], "claim", *args)
                    yield
                told = Telling(plan["rescan"]["told"])
                for name in plan["reachable"]:
                    own = told.to(digests[name])
                    scans[name] = call(self.inventory[name], "rescan", plan["rescan"]["about"], own)
                    yield
                commit(plan, claims, scans, lost)
            built = {}
            for name in plan["build"]:
                entry = plan["instances"][name]
                built[name] = call(self.inventory[entry["host"]], "build", entry.get("token"))
                yield
            build_results.settle(plan, built)
            rounds.prepare_round(plan, lambda: next(tokens))
        for name, entries in plan["withdraw"].items():
            call(self.inventory[name], "claim", (), entries)
            yield
        for name in plan["reachable"] if plan["tell"] else ():
            call(self.inventory[name], "rescan", (), plan["tell"])
            yield

    def run(self, **more):
        """A run of create to its end; its error's code, or None."""
        for _step in self.create(**more):
            self.check()
        self.check()
        return self.error

    def read(self):
        return read_fleet({name: call(host, "facts") for name, host in self.inventory.items()}, dict)

    def recover_record(self, lost=()):
        """The playbook of that name; the hosts whose record was taken back."""
        seen = self.read()
        hosts = locate.locate_to_take_back(seen, "web1", WEB, lost)
        for name in hosts:
            self.inventory[name].take_back(seen.notes_on(WEB).latest)
        return hosts

    def delete(self):
        """The playbook of that name; the hosts that it was deleted on."""
        seen = self.read()
        hosts = locate.locate_to_delete(seen, "web1", WEB)
        for name in hosts:
            self.inventory[name].delete(seen.notes_on(WEB).latest)
        return hosts

    def owners(self):
        return [name for name, host in self.hosts.items() if host.runs]

    def check(self):
        assert len(self.owners()) <= 1, "I1: %s" % self.owners()

    def silence(self, *names):
        for name, host in self.hosts.items():
            host.up = name not in names


@pytest.fixture(autouse=True)
def no_disk_is_waited_for(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _fd: None)


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


def test_a_host_whose_libvirt_hangs_is_not_given_up_and_no_second_one_is_made(fleet):
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    home.hung = True
    assert fleet.run() == "InstanceUnknown"
    assert fleet.hint == hints.restart_hung_libvirt(), "its guest runs on: nobody is told to give the host up"
    assert fleet.run(lost=["h1"]) == "HostNotLost"
    home.hung = False
    assert fleet.run() is None
    assert fleet.owners() == ["h1"]


def test_what_was_never_made_is_made_while_the_libvirt_of_another_host_hangs(fleet):
    fleet.hosts["h3"].hung = True
    assert fleet.run() is None


SUBSETS = [names for size in (1, 2, 3) for names in itertools.combinations(NAMES, size)]


@pytest.mark.parametrize("silent", SUBSETS, ids="+".join)
@pytest.mark.parametrize("home", NAMES)
def test_create_run_three_times_makes_no_second_one_whoever_is_silent(fleet, home, silent):
    assert fleet.run(prefer=[home] + [name for name in NAMES if name != home]) is None
    fleet.silence(*silent)
    errors = [fleet.run() for _time in range(3)]
    if home not in silent:
        assert errors == [None] * 3, "an intact record, no later note: a silent host stops nobody"
    elif len(silent) < 3:
        assert errors == ["InstanceUnknown"] * 3
    fleet.silence()
    assert fleet.run() is None
    assert fleet.owners() == [home]


def removed(fleet, home):
    del fleet.inventory[home]


def renamed(fleet, home):
    fleet.inventory["other"] = fleet.inventory.pop(home)


def named_twice(fleet, home):
    fleet.inventory["other"] = fleet.inventory[home]


def another_uuid(fleet, home):
    """The same guest goes on, libvirt says another uuid of its host: as silent, since it is a host that was never prepared."""
    fleet.hosts[home].up = False
    fleet.inventory[home] = Host(os.path.dirname(fleet.hosts[home].store.state_dir), "new-" + home)


def copied(fleet, home):
    """A copy of all its disks answers under a name of its own, with its uuid and its records; it itself does not answer."""
    original = fleet.hosts[home]
    original.up = False
    copy_of_it = Host(os.path.dirname(original.store.state_dir), "copy-of-" + home)
    for path in ("state_dir", "identity_copy"):
        there = getattr(copy_of_it.store, path)
        (shutil.rmtree if os.path.isdir(there) else os.remove)(there)
        from_there = getattr(original.store, path)
        (shutil.copytree if os.path.isdir(from_there) else shutil.copy)(from_there, there)
    copy_of_it.uuid = original.uuid
    fleet.hosts["copy"] = fleet.inventory["copy"] = copy_of_it


def unmounted(fleet, home):
    state = fleet.hosts[home].store.state_dir
    os.rename(state, state + ".away")
    os.mkdir(state, 0o700)


def record_lost(fleet, home):
    shutil.rmtree(os.path.join(fleet.hosts[home].store.state_dir, "instances", WEB))


def record_and_domain_lost(fleet, home):
    record_lost(fleet, home)
    fleet.hosts[home].domain = False


HAPPENINGS = {
    removed: "InstanceUnknown",
    renamed: None,
    named_twice: "InstanceUnknown",
    another_uuid: "InstanceUnknown",
    copied: "InstanceUnknown",
    unmounted: "DomainWithoutRecord",
    record_lost: "DomainWithoutRecord",
    record_and_domain_lost: "RecordMissing",
}


@pytest.mark.parametrize("happens", HAPPENINGS, ids=lambda claim: claim.__name__)
@pytest.mark.parametrize("silent", [(), ("h2",), ("h3",)], ids=["all answer", "h2 silent", "h3 silent"])
def test_create_makes_no_second_one_whatever_became_of_its_host(fleet, happens, silent):
    assert fleet.run() is None
    happens(fleet, "h1")
    for name in silent:
        fleet.hosts[name].up = False
    for _time in range(3):
        assert fleet.run() == HAPPENINGS[happens]
        assert fleet.owners() == ["h1"]


@pytest.mark.follows("renamed_or_copied")
@pytest.mark.parametrize("it_is", ["a copy", "that host under another name"])
def test_a_host_that_answers_in_place_of_a_silent_one_has_its_instances_when_a_person_says_that_it_is_that_one(
    fleet, it_is
):
    assert fleet.run() is None
    copied(fleet, "h1")
    for lost in ((), ("h1",)):
        assert fleet.run(lost=lost) == "InstanceUnknown" and fleet.hint == fleet_hints.renamed_or_copied("copy", "h1")
    assert fleet.read().verdicts["copy"].endswith(fleet.hint)
    assert recovery.to_recover(fleet.read(), "web1", WEB, [])["hosts"] == []
    if it_is == "a copy":
        fleet.hosts["h1"].up = True
        assert fleet.run() == "InstanceUnknown", "both answer: nobody knows which is right"
        del fleet.inventory["copy"]
    else:
        fleet.hosts["h1"].runs = False
        del fleet.inventory["h1"]
    assert (fleet.run(), fleet.owners()) == (None, ["h1" if it_is == "a copy" else "copy"])


def test_a_host_that_answers_under_another_name_is_not_lost_by_its_old_one(fleet):
    """The other controller calls it so, or it was renamed, and that name is another machine's now."""
    assert fleet.run() is None
    renamed(fleet, "h1")
    record_and_domain_lost(fleet, "h1")
    assert fleet.run(lost=["h1"]) == "RecordMissing"
    assert fleet.run(lost=["h1"]) == "RecordMissing", "the others still know it"


@pytest.mark.parametrize("silent", SUBSETS[:6], ids="+".join)
def test_a_run_killed_after_any_call_and_then_others_with_hosts_silent_make_no_second_one(tmp_path, silent):
    """And once all answer, one run makes it, or finds it, and the next changes nothing."""
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        done = list(itertools.islice(fleet.create(), stop))
        fleet.check()
        fleet.silence(*silent)
        for prefer in (("h2", "h3", "h1"), ("h3", "h2", "h1")):
            fleet.run(prefer=prefer)
        fleet.silence()
        for _time in range(2):
            assert fleet.run(prefer=("h3", "h2", "h1")) is None, stop
        assert len(fleet.owners()) == 1
        if len(done) < stop:
            return


def interleavings(left, right):
    """Where the second run goes on for how long before the first does: all ways with two changes."""
    return [(first, second) for first in range(left) for second in range(1, right)]


@pytest.mark.parametrize("silent", ["h1", "h2", None])
def test_two_controllers_between_any_two_calls_and_a_third_run_with_a_host_silent_make_no_second_one(tmp_path, silent):
    length = len(list(Fleet(tmp_path / "length").create()))
    for first, second in interleavings(length, length):
        fleet = Fleet(tmp_path / ("%d-%d" % (first, second)))
        first_run, other = fleet.create(prefer=("h1", "h2", "h3")), fleet.create(prefer=("h2", "h1", "h3"))
        for run, calls in ((first_run, first), (other, second), (first_run, None), (other, None)):
            for _step in itertools.islice(run, calls):
                fleet.check()
            if calls == second and run is other and silent:
                fleet.silence(silent)
        fleet.run(prefer=("h3", "h2", "h1"))
        fleet.silence()
        fleet.run(prefer=("h3", "h2", "h1"))
        fleet.check()
        shutil.rmtree(tmp_path / ("%d-%d" % (first, second)))


@pytest.mark.follows("create_again")
def test_who_meets_an_instance_that_another_run_has_just_made_finds_it_by_a_create_again(tmp_path):
    met = set()
    for calls in itertools.count(1):
        fleet = Fleet(tmp_path / str(calls))
        late = fleet.create(prefer=("h2", "h1", "h3"))
        begun = list(itertools.islice(late, calls))
        assert fleet.run(prefer=("h1", "h2", "h3")) in (None, "ClaimConflict")
        for _step in late:
            fleet.check()
        met.add(fleet.error)
        if fleet.error == "InstanceExists":
            assert fleet.hint == hints.create_again()
            assert fleet.run() is None and len(fleet.owners()) == 1
        if len(begun) < calls:
            assert "InstanceExists" in met
            return


@pytest.mark.follows("create_again_when_back")
@pytest.mark.parametrize("built", [True, False], ids=["it had built it", "it had not"])
def test_a_host_that_fell_silent_over_a_build_finishes_it_by_a_create_when_it_is_back(fleet, built, monkeypatch):
    build = Host.build

    def falls_silent(host, token):
        if built:
            build(host, token)
        host.up = False
        raise OSError("UNREACHABLE")

    with monkeypatch.context() as cut:
        cut.setattr(Host, "build", falls_silent)
        assert fleet.run() == "HostUnknown" and fleet.hint == hints.create_again_when_back("h1")
    assert fleet.run() == "InstanceUnknown", "nobody makes a second one meanwhile"
    fleet.silence()
    assert fleet.run() is None and fleet.owners() == ["h1"]


def test_a_refused_run_leaves_no_trace_in_what_is_known_or_planned(fleet):
    assert fleet.run() is None
    before = [whereabouts.recall(host.store, [WEB]) for host in fleet.hosts.values()]
    fleet.silence("h1")
    assert fleet.run() == "InstanceUnknown"
    assert [whereabouts.recall(host.store, [WEB]) for host in fleet.hosts.values()] == before
    assert all(host.record() is None for host in (fleet.hosts["h2"], fleet.hosts["h3"]))


def test_a_plan_that_came_to_nothing_does_not_hold_up_a_later_run(fleet):
    for host in fleet.hosts.values():
        host.full = True
    assert fleet.run() == "MaxRetriesExceeded"
    for host in fleet.hosts.values():
        host.full = False
    assert all(not whereabouts.recall(host.store, [WEB]) for host in fleet.hosts.values())
    fleet.silence("h1")
    assert fleet.run(prefer=("h2", "h3")) is None


def test_what_was_deleted_is_made_anew_after_its_last_generation(fleet):
    assert fleet.run() is None
    last = fleet.hosts["h1"].record().generation
    fleet.hosts["h1"].delete()
    assert fleet.run(prefer=("h2", "h3", "h1")) is None
    assert fleet.owners() == ["h2"] and fleet.hosts["h2"].record().generation > last
    fleet.silence("h1")
    assert fleet.run() is None and fleet.owners() == ["h2"]


def test_a_host_that_is_lost_for_good_is_replaced_and_owns_nothing_when_it_is_back(fleet):
    assert fleet.run() is None
    fleet.silence("h1")
    fleet.hosts["h1"].runs = False  # switched off, as the person said
    assert fleet.run() == "InstanceUnknown"
    assert fleet.run(lost=["h1"]) is None and fleet.owners() == ["h2"]
    assert fleet.run() is None, "the hosts remember that it was lost"
    assert fleet.hosts["h2"].record().generation > fleet.hosts["h1"].record().generation
    fleet.silence()
    assert fleet.run() == "DuplicateInstance"
    fleet.silence("h2")
    assert fleet.run() == "RecordOutdated", "the copy that came back is the older one"
    assert fleet.owners() == ["h2"]


@pytest.mark.parametrize("runs_after", [0, 1, 2])
def test_a_run_with_a_lost_host_killed_after_any_call_leaves_its_old_copy_at_rest_while_the_new_owner_is_silent(
    tmp_path, runs_after
):
    made = 0
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        assert fleet.run() is None
        fleet.silence("h1")
        fleet.hosts["h1"].runs = False  # switched off, as the person said
        done = list(itertools.islice(fleet.create(prefer=("h2", "h3"), lost=["h1"]), stop))
        for _time in range(runs_after):
            fleet.run(prefer=("h2", "h3"), lost=["h1"])
        if fleet.owners() == ["h2"]:
            made += 1
            fleet.silence("h2")
            with pytest.raises((errors.InstanceUnknown, errors.RecordOutdated)):
                locate.locate(fleet.read(), "web1", WEB)
            with contextlib.suppress(errors.RecordOutdated):
                assert recovery.to_recover(fleet.read(), "web1", WEB, [])["hosts"] == [], stop
        if len(done) < stop:
            assert made > 1
            return


def test_a_host_that_was_given_up_and_is_back_has_its_instance_when_the_run_that_gave_it_up_made_nothing(tmp_path):
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        assert fleet.run() is None
        fleet.silence("h1")
        done = list(itertools.islice(fleet.create(prefer=("h2", "h3"), lost=["h1"]), stop))
        if fleet.hosts["h2"].record() or len(done) < stop:
            return
        fleet.silence()
        assert fleet.run() is None and fleet.owners() == ["h1"], stop


def test_what_a_lost_host_had_is_made_anew_after_its_epoch_also_when_another_run_gave_the_host_up(fleet):
    """A run over other instances has all hosts forget what the lost one owned."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    home.store.compare_and_swap(home.record(), home.record().next())
    fleet.silence("h1")
    home.runs = False  # switched off, as the person said
    for name in ("h2", "h3"):
        fleet.hosts[name].rescan((), {"lost": ["id-h1"]})
    assert fleet.run(prefer=("h2", "h3")) is None and fleet.owners() == ["h2"]
    assert fleet.hosts["h2"].record().generation > home.record().generation
    assert all(note["after"] == 0 for note in whereabouts.recall(fleet.hosts["h3"].store, [WEB]).values())
    fleet.silence("h2")
    assert fleet.run() == "RecordOutdated" and fleet.owners() == ["h2"]


def moved(fleet, source, destination, writes=0):
    """A move that is confirmed: only its two sides know of it. ``writes``: of the source after it let go."""
    here, there = fleet.hosts[source], fleet.hosts[destination]
    record, epoch = here.record(), here.record().generation[0] + 1
    whereabouts.handed_over(
        here.store, record.replace(generation=[epoch, writes]), {"uuid": there.uuid, "name": destination}
    )
    shutil.rmtree(os.path.join(here.store.state_dir, "instances", WEB))
    here.runs = here.domain = False
    there.store.restore(record.replace(generation=[epoch, 1]))
    there.runs = there.domain = True


def test_where_an_instance_was_moved_to_is_known_to_all_after_the_next_run_of_create(fleet):
    assert fleet.run() is None
    moved(fleet, "h1", "h2")
    assert fleet.run() is None
    fleet.silence("h1", "h2")
    assert fleet.run(prefer=("h3",), lost=["h1"]) == "InstanceUnknown" and fleet.owners() == ["h2"]
    fleet.silence()
    seen = [whereabouts.digests(host.store) for host in fleet.hosts.values()]
    assert len(list(fleet.create())) == len(list(fleet.create())), "once told, no host is asked a second time"
    assert seen == [whereabouts.digests(host.store) for host in fleet.hosts.values()]


def says_that_it_is_gone(fleet, liar, after=9):
    host = fleet.hosts[liar]
    facts, rescan = host.facts, host.rescan
    lie = {"notes": {WEB: {"known": None, "planned": [], "after": 0, "gone": [after, 0]}}}
    host.facts, host.rescan = lambda: {**facts(), **lie}, lambda *args: {**rescan(*args), **lie}


def test_that_an_instance_is_gone_is_believed_of_no_host_that_nobody_knows_to_have_had_it(fleet):
    """Its owner is silent, and its guest runs on."""
    assert fleet.run(prefer=("h2", "h1", "h3")) is None
    fleet.silence("h2")
    says_that_it_is_gone(fleet, "h1")
    assert fleet.run(prefer=("h3", "h1")) == "InstanceUnknown"
    assert fleet.owners() == ["h2"]
    assert what_to_create.told(fleet.read())["gone"] == {}, "nor is it spread"


@pytest.mark.follows("take_out_miscounting")
@pytest.mark.parametrize("lie", ["gone", "left", "after", "known"])
def test_no_new_owner_counts_on_from_a_number_that_no_instance_reaches(fleet, lie):
    """The highest number that a reply may have: the next one is none, and the honest host that has it counts for nothing."""
    says_of_itself(fleet, "h1", lie, 1 << 40)
    if lie == "known":  # of a host that a person has given up
        assert fleet.run(prefer=("h2",), lost=["h9"]) == "EpochImplausible"
    else:
        assert fleet.run(prefer=("h2",)) == "EpochImplausible"
    assert fleet.owners() == [] and fleet.hosts["h2"].record() is None
    assert fleet.hint == fleet_hints.take_out_miscounting("h1")
    del fleet.inventory["h1"]
    assert fleet.run(prefer=("h2",)) is None and fleet.hosts["h2"].record().generation[0] == 1


def test_what_a_host_miscounts_is_not_spread_and_stops_no_owner_that_answers(fleet):
    assert fleet.run(prefer=("h2", "h3")) is None
    says_of_itself(fleet, "h1", "gone", 1 << 40)
    assert fleet.run() is None and fleet.delete() == ["h2"]
    removed = whereabouts.recall(fleet.hosts["h2"].store, [WEB])[WEB]["gone"]
    assert removed[0] == 1


def test_an_owner_that_miscounts_is_not_told_to_the_others(fleet):
    """They would give the number back in their own replies, and go on from it."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    home.store.compare_and_swap(home.record(), home.record().replace(generation=[1 << 40, 0]))
    assert what_to_create.told(fleet.read())["known"] == {}


def says_of_itself(fleet, liar, part, epoch):
    number = {"after": epoch, "known": {"host": "h9", "host_uuid": "id-h9", "generation": [epoch, 0]}}
    lie = {"known": None, "planned": [], "after": 0, "gone": None, "left": None, part: number.get(part, [epoch, 0])}
    host = fleet.hosts[liar]
    facts, rescan = host.facts, host.rescan
    host.facts = lambda: {**facts(), "notes": {WEB: lie}}
    host.rescan = lambda *args: {**rescan(*args), "notes": {WEB: lie}}


def test_that_it_is_gone_is_believed_of_the_host_that_it_was_moved_to(fleet):
    """Its earlier owner is silent."""
    assert fleet.run() is None
    moved(fleet, "h1", "h2")
    assert fleet.run() is None
    last = fleet.hosts["h2"].record().generation
    fleet.hosts["h2"].delete(last)
    fleet.silence("h1")
    assert fleet.run(prefer=("h3", "h2")) is None and fleet.owners() == ["h3"]


def test_what_was_moved_and_deleted_while_a_host_was_silent_is_made_anew_when_that_host_is_back(fleet):
    """It remembers the first owner, which gave the instance away; that the last one had it nobody else remembers."""
    assert fleet.run() is None
    fleet.silence("h3")
    moved(fleet, "h1", "h2")
    assert fleet.run() is None and fleet.delete() == ["h2"]
    removed = whereabouts.recall(fleet.hosts["h2"].store, [WEB])[WEB]["gone"]
    fleet.hosts["h1"].rescan((), {"gone": {"id-h2": {WEB: removed}}})
    fleet.silence()
    assert fleet.run(prefer=("h3",)) is None and fleet.owners() == ["h3"]
    assert list(fleet.hosts["h3"].record().generation) > list(removed)


@pytest.mark.parametrize("told", [(), ("h1",), ("h1", "h3")])
def test_what_was_read_between_release_and_takeover_hides_no_owner_from_later_runs(fleet, told):
    """Then neither side owns it, and all hosts are told of the source, at the generation with which it let go."""
    assert fleet.run() is None
    epoch = fleet.hosts["h1"].record().generation[0] + 1
    for name in told:
        fleet.hosts[name].rescan((), {"known": {"id-h1": {WEB: [epoch, 0]}}})
    moved(fleet, "h1", "h2")
    fleet.silence("h2")
    assert fleet.run(prefer=("h3",)) == "InstanceUnknown" and fleet.owners() == ["h2"]


def test_a_host_that_gave_an_instance_away_makes_no_record_of_its_owner_an_old_one(fleet):
    assert fleet.run() is None
    moved(fleet, "h1", "h2", writes=9)
    assert fleet.recover_record() == []


def test_what_was_moved_to_a_host_that_is_silent_now_is_not_made_anew(fleet):
    """Who remembers the first owner and asks it learns that it gave the instance away, and to whom."""
    assert fleet.run() is None
    fleet.silence("h3")
    moved(fleet, "h1", "h2")
    fleet.silence("h2")
    assert fleet.run(prefer=("h3",)) == "InstanceUnknown" and fleet.owners() == ["h2"]


@pytest.mark.parametrize("noticed", ["by the host", "by the others"])
def test_a_state_directory_from_an_old_backup_starts_nothing_while_the_owner_is_silent(fleet, noticed):
    """The instance is moved by delete and create; its old host then gets its directory back as it was before."""
    assert fleet.run() is None
    state = fleet.hosts["h1"].store.state_dir
    shutil.copytree(state, state + ".backup")
    copied = shutil.copy(fleet.hosts["h1"].store.identity_copy, state + ".copy")
    fleet.hosts["h1"].delete()
    assert fleet.run(prefer=("h2", "h3")) is None and fleet.owners() == ["h2"]
    shutil.rmtree(state)
    os.rename(state + ".backup", state)
    if noticed == "by the others":
        shutil.copy(copied, fleet.hosts["h1"].store.identity_copy)  # the backup was of the whole host
    fleet.silence("h2")
    assert fleet.run() == {"by the host": "InstanceUnknown", "by the others": "RecordOutdated"}[noticed]
    assert fleet.owners() == ["h2"]


@pytest.mark.follows("mount_state_directory")
@pytest.mark.parametrize("silent", [("h1",), ("h1", "h3")], ids=" and ".join)
def test_a_state_directory_of_another_host_owns_nothing_by_a_persons_word_that_it_is_the_newest(fleet, silent):
    """Restored on the wrong host, or the disk was put into another machine: the generation is the same."""
    assert fleet.run() is None
    here = fleet.hosts["h2"].store
    shutil.rmtree(here.state_dir)
    shutil.copytree(fleet.hosts["h1"].store.state_dir, here.state_dir)
    fleet.silence(*silent)
    assert "another one than this host was prepared with" in fleet.read().verdicts["h2"]
    state_directory.establish(here, accept=True)
    assert (fleet.run(), fleet.owners()) == ("RecordOutdated", ["h1"])
    assert fleet.hint == hints.bring_back_or_lost(["h1"])
    with pytest.raises(errors.RecordOutdated):
        locate.locate(fleet.read(), "web1", WEB)
    fleet.hosts["h1"].runs = False
    assert (fleet.run(lost=["h1"]), fleet.owners()) == (None, ["h2"])


def test_of_a_host_whose_records_do_not_count_it_is_told_why_and_what_to_run(fleet):
    assert fleet.run() is None
    unmounted(fleet, "h1")
    fleet.hosts["h1"].domain = False
    with pytest.raises(errors.InstanceUnknown) as told:
        locate.locate(fleet.read(), "web1", WEB)
    assert "last seen on h1, whose records do not count: the state directory" in str(told.value)
    assert "kvm_host_accept_state_directory" in told.value.hint and "lost_hosts" not in told.value.hint


@pytest.mark.follows("restore_record")
@pytest.mark.parametrize("happens", [record_lost, record_and_domain_lost], ids=lambda claim: claim.__name__)
def test_a_lost_record_is_restored_from_a_backup_or_taken_back_or_the_instance_deleted(fleet, tmp_path, happens):
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    backup = shutil.copytree(home.store.state_dir, str(tmp_path / "backup"))
    happens(fleet, "h1")
    assert fleet.run() == HAPPENINGS[happens]
    if happens is record_lost:
        assert fleet.recover_record() == ["h1"]
        assert (fleet.run(), fleet.owners(), fleet.recover_record()) == (None, ["h1"], [])
    else:
        with pytest.raises(errors.RecordMissing, match="recover_record --limit web1"):
            fleet.recover_record()
        shutil.rmtree(home.store.state_dir)
        shutil.copytree(backup, home.store.state_dir)
        assert (fleet.run(), fleet.owners()) == (None, ["h1"])
    happens(fleet, "h1")
    assert fleet.delete() == ["h1"]
    assert (fleet.run(prefer=("h2", "h3")), fleet.owners()) == (None, ["h2"])


def test_a_record_is_not_taken_back_while_another_host_may_have_the_instance(fleet):
    assert fleet.run() is None
    record_lost(fleet, "h1")
    fleet.silence("h3")
    with pytest.raises(errors.InstanceUnknown):
        fleet.recover_record()
    fleet.silence()
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h9": "h9"}, "known": {"id-h9": {WEB: [4, 0]}}})
    with pytest.raises(errors.InstanceUnknown, match="last seen on h9"):
        fleet.recover_record()
    assert fleet.recover_record(lost=["h9"]) == ["h1"]
    fleet.hosts["h2"].domain = True
    record_lost(fleet, "h1")
    with pytest.raises(errors.DuplicateInstance):
        fleet.recover_record()


@pytest.mark.follows("undefine_copies")
@pytest.mark.parametrize("owned", [True, False], ids=["beside the owner's", "and no record anywhere"])
def test_a_guest_that_somebody_migrated_by_hand_goes_as_the_hint_says_and_the_instance_stays(fleet, owned):
    """keep_one chooses between two records, and there is at most one."""
    assert fleet.run() is None
    if not owned:
        record_lost(fleet, "h1")
    fleet.hosts["h3"].domain = True
    with pytest.raises(errors.DuplicateInstance) as told:
        fleet.recover_record()
    hosts = ["h3"] if owned else ["h1", "h3"]
    assert told.value.hint == state_hints.undefine_copies(WEB, hosts, owned)
    fleet.hosts["h3"].domain = False  # virsh undefine
    assert fleet.recover_record() == ([] if owned else ["h1"])
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])


@pytest.mark.follows("undefine_copies")
def test_an_instance_that_is_there_gets_no_other_name_for_a_domain_that_somebody_made_with_its_uuid(fleet):
    assert fleet.run() is None
    fleet.hosts["h3"].domain = True
    seen = fleet.read()
    seen.strays[WEB][0]["managed"] = False  # as virsh define makes it of a definition without berth's mark
    with pytest.raises(errors.DomainWithoutRecord) as told:
        locate.locate(seen, "web1", WEB)
    assert told.value.hint == state_hints.undefine_copies(WEB, ["h3"], True)
    fleet.hosts["h3"].domain = False
    assert locate.locate(fleet.read(), "web1", WEB) == ["h1"]


def test_a_record_from_an_old_backup_that_is_the_newest_there_is_goes_on_by_a_persons_word(fleet):
    assert fleet.run() is None
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h1": "h1"}, "known": {"id-h1": {WEB: [1, 9]}}})
    fleet.hosts["h1"].runs = False
    assert fleet.run() == "RecordOutdated"
    assert fleet.recover_record() == ["h1"]
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])


@pytest.mark.parametrize("action", ["start", "delete", "recover_record", "move"])
def test_every_operation_looks_at_what_the_others_remember(fleet, action):
    """The record that answers is old: another host owns the instance, and is silent."""
    assert fleet.run() is None
    newer = {"hosts": {"id-h2": "h2"}, "known": {"id-h2": {WEB: [2, 0]}}}
    whereabouts.remember(fleet.hosts["h3"].store, newer)
    fleet.silence("h2")
    seen = fleet.read()
    here = {"role": "OWN", "generation": [1, 0]}
    operations = {
        "start": lambda: locate.locate(seen, "web1", WEB),
        "delete": lambda: locate.locate_to_delete(seen, "web1", WEB),
        "recover_record": lambda: locate.locate_to_take_back(seen, "web1", WEB, ["h9"]),
        "move": lambda: sides.check(seen, WEB, "web1", ("h1", here, None, sides.NOTHING)),
    }
    expected = errors.InstanceUnknown if action == "recover_record" else errors.RecordOutdated
    with pytest.raises(expected, match="h2"):
        operations[action]()


@pytest.mark.parametrize("action", ["start", "delete", "move"])
def test_nothing_is_done_with_an_owner_that_miscounts(fleet, action):
    """Whoever takes the instance over from it would count on from there: its replies would be refused."""
    assert fleet.run() is None
    home, here = fleet.hosts["h1"], {"role": "OWN", "generation": [1 << 40, 0]}
    home.store.compare_and_swap(home.record(), home.record().replace(generation=here["generation"]))
    seen = fleet.read()
    operations = {
        "start": lambda: locate.locate(seen, "web1", WEB),
        "delete": lambda: locate.locate_to_delete(seen, "web1", WEB),
        "move": lambda: sides.check(seen, WEB, "web1", ("h1", here, None, sides.NOTHING)),
    }
    with pytest.raises(errors.EpochImplausible) as caught:
        operations[action]()
    assert caught.value.hint == fleet_hints.take_out_miscounting("h1")


@pytest.mark.parametrize("action", ["start", "move"])
def test_with_a_domain_without_a_record_anywhere_it_is_neither_started_nor_moved(fleet, action):
    assert fleet.run() is None
    fleet.hosts["h3"].domain = True
    seen, here = fleet.read(), {"role": "OWN", "generation": [1, 0]}
    with pytest.raises(errors.DomainWithoutRecord, match="h3 has the domain %s" % WEB):
        if action == "start":
            locate.locate(seen, "web1", WEB)
        else:
            sides.check(seen, WEB, "web1", ("h1", here, None, sides.NOTHING))
