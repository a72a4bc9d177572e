# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of two copies of an instance one stays and counts more, the other is stopped and put away, and nothing of it is lost."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import shutil
import subprocess

import pytest
from instance_case import Case, Killed
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    DisksNotHere,
    DisksOfAnotherHost,
    GuestSaved,
    HostBusy,
    StorageNotMounted,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate, power, set_aside, take_over
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.state_file import StateDamaged
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, disk_hints, state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState, InstanceNotFound

OTHER = "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"
STEPS = ["stopping", "setting aside", "permit", "stop", "disks", "domain", "list", "record"]


@pytest.fixture
def copies(make_host, wanted):
    """The same instance on two hosts, each with disks of its own: (the one that stays, the other)."""
    cases = [Case(make_host(name, uuid), wanted("web1")) for name, uuid in (("kvm1", OTHER), ("kvm2", OTHER[::-1]))]
    for case in cases:
        case.make()
        case.root.write_text("what the guest wrote on " + case.host.connection.getHostname())
    return cases


def files(directory):
    return {path.name: path.read_bytes() for path in pathlib.Path(directory).iterdir()}


def test_the_copy_that_stays_counts_more_than_the_other_ever_will(copies):
    stays, other = copies
    above = list(other.record.generation)
    assert set_aside.would_keep(stays.instance(), above) is True
    assert [set_aside.keep(stays.instance(), above) for _again in range(2)] == [True, False]
    with pytest.raises(Killed):
        set_aside.set_aside(other.instance("record"), 1)
    assert stays.record.generation[0] > other.record.generation[0]
    assert stays.state() == ("active", None, "running", True)


@pytest.mark.follows("keep_whole_copy")
def test_a_copy_without_its_disks_does_not_stay_in_place_of_the_whole_one(copies):
    """An old state directory was restored on a host that the instance has left: the whole copy was stopped and put away."""
    whole, empty = copies
    empty.instance().stopped(1)
    empty.root.unlink()
    before = empty.record
    for keep in (set_aside.would_keep, set_aside.keep):
        with pytest.raises(DisksNotHere, match="web1 on kvm2 lacks .*root.qcow2") as caught:
            keep(empty.instance(), [99, 0])
        assert "berth_keep_on=HOST with the host whose copy has its disks" in caught.value.hint
    assert empty.record == before
    assert set_aside.keep(whole.instance(), list(empty.record.generation)) is True


@pytest.mark.follows("keep_whole_copy")
def test_of_two_copies_without_disks_one_can_be_kept_once_empty_files_stand_for_what_is_lost(copies):
    """Neither could be kept, and with two copies nothing can be deleted."""
    for case in copies:
        case.instance().stopped(1)
        shutil.rmtree(case.root.parent)
    stays, other = copies
    with pytest.raises(DisksNotHere) as caught:
        set_aside.keep(stays.instance(), list(other.record.generation))
    subprocess.run(re.search("mkdir -p .*?(?=;)", caught.value.hint).group(), shell=True, check=True)
    assert set_aside.keep(stays.instance(), list(other.record.generation)) is True
    stays.instance().absent()
    assert stays.record is None and not stays.root.parent.exists()


def test_a_data_disk_that_was_never_finished_is_no_disk_that_a_copy_lacks(copies):
    """update_disks was killed: the next one finishes it."""
    stays, other = copies
    stays.instance().stopped(1)
    spec = dict(stays.record.spec, disks=[{"name": "logs", "size_gb": 1, "bus": "virtio"}])
    plant(stays.host.store, stays.record.next(spec=spec))
    (stays.root.parent / "data-logs.qcow2.tmp").write_text("")
    assert set_aside.would_keep(stays.instance(), [99, 0]) is True


@pytest.mark.parametrize("new", [False, True])
def test_a_copy_without_the_volume_that_it_may_boot_from_is_not_kept_unless_no_guest_has_used_it(copies, new):
    stays, other = copies
    stays.instance().stopped(1)
    entry = {"name": "v", "size_gb": 1, "slot": 0, "delete_on_termination": False, "new": new}
    plant(stays.host.store, stays.record.next(spec=dict(stays.record.spec, volumes=[entry])))
    with contextlib.nullcontext() if new else pytest.raises(DisksNotHere, match="lacks .*/volumes/.*/disk.qcow2"):
        set_aside.would_keep(stays.instance(), [99, 0])


def test_it_counts_more_also_after_what_the_other_writes_when_it_is_stopped(copies):
    """Both are of one epoch, as after a restored backup."""
    stays, other = copies
    above = list(other.record.generation)
    stays.host.store.compare_and_swap(stays.record, stays.record.next())
    set_aside.stop(other.instance(), 1)
    set_aside.keep(stays.instance(), above)
    assert stays.record.generation > other.record.generation


@pytest.mark.parametrize("killed_at", [None, "stopping", "permit", "stop"])
def test_the_other_copy_is_stopped_and_nothing_starts_it_before_the_one_that_stays_counts(copies, killed_at):
    """The run may end in between, and the other host be silent from then on: the one that stays may be started then."""
    _stays, other = copies
    if killed_at:
        with pytest.raises(Killed):
            set_aside.stop(other.instance(killed_at), 1)
    assert set_aside.would_stop(other.instance()) is True
    assert [set_aside.stop(other.instance(), 1) for _again in range(2)] == [True, False]
    assert set_aside.would_stop(other.instance()) is False
    assert not other.domain.isActive() and not power.recover(other.instance())
    assert other.instance().started(), "if the host of the one that stays is lost now, this one goes on"


@pytest.mark.parametrize("killed_at", STEPS[1:4])
def test_the_guest_of_a_copy_that_an_ended_run_was_setting_aside_is_stopped_too(copies, killed_at):
    _stays, other = copies
    with pytest.raises(Killed):
        set_aside.set_aside(other.instance(killed_at), 1)
    assert set_aside.stop(other.instance(), 1) is True and not other.domain.isActive()
    assert set_aside.set_aside(other.instance(), 1) and other.record is None


def test_a_copy_that_is_stopped_leaves_the_disks_on_one_storage_to_their_owner(make_host, wanted):
    """It had begun to take them over when their host came back."""
    stays = Case(make_host("kvm1"), wanted("web1"))
    stays.make()
    other = Case(make_host("kvm2", OTHER, pool=stays.host.pool), wanted("web1"))
    other.claim()
    record = take_over._owned(other.record, stays.host.uuid)
    plant(other.host.store, record)
    assert set_aside.stop(other.instance(), 1) is True
    assert owner.read(str(stays.host.pool), stays.uuid) == stays.host.uuid
    assert stays.state() == ("active", None, "running", True)


def test_a_look_tells_where_a_copy_is_put_that_is_stopped_first(copies):
    _stays, other = copies
    path = set_aside.would_set_aside(other.instance())
    set_aside.stop(other.instance(), 1)
    assert set_aside.set_aside(other.instance(), 1) == path


@pytest.mark.parametrize("killed_at", [None, *STEPS])
def test_the_other_copy_is_stopped_and_put_away_whole(copies, killed_at):
    """An end at any step: the next run goes on, and what the guest wrote is there at every moment."""
    stays, other = copies
    before, xml = files(other.root.parent), other.domain.xml
    path = set_aside.would_set_aside(other.instance())
    if killed_at:
        with pytest.raises(Killed):
            set_aside.set_aside(other.instance(killed_at), 1)
        assert before["root.qcow2"] in [
            entry.read_bytes() for entry in (other.root, pathlib.Path(path) / "root.qcow2") if entry.exists()
        ]
    assert set_aside.set_aside(other.instance(), 1) == path
    put_away = files(path)
    assert json.loads(put_away.pop("record.json"))["name"] == "web1" and put_away.pop("domain.xml").decode() == xml
    assert put_away == before
    assert (other.record, other.domain, other.root.parent.exists()) == (None, None, False)
    assert list(set_aside.listed(other.host.store)) == [path]
    assert stays.state() == ("active", None, "running", True) and stays.root.exists()
    with pytest.raises(InstanceNotFound):
        set_aside.set_aside(other.instance(), 1)


@pytest.mark.follows("mount_storage_to_remove")
@pytest.mark.parametrize("again", ["mounted", "lost for good"])
def test_a_copy_whose_storage_is_not_mounted_is_not_set_aside_without_its_disks(copies, again):
    """Its host came back from an outage, and the empty directory below the mount would stand for what was written last."""
    _stays, other = copies
    storage, hidden = other.root.parent.parent, other.host.pool / "hidden"
    storage.rename(hidden)
    before = other.record
    for act in (set_aside.would_set_aside, lambda instance: set_aside.set_aside(instance, 1)):
        with pytest.raises(StorageNotMounted, match="instances is not there") as refused:
            act(other.instance())
        assert refused.value.hint == state_hints.mount_storage_to_remove(str(storage)) and other.record == before
    hidden.rename(storage) if again == "mounted" else storage.mkdir(mode=0o711)
    path = set_aside.set_aside(other.instance(), 1)
    assert ("root.qcow2" in files(path)) is (again == "mounted") and other.record is None


@pytest.mark.follows("keep_or_drop_memory")
@pytest.mark.parametrize("began", [False, True])
def test_a_copy_with_saved_memory_is_not_set_aside_before_a_person_has_dropped_it(copies, began):
    """Also one whose memory was saved after a run that was ended had begun to set it aside."""
    _stays, other = copies
    if began:
        with pytest.raises(Killed):
            set_aside.set_aside(other.instance("permit"), 1)
    other.domain.managedSave()
    for act in (set_aside.would_set_aside, lambda instance: set_aside.set_aside(instance, 1)):
        before = other.record
        with pytest.raises(GuestSaved) as refused:
            act(other.instance())
        assert refused.value.hint == disk_hints.keep_or_drop_memory("web1", "kvm2", other.uuid)
        assert other.domain.saved and other.record == before and other.root.exists()
    other.domain.managedSaveRemove()
    assert "root.qcow2" in files(set_aside.set_aside(other.instance(), 1))


@pytest.mark.follows("keep_one_again")
def test_what_is_being_set_aside_is_started_by_nobody(copies):
    _stays, other = copies
    with pytest.raises(Killed):
        set_aside.set_aside(other.instance("permit"), 1)
    for act in (other.instance().started, other.instance().made, other.instance().absent, other.instance().would_start):
        with pytest.raises(InstanceInvalidState) as refused:
            act()
        assert refused.value.hint == copy_hints.keep_one_again("web1")
    assert other.root.exists()
    path = set_aside.set_aside(other.instance(), 1)
    assert (other.record, "root.qcow2" in files(path)) == (None, True)


@pytest.mark.parametrize("killed_at", [None, "remove", "unlist"])
def test_only_the_command_of_its_own_removes_what_was_set_aside(copies, killed_at):
    _stays, other = copies
    path = pathlib.Path(set_aside.set_aside(other.instance(), 1))
    before = files(path)
    other.instance().absent()
    other.make()
    other.instance().absent()
    assert files(path) == before
    assert set_aside.given_up(other.instance()) == ["root disk 1 GiB"]
    if killed_at:
        with pytest.raises(Killed):
            set_aside.remove(other.instance(killed_at))
    assert set_aside.remove(other.instance()) == [str(path)]
    assert set_aside.remove(other.instance()) == [] and not path.exists()
    assert set_aside.given_up(other.instance()) == []


@pytest.mark.follows("keep_copy_with_disks")
def test_two_runs_at_once_lose_nothing_of_the_list_of_what_was_set_aside(copies, monkeypatch):
    """Each reads the whole list and writes it again."""
    _stays, other = copies
    write, written = set_aside.durable.write_in, []

    def write_in(directory, name, *data, **how):
        if name == set_aside.FILE:
            with pytest.raises(HostBusy), Store(directory).host_lock(timeout=0):
                pass  # else another run could read the list now
            written.append(name)
        write(directory, name, *data, **how)

    monkeypatch.setattr(set_aside.durable, "write_in", write_in)
    set_aside.set_aside(other.instance(), 1)
    set_aside.remove(other.instance())
    assert written == [set_aside.FILE] * 2


def test_on_one_storage_the_disks_stay_with_the_copy_that_owns_them(make_host, wanted):
    stays = Case(make_host("kvm1"), wanted("web1"))
    other = Case(make_host("kvm2", OTHER, pool=stays.host.pool), wanted("web1"))
    stays.make()
    record = stays.record
    other.claim()
    for phase in ("building", "active"):
        other.host.store.compare_and_swap(other.record, other.record.next(role="OWN", phase=phase))
    before = files(stays.root.parent)
    with pytest.raises(DisksOfAnotherHost, match=stays.host.identify()) as refused:
        set_aside.keep(other.instance(), [9, 9])
    assert refused.value.hint.startswith(copy_hints.keep_copy_with_disks("web1", stays.host.identify()))
    assert set_aside.keep(stays.instance(), list(record.generation)) is True
    path = set_aside.set_aside(other.instance(), 1)
    assert stays.root.exists()
    assert files(stays.root.parent) == before and list(files(path)) == ["record.json"]
    assert set_aside.remove(other.instance()) == [path] and files(stays.root.parent) == before


def test_what_is_set_aside_has_no_permit_from_the_moment_that_its_guest_is_stopped(copies):
    """Neither autostart nor a start by hand may bring it back beside the copy that stays."""
    _stays, other = copies
    assert gate.is_permitted(other.uuid, other.host.run_dir)
    with pytest.raises(Killed):
        set_aside.set_aside(other.instance("stop"), 1)
    assert not gate.is_permitted(other.uuid, other.host.run_dir)


@pytest.mark.parametrize("change", [{"op": "ab" * 16}, {"phase": "resizing"}])
def test_a_copy_on_the_move_is_neither_kept_nor_set_aside(copies, change):
    _stays, other = copies
    plant(other.host.store, other.record.next(**change))
    for act in (lambda: set_aside.keep(other.instance(), [9, 9]), lambda: set_aside.set_aside(other.instance(), 1)):
        with pytest.raises(InstanceInvalidState):
            act()
    assert other.domain.isActive() and other.root.exists()


@pytest.mark.parametrize("phase", ["building", "resized"])
def test_a_copy_that_is_not_whole_or_in_a_move_keeps_its_guest_and_disks_where_they_are(copies, phase):
    _stays, other = copies
    plant(other.host.store, other.record.next(phase=phase))
    with pytest.raises(InstanceInvalidState):
        set_aside.set_aside(other.instance(), 1)
    assert other.domain.isActive() and other.root.exists()


def test_a_later_copy_in_a_move_is_kept_as_it_is_and_never_set_aside(copies):
    """The run of its move goes on with the record that it knows."""
    stays, _other = copies
    moving = plant(stays.host.store, stays.record.next(phase="resizing", generation=[2, 2]))
    assert set_aside.keep(stays.instance(), [1, 9]) is False
    assert stays.record == moving
    for act in (lambda: set_aside.keep(stays.instance(), [2, 0]), lambda: set_aside.set_aside(stays.instance(), 1)):
        with pytest.raises(InstanceInvalidState):
            act()


EDITED = {
    "another directory": "/srv/kept",
    "the disks of an instance": "{pool}/instances/{uuid}",
    "out of its directory": "{pool}/set-aside/../instances/{uuid}",
    "the directory of all": "{pool}/set-aside",
    "another instance's": "{pool}/set-aside/%s-1.5" % OTHER,
    "another generation's": "{pool}/set-aside/{uuid}-7.7",
    "not from the root": "set-aside/{uuid}-1.5",
    "within a directory of the name": "{path}/{uuid}-1.5",
}


@pytest.mark.parametrize("case", EDITED)
def test_a_list_that_was_edited_by_hand_has_nothing_else_removed(copies, case):
    """Only what lies below set-aside under the name that this copy was given there; else the list is as damaged as any other."""
    stays, other = copies
    path = set_aside.set_aside(other.instance(), 1)
    other.make()
    listed = pathlib.Path(other.host.store.state_dir) / set_aside.FILE
    entry = json.loads(listed.read_text())[path]
    edited = EDITED[case].format(pool=other.host.pool, uuid=other.uuid, path=path)
    listed.write_text(json.dumps({edited: entry}))
    for act in (lambda: set_aside.remove(other.instance()), lambda: set_aside.listed(other.host.store)):
        with pytest.raises(StateDamaged, match="set-aside.json is damaged: no copy of web1 is put at "):
            act()
    assert other.root.exists() and pathlib.Path(path).exists()


def test_what_was_set_aside_is_found_where_it_was_put_though_its_pool_has_another_path_by_now(copies):
    _stays, other = copies
    path = set_aside.set_aside(other.instance(), 1)
    other.host.pool_of = lambda _record: "/srv/another"
    assert list(set_aside.listed(other.host.store, other.uuid)) == [path]
