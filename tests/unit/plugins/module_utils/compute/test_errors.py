# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the system of a host refuses is told with its file and cause, whichever module met it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable, errors
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints

MODULES = Path(__file__).parents[5] / "plugins" / "modules"


def test_a_full_disk_is_told_with_file_host_and_what_to_do():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/var/lib/berth/instances/x/record.json")
    said = errors.result_of(full)
    assert (said["error_code"], said["retryable"]) == ("FileNotUsable", True)
    assert "/var/lib/berth/instances/x/record.json: No space left on device" in said["msg"]
    assert said["error"]["hint"] == state_hints.make_room_for_file(os.uname().nodename)


@pytest.mark.parametrize(
    "files, free_files, free_blocks, told",
    [(1000, 0, 50, True), (1000, 1, 50, False), (1000, 0, 0, False), (0, 0, 50, False)],
    ids=["no inodes", "an inode", "full of bytes", "it counts none, as btrfs"],
)
def test_a_file_system_that_has_room_but_no_inodes_is_told_as_such(
    monkeypatch, tmp_path, files, free_files, free_blocks, told
):
    """Who looks at df alone finds room there."""
    asked = []

    def statvfs(path):
        asked.append(path)
        return SimpleNamespace(f_files=files, f_favail=free_files, f_bavail=free_blocks)

    monkeypatch.setattr(os, "statvfs", statvfs)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "record.json"))
    with pytest.raises(durable.StateNotWritten) as refused, durable.writing(full.filename):
        raise full
    for said in (errors.result_of(full)["msg"], str(refused.value)):
        assert ("no free inodes, as df -i shows" in said) is told
    assert set(asked) == {str(tmp_path)} and "df -i" in refused.value.hint


def test_an_error_without_a_file_is_told_by_its_own_words():
    assert "the pipe is gone" in errors.result_of(BrokenPipeError("the pipe is gone"))["msg"]


def test_an_error_of_ours_is_told_as_it_is():
    assert errors.result_of(errors.HostBusy("another run"))["error_code"] == "HostBusy"


@pytest.mark.parametrize("path", sorted(MODULES.glob("*.py")), ids=lambda path: path.stem)
def test_every_module_that_ends_with_an_error_of_ours_tells_the_systems_errors_too(path):
    assert "except BerthError" not in path.read_text(), "such a module ends with a traceback where a disk is full"
