# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guests of the host have a file among their disks, or below one, including guests that are off or that berth did
not make, such as a copy that somebody made by virsh edit or virt-clone.
"""

from __future__ import annotations

import functools
import os
from typing import NamedTuple
from xml.etree import ElementTree

from ...model import adopted, state_hints, volumes
from ...model.safe_text import clean
from .. import paths
from ..connection import Deadline, LibvirtUnavailable, require_libvirt
from ..disk import layers
from ..errors import DisksUsed
from .domains import INACTIVE, states

TIMEOUT = 60  # s


class User(NamedTuple):
    """A guest, and the file of its disk, as its definition names it, that is the file asked for or stands on it."""

    name: str
    disk: str
    runs: bool


def of(connection, files):
    """Return {uuid: User} of the domains, running or off, that have one of the files as a disk or below one."""
    return _using(_users(connection), files)


def of_each(connection, wanted):
    """Return {uuid: what ``of`` returns for its files}. ``wanted``: {uuid of an instance: its files}."""
    users = _users(connection)
    return {uuid: _using(users, files) for uuid, files in wanted.items()}


def _using(users, files):
    wanted = {os.path.realpath(path) for path in files}
    users = {uuid: (name, runs, sorted(wanted & set(used)), used) for uuid, (name, runs, used) in users.items()}
    return {uuid: User(name, used[found[0]], runs) for uuid, (name, runs, found, used) in users.items() if found}


def told_users(own, users, only_running=False):
    """Return the users of files of the instance ``own`` for people, without its own domain; "" if there is no other."""
    return ", ".join(
        "%s (%s%s)" % (clean(user.name, 100), uuid, ", running" if user.runs else "")
        for uuid, user in sorted(users.items())
        if uuid != own and (user.runs or not only_running)
    )


def files_of_each(connection):
    """Return {uuid of a domain, running or off: {file that it has as a disk or below one: whether it is the disk itself}}."""
    return {
        uuid: {path: os.path.realpath(disk) == path for path, disk in used.items()}
        for uuid, (_name, _runs, used) in _users(connection).items()
    }


def files(connection):
    """Return the files that any domain, running or off, has as a disk or below one."""
    return {path for _name, _runs, used in _users(connection).values() for path in used}


def _users(connection):
    library = require_libvirt()
    try:
        return Deadline(TIMEOUT).call(_read, connection, what="looking for the guests that have a disk")
    except (library.libvirtError, ElementTree.ParseError) as error:
        raise LibvirtUnavailable("libvirt does not tell which guests have a disk: %s" % error)


def _read(connection):
    """Return {uuid: (name, whether it runs, {file: the disk, as the definition names it, that it is or is below})}."""
    library, users = require_libvirt(), {}
    chain = functools.lru_cache(None)(layers.chain)  # both definitions name most disks
    for uuid, (domain, power_state) in states(connection).items():
        flags = (library.VIR_DOMAIN_XML_INACTIVE,) if power_state in INACTIVE else (0, library.VIR_DOMAIN_XML_INACTIVE)
        try:
            roots = [ElementTree.fromstring(domain.XMLDesc(flag)) for flag in flags]
        except library.libvirtError as error:
            if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
                continue  # removed since it was listed
            raise
        used = {}
        for disk in (each for root in roots for each in root.iterfind("devices/disk")):
            files = [source.get("file") for source in disk.iterfind(".//source") if source.get("file")]
            used.update({os.path.realpath(path): files[0] for path in (*files, *_below(disk, chain))})
        # a copy that somebody made has the title of the guest that it was made from
        title = roots[0].findtext("title") if domain.name() == uuid else None
        users[uuid] = (title or domain.name(), power_state not in INACTIVE, used)
    return users


def _below(disk, chain):
    """Return the backing files of a disk, by the headers of its files: the definition of a guest that is off names none.
    Whether a disk is qcow2, only the definition says: a guest may write any header to its raw disk."""
    source, driver = disk.find("source"), disk.find("driver")
    if source is None or driver is None or not source.get("file"):
        return []
    return chain(source.get("file"), driver.get("type"))


# Whether another domain of this host has disks of an instance, such as a copy that somebody made by virsh edit or virt-
# clone. A start would make two guests of one disk, a move copies what somebody writes, and a confirm or a delete
# removes the disk under that domain.
LIBGUESTFS = "guestfs-"  # with this begin the names of the domains that its tools make


def check_start(host, record):
    """Raise DisksUsed if another domain runs from the disks. QEMU's own lock does not name it, and not every file system
    has locks. A copy beside a volume is not a disk of the instance."""
    pool_path = host.pool_of(record)
    files = [paths.volume_file(pool_path, entry["uuid"]) for entry in volumes.of(record.spec)]
    _check(host, record, _undefine(host), files, only_running=True)


def check_move(host, record):
    """Raise DisksUsed if another domain has the disks, or the volumes, or what lies beside them and goes with them."""
    _check(host, record, _undefine(host), _with_volumes(host, record, volumes.of(record.spec)))


def check_delete(host, record):
    """The same of what a delete removes, with what can be done about it: other volumes stay."""
    gone = [entry for entry in volumes.of(record.spec) if entry["name"] in volumes.going(record.spec)]
    _check(host, record, state_hints.delete_used_disks(), _with_volumes(host, record, gone))


def _undefine(host):
    return state_hints.undefine_users_of_disks(host.connection.getHostname())


def _with_volumes(host, record, entries):
    """Return all that is in the directories of the volumes."""
    pool_path = host.pool_of(record)
    return [path for entry in entries for path in paths.volume_entries(pool_path, entry["uuid"])]


def _check(host, record, hint, of_volumes, only_running=False):
    own = paths.instance(host.pool_of(record), record.uuid)
    files = [*(os.path.join(own, name) for name in paths.entries(own)), *adopted.files(record.spec), *of_volumes]
    users = of(host.connection, files)
    told = told_users(record.uuid, users, only_running)
    if told:
        name = host.connection.getHostname()
        if all(user.name.startswith(LIBGUESTFS) for uuid, user in users.items() if uuid != record.uuid):
            hint = state_hints.wait_for_libguestfs(name)
        raise DisksUsed(
            "other domains on %s have disks of %s (%s): %s" % (name, record.name, record.uuid, told),
            hint=hint,
            instance=record.name,
            host=name,
        )


def remove_found(connection, record):
    """Remove the disks and UEFI variables of an adopted instance that lie where they were found, but none that another guest has as
    a disk or below one. Return whether there was one."""
    files = adopted.files(record.spec)
    if not files:
        return False
    users = files_of_each(connection)
    of_others = {path for uuid, used in users.items() if uuid != record.uuid for path in used}
    gone = [path for path in files if os.path.realpath(path) not in of_others]
    # a link and what it leads to
    removed = [paths.remove(each) for path in gone for each in (os.path.realpath(path), path)]
    for directory in {os.path.dirname(path) for path in gone}:
        if os.path.isdir(directory):
            paths.sync_directory(directory)
    return any(removed)
