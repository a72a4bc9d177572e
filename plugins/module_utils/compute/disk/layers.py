# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers of a snapshot over a disk, as the files' own headers name them, the commands that merge them, and the
refusal of a volume that has one.
"""

from __future__ import annotations

import os
import shlex
import struct
from typing import List, NamedTuple, Optional

from ...model import hints, state_hints
from .. import paths
from ..errors import DiskChainChanged
from .virtual_size import QCOW2_MAGIC

# The backing file of a qcow2 file, from its own header, also while QEMU uses the file. No other file is opened.
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


def read_header(path) -> Header:
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


MOST_SNAPSHOTS = 1000
UNREADABLE = "?"
ENTRY = struct.Struct(">QIHHIIQII")  # of the table: where the L1 table is, its size, the lengths of id and name, ...


def snapshots_in(path) -> List[str]:
    """Return the names of the snapshots inside a qcow2 file, also while QEMU uses it; "?" for what cannot be read."""
    count, found = read_header(path).snapshots, []
    if not count:
        return []
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return [UNREADABLE]
    try:
        at = int.from_bytes(os.pread(fd, 8, 64), "big")
        for _each in range(min(count, MOST_SNAPSHOTS)):
            entry = os.pread(fd, ENTRY.size, at)
            if len(entry) < ENTRY.size:
                return [*found, UNREADABLE]
            _l1, _size, of_id, of_name, *_times, more = ENTRY.unpack(entry)
            name = os.pread(fd, of_name, at + ENTRY.size + more + of_id)
            found.append(name.decode("utf-8", "replace"))
            at += -(-(ENTRY.size + more + of_id + of_name) // 8) * 8
    finally:
        os.close(fd)
    return found


DEEPEST = 200  # layers


def chain(path, form):
    """Return the backing files of a disk, as its header and theirs name them."""
    found = []
    while form == "qcow2" and len(found) < DEEPEST:
        header = read_header(path)
        if not header.backing:
            break
        path, form = header.backing, header.backing_format
        found.append(path)
    return found


def layers_beside(planned):
    """Return [(file, disk)] of the files beside the disks ``planned`` (paths) that have one of them as backing file."""
    found = []
    for directory in sorted(set(map(os.path.dirname, planned))):
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        for path in (os.path.join(directory, name) for name in names):
            if path in planned or paths.is_of_move(path):
                continue
            found += [(path, layer) for layer in chain(path, "qcow2") if layer in planned][:1]
    return found


def check_volume(name, path, host):
    """Raise DiskChainChanged if the data of a volume to attach is not all in its own file, at ``path``."""
    layers = [layer for layer, _disk in layers_beside([path])]
    below = chain(path, "qcow2")
    if layers:
        text = "%s is a layer over volume %s: the newest data may be only there" % (layers[0], name)
        hint = merge(host, layers)
    elif below:
        text = "volume %s stands on %s" % (name, below[0])
        hint = hints.take_disks_back(host, [pull(path)])
    else:
        return
    raise DiskChainChanged(text, hint=hint, host=host, files=layers or below)


def merge(host, layers):
    """Return the hint for layers that no definition names: merge the newest and those below it, or none."""
    newest = max(layers, key=lambda layer: len(chain(layer, "qcow2")))
    files = [newest, *chain(newest, "qcow2")]
    above = [file for file in files if file in layers]
    return state_hints.merge_layers(host, commit(above, files[len(above)]), layers)


def commit(above, base):
    quoted = " ".join(shlex.quote(path) for path in above)
    return "qemu-img commit -f qcow2 -b %s -- %s && rm -- %s" % (shlex.quote(base), shlex.quote(above[0]), quoted)


def pull(path):
    return "qemu-img rebase -f qcow2 -b '' -- %s" % shlex.quote(path)
