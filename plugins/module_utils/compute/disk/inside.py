# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is inside a qcow2 file beside the disk: snapshots and bitmaps of changes. No QEMU uses the file where it is changed;
guest/qemu_nodes.py has the snapshots of a running guest.
"""

from __future__ import annotations

import json
import os

from ...model import snapshots
from .. import paths
from ..errors import SnapshotFailed
from ..run import run
from . import disk, virtual_size
from .layers import snapshots_in

MEMORY = "memory"  # a part of a snapshot, beside its disks


def make(path, tag):
    _snapshot("-c", path, tag)


def delete(path, tag):
    """Delete it, and give what only it needed back to the pool."""
    _snapshot("-d", path, tag)


def go_back(path, tag):
    """Make the disk what it was then. A size that it got since stays. Bitmaps of changes would be wrong, and are removed."""
    size = virtual_size.read(path, "qcow2")[0]
    for name in bitmaps(path, SnapshotFailed):
        remove_bitmap(path, name, SnapshotFailed)
    _snapshot("-a", path, tag)
    if virtual_size.read(path, "qcow2")[0] < size:
        _run(["qemu-img", "resize", "-q", "-f", "qcow2", "--", path, str(size)])


def lacking(pool_path, record, entry):
    """Return the names of the disks of a snapshot in the record that do not have it, and MEMORY if that is gone."""
    tag, files = snapshots.tag(entry["name"]), {each.name: each.file for each in disk.plan(record.spec)}
    memory = paths.instance(pool_path, record.uuid, snapshots.memory_file(entry["name"]))
    return [
        name
        for name in entry["disks"]
        if name not in files or tag not in snapshots_in(paths.instance(pool_path, record.uuid, files[name]))
    ] + [MEMORY] * (bool(entry.get("memory")) and not os.path.lexists(memory))


def bitmaps(path, error):
    """Return {name: flags} of a qcow2 file's bitmaps. Raise ``error`` if it cannot be read."""
    data = (info(path, "qcow2", error).get("format-specific") or {}).get("data") or {}
    return {bitmap["name"]: bitmap["flags"] for bitmap in data.get("bitmaps") or ()}


def info(path, form, error):
    return json.loads(run(["qemu-img", "info", "-U", "--output=json", "-f", form, "--", path], timeout=60, error=error))


def is_recording(flags):
    """Whether a bitmap has recorded all writes since it began. QEMU marks those of a disk that it did not close as in use."""
    return "auto" in flags and "in-use" not in flags


def remove_bitmap(path, name, error):
    run(["qemu-img", "bitmap", "--remove", "-f", "qcow2", "--", path, name], error=error)


def _snapshot(option, path, tag):
    options = "driver=qcow2,discard=unmap,file.driver=file,file.filename=%s" % path.replace(",", ",,")
    _run(["qemu-img", "snapshot", "-q", option, tag, "--image-opts", "--", options])


def _run(command):
    run(command, error=SnapshotFailed)
