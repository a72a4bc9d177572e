# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The UEFI variables of a guest and the state of its TPM go into its backups, and come back with its disks."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from backup_case import act, back_up, listed, make_disk, make_place, needed, restore
from firmware_case import PLAIN, Firmware, qcow2, variables
from instance_case import Case, Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import firmware_state
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup.make import BackupFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup.place import BackupDamaged, Place
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import GuestNotSupported
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import nvram
from ansible_collections.berth.kvm.plugins.module_utils.model.backups import Backup

pytestmark = needed
FIRST, LATER = variables()[:-5] + b"first", variables()[:-5] + b"later"


class Guest(Case):
    """An instance that is off, with the variables and the TPM state that it has written."""

    @property
    def variables(self):
        return self.root.parent / nvram.FILE

    @property
    def tpm(self):
        return paths.tpm_state(self.uuid)

    def writes(self, found, state):
        self.variables.write_bytes(found)
        os.makedirs(os.path.dirname(self.tpm), exist_ok=True)
        with open(self.tpm, "wb") as file:
            file.write(state)

    def kept(self):
        return self.variables.read_bytes(), open(self.tpm, "rb").read()


@pytest.fixture
def make(prepared, wanted, monkeypatch, tmp_path):
    """make(name, uefi=True, tpm=True): a Guest."""
    (tmp_path / "firmware").mkdir()
    Firmware(tmp_path / "firmware", monkeypatch).add()
    monkeypatch.setattr(disk, "make", make_disk)
    monkeypatch.setattr(paths, "SWTPM", str(tmp_path / "swtpm"))
    monkeypatch.setattr(firmware_state, "PAUSE", 0)
    prepared.connection.complete_as("pc-q35-7.2", 3)

    def made(name, uefi=True, tpm=True):
        spec, seed = wanted(name, extra_specs={"hw:tpm_version": "2.0"} if tpm else {})
        spec["image"]["properties"] = {"hw_firmware_type": "uefi"} if uefi else {}
        guest = Guest(prepared, (spec, seed))
        guest.make()
        guest.instance().stopped(0.01)
        return guest

    return made


@pytest.fixture
def to(tmp_path, monkeypatch):
    return make_place(tmp_path, monkeypatch)


@pytest.fixture
def web(make):
    guest = make("web1")
    guest.writes(FIRST, b"sealed")
    return guest


def test_variables_and_tpm_state_come_back_with_the_disks_of_their_time(web, to):
    made = back_up(web, to)
    assert made["files"] == ["nvram.fd", "tpm2-00.permall"]
    web.writes(LATER, b"other")
    restore(web, to)
    assert web.kept() == (FIRST, b"sealed")
    assert os.stat(web.tpm).st_mode & 0o077 == 0 and web.variables.stat().st_mode & 0o077 == 0


def test_under_a_new_name_a_guest_begins_with_the_variables_and_the_tpm_of_the_backup(web, make, to):
    back_up(web, to)
    other = make("web2")
    restore(other, to, of="web1")
    assert other.kept() == (FIRST, b"sealed")
    web.writes(LATER, b"other")
    assert other.kept() == (FIRST, b"sealed")


def test_what_a_guest_has_no_device_for_is_not_restored(web, make, to):
    back_up(web, to)
    other = make("web2", uefi=False, tpm=False)
    restore(other, to, of="web1")
    assert not other.variables.exists() and not os.path.exists(other.tpm)


def test_a_guest_without_them_has_none_in_its_backup_and_keeps_its_own_in_a_restore(make, to):
    plain = make("web1")
    assert back_up(plain, to)["files"] == []
    plain.writes(LATER, b"own")
    restore(plain, to)
    assert plain.kept() == (LATER, b"own")


def test_a_description_of_before_there_were_such_files_is_that_of_a_backup(web, to):
    made = back_up(web, to)["id"]
    found = Place(to, web.uuid).known()[made].to_dict()
    del found["files"]
    assert Backup.from_dict(found).files == ()


def test_variables_that_the_firmware_here_cannot_use_are_refused_before_a_disk_is_touched(web, to):
    web.writes(variables(store=PLAIN), b"sealed")
    back_up(web, to)
    web.writes(LATER, b"other")
    before = web.root.read_bytes()
    for dry in (True, False):
        with pytest.raises(GuestNotSupported, match="would lose its UEFI variables"):
            restore(web, to, dry=dry)
    assert (web.root.read_bytes(), web.kept()) == (before, (LATER, b"other"))


@pytest.mark.parametrize("name", ["nvram.fd", "tpm2-00.permall"])
@pytest.mark.parametrize("damage", ["changed", "gone", "a link", "large"])
def test_a_damaged_file_of_the_firmware_makes_a_damaged_backup(web, to, name, damage):
    made = back_up(web, to)["id"]
    path = Place(to, web.uuid).path(made, name)
    if damage == "changed":
        with open(path, "r+b") as file:
            file.write(b"x")
    elif damage == "large":
        os.truncate(path, 20 << 20)
    else:
        os.rename(path, path + ".real")
        if damage == "a link":
            os.symlink(path + ".real", path)
    assert [name in fault for fault in listed(web, to)[made]] == [True]
    web.writes(LATER, b"other")
    with pytest.raises(BackupDamaged, match=name):
        restore(web, to, backup=made)
    assert web.kept() == (LATER, b"other")


def test_a_restore_that_is_killed_before_they_are_replaced_is_ended_by_the_next_run(web, to):
    back_up(web, to)
    web.writes(LATER, b"other")
    with pytest.raises(Killed):
        act(web, "restored", to, killed_at="restore disk", discards="web1")
    restore(web, to)
    assert web.kept() == (FIRST, b"sealed") and web.state()[0] == "stopped"


def test_variables_that_the_firmware_is_writing_are_read_once_they_are_still(web, to, monkeypatch):
    seen = [b"half", FIRST]
    known = firmware_state.place.content
    monkeypatch.setattr(
        firmware_state.place,
        "content",
        lambda path: seen.pop(0) if seen and path == str(web.variables) else known(path),
    )
    made = back_up(web, to)["id"]
    assert open(Place(to, web.uuid).path(made, "nvram.fd"), "rb").read() == FIRST


def test_variables_that_are_never_still_make_no_backup_and_do_not_hold_it_up(web, to, monkeypatch):
    count = iter(range(1000))
    known = firmware_state.place.content
    monkeypatch.setattr(
        firmware_state.place,
        "content",
        lambda path: b"%d" % next(count) if path == str(web.variables) else known(path),
    )
    with pytest.raises(BackupFailed, match="nvram.fd changes all the time"):
        back_up(web, to)
    assert next(count) < 100


@pytest.mark.parametrize("runs, there", [(True, []), (False, ["nvram.fd"])])
def test_variables_in_a_file_that_qemu_holds_in_part_in_memory_are_read_of_a_guest_that_is_off(
    web, tmp_path, runs, there
):
    web.writes(qcow2(), b"")
    os.unlink(web.tpm)
    assert [each.name for each in firmware_state.copy(web.host, web.record, str(tmp_path), runs)] == there


def test_the_recipe_names_them_with_their_digests_and_places(web, to):
    directory = Place(to, web.uuid).path(back_up(web, to)["id"])
    lines = open(os.path.join(directory, "RESTORE.txt")).read()
    for name in ("nvram.fd", "tpm2-00.permall"):
        (check,) = [line for line in lines.splitlines() if "sha256sum" in line and name in line]
        subprocess.run(check, shell=True, check=True, cwd=directory, capture_output=True)
        assert "copy %s to " % name in lines


def test_a_name_that_leads_elsewhere_makes_no_backup(web, to):
    made = back_up(web, to)["id"]
    path = Place(to, web.uuid).path(made, "backup.json")
    found = json.loads(open(path).read())
    found["files"][0]["name"] = "../../../etc/passwd"
    with open(path, "w") as file:
        json.dump(found, file)
    assert "nvram.fd" in listed(web, to)[made][0]
