# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the controller."""

from __future__ import annotations

import json
import os
import stat

import pytest

from ansible_collections.berth.kvm.plugins.plugin_utils import documents
from ansible_collections.berth.kvm.plugins.plugin_utils.documents import write_document


def test_a_document_is_on_the_disk_with_its_name_when_it_is_written(tmp_path, monkeypatch):
    kinds, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (kinds.append(stat.S_ISDIR(os.fstat(fd).st_mode)), fsync(fd)))
    path = tmp_path / "receipt.json"
    write_document(str(path), {"a": 1})
    assert kinds == [False, True]
    assert json.loads(path.read_text()) == {"a": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["receipt.json"]


def test_two_runs_that_write_one_file_at_once_leave_one_of_the_two(tmp_path, monkeypatch):
    path, fsync = tmp_path / "receipt.json", os.fsync

    def other_run(fd):
        monkeypatch.setattr(os, "fsync", fsync)
        write_document(str(path), {"second": "x" * 100})
        fsync(fd)

    monkeypatch.setattr(os, "fsync", other_run)
    write_document(str(path), {"first": 1})
    assert json.loads(path.read_text()) == {"first": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["receipt.json"]


def test_what_others_put_in_the_way_of_the_temporary_file_is_not_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(documents.secrets, "token_hex", lambda _size: "known")
    target = tmp_path / "target"
    (tmp_path / "receipt.json.known.tmp").symlink_to(target)
    with pytest.raises(FileExistsError):
        write_document(str(tmp_path / "receipt.json"), {})
    assert not target.exists() and not (tmp_path / "receipt.json").exists()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "receipt.json"
    path.write_text("old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        write_document(str(path), {})
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["receipt.json"]
