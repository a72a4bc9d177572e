# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merges the kept disk of a resize into the new disk that stands on it, so that the kept one is not needed any more.

QEMU and qemu-img first write into the new disk's header that it stands on nothing, and later where in it they put the
data. If they are killed in between, the new disk seems whole and is not. So a note beside the kept disk says, until that
one is removed, which file stood on it.
"""

from __future__ import annotations

import contextlib
import os

from ...model import disk_hints
from ...model.move_errors import TransferFailed
from .. import durable, paths
from ..disk import move_files, qcow2_header
from ..guest import domain, gate, qemu_nodes
from ..run import run
from . import jobs


def merge(connection, record, path, kept):
    """Make the qcow2 disk at ``path`` independent of ``kept``, and all of it durable. Raise TransferFailed if that is not
    certain. ``unstartable``: a guest that runs must be the one that ran at an earlier call that did not end."""
    guest = domain.find(connection, record.uuid) if domain.is_active(connection, record.uuid) else None
    note = move_files.merging(kept)
    if guest is None and os.path.lexists(note) and not _stands_on(path, kept):
        _check_same_file(record, path, kept)
        # What was merged is written again; what the guest has written or zeroed since is in the new disk.
        run(
            ["qemu-img", "rebase", "-q", "-u", "-f", "qcow2", "-F", "qcow2", "-b", os.path.basename(kept), "--", path],
            error=TransferFailed,
        )
    if _stands_on(path, kept):
        durable.write_at(note, _identity(path), durable.FILE_MODE)
        _pull(guest, path, qcow2_header.read(kept))
        if _stands_on(path, kept):
            raise TransferFailed("%s still needs %s" % (path, kept))
    if guest is None:
        paths.sync(path)
    elif not qemu_nodes.write_out(guest, path):
        host = os.uname().nodename
        raise TransferFailed(
            "the QEMU of %s on %s did not confirm that it has written all of %s: %s was not removed"
            % (record.name, host, path, kept),
            hint=disk_hints.merge_with_guest_off(record.name, record.uuid, host),
        )


@contextlib.contextmanager
def unstartable(connection, uuid):
    """Withdraw the guest's permit until its disks are merged: one whose QEMU died would start from what is not whole."""
    allowed = gate.is_permitted(uuid)
    gate.revoke(uuid)
    yield
    if allowed or domain.is_active(connection, uuid):
        gate.permit(uuid)


def _identity(path):
    """Its inode and when that was made: file systems give the inode of a removed file to the next one."""
    return run(["stat", "-c", "%i %.W", "--", path], error=TransferFailed).encode()


def _check_same_file(record, path, kept):
    """Raise TransferFailed if the disk was replaced: on the kept one, what is zero in it would be the old data again. A
    note of an earlier version is empty and names none."""
    note = move_files.merging(kept)
    with open(note, "rb") as file:
        if file.read(64) in (b"", _identity(path)):
            return
    host = os.uname().nodename
    raise TransferFailed(
        "disk %s of %s on %s is another file than the one into which its kept disk was being merged: nothing was removed"
        % (os.path.basename(path), record.name, host),
        hint=disk_hints.say_what_replaced_it(record.name, host, path, kept, note),
    )


def _stands_on(path, kept):
    return qcow2_header.read(path).backing == kept


def _pull(guest, path, below):
    """Copy the layer with the header ``below`` into the disk at ``path``, so that it stands on that layer's backing file."""
    if guest is not None:
        jobs.pull(guest, path, below.backing)
        return
    command = ["qemu-img", "rebase", "-q", "-f", "qcow2"]
    command += ["-F", below.backing_format, "-b", below.backing] if below.backing else ["-b", ""]
    run(command + ["--", path], timeout=3600, error=TransferFailed)
