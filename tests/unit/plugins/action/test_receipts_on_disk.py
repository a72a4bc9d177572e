# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Receipts are bounded in days and room, and where none can be kept the run goes on."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time

import pytest
from ansible.utils.display import Display
from receipt_case import MB, create, files, why

from ansible_collections.berth.kvm.plugins.module_utils.model import ways_in
from ansible_collections.berth.kvm.plugins.module_utils.placement import receipt_file
from ansible_collections.berth.kvm.plugins.plugin_utils import documents, receipts, state_directory


@pytest.fixture
def warnings(monkeypatch):
    said = []
    monkeypatch.setattr(Display, "warning", lambda self, text, *args, **more: said.append(text))
    monkeypatch.setattr(ways_in, "lacks", lambda *_: [])
    return said


# -- bounded


def age(path, days):
    os.utime(path, (time.time() - days * 86400,) * 2)


def test_receipts_are_bounded_in_days_and_the_oldest_go_first(own_state):
    create()
    (old,) = files(own_state)
    old = old.rename(old.with_name("20200101T000000Z-r-00000000-create.receipt.gz"))
    (old.parent / "notes.txt").write_text("not ours")
    age(old, 29)
    age(old.parent / "notes.txt", 99)
    create()
    assert old.exists()
    age(old, 31)
    create()
    assert not old.exists() and (old.parent / "notes.txt").exists()
    assert [path for path in files(own_state) if path.suffix == ".gz"]


def test_receipts_are_bounded_in_mib(own_state):
    folder = own_state / "receipts"
    folder.mkdir(parents=True)
    names = ["2026010%dT000000Z-r-00000000-create.receipt.gz" % day for day in range(1, 5)]
    for at, name in enumerate(names):
        (folder / name).write_bytes(b"x" * (MB // 4))
        age(folder / name, 10 - at)
    (folder / (names[0] + ".0123456789abcdef.tmp")).write_bytes(b"of a run that was killed")
    age(folder / (names[0] + ".0123456789abcdef.tmp"), 11)
    create(variables={"berth_receipts_mb": "1"})
    left = [path.name for path in files(own_state)]
    assert len(left) == 4 and left[:3] == names[1:]
    assert sum(path.stat().st_size for path in files(own_state)) <= MB


def test_a_file_that_replaces_one_removes_no_other_for_the_room_that_it_gets_back(own_state):
    names = ["2026010%dT000000Z-r-00000000-create.receipt.gz" % day for day in (1, 2)]
    with state_directory.opened("receipts", make=True) as folder:
        for name in (*names, names[1]):
            state_directory.write_bounded(folder, name, b"x" * (MB // 2), receipts.OURS, MB, 30)
    assert [path.name for path in files(own_state)] == names


def test_a_receipt_that_is_too_large_by_itself_removes_no_other(own_state, warnings, monkeypatch):
    create()
    monkeypatch.setattr(receipt_file, "pack", lambda *args: b"x" * (2 * MB))
    create(variables={"berth_receipts_mb": 1})
    assert len(files(own_state)) == 1 and len(warnings) == 1


@pytest.mark.parametrize(
    "wrong", [{"berth_receipts_mb": -1}, {"berth_receipts_days": 0}, {"berth_receipts_mb": "much"}]
)
def test_a_wrong_setting_is_refused_by_name(wrong):
    result = create(variables=wrong)
    assert (result["failed"], result["error_code"]) == (True, "InvalidInput") and next(iter(wrong)) in result["msg"]


def test_receipts_are_off_with_0_mib(own_state, warnings):
    create(variables={"berth_receipts_mb": 0})
    assert not own_state.exists() and warnings == []


# -- where it cannot be kept


def no_home(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a uid that nobody has, as in AWX's containers


def is_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))


def is_nonsense(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/x\x1b[2J")


def is_a_link(monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "berth").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def is_a_link_inside(monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "berth").mkdir()
    (tmp_path / "berth" / "receipts").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def is_anothers(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)


def is_full(monkeypatch, tmp_path):
    def write_file(folder, name, data, mode):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state_directory, "write_file", write_file)


def is_read_only(monkeypatch, tmp_path):
    def makedirs(*args, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "makedirs", makedirs)


@pytest.mark.parametrize(
    "case",
    [no_home, is_a_file, is_nonsense, is_a_link, is_a_link_inside, is_anothers, is_full, is_read_only],
    ids=lambda case: case.__name__,
)
def test_where_no_receipt_can_be_kept_one_warning_says_so_and_the_run_goes_on(case, monkeypatch, tmp_path, warnings):
    case(monkeypatch, tmp_path)
    result = create()
    assert result["selections"] and "receipt_file" not in result
    assert len(warnings) == 1 and warnings[0].startswith("No receipt of this decision is kept: ")
    assert "\x1b" not in warnings[0]
    assert not (tmp_path / "elsewhere").exists() or not list((tmp_path / "elsewhere").iterdir())
    assert why("web1")["failed"]


@pytest.mark.follows("writable_state_home")
@pytest.mark.parametrize("case", [no_home, is_a_file, is_nonsense], ids=lambda case: case.__name__)
def test_where_none_can_be_kept_it_says_which_variable_gives_another_directory(case, monkeypatch, tmp_path, warnings):
    case(monkeypatch, tmp_path)
    create()
    assert "Set the environment variable XDG_STATE_HOME of ansible-playbook to the absolute path" in warnings[0]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert "receipt_file" in create()


def test_a_full_disk_keeps_no_half_of_a_file(tmp_path, monkeypatch):
    def fsync(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError):
        documents.write_document(str(tmp_path / "a"), {})
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_in_xdg_state_home_does_not_count(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = create()["receipt_file"]
    assert path.startswith(str(tmp_path / "home/.local/state/berth/receipts/"))


def test_a_directory_that_others_may_read_is_closed(own_state):
    own_state.mkdir(mode=0o755)
    create()
    assert stat.S_IMODE(own_state.stat().st_mode) == 0o700


def test_many_runs_at_once_each_keep_their_own_and_the_directory_may_vanish(own_state, monkeypatch):
    """More than there is room for: they remove the same files."""
    errors, one_by_one = [], iter(range(10**6))
    data = b"x" * (MB // 8)

    def write(number):
        for _again in range(5):
            name = "20260101T000000Z-r-%08x-create.receipt.gz" % next(one_by_one)
            try:
                with state_directory.opened("receipts", make=True) as folder:
                    state_directory.write_bounded(folder, name, data, receipts.OURS, MB, 30)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and files(own_state)
    for path in files(own_state):
        path.unlink()
    (own_state / "receipts").rmdir()
    assert create()["receipt_file"]
