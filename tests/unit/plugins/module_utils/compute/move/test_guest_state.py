# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that stands still, and one whose QEMU hangs: what a move makes of them, and that nothing waits for ever (I3, I4)."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import fake_libvirt  # noqa: E402
import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402
from memory_walks import walk  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.connection import Bounded, LibvirtTimeout  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksBusy, FileNotUsable, GuestHung  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    domain,  # noqa: E402
    health,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import (
    block_jobs,
    left_backup,
    live,
    moving_host,
    onlooker,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import hints, state_hints  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import move_errors as errors  # noqa: E402

S, D = memory_names.S, memory_names.D
RUNNING, PAUSED, SHUTOFF = 1, 3, 5
USER, MIGRATION, MIGRATED = 1, 2, 3
NO_JOB, JOB = 0, 2
MIGRATION_IN, OUT_OF_HERE, BACKUP = 4, 5, 9  # libvirt's virDomainJobOperation
LIBRARY = {
    "VIR_ERR_NO_DOMAIN": 42, "VIR_ERR_OPERATION_TIMEOUT": 68, "VIR_FROM_RPC": 7, "VIR_DOMAIN_PAUSED": PAUSED,
    "VIR_DOMAIN_PAUSED_USER": USER, "VIR_DOMAIN_SHUTOFF": SHUTOFF, "VIR_DOMAIN_SHUTOFF_MIGRATED": MIGRATED,
    "VIR_DOMAIN_JOB_NONE": NO_JOB, "VIR_DOMAIN_JOB_OPERATION_UNKNOWN": 0,
    "VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT": OUT_OF_HERE, "VIR_DOMAIN_CONTROL_OCCUPIED": 2,
}  # fmt: skip


class LibvirtError(Exception):
    def __init__(self, code):
        super().__init__("libvirt says %d" % code)
        self.code = code

    def get_error_code(self):
        return self.code

    def get_error_domain(self):
        return 0


class Guest:
    """A domain of libvirt's; ``stuck`` are the calls that its hung QEMU does not answer."""

    nodes = {}  # of its QEMU

    def __init__(self, now=RUNNING, reason=USER, job=NO_JOB, stuck=(), operation=OUT_OF_HERE):
        self.operation = operation
        self.now, self.reason, self.job, self.stuck, self.called = now, reason, job, stuck, []

    def __getattr__(self, name):
        def call(*_arguments):
            self.called.append(name)
            if name in self.stuck:
                time.sleep(5)
            stats = {"type": self.job, "operation": self.operation}
            return {
                "jobInfo": [self.job],
                "jobStats": stats,
                "isActive": self.now != SHUTOFF,
                "controlInfo": [0, 0, 0],
            }.get(name)

        return call

    def name(self):
        return memory_names.UUID

    def state(self):
        return [self.now, self.reason]

    def resume(self):
        self.now = RUNNING

    def abortJob(self):  # noqa: N802 -- libvirt's own name
        self.called.append("abortJob")
        if "abortJob" in self.stuck:
            raise LibvirtError(LIBRARY["VIR_ERR_OPERATION_TIMEOUT"])
        self.job = NO_JOB


@pytest.fixture(autouse=True)
def library(monkeypatch):
    fake = SimpleNamespace(libvirtError=LibvirtError, **LIBRARY)
    monkeypatch.setattr(connection, "libvirt", fake)
    monkeypatch.setattr(connection, "libvirt_qemu", fake_libvirt.QemuPart)
    monkeypatch.setattr(block_jobs, "CANCEL_SECONDS", 0.3)
    monkeypatch.setattr(health, "ANSWER", 0.2)
    return fake


@pytest.fixture
def of(monkeypatch):
    """of(guest) makes it the one that libvirt knows, with limits that a test can wait for."""

    def know(guest):
        found = Bounded(guest, 0.2)
        monkeypatch.setattr(domain, "find", lambda _connection, _uuid: found)
        return found

    return know


HALTED = {
    "stopped by a migration that was cut off": (PAUSED, MIGRATION, NO_JOB, True),
    "stopped by somebody": (PAUSED, USER, NO_JOB, True),
    "on its way": (PAUSED, MIGRATION, JOB, False),
    "runs": (RUNNING, USER, NO_JOB, False),
    "has gone over": (SHUTOFF, MIGRATED, NO_JOB, False),
}


@pytest.mark.parametrize("case", HALTED)
def test_a_guest_is_halted_where_it_stands_and_nothing_is_under_way(of, case):
    now, reason, job, expected = HALTED[case]
    of(Guest(now, reason, job))
    assert onlooker.is_halted(None, memory_names.UUID) is expected


def test_of_a_guest_that_does_not_answer_it_is_not_said_that_it_is_halted(of):
    of(Guest(PAUSED, stuck=("jobStats",)))
    assert onlooker.is_halted(None, memory_names.UUID) is False


@pytest.mark.parametrize("reason", [USER, MIGRATION])
def test_when_a_migration_is_given_up_the_guest_goes_on_whatever_stopped_it(of, reason):
    guest = Guest(PAUSED, reason, JOB)
    of(guest)
    live.abort(None, memory_names.UUID)
    assert (guest.now, guest.job) == (RUNNING, NO_JOB)


def test_a_migration_that_goes_on_all_the_same_is_not_called_given_up(of):
    guest = Guest(PAUSED, MIGRATION, JOB)
    guest.abortJob = lambda: None
    of(guest)
    with pytest.raises(errors.MigrationError, match="still running"):
        live.abort(None, memory_names.UUID)
    assert guest.now == PAUSED


def test_a_migration_whose_destination_lost_its_power_is_given_up_by_cutting_its_connections(of):
    """QEMU waits for TCP before the job ends that was told to."""
    guest = Guest(PAUSED, MIGRATION, JOB)
    guest.nodes = {"migration-vda-storage": ("nbd", None), "libvirt-1-storage": ("/pool/root.qcow2", "a device")}
    guest.abortJob = lambda: None
    guest.cut = lambda names: names == ["migration-vda-storage"] and setattr(guest, "job", NO_JOB)
    of(guest)
    live.abort(None, memory_names.UUID)
    assert (guest.now, guest.job) == (RUNNING, NO_JOB)


# ---- the source's libvirt dies as the guest has arrived --------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["local", "shared"])
def cut_off(request):
    """The guest has arrived, paused, and stands on the source too, which has not let go."""
    world = memory.World(kind="live-migration", shared=request.param)
    world.lose_finish = "halted"
    killed = memory_controller.Controller("resize", "op-resize")
    while not killed.error:
        killed.advance(world)
    assert world.guest == {S: memory_names.PAUSED, D: memory_names.PAUSED}
    world.lose_finish = False
    return world


def test_a_migration_that_is_run_again_brings_the_guest_over_with_all_it_had(cut_off):
    """I3: it goes on on the source, which owns it, and is then migrated anew; nothing is started afresh."""
    again = walk(cut_off, "resize")
    assert again.state == "done", getattr(again, "error", None)
    assert cut_off.guest == {S: memory_names.OFF, D: memory_names.ON} and cut_off.records[S] is None


def test_a_revert_lets_the_guest_go_on_where_it_was(cut_off):
    assert walk(cut_off, "abort").state == "done"
    assert cut_off.guest == {S: memory_names.ON, D: memory_names.OFF} and cut_off.records[D] is None


def test_one_that_stands_is_let_go_on_by_the_start_that_ends_a_move(cut_off):
    """A paused guest is not a running one."""
    record = cut_off.records[S]
    token = {"op": record["op"], "attempt": record["migration"]["attempt"]}
    table.run(cut_off.host(S), memory_names.UUID, "abort", token)
    token["attempt"] += 1
    assert cut_off.guest[S] == memory_names.PAUSED
    changed, _said = table.run(cut_off.host(S), memory_names.UUID, "start", token)
    assert changed and cut_off.guest[S] == memory_names.ON


# ---- another run's migration is under way ----------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True], ids=["local", "shared"])
def test_one_run_migrates_a_guest_whose_migration_by_another_run_fails_at_its_end(shared):
    """The copy that has arrived by then is removed before this run begins its own: libvirt takes no second one."""
    world = memory.World(kind="live-migration", shared=shared)
    killed = memory_controller.Controller("resize", "op-resize")
    while not killed.is_before("migrate_live"):
        killed.advance(world)
    world.guest[D], world.on_its_way = memory_names.PAUSED, True
    again = walk(world, "resize")
    assert again.state == "done", again.error
    assert world.guest == {S: memory_names.OFF, D: memory_names.ON} and world.records[S] is None


# ---- QEMU hangs ------------------------------------------------------------------------------------------------------


@pytest.mark.follows("hung_guest")
@pytest.mark.parametrize("reason", ["it is asked and is silent", "its process is stopped"])
def test_a_guest_that_does_not_answer_begins_no_move_until_it_does(of, monkeypatch, reason):
    guest = Guest(stuck=("blockStatsFlags",) if "silent" in reason else ())
    of(guest)
    if "stopped" in reason:
        monkeypatch.setattr(health, "hung", lambda found: {uuid: reason for uuid in found})
    began = time.monotonic()
    with pytest.raises(GuestHung, match="run berth.kvm.stop, which ends web1") as raised:
        health.check_answers(None, memory_names.UUID, "web1", "kvm1")
    assert time.monotonic() - began < 2 and "kvm1" in str(raised.value)
    monkeypatch.undo()


def test_one_that_answers_or_is_off_is_not_called_hung(of):
    of(Guest())
    health.check_answers(None, memory_names.UUID, "web1", "kvm1")
    guest = Guest(SHUTOFF, stuck=("blockStatsFlags",))
    of(guest)
    health.check_answers(None, memory_names.UUID, "web1", "kvm1")
    assert "blockStatsFlags" not in guest.called


def test_a_call_to_libvirt_in_a_step_ends_in_time_and_says_what_is_not_known(monkeypatch):
    world = memory.World()
    bounded = Bounded(Guest(stuck=("backupBegin",)), 0.2)
    monkeypatch.setattr(memory.Effects, "disks", lambda *_all: bounded.backupBegin())
    began = time.monotonic()
    with pytest.raises(LibvirtTimeout, match="begin of .* on S: libvirt's backupBegin .* It is unknown"):
        table.run(world.host(S), memory_names.UUID, "begin", {"op": "op0", "attempt": 0}, spec=memory_names.NEW, destination={
            "uuid": "host-D", "name": D})  # fmt: skip
    assert time.monotonic() - began < 2


@pytest.mark.follows("make_room_for_file")
def test_a_step_that_meets_a_full_file_system_says_so_and_the_move_goes_to_another_host_or_is_run_again(monkeypatch):
    world = memory.World()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/pool/instances/web1")
    token, more = {"op": "op0", "attempt": 0}, {"spec": memory_names.NEW, "destination": {"uuid": "host-D", "name": D}}

    def refused(*_all):
        raise full

    monkeypatch.setattr(memory.Effects, "disks", refused)
    with pytest.raises(FileNotUsable, match="begin of .* on S: /pool/instances/web1: No space left") as raised:
        table.run(world.host(S), memory_names.UUID, "begin", token, **more)
    assert raised.value.retryable and raised.value.hint == state_hints.make_room_for_file(S)
    monkeypatch.undo()
    assert walk(world, "resize").state == "done"
    assert world.guest == {S: memory_names.OFF, D: memory_names.ON}


def test_what_libvirt_gives_has_the_limit_too():
    class Checkpoint(Guest):
        __module__ = "libvirt"

    checkpoint = Checkpoint(stuck=("delete",))
    guest = Bounded(SimpleNamespace(listAllCheckpoints=lambda _flags: [checkpoint]), 0.2)
    with pytest.raises(LibvirtTimeout, match="delete"):
        guest.listAllCheckpoints(0)[0].delete(0)


def test_a_backup_of_a_guest_that_hangs_is_not_waited_for(of):
    guest = Guest(job=JOB, stuck=("abortJob",))
    guest.backupGetXMLDesc = lambda _flags: "<domainbackup><server socket='/x/%s'/></domainbackup>" % block_jobs.SOCKET
    left_backup.end_backup(of(guest))


def test_the_backup_of_another_program_is_not_ended(of):
    guest = Guest(job=JOB)
    guest.backupGetXMLDesc = lambda _flags: "<domainbackup><server name='theirs'/></domainbackup>"
    left_backup.end_backup(of(guest))
    assert guest.job == JOB


MIRROR = "<domain><devices><disk><target dev='vdb'/><mirror job='copy'/></disk></devices></domain>"
# what libvirt tells of the backup (None: there is none), the running guest's definition -> whether a move is refused
OTHERS = {
    "no job": (None, "<domain/>", None),
    "a backup of another program": ("<domainbackup><server name='theirs'/></domainbackup>", "<domain/>", "a backup"),
    "one that goes to files": ("<domainbackup mode='push'/>", "<domain/>", "a backup"),
    "one that a move began": (
        "<domainbackup><server socket='/x/%s'/></domainbackup>" % block_jobs.SOCKET,
        "<domain/>",
        None,
    ),
    "a copy of a disk": (None, MIRROR, "a copy of disk vdb"),
}


@pytest.mark.follows("end_job")
@pytest.mark.parametrize("case", OTHERS)
def test_a_guest_that_another_program_backs_up_or_copies_is_not_moved_until_that_has_ended(of, case):
    """Its stop would break the backup off without a word to whoever relies on it."""
    backup, text, said = OTHERS[case]
    guest = Guest()

    def backup_text(_flags):
        if backup is None:
            raise LibvirtError(0)
        return backup

    guest.backupGetXMLDesc, guest.XMLDesc = backup_text, lambda _flags: text
    guest.isPersistent = lambda: 1
    of(guest)
    record = SimpleNamespace(uuid=memory_names.UUID, name="web1")
    if said is None:
        block_jobs.check_no_others_jobs(None, record, "kvm1")
        return
    with pytest.raises(DisksBusy, match=said) as refused:
        block_jobs.check_no_others_jobs(None, record, "kvm1")
    assert refused.value.hint == hints.end_job("kvm1", memory_names.UUID) and "abortJob" not in guest.called
    # the same is said where a copy of this move was under way and is given up for it
    assert "Nothing was done" not in str(refused.value) and "not stopped for a move" in str(refused.value)
    backup, guest.XMLDesc = None, lambda _flags: "<domain/>"  # virsh domjobabort, or blockjob --abort
    block_jobs.check_no_others_jobs(None, record, "kvm1")


def test_a_backup_that_began_after_the_move_is_seen_before_the_guest_is_stopped(monkeypatch):
    world, controller = memory.World(), memory_controller.Controller("resize", "op0")
    while not controller.is_before("freeze"):
        controller.advance(world)

    def busy(*_given):
        raise DisksBusy("another program makes a backup of it")

    monkeypatch.setattr(type(world.host(S).effects), "check_movable", busy)
    with pytest.raises(DisksBusy):
        table.run(world.host(S), memory_names.UUID, "freeze", controller.token, controller.given["peer"])
    assert world.guest[S] == memory_names.ON and world.records[S]["phase"] == "resizing"


def test_whoever_asks_whether_a_guest_can_be_moved_asks_for_others_jobs_too(of):
    guest = Guest()
    guest.backupGetXMLDesc = lambda _flags: "<domainbackup mode='push'/>"
    of(guest)
    effects = moving_host.Effects(SimpleNamespace(connection=None, identity={"name": "kvm1"}))
    with pytest.raises(DisksBusy):
        effects.check_movable(SimpleNamespace(uuid=memory_names.UUID, name="web1"))


def test_a_guest_that_is_off_has_no_job(of):
    of(Guest(now=SHUTOFF))
    block_jobs.check_no_others_jobs(None, SimpleNamespace(uuid=memory_names.UUID, name="web1"), "kvm1")


@pytest.mark.parametrize("operation", [BACKUP, MIGRATION_IN], ids=["a backup", "on its way to here"])
def test_a_job_of_another_program_is_not_ended_and_the_guest_is_left_as_it_is(of, operation):
    guest = Guest(now=PAUSED, job=JOB, operation=operation)
    of(guest)
    live.abort(None, memory_names.UUID)
    assert "abortJob" not in guest.called and (guest.now, guest.job) == (PAUSED, JOB)


def test_a_migration_from_here_is_ended_and_its_guest_goes_on(of):
    guest = Guest(now=PAUSED, job=JOB)
    of(guest)
    live.abort(None, memory_names.UUID)
    assert "abortJob" in guest.called and (guest.now, guest.job) == (RUNNING, NO_JOB)
