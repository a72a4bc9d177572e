# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance with a volume goes to another host on one storage: real records, real marks and owners, a fake libvirt. Whenever
the run is killed, at most one host owns the volume, and the next run comes to the end (C26)."""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[6] / "tests" / "protocol"))

import memory_names as memory  # noqa: E402
from instance_case import Case, Killed  # noqa: E402
from memory_controller import Controller  # noqa: E402
from memory_names import D, S  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable, paths  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner, volume  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksOfAnotherHost  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import set_aside, startable, update_volumes  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live_checks, moving_host  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import VolumeStore, change  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, IN, OUT, OWN  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.volume_errors import (  # noqa: E402
    VolumeElsewhere,
    VolumeInUse,
    VolumeStays,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid  # noqa: E402

DB = volume_uuid("default", "db")
OPS = itertools.count(1)
HOSTS = {S: "kvm1", D: "kvm2"}
UUIDS = {name: "%d1111111-3c6e-5d59-9d0b-3a1c9d7f1e2a" % at for at, name in enumerate((S, D), 1)}


class Effects(moving_host.Effects):
    """What is no volume's comes and goes without a trace."""

    def nothing(self, *_arguments):
        return []

    check_disks = check_deletable = check_kept = complete = receive = nothing
    restore_disks = drop_disks = has_kept_disks = keep_disks = check_asked = stop_transfer = nothing

    def has_left(self, uuid):
        return False

    halted = has_left

    def send(self, record, targets, key, options):
        return {"shared": True}

    def presend(self, record, targets, key, options):
        return None

    def allocate(self, spec, limits):
        return {"vcpus": 1, "memory_mb": 64, "disk_gb": 1, "resources": {}}

    def disks(self, record):
        """The mark, and no manifest."""
        moving_host.storage.mark(self.pool_path(record), record, self.host.identity["uuid"])
        return []


class Run(Controller):
    """A playbook run: each of its moves has an operation of its own."""

    def _plan(self, world):
        looks, self.looks, self.op = self.looks, 0, "%032x" % next(OPS)
        super()._plan(world)
        self.looks = looks


class Fleet:
    """Two hosts, as the controller of memory.py knows a world. ``check`` is asked after each step."""

    def __init__(self, hosts, spec):
        self.hosts, self.wanted, self.options = hosts, spec, {}
        self.kind, self.channel, self.receipt = "migration", {S: None, D: None}, None
        self.kept, self.disks = {S: None}, {S: {"version": 0}}  # what memory.py counts

    def host(self, name):
        return self.hosts[name]

    def spec(self, _like):
        return self.wanted

    def run(self, action, until=lambda: False):
        controller = Run(action, None)
        controller.options = self.options
        for _turn in range(60):
            if controller.state == "run" and not until():
                controller.advance(self)
        return controller

    def went(self, action):
        """Run it to its end. -> whether anything changed"""
        done = self.run(action)
        assert done.state == "done", done.error
        return done.changed

    def volume(self, name):
        return VolumeStore.beside(self.hosts[name].store).read(DB)

    def held(self, name):
        return self.hosts[name].store.read(memory.UUID)

    def roles(self):
        """{host: (role of the instance, role of the volume)} of the hosts that know of either."""
        found = {}
        for name in self.hosts:
            held, volume = self.held(name), self.volume(name)
            if held or volume:
                found[name] = (held and held.role, volume and volume.role)
        return found

    def check(self):
        roles = self.roles()
        own = [name for name, (_held, role) in roles.items() if role == OWN]
        assert len(own) <= 1, "two hosts own the volume: %s" % roles
        assert any(role for _held, role in roles.values()), "nobody knows of the volume"
        running = [name for name, host in self.hosts.items() if host.effects.executing(memory.UUID)]
        assert set(running) <= set(own), "a guest runs on %s: %s" % (running, roles)


@pytest.fixture
def fleet(make_fleet):
    return make_fleet()


@pytest.fixture
def make_fleet(make_host, wanted, monkeypatch, tmp_path):
    """make_fleet(**more): the instance runs on S with volume db, of which the request says ``more``; D has the same pool."""
    permitted = set()
    monkeypatch.setattr(moving_host.gate, "permit", lambda uuid, *_: permitted.add(uuid))
    monkeypatch.setattr(moving_host.gate, "revoke", lambda uuid, *_: permitted.discard(uuid))
    monkeypatch.setattr(moving_host.gate, "is_permitted", lambda uuid, *_: uuid in permitted)
    monkeypatch.setattr(moving_host.disks, "swap_in", lambda *_: None)
    monkeypatch.setattr(moving_host.disks, "restore", lambda *_: None)
    monkeypatch.setattr(moving_host.disks, "manifest", lambda *_args, **_more: [])
    monkeypatch.setattr(moving_host.domain, "check_answers", lambda *_: None)
    monkeypatch.setattr(moving_host.others_jobs, "check", lambda *_: None)
    monkeypatch.setattr(moving_host.increment, "tidy", lambda *_: None)
    monkeypatch.setattr(moving_host.disk_chain, "differences", lambda *_: [])
    monkeypatch.setattr(moving_host.network, "check", lambda *_: None)
    monkeypatch.setattr(moving_host.transfer, "close", lambda *_: None)
    monkeypatch.setattr(moving_host.paths, "remove_console_logs", lambda *_: None)
    monkeypatch.setattr(claim.Ledger, "__init__", lambda *_: None)
    monkeypatch.setattr(
        claim.Ledger, "allocate", lambda *_: {"vcpus": 1, "memory_mb": 64, "disk_gb": 3, "resources": {}}
    )
    monkeypatch.setattr(claim.Ledger, "take", lambda *_: None)

    def make(**more):
        number = next(OPS)
        pool = tmp_path / ("pool%d" % number)
        made = {name: make_host("%s-%d" % (HOSTS[name], number), UUIDS[name], pool) for name in (S, D)}
        spec, seed = wanted(memory.NAME)
        entry = {"name": "db", "size_gb": 2, "delete_on_termination": False, "slot": 0, "new": True, **more}
        spec.update(pool="berth", volumes=[entry])
        assert claim.claim_all(made[S], [{"spec": spec, "token": "t1"}])[0]["error"] is None
        guest = Case(made[S], (spec, seed))
        guest.instance().made("t1", seed)
        hosts = {name: moving_host.MovingHost(host) for name, host in made.items()}
        for name, host in hosts.items():
            host.identity["name"], host.effects = name, Effects(host)
        return Fleet(hosts, guest.record.spec)

    return make


def file_of(fleet):
    return Path(fleet.host(S).compute.pool) / "volumes" / DB / "disk.qcow2"


def owner_file(fleet):
    return str(file_of(fleet).with_name("owner"))


def files(fleet):
    return sorted(path.name for path in file_of(fleet).parent.iterdir())


def test_a_volume_goes_with_its_instance_and_stays_where_it_is(fleet):
    before = file_of(fleet).read_bytes()
    fleet.went("resize")
    assert fleet.roles() == {S: (OUT, OUT), D: (OWN, OWN)}
    assert fleet.volume(D).generation > fleet.volume(S).generation
    fleet.went("confirm")
    assert fleet.roles() == {D: (OWN, OWN)} and fleet.volume(D).phase == ACTIVE
    assert file_of(fleet).read_bytes() == before and files(fleet) == ["disk.qcow2", "owner"]
    assert fleet.went("confirm") is False


def test_a_revert_gives_the_volume_back_and_forgets_nothing(fleet):
    fleet.run("resize")
    fleet.went("revert")
    assert fleet.roles() == {S: (OWN, OWN)}
    assert fleet.volume(S).spec["instance"]["name"] == memory.NAME and files(fleet) == ["disk.qcow2", "owner"]
    fleet.went("resize")
    fleet.went("confirm")
    assert fleet.roles() == {D: (OWN, OWN)}


THERE, BACK = {D: (OWN, OWN)}, {S: (OWN, OWN)}
WAITS = {S: (OUT, OUT), D: (OWN, OWN)}
# what was done, what is killed, what is run then, who has what after it
KILLS = {
    "resize": ([], "resize", "resize", [WAITS]),
    "resize, given up": ([], "resize", "revert", [BACK]),
    "confirm": (["resize"], "confirm", "confirm", [THERE]),
    "revert": (["resize"], "revert", "revert", [BACK]),
    "delete": (["resize"], "delete", "delete", [{S: (None, OWN)}, {D: (None, OWN)}]),
}


def kill_everywhere(name, make, kill_before, look):
    """``look(fleet, ended)`` after each kill, and after the run that ends what was killed."""
    before, killed, then, ends = KILLS[name]
    for number in itertools.count():
        fleet = make()
        for action in before:
            fleet.went(action)
        was_killed = kill_before(number, lambda fleet=fleet: fleet.run(killed))
        fleet.check()
        look(fleet, False)
        if not was_killed:
            break
        fleet.went(then)
        assert fleet.roles() in ends, "killed before write %d" % number
        look(fleet, True)
        assert fleet.went(then) is False
    assert number > 5, "nothing was killed"


@pytest.mark.parametrize("name", KILLS)
def test_whenever_a_run_is_killed_one_host_owns_the_volume_and_the_next_run_ends_it(name, make_fleet, kill_before):
    def look(fleet, _ended):
        assert file_of(fleet).exists()

    kill_everywhere(name, make_fleet, kill_before, look)


@pytest.fixture
def kill_before(monkeypatch):
    """kill_before(number, run): whether the run was killed before its durable write of that number."""
    left = [None]

    def counted(function):
        def called(*arguments, **options):
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    left[0] = None
                    raise Killed()
            return function(*arguments, **options)

        return called

    for name in ("write", "remove"):
        monkeypatch.setattr(durable, name, counted(getattr(durable, name)))

    def run(number, action):
        left[0] = number
        try:
            action()
        except Killed:
            return True
        finally:
            left[0] = None
        return False

    return run


def test_a_delete_of_what_a_killed_revert_has_given_back_leaves_the_volume_to_the_source(make_fleet, kill_before):
    ends = []
    for number in itertools.count():
        fleet = make_fleet()
        fleet.went("resize")
        if not kill_before(number, lambda fleet=fleet: fleet.run("revert")):
            break
        if not any(held.op for held in map(fleet.held, fleet.hosts) if held):
            continue  # the revert is over: a delete of what is at rest
        fleet.went("delete")
        ends.append(fleet.roles())
        assert ends[-1] in ({S: (None, OWN)}, {D: (None, OWN)}), "killed before write %d" % number
        (at,) = ends[-1]
        assert fleet.volume(at).spec["instance"] is None and files(fleet) == ["disk.qcow2", "owner"]
        assert volume.delete(fleet.host(at).compute, DB) is True and not file_of(fleet).exists()
    assert {S: (None, OWN)} in ends and {D: (None, OWN)} in ends


def doomed_alone(fleet, goes=False, lost=True, owned_by=UUIDS[D]):
    """A delete on the source, after it has let go: its destination is ``lost``, or answers and has nothing of the move."""
    fleet.went("resize")
    owner.write(fleet.host(S).compute.pool, DB, owned_by, paths.volume)
    source, record = fleet.host(S), fleet.held(S)
    if goes:
        spec = dict(record.spec, volumes=[dict(record.spec["volumes"][0], delete_on_termination=True)])
        source.store.compare_and_swap(record, record.next(spec=spec))
    token = {"op": record.op, "attempt": record.migration["attempt"]}
    table.run(source, memory.UUID, "erase", token, {"role": None, "lost": lost}, lost=True)
    assert fleet.volume(D).role == OWN, "nobody reached it"


def test_a_delete_without_a_lost_destination_leaves_the_volume_to_the_source(fleet):
    doomed_alone(fleet)
    assert fleet.volume(S).role == OWN and fleet.volume(S).spec["instance"] is None and file_of(fleet).exists()
    assert fleet.volume(S).generation > fleet.volume(D).generation
    with pytest.raises(VolumeElsewhere):
        startable.check(fleet.host(D).compute, fleet.held(D))


def test_a_delete_without_a_lost_destination_removes_the_volume_that_goes(fleet):
    doomed_alone(fleet, goes=True)
    assert fleet.volume(S) is None and not file_of(fleet).exists()


@pytest.mark.parametrize("lost, owned_by", [(False, UUIDS[D]), (True, "3" * 8 + UUIDS[D][8:])])
def test_a_delete_of_what_is_left_of_a_move_takes_no_volume_that_went_on(fleet, lost, owned_by):
    """The source was lost while the move was confirmed. It is back, and by now the volume is another instance's."""
    doomed_alone(fleet, goes=True, lost=lost, owned_by=owned_by)
    assert fleet.volume(S) is None and file_of(fleet).exists()
    assert owner.read(fleet.host(S).compute.pool, DB, paths.volume) == owned_by


def test_a_delete_of_what_is_left_on_a_destination_takes_no_volume_that_stayed(fleet):
    """The destination was lost and the move given up. It is back, and the source has deleted the instance and kept the volume."""
    fleet.run("resize", until=lambda: fleet.volume(D))
    there, record = fleet.host(D), fleet.held(D)
    assert record.role == IN and fleet.volume(D).role == IN
    token = {"op": record.op, "attempt": record.migration["attempt"]}
    table.run(there, memory.UUID, "erase", token, {"role": None}, lost=True)
    assert fleet.volume(D) is None and owner.read(there.compute.pool, DB, paths.volume) == UUIDS[S]


def test_a_source_that_is_back_takes_no_volume_that_a_third_host_has(fleet):
    fleet.went("resize")
    third = "3" * 8 + UUIDS[D][8:]
    owner.write(fleet.host(S).compute.pool, DB, third, paths.volume)
    with pytest.raises(VolumeElsewhere):
        fleet.host(S).effects.own_volumes(fleet.held(S))
    assert fleet.volume(S).role == OUT and owner.read(fleet.host(S).compute.pool, DB, paths.volume) == third


def test_a_delete_in_a_move_ends_though_the_files_of_the_volume_are_gone(fleet):
    fleet.went("resize")
    shutil.rmtree(file_of(fleet).parent)
    record = fleet.held(S)
    table.run(fleet.host(S), memory.UUID, "erase", {"op": record.op, "attempt": record.migration["attempt"]}, lost=True)
    assert fleet.volume(S).role == OWN and fleet.volume(S).spec["instance"] is None


@pytest.mark.parametrize("of, uuid", [(paths.instance, memory.UUID), (paths.volume, DB)])
def test_a_host_whose_records_are_old_moves_nothing_of_another_hosts(fleet, of, uuid):
    """Records that were put back from a backup, while the host that has the instance by now is silent."""
    owner.write(fleet.host(S).compute.pool, uuid, UUIDS[D], of)
    done = fleet.run("resize")
    assert ("VolumeElsewhere" if uuid == DB else "DisksOfAnotherHost") in done.error
    assert fleet.held(S).op is None and owner.read(fleet.host(S).compute.pool, uuid, of) == UUIDS[D]


def test_a_move_of_what_does_not_have_its_volume_begins_nothing(fleet):
    """So update_disks, which the hint names, can do its work."""
    store = VolumeStore.beside(fleet.host(S).store)
    change(store, store.read(DB), "detach", None)
    done = fleet.run("resize")
    assert "VolumeNotAttached" in done.error and fleet.held(S).op is None
    web = Instance(fleet.host(S).compute, memory.UUID, timeout=1)
    update_volumes.claim(web, web.at_rest("update_disks"), False, None)
    fleet.went("resize")


@pytest.mark.follows("forget_old_volume")
def test_an_old_record_of_the_volume_on_the_destination_is_told_and_goes_by_hand(fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "check", lambda: None)  # two say that it is theirs, as one is from a backup
    free = dict(fleet.volume(S).spec, instance=None)
    VolumeStore.beside(fleet.host(D).store).restore(fleet.volume(S).replace(spec=free))
    done = fleet.run("resize")
    assert "VolumeConflict" in done.error and volume_hints.forget_old_volume("db", DB) in done.error
    (Path(fleet.host(D).store.state_dir) / "volumes" / DB / "record.json").rename(tmp_path / "kept")
    fleet.went("resize")
    fleet.went("confirm")
    assert fleet.roles() == THERE


def test_a_destination_that_owned_the_volume_before_the_move_keeps_its_record_and_file_when_the_move_is_given_up(
    fleet, monkeypatch
):
    """Which of the two is the newer one is for a person to say: both come from a backup, or one does."""
    monkeypatch.setattr(fleet, "check", lambda: None)  # two say that it is theirs
    monkeypatch.setattr(moving_host.volumes.storage, "is_shared", lambda _record: False)
    before = fleet.volume(S)
    VolumeStore.beside(fleet.host(D).store).restore(before)
    done = fleet.run("resize")
    assert "VolumeConflict" in done.error and fleet.host(D).store.read(memory.UUID) is None, "the move is given up"
    assert fleet.volume(D).generation == before.generation and file_of(fleet).exists()


@pytest.mark.follows("forget_or_have_volume")
def test_a_volume_of_a_host_that_is_gone_for_good_is_had_by_who_gets_its_record(fleet):
    fleet.went("resize")
    fleet.went("confirm")
    assert Instance(fleet.host(D).compute, memory.UUID, timeout=1).absent() is True
    backup = fleet.volume(D)
    VolumeStore.beside(fleet.host(S).store).restore(backup)
    with pytest.raises(VolumeElsewhere) as caught:
        volume.delete(fleet.host(S).compute, DB)
    assert "run rm %s" % owner_file(fleet) in caught.value.hint
    Path(owner_file(fleet)).unlink()
    assert volume.delete(fleet.host(S).compute, DB) is True


def elsewhere(fleet, tmp_path):
    """D has another storage."""
    fleet.host(D).compute.connection.pool_path = str(tmp_path / "another")
    (tmp_path / "another" / "instances").mkdir(parents=True)


def seen_from_there(fleet, shared):
    """What D says to a move of the instance, whose volume is on another storage and whose disks are where ``shared`` says: the
    hint, or None."""
    move = {"type": "live-migration", "source": {"name": "kvm1"}}
    record = fleet.host(S).store.read(memory.UUID).replace(op="ab" * 16, migration=move)
    try:
        moving_host.volumes.Volumes(fleet.host(D).compute, fleet.host(D).identity, record).check_seen(shared)
    except VolumeStays as error:
        return error.hint


def test_a_host_with_a_storage_of_its_own_may_get_a_copy_of_the_volume(fleet, tmp_path):
    elsewhere(fleet, tmp_path)
    assert seen_from_there(fleet, False) is None


def test_an_instance_on_one_storage_and_its_volume_not_is_refused_until_the_volume_is_detached(fleet, tmp_path):
    elsewhere(fleet, tmp_path)
    assert seen_from_there(fleet, True) == volume_hints.detach_volumes(memory.NAME, ["db"])
    update_disks(Instance(fleet.host(S).compute, memory.UUID, timeout=1), [], [])
    assert fleet.volume(S).spec["instance"] is None and file_of(fleet).exists()
    assert seen_from_there(fleet, True) is None, "without its volume it may go there"


@pytest.mark.follows("stay_with_boot_volume")
def test_what_boots_from_a_volume_that_is_not_on_the_one_storage_stays_and_is_told_no_detach(make_fleet, tmp_path):
    fleet = make_fleet(boot_index=0)
    elsewhere(fleet, tmp_path)
    assert seen_from_there(fleet, True) == volume_hints.stay_with_boot_volume(memory.NAME, "db")
    assert fleet.host(S).effects.running(memory.UUID)
    with pytest.raises(InvalidInput, match="boots from that"):  # what it is not told to do
        update_disks(Instance(fleet.host(S).compute, memory.UUID, timeout=1), [], [])


def test_what_boots_from_a_volume_goes_to_a_host_that_sees_it_and_back(make_fleet):
    fleet = make_fleet(boot_index=0)
    fleet.went("resize")
    assert fleet.roles() == WAITS and fleet.volume(D).spec["source_image"] == fleet.volume(S).spec["source_image"]
    fleet.went("revert")
    assert fleet.roles() == BACK
    fleet.went("resize")
    fleet.went("confirm")
    assert fleet.roles() == THERE and fleet.host(D).effects.running(memory.UUID)


def test_a_host_that_sees_the_instance_and_not_its_volume_is_refused(fleet, monkeypatch):
    """A mount of the one directory alone, or a file of the same name that is another's."""
    monkeypatch.setattr(moving_host.volumes.storage, "is_one", lambda _pool, uuid, *_: uuid == memory.UUID)
    done = fleet.run("resize")
    assert "VolumeStays" in (done.error or "it was moved") and fleet.roles() == BACK


def test_a_lost_destination_that_comes_back_starts_nothing_and_its_delete_leaves_the_volume(fleet):
    """The source has the volume again; what the destination knows of it is old, and counts for nothing."""
    fleet.run("resize")
    source, there = fleet.host(S), fleet.host(D)
    volume_of_s = VolumeStore.beside(source.store)
    moving_host.volumes.Volumes(source.compute, source.identity, source.store.read(memory.UUID)).own()
    assert volume_of_s.read(DB).role == OWN and volume_of_s.read(DB).generation > fleet.volume(D).generation
    record = there.store.read(memory.UUID)
    with pytest.raises(VolumeElsewhere) as caught:
        startable.check(there.compute, record)
    assert caught.value.hint == volume_hints.forget_or_have_volume("db", DB, owner_file(fleet))
    for way in (there.effects.start, there.effects.resume):
        with pytest.raises(VolumeElsewhere):
            way(record)
    goes = dict(record.spec, volumes=[dict(record.spec["volumes"][0], delete_on_termination=True)])
    volume.release(there.compute, record.replace(spec=goes))
    assert fleet.volume(D) is None and file_of(fleet).exists() and fleet.volume(S).role == OWN


@pytest.mark.follows("forget_or_have_volume")
def test_what_an_old_backup_says_of_a_volume_gives_it_to_nobody(fleet, tmp_path):
    """The record of the source is put back after the volume went to the destination, was kept there and is free."""
    old = Path(fleet.host(S).store.state_dir) / "volumes" / DB / "record.json"
    data = old.read_bytes()
    fleet.run("resize")
    fleet.run("confirm")
    assert Instance(fleet.host(D).compute, memory.UUID, timeout=1).absent() is True
    assert fleet.roles() == {D: (None, OWN)} and fleet.volume(D).spec["instance"] is None
    old.parent.mkdir(mode=0o700, exist_ok=True)
    old.write_bytes(data)
    old.chmod(0o600)
    with pytest.raises(VolumeElsewhere) as caught:
        volume.delete(fleet.host(S).compute, DB)
    assert (
        caught.value.hint == volume_hints.forget_or_have_volume("db", DB, owner_file(fleet)) and file_of(fleet).exists()
    )
    old.rename(tmp_path / "kept")
    assert volume.delete(fleet.host(S).compute, DB) is False
    assert volume.delete(fleet.host(D).compute, DB) is True and not file_of(fleet).exists()


THIRD = "31111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def test_a_side_of_a_move_uses_no_disks_that_a_third_host_owns(fleet):
    """One side was given up as lost, the other moved the instance on; now that one is given up, and the first is back."""
    fleet.run("resize")
    pool, sides = fleet.host(D).compute.pool, {name: fleet.host(name) for name in (S, D)}
    token = {"op": fleet.held(D).op, "attempt": fleet.held(D).migration["attempt"]}
    domain_of_d = sides[D].compute.connection.domains[memory.UUID]
    domain_of_d.destroy()
    owner.write(pool, memory.UUID, THIRD)
    before = {name: fleet.held(name) for name in sides}
    record = fleet.held(D)
    for way in (sides[D].effects.start, sides[D].effects.resume):
        with pytest.raises(DisksOfAnotherHost):
            way(record)
    for name, step in ((S, "reclaim"), (D, "erase"), (S, "erase")):
        with pytest.raises(DisksOfAnotherHost):
            table.run(sides[name], memory.UUID, step, token, lost=True)
    assert {name: fleet.held(name) for name in sides} == before and owner.read(pool, memory.UUID) == THIRD
    assert not domain_of_d.isActive() and file_of(fleet).exists()


def test_a_volume_is_no_strange_disk_to_a_live_migration_and_another_file_is(fleet):
    host = fleet.host(S)
    record, found = host.store.read(memory.UUID), host.compute.connection.domains[memory.UUID]
    pool = str(host.compute.pool)
    assert live_checks.disk_problems(found.xml, record, pool, False) == []
    changed = found.xml.replace(DB, "2" * 8 + DB[8:])
    assert "a disk that is not the instance's own" in " ".join(live_checks.disk_problems(changed, record, pool, False))


def test_a_copy_with_old_records_that_is_set_aside_leaves_the_volume_to_the_host_that_has_it(fleet):
    """Else two hosts would call it theirs, and no playbook would touch it any more."""
    old = {Path(store.state_dir) / store.below / uuid: uuid for store, uuid in records_of(fleet, S)}
    data = {path: (path / "record.json").read_bytes() for path in old}
    fleet.went("resize")
    fleet.went("confirm")
    for path in old:
        path.mkdir(mode=0o700, exist_ok=True)
        (path / "record.json").write_bytes(data[path])
        (path / "record.json").chmod(0o600)
    assert fleet.roles() == {S: (OWN, OWN), D: (OWN, OWN)}
    set_aside.set_aside(Instance(fleet.host(S).compute, memory.UUID, timeout=1), 1)
    assert fleet.roles() == THERE and file_of(fleet).exists()


def records_of(fleet, name):
    store = fleet.host(name).store
    return [(store, memory.UUID), (VolumeStore.beside(store), DB)]


def test_no_other_instance_gets_a_volume_that_is_on_its_way(fleet, wanted):
    fleet.run("resize")
    spec, _seed = wanted("other")
    spec.update(pool="berth", volumes=[{"name": "db", "size_gb": 2, "delete_on_termination": False, "slot": 0}])
    for name in (S, D):
        error = claim.claim_all(fleet.host(name).compute, [{"spec": spec, "token": "t2"}])[0]["error"]
        assert error["code"] == VolumeInUse.__name__, name
        with pytest.raises(VolumeInUse):
            volume.delete(fleet.host(name).compute, DB)
