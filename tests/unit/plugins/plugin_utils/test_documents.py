# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the controller."""

from __future__ import annotations

import json
import os
import stat

import pytest

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


def test_a_link_in_the_way_of_the_temporary_file_is_not_followed(tmp_path):
    target = tmp_path / "target"
    (tmp_path / "receipt.json.tmp").symlink_to(target)
    with pytest.raises(OSError):
        write_document(str(tmp_path / "receipt.json"), {})
    assert not target.exists()
