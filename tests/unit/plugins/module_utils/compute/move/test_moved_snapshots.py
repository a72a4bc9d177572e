# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk with snapshots moves as the file that it is, and what arrives refers to no other file."""

from __future__ import annotations

import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from data_disk_case import GIB, holds, info, needs_qemu_img, pool, record, write

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import layers
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import ImageInvalid
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, live_checks, precopy, transfer
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import check_same_disks
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationConflict
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec

pytestmark = needs_qemu_img
LOGS = "data-logs.qcow2"
ONE = {"name": "one", "made_at": "2026-11-28T10:00:00Z", "taken": "off", "size_gb": 5, "disks": ["root", "data-logs"]}


def run(*command):
    return subprocess.run([*command], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def snapped(files):
    """The first data disk has a snapshot, with 0x42, and 0x43 since."""
    run("qemu-img", "snapshot", "-c", "berth-one", str(files / LOGS))
    write(files / LOGS, "0x43")
    return files


def manifest(files):
    return {entry["name"]: entry for entry in disks.manifest(pool(files), record(), with_path=True)}


def of_one(path):
    """Whether the disk holds 0x43, and 0x42 in its snapshot."""
    before = holds(path, "0x43")
    run("qemu-img", "snapshot", "-a", "berth-one", str(path))
    return before and holds(path, "0x42")


def test_a_manifest_says_how_large_a_file_with_snapshots_may_be_when_the_guest_is_off(snapped):
    found = manifest(snapped)
    assert [name for name, entry in found.items() if "whole" in entry] == ["data-logs"]
    whole = found["data-logs"]["whole"]
    assert whole % 512 == 0 and whole > os.path.getsize(snapped / LOGS) + 3 * GIB
    os.truncate(snapped / LOGS, whole)  # as it is where it has arrived
    assert manifest(snapped)["data-logs"]["whole"] == whole, "another move needs no more"


def test_it_is_read_and_written_as_a_file_when_the_guest_is_off_and_others_while_it_runs(snapped):
    found = manifest(snapped)
    with_one, without = found["data-logs"], found["data-send"]
    assert transfer.source_options(with_one).startswith("driver=raw,")
    assert transfer.source_options(without).startswith("driver=qcow2,")
    arriving = {each["name"]: each for each in disks.expected(pool(snapped), record("IN"), found.values())}
    assert [transfer.form(arriving[name]) for name in ("data-logs", "data-send")] == ["raw", "qcow2"]
    assert [each["name"] for each in precopy._recording(found.values())] == ["root", "data-send"]


@pytest.mark.parametrize("wrong", [{"whole": 0}, {"whole": 513}, {"whole": "1G"}, {"whole": 1 << 60}])
def test_a_source_that_says_something_else_is_refused(snapped, wrong):
    entry = {**manifest(snapped)["data-logs"], **wrong}
    with pytest.raises(MigrationConflict):
        disks.expected(pool(snapped), record("IN"), [entry])
    seed = {**manifest(snapped)["seed"], "whole": 1024}
    with pytest.raises(MigrationConflict):
        disks.expected(pool(snapped), record("IN"), [seed])


def arrive(files, path):
    """The file is there as the first attempt has copied it. Return the published disk."""
    shutil.copy(path, files / (LOGS + ".incoming-1"))
    disks.publish(pool(files), record("IN"))
    return files / LOGS


@pytest.mark.long
def test_what_arrives_has_the_snapshots_and_the_size_of_the_record(snapped, tmp_path):
    shutil.move(snapped / LOGS, tmp_path / "copied")
    os.truncate(tmp_path / "copied", 4 * GIB)
    there = arrive(snapped, tmp_path / "copied")
    assert layers.snapshots_in(str(there)) == ["berth-one"] and info(there)["virtual-size"] == 3 * GIB
    assert of_one(there)


@pytest.mark.parametrize("kind", ["a backing file", "a data file"])
def test_a_file_of_another_host_that_refers_to_a_file_here_is_not_used(snapped, tmp_path, kind):
    copied = str(tmp_path / "copied")
    if kind == "a data file":
        run("qemu-img", "create", "-f", "qcow2", "-o", "data_file=%s" % (tmp_path / "data"), copied, "3G")
        run("qemu-img", "create", "-f", "raw", str(tmp_path / "data"), "3G")
    else:
        shutil.move(snapped / LOGS, copied)
        run("qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", "/etc/shadow", copied)
    with open(copied, "r+b") as file:
        file.seek(60)
        file.write(b"\0\0\0\1")
        file.write((1 << 16).to_bytes(8, "big"))
    with pytest.raises(ImageInvalid, match=kind.split()[1]):
        arrive(snapped, copied)


def test_a_resize_on_the_same_storage_copies_the_file_and_its_revert_has_the_old_one(snapped, monkeypatch):
    monkeypatch.setattr(domain, "find_active", lambda connection, uuid: None)
    disks.layer(pool(snapped), record())
    disks.swap_in(pool(snapped), record("IN"))
    write(snapped / LOGS, "0x44")
    assert layers.read_header(str(snapped / LOGS)).backing is None
    assert layers.snapshots_in(str(snapped / LOGS)) == ["berth-one"]
    disks.restore(pool(snapped), record())
    assert of_one(snapped / LOGS)


def test_its_confirm_keeps_them(snapped, monkeypatch):
    monkeypatch.setattr(domain, "find_active", lambda connection, uuid: None)
    disks.layer(pool(snapped), record())
    disks.swap_in(pool(snapped), record("IN"))
    disks.drop_kept(None, pool(snapped), record("IN"))
    assert of_one(snapped / LOGS) and not list(snapped.glob("*.pre-*"))


@pytest.mark.parametrize("shared", [False, True])
def test_a_live_migration_without_shared_storage_names_what_it_would_leave_behind(shared):
    here = SimpleNamespace(name="web1", spec={"snapshots": [ONE]}, uuid="u")
    found = list(live_checks._snapshots_left(here)) if not shared else []
    text = "<domain><devices/></domain>"
    told = list(live_checks.disk_problems(text, record(spec={**record().spec, "snapshots": [ONE]}), "/p", shared))
    assert ("behind: one" in " ".join(told)) == (not shared) and len(found) == (not shared)


def test_a_move_that_was_planned_before_a_snapshot_is_planned_again():
    before = record(moved=False)
    check_same_disks(before, before.spec)
    with pytest.raises(MigrationConflict, match="snapshots"):
        check_same_disks(before.replace(spec={**before.spec, "snapshots": [ONE]}), before.spec)


def test_a_destination_needs_room_for_the_snapshots():
    spec = {"uuid": "u", "flavor": {"vcpus": 1, "memory_mb": 1, "root_gb": 2}}
    assert RequestSpec({**spec, "snapshots": [ONE, {**ONE, "name": "two"}]}).local_gb == 12
