# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The owner of an instance's disks: a file beside them with the uuid of the host that owns the instance. A volume that
moved with its instance has one too: then ``of`` is paths.volume.

Several hosts may share a pool's directory. Whatever its records say, a host never removes or makes disks that another
owns.
"""

from __future__ import annotations

import os

from ...model import hints, state_hints
from ...model.identity import is_uuid
from ...model.safe_text import clean
from .. import durable, paths
from ..errors import DisksOfAnotherHost

FILE = "owner"


def write(pool_path, uuid, host_uuid, of=paths.instance):
    """Make this host the owner of the disks, before its record does."""
    durable.write_in(of(pool_path, uuid), FILE, host_uuid.encode(), mode=paths.PASS_MODE)


def read(pool_path, uuid, of=paths.instance):
    """Return the uuid of the host that owns the disks, or None if there is no owner file."""
    data = durable.read_in(of(pool_path, uuid), FILE, mode=paths.PASS_MODE)
    return data.decode("ascii", "replace").strip() if data else None


def check_writable(pool_path, uuid):
    """Raise StateNotWritten if nothing can be written beside the disks, as on a full or read-only file system: before a
    guest is stopped that is to run from them. The owner is written again as it is."""
    whose = read(pool_path, uuid)
    if whose:
        write(pool_path, uuid, whose)


def is_another(pool_path, uuid, host_uuid, of=paths.instance):
    return read(pool_path, uuid, of) not in (None, host_uuid)


def check(pool_path, uuid, name, host_uuid, hint=hints.disks_of_another_host):
    """Raise DisksOfAnotherHost if another host owns the disks of the instance ``name``, None without a record of it."""
    if is_another(pool_path, uuid, host_uuid):
        restored = state_hints.own_restored(paths.instance(pool_path, uuid, FILE), host_uuid, "this host")
        refuse(pool_path, uuid, name, hint, restored)


def refuse(pool_path, uuid, name, hint=hints.disks_of_another_host, more=None):
    """``hint``: a function of the instance's name and the uuid of the host that owns the disks, None if nobody knows.
    ``more``: what else may help."""
    whose = read(pool_path, uuid)
    first = hint(name, whose if is_uuid(whose) else None)
    raise DisksOfAnotherHost(
        "the disks of %s in %s belong to the host %s, by the file %s there. They were not touched"
        % (name or uuid, paths.instance(pool_path, uuid), clean(whose or "that nobody knows", 60), FILE),
        field="pool",
        value=pool_path,
        rule="only the owner of the instance removes its disks or makes them again",
        hint="%s. %s" % (first, more) if more else first,
    )


def others_in(pool_path, host_uuid):
    """Whether another host has an instance in this pool."""
    names = paths.entries(os.path.join(pool_path, "instances"))
    return any(is_another(pool_path, name, host_uuid) for name in names if is_uuid(name))
