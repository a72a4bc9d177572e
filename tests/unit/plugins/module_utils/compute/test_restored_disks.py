# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that a restore puts in place of a disk under its running guest, whose QEMU writes to the earlier file (I3)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from disk_case import UUID, make_guest, off, record

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import disk_users, qemu_process
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A guest whose QEMU is this process, which has the root disk and the seed open."""
    monkeypatch.setattr(qemu_process, "RUN_DIR", str(tmp_path))
    (tmp_path / (UUID + ".pid")).write_text("%d\n" % os.getpid())
    guest = make_guest(tmp_path, monkeypatch)
    with open(guest.file("root.qcow2"), "rb+"), open(guest.file("swap"), "rb"), open(guest.file("seed.iso"), "rb"):
        yield guest


class OnHost:
    """A host with the one pool."""

    def __init__(self, pool):
        self.pool, self.connection = pool, self

    def pool_of(self, _record):
        return self.pool

    def getHostname(self):
        return "kvm1"


def restore(guest, file):
    backup = Path(guest.file(file + ".backup"))
    backup.write_bytes(Path(guest.file(file)).read_bytes())
    backup.replace(guest.file(file))


def test_a_disk_that_qemu_has_open_is_no_difference(guest):
    assert guest.found() == []


def test_one_that_was_put_in_its_place_is_told_with_what_keeps_the_data_of_the_guest(guest):
    restore(guest, "root.qcow2")
    (difference,) = guest.found()
    root = guest.file("root.qcow2")
    assert (difference.kind, difference.files) == ("restored", (root,)) and root in difference.text
    assert difference.command == (
        "ln -- %(root)s %(root)s.replaced && rm -- %(root)s && virsh blockcopy %(uuid)s vda --dest %(root)s "
        "--format qcow2 --transient-job --wait --pivot" % {"root": root, "uuid": UUID}
    )


def test_a_stop_is_refused_with_both_ways_on_and_a_delete_is_not(guest, monkeypatch):
    restore(guest, "root.qcow2")
    host = OnHost(str(guest.pool))
    with pytest.raises(DiskChainChanged) as refused:
        disk_chain.check_stop(host, record())
    (difference,) = guest.found()
    assert refused.value.hint == disk_hints.keep_or_restore("kvm1", "web-1", UUID, [difference.command])
    monkeypatch.setattr(disk_users, "check_delete", _never_the_same)
    disk_chain.check_delete(host, record())


def test_so_is_one_whose_earlier_file_was_renamed_first(guest):
    root = Path(guest.file("root.qcow2"))
    root.rename(guest.file("root.qcow2.bak"))
    shutil.copy(guest.file("root.qcow2.bak"), root)
    assert [each.kind for each in guest.found()] == ["restored"]


def test_a_seed_that_was_written_again_is_no_disk_and_loses_nothing(guest):
    restore(guest, "seed.iso")
    assert guest.found() == []


def test_once_the_guest_is_off_the_file_is_its_disk(guest):
    restore(guest, "root.qcow2")
    off(guest)
    assert guest.found() == []


def test_in_a_move_whose_own_steps_put_files_there_it_is_no_difference(guest):
    restore(guest, "root.qcow2")
    migration = {"old_spec": record().spec, "new_spec": record().spec}
    assert guest.found(record(op="ab" * 16, migration=migration)) == []


@pytest.mark.parametrize("pid", ["", "999999999"])
def test_of_a_process_that_cannot_be_seen_nothing_is_said(guest, tmp_path, pid):
    (tmp_path / (UUID + ".pid")).write_text(pid)
    restore(guest, "root.qcow2")
    assert guest.found() == []


def test_a_file_system_that_changes_inodes_while_a_file_is_open_is_believed_by_its_path(guest, monkeypatch):
    monkeypatch.setattr(os.path, "samestat", _never_the_same)
    assert guest.found() == []


def _never_the_same(*_stats):
    return False
