# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merges the layer that a disk stands on into it, so that the layer is not needed any more: the kept disk of a resize, or the
image of a disk of which a snapshot is made.

QEMU and qemu-img first write into the disk's header that it stands on nothing, and later where in it they put the data. If
they are killed in between, the disk seems whole and is not. So a note says, until the layer is not needed any more, which
file stood on it.
"""

from __future__ import annotations

import contextlib
import os

from ...model import disk_hints
from ...model.move_errors import TransferFailed
from .. import durable, paths
from ..disk import layers
from ..guest import domain, gate, qemu_nodes
from ..run import run
from . import block_jobs


def merge(connection, record, path, kept, form="qcow2", note=None):
    """Make the qcow2 disk at ``path`` independent of ``kept``, and all of it durable. Raise TransferFailed if that is not
    certain. ``unstartable``: a guest that runs must be the one that ran at an earlier call that did not end. ``form``: the
    format of ``kept``; ``note``: the path of the note, by default beside it."""
    guest = domain.find_active(connection, record.uuid)
    note = note or paths.merging_file(kept)
    if guest is None and os.path.lexists(note) and not _stands_on(path, kept):
        _check_same_file(record, path, kept, note)
        # What was merged is written again; what the guest has written or zeroed since is in the new disk.
        run(
            ["qemu-img", "rebase", "-q", "-u", "-f", "qcow2", "-F", form, "-b", _seen_from(path, kept), "--", path],
            error=TransferFailed,
        )
    if _stands_on(path, kept):
        durable.write_at(note, _identity(path), durable.FILE_MODE)
        _pull(guest, path, layers.read_header(kept))
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


def _seen_from(path, kept):
    """A kept disk is named without its directory, which other hosts may have elsewhere."""
    return os.path.basename(kept) if os.path.dirname(kept) == os.path.dirname(path) else kept


def _check_same_file(record, path, kept, note):
    """Raise TransferFailed if the disk was replaced: on the kept one, what is zero in it would be the old data again. A
    note of an earlier version is empty and names none."""
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
    return layers.read_header(path).backing == kept


def _pull(guest, path, below):
    """Copy the layer with the header ``below`` into the disk at ``path``, so that it stands on that layer's backing file."""
    if guest is not None:
        block_jobs.pull(guest, path, below.backing)
        return
    command = ["qemu-img", "rebase", "-q", "-f", "qcow2"]
    command += ["-F", below.backing_format, "-b", below.backing] if below.backing else ["-b", ""]
    run(command + ["--", path], timeout=3600, error=TransferFailed)
