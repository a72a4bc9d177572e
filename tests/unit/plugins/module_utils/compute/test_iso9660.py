# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ISO writer for seeds: other programs read what it writes."""

from __future__ import annotations

import struct
import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import seed

SECTOR = 2048
NAMES = ("meta-data", "user-data", "network-config", "vendor-data")


def read_back(image, descriptor, decode):
    """A reader by ECMA-119, written without a look at the writer: {name: content} of the root directory."""
    volume = image[descriptor * SECTOR : (descriptor + 1) * SECTOR]
    assert volume[1:6] == b"CD001"
    assert (
        len(image)
        == struct.unpack_from("<I", volume, 80)[0] * SECTOR
        == struct.unpack_from(">I", volume, 84)[0] * SECTOR
    )
    start, length = struct.unpack_from("<I", volume, 158)[0], struct.unpack_from("<I", volume, 166)[0]
    directory, at, files = image[start * SECTOR : start * SECTOR + length], 0, {}
    while at < length and directory[at]:
        size, location, octets = (
            directory[at],
            struct.unpack_from("<I", directory, at + 2)[0],
            struct.unpack_from("<I", directory, at + 10)[0],
        )
        name = directory[at + 33 : at + 33 + directory[at + 32]]
        if not directory[at + 25] & 2:
            files[decode(name)] = image[location * SECTOR : location * SECTOR + octets]
        at += size
    return files


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=5000)))
def test_every_file_is_read_back_whole(files):
    image = seed.iso_image("cidata", files)
    assert read_back(image, 17, lambda name: name.decode("utf-16-be").partition(";")[0]) == files
    assert read_back(image, 16, lambda name: name.decode("ascii").partition(";")[0].lower()) == files


def test_the_same_files_give_the_same_bytes():
    files = {"meta-data": b"a", "user-data": b"b"}
    assert seed.iso_image("cidata", files) == seed.iso_image("cidata", dict(reversed(files.items())))


def test_the_label_is_where_guests_look_for_it():
    assert seed.iso_image("cidata", {})[32808:32840].rstrip(b" \0") == b"cidata"


def test_isoinfo_reads_it(tmp_path):
    path = tmp_path / "seed.iso"
    path.write_bytes(seed.iso_image("cidata", {"user-data": b"#cloud-config\n", "meta-data": b"x: 1\n"}))
    listed = subprocess.run(["isoinfo", "-J", "-f", "-i", str(path)], capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["/meta-data;1", "/user-data;1"] or listed.split() == ["/meta-data", "/user-data"]
