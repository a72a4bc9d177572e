# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small writer of ISO 9660 images with Joliet names: a few files in the root directory.

It exists because a stock libvirt host has no program for this (neither libvirt-daemon-system nor qemu-utils depends on
genisoimage or xorriso), and cloud-init's NoCloud reads it on every system. ECMA-119; Joliet is a second directory with
names in UTF-16, which keeps lower case. The same files give the same bytes: the image has no time stamp.
"""

from __future__ import annotations

import struct

SECTOR = 2048
SYSTEM_AREA = 16
DIRECTORY_FLAG = 2
JOLIET_LEVEL_3 = b"%/E"


def _both(number, size):
    """Return a number in both byte orders, as ECMA-119 7.2.3 and 7.3.3 require."""
    code = {2: "H", 4: "I"}[size]
    return struct.pack("<" + code, number) + struct.pack(">" + code, number)


def _sectors(length):
    return -(-length // SECTOR)


def _padded(data):
    return data + b"\0" * (_sectors(len(data)) * SECTOR - len(data))


def _entry(name, location, length, flags=0):
    """Return a directory record (ECMA-119 9.1)."""
    body = b"".join(
        [
            b"\0",
            _both(location, 4),
            _both(length, 4),
            b"\0" * 7,
            struct.pack("<BBB", flags, 0, 0),
            _both(1, 2),
            struct.pack("<B", len(name)),
            name,
        ]
    )
    body += b"\0" * ((len(body) + 1) % 2)
    return struct.pack("<B", len(body) + 1) + body


def _directory(location, files):
    """Return the root directory: itself, its parent (itself), the files [(encoded name, sector, length)] by name."""
    own = [_entry(dots, location, SECTOR, DIRECTORY_FLAG) for dots in (b"\0", b"\1")]
    data = b"".join(own + [_entry(*file) for file in sorted(files)])
    if len(data) > SECTOR:
        raise ValueError("more files than one directory sector holds")
    return _padded(data)


def _path_table(location, order):
    return _padded(struct.pack(order + "BBIH", 1, 0, location, 1) + b"\0\0")


def _descriptor(kind, label, total, tables, root, escape=b""):
    """Return a volume descriptor (ECMA-119 8.4): kind 1 is the primary one, 2 with an escape sequence Joliet's."""
    text = (lambda word: word.encode("utf-16-be")) if escape else (lambda word: word.encode("ascii"))
    space = text(" ")

    def field(value, length):
        return (text(value) + space * length)[: length // len(space) * len(space)].ljust(length, b"\0")

    no_time = b"0" * 16 + b"\0"
    data = b"".join(
        [
            struct.pack("<B5sBB", kind, b"CD001", 1, 0),
            field("", 32),
            field(label, 32),
            b"\0" * 8,
            _both(total, 4),
            escape.ljust(32, b"\0"),
            _both(1, 2) + _both(1, 2) + _both(SECTOR, 2),
            _both(10, 4),
            struct.pack("<II", tables[0], 0) + struct.pack(">II", tables[1], 0),
            _entry(b"\0", root, SECTOR, DIRECTORY_FLAG),
            field("", 128) * 4,
            field("", 37) * 3,
            no_time * 4,
            struct.pack("<BB", 1, 0),
        ]
    )
    return _padded(data)


def image(label, files):
    """Return the bytes of an ISO image with volume ``label`` and ``files`` {name: bytes}.

    A name has at most 30 characters of a-z, 0-9, - and . (a reader without Joliet sees upper case).
    """
    tables, roots = (19, 20, 21, 22), (23, 24)
    at = 25
    places, content = {}, []
    for name, data in sorted(files.items()):
        places[name] = (at, len(data))
        content.append(_padded(data))
        at += _sectors(len(data))
    plain = [((name.upper() + ";1").encode("ascii"), *places[name]) for name in files]
    joliet = [((name + ";1").encode("utf-16-be"), *places[name]) for name in files]
    parts = [
        b"\0" * SYSTEM_AREA * SECTOR,
        _descriptor(1, label, at, tables[:2], roots[0]),
        _descriptor(2, label, at, tables[2:], roots[1], JOLIET_LEVEL_3),
        _padded(struct.pack("<B5sB", 255, b"CD001", 1)),
        *(_path_table(root, order) for root in roots for order in "<>"),
        _directory(roots[0], plain),
        _directory(roots[1], joliet),
        *content,
    ]
    return b"".join(parts)
