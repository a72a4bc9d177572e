# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that undo what somebody did to a guest's disks with libvirt's tools. None of them loses data."""

from __future__ import annotations

import shlex

from ...model.state_hints import UNDEFINE
from .layers import commit

ASIDE, MADE = ".replaced", ".made"  # end the names of a disk that is kept, and of one that is being made


def commit_running(uuid, target, base):
    """Always pass --base: libvirt would otherwise commit down into the cached image, which all its instances share."""
    return "virsh blockcommit %s %s --base %s --active --pivot" % (uuid, target, shlex.quote(base))


def commit_stopped(uuid, above, base):
    """Merge the layers and remove them, with the definition, which names them. The next run defines the guest again."""
    return "%s && %s" % (commit(above, base), UNDEFINE % uuid)


def detach(uuid, target, live, drive):
    """Detach a disk from the running guest (``live``) or from its definition: virsh refuses to do both if only one has it.
    A running guest keeps a drive, without its medium: most cannot be detached."""
    if live and drive:
        return "virsh change-media %s %s --eject --live" % (uuid, target)
    return "virsh detach-disk %s %s %s" % (uuid, target, "--live" if live else "--config")


def write_back(uuid, target, path, form):
    """Write a disk whose file was removed under the running guest back to where it was, with all below it."""
    place = shlex.quote(path)
    return "virsh blockcopy %s %s --dest %s --format %s --transient-job --wait --pivot" % (uuid, target, place, form)


def put_back_running(uuid, target, path, form):
    """Write the disk of the running guest to where its record has it. What is there stays beside it."""
    return "%s && %s" % (_aside(path), write_back(uuid, target, path, form))


def put_back_stopped(uuid, used, path, form):
    """Put a copy of the disk ``used`` (a path and its format) to where the record has it, and remove the definition. What
    is there stays beside it, and the next run defines the guest again."""
    made = shlex.quote(path + MADE)
    convert = "qemu-img convert -f %s -O %s -- %s %s" % (used[1], form, shlex.quote(used[0]), made)
    return " && ".join((convert, _aside(path), "mv -- %s %s" % (made, shlex.quote(path)), UNDEFINE % uuid))


def _aside(path):
    """ln refuses where mv would replace what an earlier one has kept."""
    return "ln -- %s %s && rm -- %s" % (shlex.quote(path), shlex.quote(path + ASIDE), shlex.quote(path))
