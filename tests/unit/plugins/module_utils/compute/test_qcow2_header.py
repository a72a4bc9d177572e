# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file a disk stands on, by its own header: an image that is not seen here counts as unused."""

from __future__ import annotations

import os
import struct

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import layers

NAME = b"/images/base.qcow2"
FORMAT = struct.pack(">II", 0xE2792ACA, 5) + b"qcow2" + bytes(3)


def head(version=3, extensions=FORMAT + bytes(8), name=NAME, more=b"", cut=0):
    """A header with the file's name behind its ``extensions``, and then ``more``."""
    start = struct.pack(">I", 104) if version == 3 else b""
    fixed = 104 if version == 3 else 72
    offset = fixed + len(extensions)
    first = b"QFI\xfb" + struct.pack(">IQI", version, offset, len(name)) + bytes(40) + struct.pack(">I", 7)
    whole = (first.ljust(fixed - len(start), b"\0") + start + extensions + name + more).ljust(104, b"\0")
    return whole[: len(whole) - cut]


@pytest.fixture
def read(tmp_path):
    def of(data):
        path = tmp_path / "disk"
        path.write_bytes(data)
        return layers.read_header(str(path))

    return of


@pytest.mark.parametrize("version", [2, 3])
def test_the_file_and_its_format_are_read_from_either_version_of_the_header(read, version):
    assert read(head(version)) == (NAME.decode(), "qcow2", 7, True)


@pytest.mark.parametrize("more, cut, found", [(b"", 0, True), (b"x", 0, True), (b"", 1, False)])
def test_a_name_that_ends_with_the_file_is_whole_and_one_that_is_cut_off_is_none(read, more, cut, found):
    assert read(head(more=more, cut=cut)).backing == (NAME.decode() if found else None)


@pytest.mark.parametrize("length, found", [(1, True), (1023, True), (1024, False)])
def test_a_name_is_as_long_as_qemu_takes_it(read, length, found):
    name = b"/" + b"a" * (length - 1)
    assert read(head(name=name)).backing == (name.decode() if found else None)


def test_a_name_is_relative_to_the_disk_unless_it_has_a_protocol(read, tmp_path):
    for name, found in ((b"base", tmp_path / "base"), (b"file:/a/base", "/a/base"), (b"nbd:h:1", "nbd:h:1")):
        assert read(head(name=name)).backing == str(found)


def test_the_format_is_found_behind_other_extensions_and_not_behind_their_end(read):
    other = struct.pack(">II", 0x6803F857, 9) + bytes(16)  # padded to 8 bytes
    assert read(head(extensions=other + FORMAT)).backing_format == "qcow2"
    assert read(head(extensions=other + bytes(8) + FORMAT)).backing_format is None


def test_the_snapshots_in_a_disk_without_a_backing_file_are_counted(read):
    shortest = head(extensions=b"", name=b"")
    assert len(shortest) == 104 and read(shortest) == (None, None, 7, True)


def test_a_disk_that_says_no_place_of_a_name_has_no_backing_file(read):
    data = bytearray(head())
    data[8:16] = bytes(8)
    assert read(bytes(data)) == (None, None, 7, True)


@pytest.mark.parametrize("data, magic", [(b"", False), (b"raw" * 100, False), (head(name=b"")[:103], True)])
def test_what_is_no_qcow2_file_has_no_backing_file(read, data, magic):
    assert read(data) == (None, None, 0, magic)


def test_a_pipe_has_no_backing_file_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert layers.read_header(str(tmp_path / "pipe")) == (None, None, 0, False)


def test_a_file_that_cannot_be_read_has_no_backing_file(tmp_path):
    assert layers.read_header(str(tmp_path / "none")) == (None, None, 0, False)
