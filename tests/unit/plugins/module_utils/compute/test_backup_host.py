# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups that a backup host keeps, of a guest that is off: the procedure, both hosts' parts of it, and QEMU's own tools between
them, over a real port of this machine."""

from __future__ import annotations

import os
import subprocess

import pytest
from backup_case import make_place, needed, qemu
from instance_case import Killed
from procedure_case import driven
from small_disks import holds, web_off, write

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import acts, away, backup_chain, place, store
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import power
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import transfer, watchdog
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.backup_host import (
    Run,
    list_backups,
    operate_anywhere,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask
from ansible_collections.berth.kvm.plugins.module_utils.model import backup_hints, reply
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

pytestmark = [needed, pytest.mark.long]
MIB = 1 << 20
KVM, STORE, KEY = "kvm1", "backup1", "5" * 64
OF_HOST = {
    "full": False, "chain": 30, "keep": None, "keep_days": None, "of": None, "backup": None, "discards": None, "deep": False,
    "newest": None, "spare": [], "parts": [], "targets": [], "key": None,
}  # fmt: skip
OF_STORE = {**OF_HOST, "project_id": "default", "address": None}


@pytest.fixture
def to(tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "RUN_DIR", str(tmp_path / "run" / "moves"))
    monkeypatch.setattr(store.address, "of_host", lambda configured, _name: configured or "127.0.0.1")
    return make_place(tmp_path, monkeypatch)


@pytest.fixture
def web(prepared, wanted, monkeypatch, to):
    case = web_off(prepared, wanted("web1"), monkeypatch)
    yield case
    for uuid in (case.uuid, store.channel(case.uuid)):
        transfer.close(uuid)


class Fleet:
    """The KVM host of a case and a backup host. ``asked``: (host, state) in their order; ``before``: (state) -> what is done
    before a host gets that question."""

    def __init__(self, case, to, dry=False, killed_at=None):
        self.case, self.to, self.dry, self.killed_at, self.asked, self.before = case, to, dry, killed_at, [], {}
        self.targets = []

    def play(self, operation, **given):
        task = {"uuid": self.case.uuid, "hosts": [KVM], "project_id": "default"}
        run = Run({STORE: None}, 4, lambda: KEY, self.dry)
        variables = {"to": self.to, "host": STORE, **given}
        asked = {"web1": task}, {"web1": variables}, run
        procedure = list_backups(*asked) if operation == "backups" else operate_anywhere(operation, *asked)
        return driven(procedure, self._answers)["web1"]

    def _answers(self, step):
        if not isinstance(step, Ask):
            return None
        return {name: self._answer(step.module, step.at[name], given) for name, given in step.arguments.items()}

    def _answer(self, module, host, given):
        self.asked.append((host, given["state"]))
        self.before.get(given["state"], lambda: None)()
        try:
            if host == STORE:
                done = {"uuid": given["uuid"], **store.outcome_of({**OF_STORE, **given}, self.dry)}
            else:
                done = acts.outcome_of(self.case.instance(self.killed_at), {**OF_HOST, **given}, self.dry)
        except BerthError as error:
            return {"error": error.to_dict()}
        self.targets = done.get("targets", self.targets)
        return reply.check(module, done, host, given)


def back_up(case, to, **given):
    """The backup that was made, as it is told."""
    done = Fleet(case, to).play("backup", **given)
    assert not done.errors and done.changed, done.errors
    return done.instance["backups"][0]


def listed(case, to, **given):
    return {each["id"]: each["faults"] for each in Fleet(case, to).play("backups", **given).instance["backups"]}


def restored(case, to, **given):
    return Fleet(case, to).play("restore", **{"discards": "web1", **given})


def code(done):
    return done.errors[0]["code"] if done.errors else None


def left(case, to):
    """What is there beside whole backups: ports, keys, and directories of backups that are none."""
    directory = os.path.join(to, case.uuid)
    names = [name for name in os.listdir(directory) if name.startswith(".")] if os.path.isdir(directory) else []
    return names + (os.listdir(transfer.RUN_DIR) if os.path.isdir(transfer.RUN_DIR) else [])


def test_the_first_backup_has_whole_disks_and_the_next_what_was_written_since_as_qemu_img_alone_reads_it(web, to):
    write(web, 1)
    first = back_up(web, to)
    write(web, 2, MIB)
    second = back_up(web, to)
    assert (first["kind"], second["kind"], second["previous"]) == ("full", "increment", first["id"])
    root = os.path.join(to, web.uuid, second["id"], "root.qcow2")
    assert "identical" in qemu("qemu-img", "compare", root, web.root)
    assert listed(web, to, deep=True) == {first["id"]: [], second["id"]: []} and left(web, to) == []


def test_the_record_says_where_the_backup_is_and_the_disk_records_writes_since_that_one_alone(web, to):
    back_up(web, to)
    second = back_up(web, to)
    event = web.record.history[-1]
    assert (event["event"], event["backup"], event["to"]) == ("backup", second["id"], "%s:%s" % (STORE, to))
    assert list(away.make.off.usable(str(web.root))) == [
        backup_chain.paths.bitmap_of(away.make.mark(event["to"], second["id"]))
    ]


def test_a_restore_brings_back_what_was_there_and_closes_what_it_opened(web, to):
    write(web, 1)
    first = back_up(web, to)
    write(web, 2)
    second = back_up(web, to)
    write(web, 3)
    done = restored(web, to)
    assert not done.errors and done.changed and done.instance["backups"][0]["id"] == second["id"]
    assert holds(web.root, 2) and left(web, to) == []
    assert restored(web, to, backup=first["id"]).changed and holds(web.root, 1)


def test_a_restore_that_would_lose_what_was_written_is_refused_before_a_byte_is_read(web, to):
    back_up(web, to)
    fleet = Fleet(web, to)
    done = fleet.play("restore")
    assert code(done) == "RestoreDiscards" and fleet.asked[-1] == (KVM, "fits")


def test_check_mode_asks_only_what_changes_nothing(web, to):
    fleet = Fleet(web, to, dry=True)
    assert fleet.play("backup").changed and not os.path.exists(os.path.join(to, web.uuid))
    assert fleet.asked == [(STORE, "looked"), (KVM, "planned")]
    back_up(web, to)
    before = web.record
    assert fleet.play("restore", discards="web1").changed and web.record == before


def test_a_damaged_backup_is_not_restored_and_the_disks_stay(web, to):
    made = back_up(web, to)
    write(web, 7)
    with open(os.path.join(to, web.uuid, made["id"], "root.qcow2"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    assert code(restored(web, to)) == "BackupDamaged" and holds(web.root, 7) and left(web, to) == []


def test_a_list_with_a_damaged_backup_fails_and_names_it(web, to):
    """A timer that lists them would see no difference by its status."""
    whole, damaged = back_up(web, to, full=True), back_up(web, to, full=True)
    assert not Fleet(web, to).play("backups").errors
    os.remove(os.path.join(to, web.uuid, damaged["id"], "root.qcow2"))
    (error,) = Fleet(web, to).play("backups").errors
    assert error["code"] == "BackupDamaged" and error["message"].endswith(damaged["id"])
    assert whole["id"] not in error["message"]


def test_what_no_wish_keeps_is_removed_on_the_backup_host(web, to):
    for _each in range(3):
        back_up(web, to, full=True, keep=2)
    assert len(listed(web, to)) == 2


def test_so_many_backups_stand_on_each_other_as_are_said_and_the_next_has_whole_disks(web, to):
    assert [back_up(web, to, chain=2)["kind"] for _each in range(3)] == ["full", "increment", "full"]


@pytest.mark.parametrize("state", ["opened", "sent", "kept", "noted"])
def test_a_run_that_is_killed_leaves_the_last_backup_whole_and_the_next_makes_one(web, to, state):
    """Whoever is asked for ``state`` hears nothing of it: the run has ended."""
    write(web, 1)
    first = back_up(web, to)
    write(web, 2, MIB)

    def kill():
        raise Killed

    fleet = Fleet(web, to)
    fleet.before[state] = kill
    with pytest.raises(Killed):
        fleet.play("backup")
    found = listed(web, to, deep=True)
    assert found[first["id"]] == [] and len(found) == (2 if state == "noted" else 1)
    second = back_up(web, to)
    root = os.path.join(to, web.uuid, second["id"], "root.qcow2")
    assert "identical" in qemu("qemu-img", "compare", root, web.root)
    assert left(web, to) == [] and not any(listed(web, to, deep=True).values())


@pytest.mark.parametrize("step", ["backup", "backup copy", "backup copied"])
def test_a_host_that_is_killed_while_it_sends_leaves_the_last_backup_whole_and_the_next_makes_one(web, to, step):
    first = back_up(web, to)
    with pytest.raises(Killed):
        Fleet(web, to, killed_at=step).play("backup")
    assert listed(web, to, deep=True) == {first["id"]: []}
    assert back_up(web, to)["kind"] == "increment" and left(web, to) == []


def test_a_copy_that_fails_leaves_nothing_on_either_host_and_says_why(web, to, monkeypatch):
    first = back_up(web, to)

    def fail(*_arguments, **_more):
        raise TransferFailed("No route to host")

    monkeypatch.setattr(away.make.off, "copy_part", fail)
    done = Fleet(web, to).play("backup")
    assert code(done) == "BackupFailed" and "No route to host" in done.errors[0]["message"]
    assert "%s:%s" % (STORE, to) in done.errors[0]["message"]
    assert list(listed(web, to)) == [first["id"]] and left(web, to) == []


@pytest.mark.follows("make_room_for_backups")
def test_a_backup_host_that_is_full_is_to_be_given_room_and_not_the_pool_of_the_instance(web, to, monkeypatch):
    def fill(*_arguments, **_more):
        raise watchdog.failed("qemu-img convert failed with 1: No space left on device")

    first, _second = back_up(web, to)["id"], back_up(web, to, full=True)
    monkeypatch.setattr(away.make.off, "copy_whole", fill)
    done = Fleet(web, to).play("backup", full=True)
    assert code(done) == "BackupFailed" and done.errors[0]["hint"] == backup_hints.make_room_for_backups(
        "web1", "%s:%s" % (STORE, to), [first]
    )


def test_backups_of_a_backup_host_are_deleted_after_the_host_of_the_instance_was_asked(web, to):
    first, second = back_up(web, to)["id"], back_up(web, to)["id"]
    assert code(Fleet(web, to).play("delete_backup", backup=first)) == "BackupNeeded"
    fleet = Fleet(web, to, dry=True)
    assert fleet.play("delete_backup", backup=second).changed and len(listed(web, to)) == 2
    assert fleet.asked == [(KVM, "let_go"), (STORE, "deleted")]
    done = Fleet(web, to).play("delete_backup", backup=second)
    assert done.changed and [each["id"] for each in done.instance["backups"]] == [second]
    assert listed(web, to, deep=True) == {first: []} and left(web, to) == []
    assert not Fleet(web, to).play("delete_backup", backup=second).changed


def test_no_backup_of_a_locked_instance_is_deleted(web, to):
    first = back_up(web, to)["id"]
    power.lock(web.instance(), "ada", "")
    assert code(Fleet(web, to).play("delete_backup", backup=first)) == "InstanceIsLocked" and list(listed(web, to)) == [
        first
    ]


@pytest.mark.follows("back_up_again")
def test_disks_that_changed_since_they_were_planned_are_not_backed_up_as_planned(web, to):
    back_up(web, to)
    fleet = Fleet(web, to)
    fleet.before["sent"] = lambda: qemu(
        "qemu-img", "bitmap", "--remove", web.root, *away.make.off.usable(str(web.root))
    )
    done = fleet.play("backup")
    assert code(done) == "BackupFailed" and done.errors[0]["hint"] == backup_hints.back_up_again("web1")
    assert left(web, to) == [] and back_up(web, to)["why"][0].startswith("root: what was written since ")


def test_a_disk_that_arrived_damaged_makes_no_backup(web, to):
    fleet = Fleet(web, to)

    def damage():
        directory = os.path.join(to, web.uuid)
        transfer.close(store.channel(web.uuid))
        with open(os.path.join(directory, os.listdir(directory)[0], "root.qcow2"), "r+b") as file:
            file.write(b"\0" * 512)

    fleet.before["kept"] = damage
    done = fleet.play("backup")
    assert code(done) == "BackupNotKept" and listed(web, to) == {} and left(web, to) == []


def test_the_papers_of_another_instance_make_no_backup(web, to, monkeypatch):
    known = away.make.described
    monkeypatch.setattr(
        away.make, "described", lambda *given: known(*given)._replace(uuid="00000000-0000-0000-0000-000000000000")
    )
    done = Fleet(web, to).play("backup")
    assert code(done) == "BackupNotKept" and "another backup" in done.errors[0]["message"]


@pytest.mark.parametrize(
    "told",
    [
        {"disks": ()},
        {"disks": lambda disks: tuple(disk._replace(kind="full") for disk in disks)},
        {"previous": None},
        {"name": "db1"},
        {"project_id": "other"},
        {"disks": lambda disks: tuple(disk._replace(size=disk.size + MIB) for disk in disks)},
    ],
    ids=["no disks", "whole disks that are none", "no backup below", "another name", "another project", "larger disks"],
)
def test_a_backup_whose_papers_are_not_true_is_none_and_pushes_out_no_older_one(web, to, monkeypatch, told):
    first, known = back_up(web, to), away.make.described

    def described(*given):
        true = known(*given)
        wrong = {part: value(getattr(true, part)) if callable(value) else value for part, value in told.items()}
        return true._replace(**wrong)

    monkeypatch.setattr(away.make, "described", described)
    assert code(Fleet(web, to).play("backup", keep=1)) == "BackupNotKept"
    assert listed(web, to, deep=True) == {first["id"]: []} and left(web, to) == []


def test_a_disk_that_is_called_as_the_papers_gets_no_port_that_nobody_would_close(web, to):
    fleet = Fleet(web, to)
    known = fleet._answer

    def answer(module, host, given):
        parts = [{**part, "name": "papers"} for part in given.get("parts", ())]
        return known(module, host, {**given, "parts": parts} if given["state"] == "opened" else given)

    fleet._answer = answer
    assert code(fleet.play("backup")) == "TransferFailed" and left(web, to) == []


def test_a_port_waits_for_as_long_as_the_largest_backup_of_a_run_may_be_compared(web):
    """All restores of a run are compared before the first disk is read."""
    told = store.to_guard(web.uuid, [{"port": 49216}])
    assert told["first"] >= place.LONGEST_READ and told["uuid"] == store.channel(web.uuid)


def test_what_is_no_paper_makes_no_backup(web, to, monkeypatch):
    monkeypatch.setattr(
        away.place,
        "pack_papers",
        lambda _draft, _directory, path: backup_chain.durable.write_at(path, b"{}" * 256, 0o600),
    )
    assert code(Fleet(web, to).play("backup")) == "BackupNotKept"


@pytest.mark.follows("name_backup_host")
def test_a_backup_host_outside_of_its_group_is_refused_and_nobody_is_asked(web, to):
    fleet = Fleet(web, to)
    done = fleet.play("backup", host="kvm9")
    assert code(done) == "BackupHostNotFound" and fleet.asked == []
    assert done.errors[0]["hint"] == backup_hints.name_backup_host()


@pytest.mark.follows("install_tools")
def test_a_backup_host_without_qemus_tools_says_what_to_install(web, to, monkeypatch):
    monkeypatch.setattr(store.shutil, "which", lambda tool, path: None if tool == "qemu-nbd" else tool)
    done = Fleet(web, to).play("backup")
    assert code(done) == "BackupPlaceUnfit" and done.errors[0]["hint"].startswith("Install QEMU's tools on ")


@pytest.mark.follows("correct_address")
def test_an_address_that_is_none_of_the_backup_hosts_own_is_said_with_its_variable(web, to, monkeypatch):
    monkeypatch.setattr(store.address, "of_host", lambda *_given: "192.0.2.1")
    done = Fleet(web, to).play("backup")
    assert code(done) == "TransferFailed" and "berth_host_migration_address" in done.errors[0]["hint"]


def test_who_has_not_the_key_reads_and_writes_nothing(web, to):
    fleet, tried = Fleet(web, to), []

    def try_it():
        for target in fleet.targets:
            url = "nbd://127.0.0.1:%d/%s" % (target["port"], target["name"])
            tried.append(
                subprocess.run(["qemu-img", "info", url], capture_output=True, check=False, timeout=60).returncode
            )

    fleet.before["sent"] = try_it
    assert not fleet.play("backup").errors and len(tried) == 3 and all(tried)


def test_a_backup_host_that_offers_a_larger_disk_than_its_backup_has_fills_no_pool(web, to, monkeypatch, tmp_path):
    back_up(web, to)
    known, larger = store.Store.served, str(tmp_path / "larger")
    qemu("qemu-img", "create", "-q", "-f", "raw", larger, "1G")
    qemu("qemu-io", "-f", "raw", "-c", "write -q -P 7 0 64M", larger)

    def served(self, backup, *given):
        name, targets = backup.disks[0].name, known(self, backup, *given)
        transfer.kill(transfer.directory(self.channel, name + ".pid"), self.channel)
        port = transfer.serve(self.channel, {"name": name, "format": "raw"}, larger, "127.0.0.1", store.READ_ONLY)
        return [{**target, "port": port} if target["name"] == name else target for target in targets]

    monkeypatch.setattr(store.Store, "served", served)
    assert not restored(web, to).errors and os.path.getsize(web.root) < 32 * MIB


def test_a_directory_on_the_root_file_system_of_the_backup_host_is_refused(web, to, tmp_path):
    (tmp_path / "on-root").mkdir()
    done = Fleet(web, str(tmp_path / "on-root")).play("backup")
    assert code(done) == place.BackupPlaceUnfit.__name__
