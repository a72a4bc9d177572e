# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of a guest that is off, made and read by the host's own qemu-img; what libvirt does for one that runs is in
test_backup_running.py."""

from __future__ import annotations

import json
import os
import subprocess
from types import SimpleNamespace

import pytest
from backup_case import act, back_up, listed, make_place, needed, qemu, restart_libvirtd_in_a_copy, restore
from instance_case import Case, Killed
from small_disks import holds, web_off, write

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import acts, backup_chain, make, off, place
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import restore as restore_of_backup
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup.make import BackupFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup.place import (
    BackupDamaged,
    BackupNotFound,
    BackupPlaceUnfit,
    Place,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup.restore import (
    DisksOfBackupDiffer,
    RestoreDiscards,
    RestoreFailed,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import image
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged, SnapshotIncomplete
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power, rebuild
from ansible_collections.berth.kvm.plugins.module_utils.compute.paths import bitmap_of
from ansible_collections.berth.kvm.plugins.module_utils.model import backup_hints, hints, host_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.backups import FULL, INCREMENT, Backup
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceIsLocked, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState, TransferFailed

pytestmark = needed
MIB = 1 << 20


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    return web_off(prepared, wanted("web1"), monkeypatch)


@pytest.fixture
def to(tmp_path, monkeypatch):
    return make_place(tmp_path, monkeypatch)


def test_the_second_backup_has_what_was_written_since_and_qemu_img_alone_reads_it_with_all_below(web, to):
    write(web, 1)
    first = back_up(web, to)
    write(web, 2, MIB)
    second = back_up(web, to)
    assert (first["kind"], second["kind"], second["previous"]) == ("full", "increment", first["id"])
    of = Place(to, web.uuid)
    own = json.loads(qemu("qemu-img", "map", "--output=json", of.path(second["id"], "root.qcow2")))
    assert sum(each["length"] for each in own if each["depth"] == 0) == 64 << 10
    qemu("qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", of.path(second["id"], "root.qcow2"), web.root)
    assert holds(of.path(first["id"], "root.qcow2"), 0, MIB)
    assert os.stat(of.path(second["id"], "root.qcow2")).st_mode & 0o077 == 0
    assert web.record.history[-1]["event"] == "backup" and web.record.task_state is None
    assert listed(web, to, deep=True) == {first["id"]: [], second["id"]: []}


def test_the_recipe_beside_a_backup_restores_it_word_for_word(web, to, tmp_path):
    write(web, 1)
    back_up(web, to)
    write(web, 2, MIB)
    directory = Place(to, web.uuid).path(back_up(web, to)["id"])
    lines = [line.strip() for line in open(os.path.join(directory, "RESTORE.txt"))]
    for line in lines:
        if line.startswith(("echo", "qemu-img convert")):
            subprocess.run(line.replace("/PATH", str(tmp_path)), shell=True, check=True, cwd=directory)
    assert holds(tmp_path / "root.qcow2", 1) and holds(tmp_path / "root.qcow2", 2, MIB)
    assert (tmp_path / "data-db.qcow2").exists()


def test_a_directory_of_backups_that_was_moved_elsewhere_is_whole(web, to, tmp_path):
    back_up(web, to)
    back_up(web, to)
    (tmp_path / "elsewhere").mkdir()
    os.rename(to, tmp_path / "elsewhere" / "b")
    assert list(listed(web, str(tmp_path / "elsewhere" / "b"), deep=True).values()) == [[], []]


def test_a_check_run_makes_and_restores_nothing_and_says_that_it_would(web, to):
    assert act(web, "made", to, dry=True)["changed"] and os.listdir(to) == []
    back_up(web, to)
    before = web.record, web.root.read_bytes(), sorted(os.listdir(to))
    assert act(web, "restored", to, dry=True, discards="web1")["changed"]
    assert (web.record, web.root.read_bytes(), sorted(os.listdir(to))) == before


def test_after_a_rebuild_all_of_the_new_root_is_copied_and_a_restore_brings_it_back(web, to, monkeypatch):
    write(web, 1)
    first = back_up(web, to)
    monkeypatch.setattr(image, "ensure", lambda *_: {"path": "/i", "format": "qcow2", "virtual_size": MIB})
    spec = {**web.record.spec, "image": {"name": "new", "checksum": "sha256:" + "1" * 64, "properties": {}}}
    given = {"spec": spec, "seed": web.seed, "discards_root": "web1", "shutdown_timeout": 0}
    assert rebuild.rebuild(web.instance(), given)
    write(web, 2, MIB)
    write(web, 3, 0, "data-db.qcow2")
    second = back_up(web, to)
    path = Place(to, web.uuid).path(second["id"], "root.qcow2")
    assert next(Place(to, web.uuid).whole()).disk("root").kind == FULL
    assert holds(path, 0) and holds(path, 2, MIB)
    assert "backing-filename" not in qemu("qemu-img", "info", "--output=json", path)
    write(web, 4, MIB)
    restore(web, to, backup=second["id"])
    assert holds(web.root, 2, MIB) and holds(web.root, 0) and holds(web.root.parent / "data-db.qcow2", 3)
    assert listed(web, to, deep=True) == {first["id"]: [], second["id"]: []}


STEPS = ("backup", "backup copy", "backup copied", "backup written", "backup named", "backup made")


@pytest.mark.parametrize("step", STEPS)
def test_a_backup_that_is_killed_at_any_step_is_none_and_leaves_the_last_one_whole_and_the_next_is_right(web, to, step):
    write(web, 1)
    first = back_up(web, to)
    write(web, 2, MIB)
    with pytest.raises(Killed):
        act(web, "made", to, killed_at=step)
    found = listed(web, to, deep=True)
    assert found[first["id"]] == [] and len(found) == (2 if step in ("backup named", "backup made") else 1)
    write(web, 3, 2 * MIB)
    last = back_up(web, to)
    assert not any(listed(web, to, deep=True).values())
    assert not [name for name in os.listdir(os.path.join(to, web.uuid)) if name.startswith(".")]
    qemu(
        "qemu-img",
        "compare",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        Place(to, web.uuid).path(last["id"], "root.qcow2"),
        web.root,
    )
    assert web.record.task_state is None


def test_a_backup_that_fails_says_why_and_leaves_nothing(web, to, monkeypatch):
    first = back_up(web, to)

    def full(*_arguments):
        raise TransferFailed("No space left on device")

    monkeypatch.setattr(off, "copy", full)
    with pytest.raises(BackupFailed, match="the backup of web1 on kvm1 to .* failed: No space left"):
        back_up(web, to)
    assert os.listdir(os.path.join(to, web.uuid)) == [first["id"]]
    assert web.record.task_state is None and web.record.faults[-1]["code"] == "BackupFailed"


def test_whole_disks_are_copied_where_writes_were_not_recorded_and_it_is_said_why(web, to):
    first = back_up(web, to)
    copy = str(web.root) + ".copy"
    qemu("qemu-img", "convert", "-f", "qcow2", "-O", "qcow2", web.root, copy)
    os.rename(copy, web.root)
    second = back_up(web, to)
    why = "root: what was written since %s was not recorded, as after a move, a restore or a crash" % first["id"]
    assert (second["kind"], second["why"]) == ("increment", [why])
    assert holds(Place(to, web.uuid).path(second["id"], "root.qcow2"), 0)
    qemu("qemu-img", "resize", "-q", "-f", "qcow2", web.root, "32M")
    assert back_up(web, to)["why"] == ["root: it was resized"]


def test_a_bitmap_that_qemu_did_not_close_is_not_trusted(web, to, monkeypatch):
    back_up(web, to)
    known = off.inside.bitmaps
    monkeypatch.setattr(
        off.inside, "bitmaps", lambda *given: {name: [*flags, "in-use"] for name, flags in known(*given).items()}
    )
    assert back_up(web, to)["kind"] == "full"


@pytest.mark.follows("libvirt_ended")
def test_a_backup_in_which_libvirtd_was_restarted_is_ended_by_the_new_one(web, to, monkeypatch):
    """Nobody else would end what QEMU keeps for it."""
    ended, alive = restart_libvirtd_in_a_copy(web, monkeypatch), web.host.connection
    with pytest.raises(BackupFailed, match="the backup of web1 on kvm1") as failed:
        back_up(web, to)
    assert failed.value.hint == host_hints.libvirt_ended("kvm1")
    assert ended == [alive, alive] and os.listdir(Place(to, web.uuid).path()) == []


@pytest.mark.parametrize("damage", ["cut", "described", "gone", "elsewhere"])
def test_a_backup_that_is_not_whole_by_its_files_is_stood_on_by_none(web, to, damage):
    first = back_up(web, to)
    file = Place(to, web.uuid).path(first["id"], "root.qcow2")
    if damage == "cut":
        os.truncate(file, os.path.getsize(file) - 512)
    elif damage == "described":
        with open(Place(to, web.uuid).path(first["id"], "backup.json"), "w") as stream:
            stream.write("{")
    elif damage == "gone":
        os.unlink(file)
    else:
        qemu("qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", file)
    assert listed(web, to)[first["id"]]
    assert back_up(web, to)["kind"] == "full"


def test_a_chain_ends_and_whole_disks_are_copied_when_asked(web, to):
    kinds = [back_up(web, to, chain=2)["kind"] for _each in range(4)]
    assert kinds == ["full", "increment", "full", "increment"]
    assert back_up(web, to, full=True)["kind"] == "full"


def test_what_no_wish_keeps_goes_and_never_what_another_stands_on(web, to):
    made = [back_up(web, to, chain=2)["id"] for _each in range(4)]
    last = back_up(web, to, chain=2, keep=2)["id"]
    assert list(listed(web, to)) == [*made[2:], last]


def test_a_removal_that_was_killed_is_ended_by_the_next_backup(web, to):
    first = back_up(web, to, chain=1)
    os.unlink(Place(to, web.uuid).path(first["id"], "backup.json"))
    last = back_up(web, to, chain=1)
    assert os.listdir(os.path.join(to, web.uuid)) == [last["id"]]


@pytest.mark.follows("mount_backups")
@pytest.mark.parametrize("device, told", [(1, 1), (2, 0)])
def test_a_backup_on_the_file_system_of_the_disks_is_made_and_that_is_told(web, to, monkeypatch, device, told):
    devices = {web.host.pool_of(web.record): 1, to: device}
    monkeypatch.setattr(acts, "os", SimpleNamespace(stat=lambda path: SimpleNamespace(st_dev=devices[path])))
    instance = web.instance()
    params = {**dict.fromkeys(make.Wish._fields), "state": "made", "to": to, "full": False, "chain": 30}
    assert acts.outcome_of(instance, params, False)["changed"] and len(instance.told) == told
    assert all("lost together" in text and backup_hints.name_another_place() in text for text in instance.told)


@pytest.mark.parametrize("path", ["missing", "on-root"])
def test_a_directory_that_is_not_there_or_on_the_root_file_system_is_refused(web, to, path):
    where = os.path.join(to, path)
    if path == "on-root":
        os.mkdir(where)
    with pytest.raises(BackupPlaceUnfit) as refused:
        back_up(web, where)
    assert refused.value.hint == backup_hints.mount_backups("kvm1", where) and web.record.task_state is None
    back_up(web, to)


@pytest.mark.parametrize("path", [None, "", "backups", "/mnt/../etc", "/mnt/"])
def test_the_directory_is_an_absolute_path(web, path):
    with pytest.raises(InvalidInput, match="berth_backup_to"):
        back_up(web, path)


def test_what_was_written_since_a_backup_elsewhere_with_the_same_id_is_not_all_that_is_copied(
    web, to, tmp_path, monkeypatch
):
    """Each place counts by the clock of its own host."""
    ids = iter((1, 1, 2))
    monkeypatch.setattr(make.backup_chain, "next_id", lambda _where: "20260101T00000%dZ" % next(ids))
    other = str(tmp_path / "other")
    os.mkdir(other)
    for place_of_it in (to, other, to):
        write(web, 1)
        made = back_up(web, place_of_it)
    assert made["kind"] == "full" and made["previous"] is None


def test_if_one_disk_of_a_running_guest_has_to_be_copied_whole_all_are_and_it_is_said_why(web, to, monkeypatch):
    made = back_up(web, to)["id"]
    previous = Place(to, web.uuid).known()[made]
    known = {bitmap_of(make.mark(to, previous.id)): True}

    def kinds(usable):
        monkeypatch.setattr(make.running, "usable", lambda _found, path: usable(path))
        return [(each.kind, each.why) for each in make.parts_of(web.host, web.record, previous, object(), "/t", to)]

    assert kinds(lambda _path: known) == [(INCREMENT, ""), (INCREMENT, "")]
    (root, why), (data, _why) = kinds(lambda path: known if path.endswith("root.qcow2") else {})
    assert (root, data, why) == (FULL, FULL, "data-db is copied whole at the same moment")


def test_why_a_disk_is_copied_whole_is_as_short_as_a_description_says_it_with_many_disks_too():
    """A longer text would make a backup that nobody can read."""
    new = [make.Part("volume-%020d" % at, "/p/%d" % at, "qcow2", 1, FULL, "", "/t") for at in range(16)]
    old = make.Part("root", "/p", "qcow2", 1, INCREMENT, "", "/t")
    (root, *_new) = make._in_one_way([old, *new])
    described = Backup(
        "20260102T030405Z", "0" * 36, "web1", "p", "kvm1", None, False, (backup_chain.disk_of(root),), {}
    )
    assert root.kind == FULL and root.why and Backup.from_dict(described.to_dict()) == described


def test_what_a_killed_backup_left_beside_the_disks_is_removed_by_the_next(web, to):
    left = web.root.with_name("root.qcow2.scratch")
    left.write_bytes(b"x")
    back_up(web, to)
    assert not left.exists()


def test_a_layer_that_somebody_put_on_a_disk_is_refused_by_name(web, to):
    layer = str(web.root) + ".layer"
    qemu("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", web.root, layer)
    web.domain.xml = web.domain.xml.replace(str(web.root), layer)
    for state in ("made", "restored"):
        with pytest.raises(DiskChainChanged, match="layer"):
            act(web, state, to, discards="web1")


@pytest.mark.parametrize("writes", ["backup", "restore"])
def test_nobody_else_can_read_a_disk_that_is_being_written(web, to, monkeypatch, writes):
    back_up(web, to)
    known, modes = {off: off.run, restore_of_backup: restore_of_backup.run}, []

    def run(arguments, **more):
        said = known[module](arguments, **more)
        if arguments[1] == "convert":
            modes.append(os.stat(arguments[-1]).st_mode & 0o077)
        return said

    module = off if writes == "backup" else restore_of_backup
    monkeypatch.setattr(module, "run", run)
    if writes == "backup":
        back_up(web, to, full=True)
    else:
        restore(web, to)
    assert modes == [0, 0]


def test_disks_of_which_only_some_are_reverted_to_a_snapshot_are_not_backed_up(web, to):
    spec = {
        **web.record.spec,
        "snapshots": [{"name": "old", "made_at": "2026-01-01T00:00:00Z", "taken": "off", "size_gb": 1, "disks": ["root"],
                       "reverting": True}],
    }  # fmt: skip
    web.host.store.compare_and_swap(web.record, web.record.next(spec=spec))
    with pytest.raises(SnapshotIncomplete, match="being reverted"):
        back_up(web, to)
    assert os.listdir(to) == []


@pytest.mark.follows("name_another_place")
@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("state", ["made", "listed", "restored"])
def test_a_directory_in_a_pool_is_no_place_for_backups_and_nobody_is_told_to_mount_over_the_disks(
    web, to, monkeypatch, link, state
):
    where = inside = str(web.host.pool / "instances")
    monkeypatch.setattr(place, "is_on_root", lambda path: path != to)
    if link:
        where = os.path.join(to, "link")
        os.symlink(inside, where)
    with pytest.raises(BackupPlaceUnfit, match="the disks of instances") as refused:
        act(web, state, where)
    assert refused.value.hint == backup_hints.name_another_place() and web.record.task_state is None
    back_up(web, to)


def test_a_guest_that_ends_when_its_backup_is_named_has_that_backup(web, to, monkeypatch):
    first, known = back_up(web, to), make.drop_bitmaps

    def drop(parts, found, kept):
        if kept != make.mark(to, first["id"]):
            raise TransferFailed("the guest has ended")
        known(parts, found, kept)

    monkeypatch.setattr(make, "drop_bitmaps", drop)
    second = back_up(web, to)
    assert listed(web, to) == {first["id"]: [], second["id"]: []} and web.record.history[-1]["event"] == "backup"
    monkeypatch.setattr(make, "drop_bitmaps", known)
    assert back_up(web, to)["previous"] == second["id"]


def test_a_disk_on_which_others_stand_stays_although_its_description_is_lost(web, to):
    first, second = back_up(web, to), back_up(web, to)
    os.unlink(Place(to, web.uuid).path(first["id"], "backup.json"))
    back_up(web, to)
    assert os.path.exists(Place(to, web.uuid).path(first["id"], "root.qcow2")) and second["id"] in listed(web, to)


# ---- delete


def delete(web, to, *ids, **more):
    done = act(web, "deleted", to, backup=",".join(ids), **more)
    return [each["id"] for each in done["instance"]["backups"]]


@pytest.mark.follows("delete_backups")
def test_a_backup_goes_with_all_that_stand_on_it_and_not_without_them(web, to):
    first, second, third = (back_up(web, to, chain=2)["id"] for _each in range(3))
    for dry in (True, False):
        with pytest.raises(backup_chain.BackupNeeded, match="on %s stands %s" % (first, second)) as refused:
            delete(web, to, first, dry=dry)
    assert refused.value.hint == backup_hints.delete_backups("web1", [second, first])
    assert delete(web, to, second, first, dry=True) == [first, second] and len(listed(web, to)) == 3
    assert delete(web, to, second, first) == [first, second] and listed(web, to, deep=True) == {third: []}
    assert act(web, "deleted", to, backup=first)["changed"] is False


def test_one_that_cannot_be_read_is_deleted_unless_another_stands_on_it(web, to):
    first, second = back_up(web, to)["id"], back_up(web, to)["id"]
    for each in (first, second):
        with open(Place(to, web.uuid).path(each, "backup.json"), "w") as file:
            file.write("{")
        if each == first:
            with pytest.raises(backup_chain.BackupNeeded):
                delete(web, to, first)
    assert delete(web, to, first, second) == [first, second] and os.listdir(os.path.join(to, web.uuid)) == []


@pytest.mark.parametrize("ids", ["", "../x", "20260102T030405Z,x"])
def test_only_ids_are_deleted(web, to, ids):
    with pytest.raises(InvalidInput, match="berth_backup"):
        act(web, "deleted", to, backup=ids)


def test_a_deletion_that_is_killed_leaves_no_half_backup_and_the_next_ends_it(web, to, monkeypatch):
    def killed(_path):
        raise Killed()

    first, second = back_up(web, to)["id"], back_up(web, to)["id"]
    with monkeypatch.context() as patched:
        patched.setattr(place.paths, "remove_directory", killed)
        with pytest.raises(Killed):
            delete(web, to, first, second)
    assert next(Place(to, web.uuid).whole()).id == first
    delete(web, to, first, second)
    assert os.listdir(os.path.join(to, web.uuid)) == []


def test_a_lock_stops_a_deletion(web, to):
    first = back_up(web, to)["id"]
    power.lock(web.instance(), "ada", "")
    with pytest.raises(InstanceIsLocked):
        delete(web, to, first)
    assert list(listed(web, to)) == [first]


def test_after_the_newest_was_deleted_whole_disks_are_copied(web, to):
    first, second = back_up(web, to)["id"], back_up(web, to)["id"]
    delete(web, to, second)
    assert back_up(web, to)["kind"] == "full" and first in listed(web, to)


@pytest.mark.follows("make_room_for_backups")
def test_a_backup_for_which_there_is_no_room_names_those_that_may_go(web, to, monkeypatch):
    first, second, third = (back_up(web, to, chain=2)["id"] for _each in range(3))

    def full(*_arguments):
        raise TransferFailed("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(off, "copy", full)
        with pytest.raises(BackupFailed) as failed:
            back_up(web, to)
    assert failed.value.hint == backup_hints.make_room_for_backups("web1", to, [second, first])
    assert backup_hints.delete_backups("web1", [second, first]) in failed.value.hint
    delete(web, to, second, first)
    assert back_up(web, to)["previous"] == third


# ---- restore


def test_a_guest_that_somebody_started_while_its_backup_was_read_keeps_its_disks(web, to, monkeypatch):
    back_up(web, to)
    write(web, 9)
    before, known = sorted(os.listdir(web.root.parent)), restore_of_backup._make

    web.host.connection.gate_is_read = False

    def make_it(target):
        known(target)
        if not web.domain.isActive():
            web.domain.createWithFlags(0)

    monkeypatch.setattr(restore_of_backup, "_make", make_it)
    with pytest.raises(InstanceInvalidState, match="power_state running") as refused:
        restore(web, to)
    assert refused.value.hint == hints.stop_to_restore("web1")
    assert holds(web.root, 9) and sorted(os.listdir(web.root.parent)) == before and web.record.vm_state == "stopped"


def test_a_restore_never_fills_the_pool(web, to, monkeypatch):
    back_up(web, to)
    write(web, 9)
    before = sorted(os.listdir(web.root.parent))
    monkeypatch.setattr(restore_of_backup.paths, "free_bytes", lambda _path: 1000)
    for dry in (True, False):
        with pytest.raises(RestoreFailed, match="would take up to .* of 0 MiB that are free"):
            restore(web, to, dry=dry)
    assert holds(web.root, 9) and sorted(os.listdir(web.root.parent)) == before


def test_a_restore_brings_the_disks_back_as_large_as_the_instance_has_them(web, to):
    write(web, 1)
    back_up(web, to)
    write(web, 2, MIB)
    second = back_up(web, to)
    write(web, 9)
    assert restore(web, to)["instance"]["backups"][0]["id"] == second["id"]
    assert holds(web.root, 1) and holds(web.root, 2, MIB)
    info = json.loads(qemu("qemu-img", "info", "--output=json", web.root))
    assert info["virtual-size"] == 1 << 30 and "backing-filename" not in info
    assert web.record.history[-1]["event"] == "restore" and web.state()[:3] == ("stopped", None, "shutdown")
    power.start(web.instance(), None, None)
    assert web.state()[0] == "active"


def test_an_instance_with_snapshots_is_not_restored_since_they_are_inside_its_disks(web, to):
    back_up(web, to)
    spec = {
        **web.record.spec,
        "snapshots": [{"name": "old", "made_at": None, "taken": None, "size_gb": 1, "disks": []}],
    }
    web.host.store.compare_and_swap(web.record, web.record.next(spec=spec))
    with pytest.raises(RestoreDiscards, match="has the snapshots old") as refused:
        restore(web, to)
    assert "berth.kvm.delete_snapshot" in refused.value.hint


def test_a_restore_for_which_there_is_no_room_changes_nothing_and_leaves_nothing(web, to, monkeypatch):
    back_up(web, to)
    write(web, 9)
    before, known = sorted(os.listdir(web.root.parent)), restore_of_backup.run

    def full(arguments, **more):
        if arguments[1] == "convert" and "data-db.qcow2" in arguments[-1]:
            raise more["error"]("No space left on device")
        return known(arguments, **more)

    monkeypatch.setattr(restore_of_backup, "run", full)
    with pytest.raises(RestoreFailed, match="No space left"):
        restore(web, to)
    assert holds(web.root, 9) and sorted(os.listdir(web.root.parent)) == before and web.state()[0] == "stopped"


def test_an_earlier_backup_is_restored_by_its_id(web, to):
    write(web, 1)
    first = back_up(web, to)
    write(web, 2)
    back_up(web, to)
    restore(web, to, backup=first["id"])
    assert holds(web.root, 1)


def test_after_a_restore_the_next_backup_does_not_trust_what_was_recorded_before(web, to):
    back_up(web, to)
    write(web, 2)
    restore(web, to)
    last = back_up(web, to)
    assert [each.partition(":")[0] for each in last["why"]] == ["root", "data-db"]
    assert holds(Place(to, web.uuid).path(last["id"], "root.qcow2"), 0)


@pytest.mark.follows("discard_writes")
@pytest.mark.parametrize("said", [None, "", "web2"])
def test_what_was_written_since_is_lost_only_if_the_instance_is_named(web, to, said):
    back_up(web, to)
    write(web, 9)
    with pytest.raises(RestoreDiscards, match="web1 would lose what was written to its disks after") as refused:
        restore(web, to, discards=said)
    assert refused.value.hint == backup_hints.discard_writes("web1") and holds(web.root, 9)
    back_up(web, to)
    restore(web, to)
    assert holds(web.root, 9)


@pytest.mark.follows("stop_to_restore")
def test_a_running_instance_is_not_restored(web, to):
    back_up(web, to)
    power.start(web.instance(), None, None)
    with pytest.raises(InstanceInvalidState, match="vm_state active") as refused:
        restore(web, to)
    assert refused.value.hint == hints.stop_to_restore("web1")
    web.instance().stopped(0.01)
    restore(web, to)


def test_a_lock_stops_a_restore_and_no_backup(web, to):
    power.lock(web.instance(), "ann", "")
    back_up(web, to)
    with pytest.raises(InstanceIsLocked):
        restore(web, to)


@pytest.mark.follows("list_backups")
@pytest.mark.parametrize("damaged", [0, 1])
def test_a_byte_that_changed_anywhere_in_the_chain_is_found_before_a_disk_is_touched(web, to, damaged):
    write(web, 1)
    made = [back_up(web, to)["id"]]
    write(web, 2, MIB)
    made.append(back_up(web, to)["id"])
    write(web, 3)
    with open(Place(to, web.uuid).path(made[damaged], "root.qcow2"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(BackupDamaged, match="%s/root.qcow2 has another digest" % made[damaged]) as refused:
        restore(web, to)
    assert holds(web.root, 3) and web.state()[:2] == ("stopped", None)
    assert refused.value.hint == backup_hints.list_backups("web1", to)
    assert [bool(faults) for faults in listed(web, to, deep=True).values()] == [damaged == 0, True]


@pytest.mark.follows("name_backup_directory")
def test_a_backup_without_a_directory_says_how_to_name_one(web, to):
    with pytest.raises(InvalidInput) as refused:
        act(web, "made", None)
    assert refused.value.hint == backup_hints.name_backup_directory()
    act(web, "made", to)


@pytest.mark.follows("name_backed_up")
def test_who_asks_for_the_backups_of_an_unknown_name_is_told_whose_there_are(web, other, to):
    back_up(web, to)
    back_up(other, to)
    with pytest.raises(BackupNotFound) as refused:
        restore(web, to, of="db9")
    assert refused.value.hint == "It has backups of web1, web2"
    restore(web, to, of="web1")


def test_a_backup_that_is_not_there_is_not_found(web, to):
    for more in ({}, {"backup": "20200101T000000Z"}, {"of": "db9"}):
        with pytest.raises(BackupNotFound):
            restore(web, to, **more)


@pytest.mark.parametrize("step", ["restore", "restore disk", "restored"])
@pytest.mark.follows("finish_disks")
def test_a_restore_that_is_killed_never_starts_with_disks_of_two_times_and_the_next_run_ends_it(web, to, step):
    write(web, 1)
    back_up(web, to)
    write(web, 2)
    with pytest.raises(Killed):
        act(web, "restored", to, killed_at=step, discards="web1")
    if step != "restore":
        for start in (
            lambda: power.start(web.instance(), None, None),
            lambda: power.converge(web.instance(), None, None, "running", 1),
        ):
            with pytest.raises(InstanceInvalidState) as refused:
                start()
            assert refused.value.hint == hints.finish_disks("web1", "restoring")
        assert not power.would_recover(web.instance())
    restore(web, to)
    assert holds(web.root, 1) and web.state()[:2] == ("stopped", None)


# ---- under another name


@pytest.fixture
def other(web, prepared, wanted):
    """web2, off, with a data disk of the same name."""
    spec, seed = wanted("web2")
    spec["disks"] = [{"name": "db", "size_gb": 1, "bus": "virtio"}]
    case = Case(prepared, (spec, seed))
    case.make()
    case.instance().stopped(0.01)
    return case


@pytest.mark.parametrize("by", ["name", "uuid"])
def test_a_backup_goes_on_under_another_name_with_an_identity_of_its_own(web, other, to, by):
    write(web, 7)
    back_up(web, to)
    before = other.record
    restore(other, to, of="web1" if by == "name" else web.uuid)
    after = other.record
    assert holds(other.root, 7) and (after.uuid, after.spec) == (before.uuid, before.spec)
    assert after.history[-1]["of"] == "web1"


@pytest.mark.follows("name_whose_backup")
def test_two_instances_of_one_name_are_told_apart_by_their_uuids(web, other, to):
    back_up(web, to)
    made = back_up(other, to)
    file = Place(to, other.uuid).path(made["id"], "backup.json")
    text = open(file).read()
    with open(file, "w") as stream:
        stream.write(text.replace('"web2"', '"web1"'))
    with pytest.raises(BackupNotFound) as refused:
        restore(other, to, of="web1")
    assert refused.value.hint == backup_hints.name_whose_backup(sorted((web.uuid, other.uuid)))
    restore(other, to, of=web.uuid)


@pytest.mark.follows("name_whose_backup")
def test_a_name_alone_never_means_an_instance_of_another_project(web, other, to):
    write(web, 7)
    made = back_up(web, to)
    file = Place(to, web.uuid).path(made["id"], "backup.json")
    found = json.loads(open(file).read())
    with open(file, "w") as stream:
        json.dump({**found, "project_id": "theirs"}, stream)
    for state in ("listed", "restored"):
        with pytest.raises(
            BackupNotFound, match="1 instances with the name web1, 0 of them in project default"
        ) as refused:
            act(other, state, to, of="web1", discards="web2")
        assert refused.value.hint == backup_hints.name_whose_backup([web.uuid])
    restore(other, to, of=web.uuid)
    assert holds(other.root, 7)


@pytest.mark.follows("resize_to_restore")
def test_disks_that_do_not_fit_are_all_named_and_nothing_is_changed(web, prepared, wanted, to):
    qemu("qemu-img", "resize", "-q", "-f", "qcow2", web.root, "2G")
    back_up(web, to)
    spec, seed = wanted("web3")
    other = Case(prepared, ({**spec, "disks": [{"name": "logs", "size_gb": 1, "bus": "virtio"}]}, seed))
    other.make()
    other.instance().stopped(0.01)
    before = other.root.read_bytes()
    with pytest.raises(DisksOfBackupDiffer) as refused:
        restore(other, to, of="web1")
    said = refused.value.message
    assert "has no disk data-logs" in said and "no disk data-db" in said and "disk root has 1073741824 bytes" in said
    assert refused.value.hint == backup_hints.resize_to_restore("web3") and other.root.read_bytes() == before
    flavor = {**web.record.spec["flavor"], "root_gb": 2}
    web.host.store.compare_and_swap(web.record, web.record.next(spec={**web.record.spec, "flavor": flavor}))
    restore(web, to)


# ---- what lies there is input


@pytest.mark.parametrize(
    "change", [{"id": "20200101T000000Z"}, {"uuid": "x"}, {"previous": "../../etc"}, {"disks": {}}, {"more": 1}]
)
def test_a_description_that_is_not_one_makes_no_backup(web, to, change):
    made = back_up(web, to)
    file = Place(to, web.uuid).path(made["id"], "backup.json")
    found = json.loads(open(file).read())
    with open(file, "w") as stream:
        json.dump({**found, **change}, stream)
    assert listed(web, to)[made["id"]]
    with pytest.raises(BackupNotFound):
        restore(web, to)


@pytest.mark.parametrize("name", ["../../../etc/passwd", "a/b", "root;x"])
def test_a_disk_whose_name_leads_elsewhere_makes_no_backup(web, to, name):
    made = back_up(web, to)
    file = Place(to, web.uuid).path(made["id"], "backup.json")
    found = json.loads(open(file).read())
    found["disks"][0]["name"] = name
    with open(file, "w") as stream:
        json.dump(found, stream)
    assert listed(web, to)[made["id"]]


def test_a_file_that_is_a_link_is_not_read(web, to):
    made = back_up(web, to)
    file = Place(to, web.uuid).path(made["id"], "root.qcow2")
    os.rename(file, file + ".real")
    os.symlink(file + ".real", file)
    assert listed(web, to)[made["id"]]
