# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What copying a running disk leaves behind where it was cut off (I5), and which bitmap says what is still missing."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import precopy

RECORD = SimpleNamespace(op="0123456789abcdef", migration={"attempt": 2})


def disk_with(directory, bitmaps, whole):
    """A disk with the bitmaps of the copies ``bitmaps`` {number: whether it goes on}, and marks of the copies that are whole."""
    path = str(directory / "root.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1M"], check=True)
    for number, goes_on in bitmaps.items():
        name = precopy.bitmap_name(RECORD, number)
        subprocess.run(["qemu-img", "bitmap", "--add", *([] if goes_on else ["--disable"]), path, name], check=True)
    for number in whole:
        open(precopy.copied_mark(path, RECORD, number), "w").close()
    return [{"name": "root", "path": path, "format": "qcow2"}]


def test_the_newest_bitmap_whose_copy_is_whole_says_what_is_missing(tmp_path):
    manifest = disk_with(tmp_path, {0: True, 1: True, 2: True}, whole=(0, 1))
    assert precopy.what_is_missing(RECORD, manifest) == (manifest, {"root": precopy.bitmap_name(RECORD, 1)})


def test_a_bitmap_that_ended_before_the_guest_did_says_nothing(tmp_path):
    """Where libvirt ends a bitmap when the next begins, one whose next copy is not whole lacks what was written since."""
    manifest = disk_with(tmp_path, {0: False, 1: True}, whole=(0,))
    assert precopy.what_is_missing(RECORD, manifest) == (manifest, {})


def test_bitmaps_of_another_attempt_and_of_no_whole_copy_say_nothing(tmp_path):
    manifest = disk_with(tmp_path, {0: True}, whole=())
    assert precopy.what_is_missing(RECORD, manifest) == (manifest, {})
    other = SimpleNamespace(op=RECORD.op, migration={"attempt": 3})
    open(precopy.copied_mark(manifest[0]["path"], other, 0), "w").close()
    assert precopy.what_is_missing(other, manifest) == (manifest, {})


def test_bitmaps_of_moves_are_removed_and_those_of_others_stay(tmp_path):
    path = disk_with(tmp_path, {0: True, 1: False}, whole=())[0]["path"]
    subprocess.run(["qemu-img", "bitmap", "--add", path, "theirs"], check=True)
    precopy.remove_bitmaps(path)
    left = subprocess.run(["qemu-img", "info", path], check=True, capture_output=True, text=True).stdout
    assert "name: theirs" in left and "berth-" not in left


def test_the_scratch_file_of_a_copy_that_a_power_cut_ended_is_removed_and_the_disks_stay(tmp_path):
    disks = [("root.qcow2", "qcow2"), ("ephemeral.qcow2", "qcow2"), ("seed.iso", "raw")]
    for name in ("root.qcow2", "root.qcow2.scratch", "ephemeral.qcow2", "seed.iso", "seed.iso.scratch"):
        (tmp_path / name).touch()
    precopy.discard_scratch([{"path": str(tmp_path / name), "format": form} for name, form in disks])
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["ephemeral.qcow2", "root.qcow2", "seed.iso", "seed.iso.scratch"]
