# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backing file of a qcow2 file, from its own header, also while QEMU uses the file. No other file is opened."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple, Optional

from .virtual_size import QCOW2_MAGIC

HEAD = 64 * 1024
BACKING_FORMAT = 0xE2792ACA
LONGEST = 1023  # bytes of a backing file's name


class Header(NamedTuple):
    """The path of the backing file, its format as the header says, the number of internal snapshots, and whether it is
    the header of a qcow2 file at all."""

    backing: Optional[str] = None
    backing_format: Optional[str] = None
    snapshots: int = 0
    is_qcow2: bool = False


def read(path) -> Header:
    """Return the header of the file, an empty one if it cannot be read or is not qcow2."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            head = os.pread(fd, HEAD, 0)
        finally:
            os.close(fd)
    except OSError:
        return Header()
    if len(head) < 104 or head[:4] != QCOW2_MAGIC:
        return Header(is_qcow2=head[:4] == QCOW2_MAGIC)
    version, offset, length = struct.unpack_from(">IQI", head, 4)
    (snapshots,) = struct.unpack_from(">I", head, 60)
    if not offset or not 0 < length <= LONGEST or offset + length > len(head):
        return Header(snapshots=snapshots, is_qcow2=True)
    name = os.fsdecode(head[offset : offset + length])
    form = _backing_format(head, 72 if version == 2 else struct.unpack_from(">I", head, 100)[0])
    return Header(_absolute(name, path), form, snapshots, True)


def _absolute(name, path):
    """Return the path: a name is relative to the file that contains it, and one with a protocol is not a path."""
    name = name[len("file:") :] if name.startswith("file:") else name
    return name if ":" in name.split("/")[0] else os.path.normpath(os.path.join(os.path.dirname(path), name))


def _backing_format(head, offset):
    while offset + 8 <= len(head):
        kind, length = struct.unpack_from(">II", head, offset)
        if kind == 0:
            return None
        if kind == BACKING_FORMAT:
            return head[offset + 8 : offset + 8 + length].decode("ascii", "replace")
        offset += 8 + -(-length // 8) * 8
    return None
