# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of a disk is what its declared format says, never what a guest wrote on it."""

from __future__ import annotations

import os

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import virtual_size

GIB = 1 << 30
QCOW2 = b"QFI\xfb" + (3).to_bytes(4, "big") + bytes(16) + GIB.to_bytes(8, "big") + bytes(72)


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(QCOW2)
    return path


def test_a_qcow2_disk_has_its_virtual_size(disk):
    assert virtual_size.read(disk, "qcow2")[0] == GIB


def test_a_raw_disk_with_a_qcow2_header_on_it_has_the_size_of_the_file(disk):
    assert virtual_size.read(disk, "raw")[0] == len(QCOW2)


def test_allocated_is_what_lies_on_the_disk_and_not_the_holes(tmp_path):
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, GIB)
    virtual, allocated, device = virtual_size.read(path, "raw")
    assert (virtual, device) == (GIB, os.stat(tmp_path).st_dev)
    assert allocated < GIB // 2


def test_a_qcow2_disk_without_a_header_is_an_error(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"QFI")
    with pytest.raises(ValueError, match="no qcow2 header"):
        virtual_size.read(path, "qcow2")


def test_a_pipe_is_refused_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="neither a file nor a block device"):
        virtual_size.read(tmp_path / "pipe", "raw")
