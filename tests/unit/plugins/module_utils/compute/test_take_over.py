# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host takes over an instance of a host that is switched off, with the disks on the storage of both: never two, never lost."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from instance_case import Case, Killed, dying

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    BuildFailed,
    ClaimRevoked,
    DiskChainChanged,
    DisksNotHere,
    DisksOfAnotherHost,
    DisksUnfit,
    DisksUsed,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    domain_xml,
    mend,
    power,
    seed,
    set_aside,
    take_over,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import (
    update_disks,
    would_update_disks,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import ledger as rooms
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import volume_claim
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import VolumeStore
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError

THIRD = "33333333-3c6e-5d59-9d0b-3a1c9d7f1e2a"
LIVING = "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
ON = ("active", None, "running", True)
STEPS = ["take over", "start define", "start permit", "start guest", "start done"]


@pytest.fixture
def lost(make_host, wanted):
    """An instance whose host is switched off: its guest ended, its record says that it runs."""
    case = Case(make_host("kvm1"), wanted("web1"))
    case.make()
    make_disk(case.root, "1G")
    case.host.connection.lose_power()
    return case


@pytest.fixture
def living(make_host, wanted, lost):
    """The other host of that storage, with a claim."""
    case = Case(make_host("kvm2", LIVING, pool=lost.host.pool), wanted("web1"))
    case.claim()
    return case


@pytest.fixture
def room(monkeypatch):
    """There is room for data disks, which are real files."""
    monkeypatch.setattr(disk, "make", lambda planned, path, _base: make_disk(Path(path), str(planned.size)))
    monkeypatch.setattr(rooms, "allocate", lambda *_args: {"disk_gb": 1, "resources": {}})


def make_disk(path, size):
    path.unlink(missing_ok=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", str(path), size], check=True)


def run(case, killed_at=None, source=None):
    return take_over.take_over(case.instance(killed_at), "t1", source or "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a")


def owner_of(case):
    return owner.read(str(case.host.pool), case.uuid)


def files(case):
    return {path.name: path.read_bytes() for path in case.root.parent.iterdir() if path.name != "owner"}


def refused(case, error, **more):
    """Nothing was changed but that the claim is gone."""
    before, whose = files(case), owner_of(case)
    with pytest.raises(error) as told:
        run(case, **more)
    assert (case.record, case.domain, files(case), owner_of(case)) == (None, None, before, whose)
    return told.value


@pytest.mark.follows("disks_of_another_host")
@pytest.mark.parametrize("killed_at", [None, *STEPS])
def test_it_runs_on_with_the_same_disks_whatever_ends_the_run(lost, living, killed_at):
    """The next run of anything that starts instances ends it: take_over, create, start or recover."""
    before = files(lost)
    if killed_at:
        with pytest.raises(Killed):
            run(living, killed_at)
    if living.record.role == "CLAIM":
        assert owner_of(living) == lost.host.uuid
        run(living)
    for again in (living.instance().started, living.instance().made, lambda: power.recover(living.instance())):
        again()
    assert living.state() == ON and living.domain.starts == 1
    assert (files(living), owner_of(living)) == (before, LIVING)


def test_the_history_keeps_who_said_that_the_lost_host_is_off(lost, living):
    take_over.take_over(living.instance(), "t1", lost.host.uuid, evidence="fence_x says that kvm1 is off")
    (event,) = [event for event in living.record.history if event["event"] == "take over"]
    assert event["evidence"] == "fence_x says that kvm1 is off" and event["source"] == lost.host.uuid


def test_one_that_the_inventory_says_is_stopped_is_taken_over_and_not_started(lost, living, boot):
    take_over.take_over(living.instance(), "t1", lost.host.uuid, left_off=True)
    assert (living.state(), owner_of(living)) == (("stopped", None, "shutdown", False), LIVING)
    assert living.domain is not None, "libvirt has its definition"
    boot("two")
    with pytest.raises(DisksOfAnotherHost):
        lost.instance().started()
    assert living.instance().started() and living.state() == ON


@pytest.mark.parametrize("left_off, state", [(False, "active"), (True, "stopped")])
def test_from_the_moment_that_it_is_owned_its_record_says_whether_it_is_to_run(
    lost, living, monkeypatch, left_off, state
):
    """A host that loses power then starts what is to run, and only that."""

    def end(*_arguments):
        raise Killed()

    monkeypatch.setattr(domain_xml, "define_guest", end)
    with pytest.raises(Killed):
        take_over.take_over(living.instance(), "t1", lost.host.uuid, left_off=left_off)
    assert (living.record.role, living.record.vm_state) == ("OWN", state)


@pytest.mark.parametrize("killed_at", ["define", "stop", "stopped"])
def test_one_that_is_to_be_stopped_is_started_by_nothing_wherever_the_run_is_killed(
    lost, living, monkeypatch, killed_at
):
    """Neither by the timer of recover nor by the next run of the same, which ends it."""

    def end(*_arguments):
        raise Killed()

    with monkeypatch.context() as patch, pytest.raises(Killed):
        if killed_at == "define":
            patch.setattr(domain_xml, "define_guest", end)
        take_over.take_over(living.instance(killed_at), "t1", lost.host.uuid, left_off=True)
    assert not power.recover(living.instance())
    for _again in range(2):
        power.converge(living.instance(), None, None, "shutdown", 1)
    assert (living.state()[:3], owner_of(living)) == (("stopped", None, "shutdown"), LIVING)
    assert living.domain is None or not living.domain.starts
    assert living.instance().started() and living.state() == ON


@pytest.mark.parametrize("killed_at", [None, *STEPS[2:]])
def test_the_lost_host_starts_nothing_when_it_is_back(lost, living, boot, killed_at):
    """In mid-run, after it or a year later: from the moment that the new owner may start, and without another host's word."""
    with dying(killed_at):
        run(living, killed_at)
    boot("two")
    for act in (lost.instance().started, lambda: power.recover(lost.instance()), lost.instance().would_start):
        with pytest.raises(DisksOfAnotherHost):
            act()
    assert not lost.domain.isActive()
    living.instance().started()
    assert living.state() == ON


@pytest.mark.parametrize("killed_at", ["take over", "start define"])
def test_a_host_that_is_back_before_its_disks_were_taken_has_them(lost, living, boot, killed_at):
    """Both own it then, as their records say; a person keeps the one that runs, and nothing is lost."""
    before = files(lost)
    with pytest.raises(Killed):
        run(living, killed_at)
    boot("two")
    assert lost.instance().started() and owner_of(lost) == lost.host.uuid
    if living.record.role == "OWN":
        set_aside.keep(lost.instance(), list(living.record.generation))
        set_aside.set_aside(living.instance(), 0)
    assert (files(lost), lost.state()) == (before, ON)
    assert living.domain is None or not living.domain.isActive()


@pytest.mark.follows("switch_user_of_disk_off")
def test_a_disk_that_a_living_host_uses_is_not_taken(lost, living):
    """QEMU's lock; a program of QEMU's stands for the guest on the host that is not off."""
    with subprocess.Popen(
        ["qemu-io", "-f", "qcow2", str(lost.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        user.stdout.read(1)  # its prompt: it has opened the disk
        error = refused(living, DisksUsed)
        user.communicate(b"quit\n")
    assert error.hint == copy_hints.switch_user_of_disk_off(str(lost.root))
    living.claim()
    run(living)
    assert living.state() == ON


def test_a_disk_that_comes_into_use_after_the_look_is_not_started_from(lost, living, monkeypatch):
    with pytest.raises(Killed):
        run(living, "start define")
    with subprocess.Popen(
        ["qemu-io", "-f", "qcow2", str(lost.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        user.stdout.read(1)
        with pytest.raises(DisksUsed):
            living.instance().started()
        assert owner_of(living) == lost.host.uuid and not living.domain.isActive()
        user.communicate(b"quit\n")
    assert living.instance().started() and owner_of(living) == LIVING


@pytest.mark.follows("describe_what_it_has")
def test_disks_of_another_size_than_the_inventory_says_are_not_taken(lost, living):
    make_disk(lost.root, "2G")
    error = refused(living, DisksUnfit)
    assert "2147483648" in str(error) and error.hint == copy_hints.describe_what_it_has("web1")
    living.spec["flavor"]["root_gb"] = 2
    living.claim()
    run(living)
    assert living.state() == ON


def test_disks_that_are_missing_or_more_than_the_inventory_says_are_not_taken(lost, living):
    make_disk(lost.root.with_name("data-logs.qcow2"), "1G")
    assert "data-logs" in str(refused(living, DiskChainChanged))
    lost.root.with_name("data-logs.qcow2").unlink()
    living.claim()
    os.rename(lost.root, str(lost.root) + ".away")
    assert "is missing" in str(refused(living, DiskChainChanged))


@pytest.mark.follows("bring_back_for_move")
def test_what_was_in_a_move_waits_for_its_host(lost, living):
    lost.root.with_name("root.qcow2.pre-abc").write_text("before the resize")
    error = refused(living, DisksUnfit)
    assert "was in a move" in str(error) and error.hint == copy_hints.bring_back_for_move()
    lost.instance().started()
    assert lost.state() == ON


def test_disks_of_a_third_host_or_of_nobody_are_not_taken(lost, living):
    owner.write(str(lost.host.pool), lost.uuid, THIRD)
    assert refused(living, DisksOfAnotherHost).hint == hints.disks_of_another_host("web1", THIRD)
    os.unlink(lost.root.parent / "owner")
    living.claim()
    refused(living, DisksOfAnotherHost)


@pytest.mark.follows("mount_or_give_up")
@pytest.mark.parametrize("follow", ["mount", "create"])
def test_a_host_that_does_not_see_the_storage_says_that_another_may(lost, living, make_host, wanted, follow):
    other = Case(make_host("kvm3", LIVING), wanted("web1"))
    other.claim()
    with pytest.raises(DisksNotHere) as told:
        run(other)
    assert told.value.retryable and other.record is None
    assert told.value.hint == copy_hints.mount_or_give_up("web1", lost.host.uuid)
    if follow == "mount":
        assert run(living) is True and living.state() == ON
    else:
        assert other.make() is True and other.state() == ON


def test_without_the_claim_of_the_run_nothing_is_taken(lost, living):
    with pytest.raises(ClaimRevoked):
        take_over.take_over(living.instance(), "another", lost.host.uuid)
    assert living.record.role == "CLAIM" and owner_of(lost) == lost.host.uuid


MORE = [{"name": "logs", "size_gb": 1, "bus": "virtio"}]


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("act", ["add a disk", "bring the seed"])
def test_the_lost_host_makes_no_file_beside_disks_that_are_anothers_by_now(lost, living, boot, room, act, dry):
    """It is back, and the new owner is silent: only the file beside the disks says that its record is old."""
    run(living)
    boot("two")
    if act == "bring the seed":
        (lost.root.parent / seed.FILE).unlink()
    before = files(lost)
    with pytest.raises(DisksOfAnotherHost):
        if act == "add a disk":
            (would_update_disks if dry else update_disks)(lost.instance(), MORE)
        else:
            mend.mend(lost.instance(), lost.seed, dry)
    assert files(lost) == before


@pytest.mark.parametrize("act", ["add a disk", "bring the seed"])
def test_what_is_made_before_the_first_start_is_made_beside_disks_of_its_own(lost, living, room, act):
    """Else the lost host would find a disk that its record does not name."""
    with pytest.raises(Killed):
        run(living, "start define")
    if act == "bring the seed":
        (lost.root.parent / seed.FILE).unlink()
    if act == "add a disk":
        assert would_update_disks(living.instance(), MORE) and owner_of(living) == lost.host.uuid
        assert update_disks(living.instance(), MORE)
    else:
        assert mend.mend(living.instance(), living.seed, dry=True) and owner_of(living) == lost.host.uuid
        assert mend.mend(living.instance(), living.seed)
    assert owner_of(living) == LIVING and living.instance().started() and living.state() == ON


def test_a_look_changes_nothing(lost, living):
    assert take_over.would_take_over(living.instance(), "t1", lost.host.uuid)
    assert living.record.role == "CLAIM" and owner_of(lost) == lost.host.uuid and living.domain is None


def test_a_plain_create_does_not_make_other_disks_in_their_place(lost, living):
    before = files(lost)
    with pytest.raises(DisksOfAnotherHost):
        living.instance().started("t1", living.seed)
    assert (files(lost), living.record) == (before, None)


def test_a_delete_of_what_was_not_taken_over_yet_leaves_the_disks(lost, living):
    before = files(lost)
    with pytest.raises(Killed):
        run(living, "start define")
    assert living.instance().absent(changed_disks=True)
    assert (files(lost), living.record) == (before, None) and lost.instance().started()


@pytest.mark.parametrize("content", [b"", b"no disk", b"QFI\xfb", b"QFI\xfb" + b"\xff" * 500])
def test_a_file_that_is_no_disk_is_told_and_not_taken(lost, living, content):
    lost.root.write_bytes(content)
    assert isinstance(refused(living, BerthError), (DisksUnfit, DiskChainChanged, DisksUsed))


def test_a_pool_in_which_the_host_may_not_write_is_told(lost, living, monkeypatch):
    def read_only(*_all):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/pool/owner")

    with monkeypatch.context() as patch, pytest.raises(BuildFailed, match="/pool/owner") as told:
        patch.setattr(owner, "write", read_only)
        run(living)
    assert not told.value.retryable, "it is this host's now: no other host is tried"
    assert (owner_of(living), living.record.role) == (lost.host.uuid, "OWN") and not living.domain.isActive()
    assert living.instance().started() and owner_of(living) == LIVING


def test_a_claim_that_comes_to_nothing_leaves_no_volume(lost, living):
    entry = {"name": "db", "size_gb": 1, "new": True, "slot": 0}
    living.host.store.compare_and_swap(living.record, None)
    living.spec["volumes"] = [{**entry, "delete_on_termination": False}]
    living.claim()
    volume_claim.attach(living.host.store, living.spec, "t1")
    assert VolumeStore.beside(living.host.store).records()
    refused(living, DisksUnfit)
    assert VolumeStore.beside(living.host.store).records() == []


@pytest.mark.parametrize("act", ["stop", "create", "reboot"])
def test_a_stop_or_reboot_before_the_first_start_takes_the_disks_too(lost, living, boot, act):
    """What is started later starts from its own disks, and the lost host does not."""
    with pytest.raises(Killed):
        run(living, "start define")
    if act == "reboot":
        power.reboot(living.instance(), False, 1)
        assert (living.state(), owner_of(living)) == (ON, LIVING)
        return
    if act == "stop":
        living.instance().stopped(1)
    else:
        power.converge(living.instance(), None, None, "shutdown", 1)
    assert (living.state(), owner_of(living)) == (("stopped", None, "shutdown", False), LIVING)
    assert living.instance().started() and living.state() == ON
