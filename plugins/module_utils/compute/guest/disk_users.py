# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guests of the host have a file among their disks, including guests that are off or that berth did not make."""

from __future__ import annotations

import os
from xml.etree import ElementTree

from ..connection import Deadline, LibvirtUnavailable, require_libvirt
from .domains import INACTIVE, states

TIMEOUT = 60  # s


def of(connection, files):
    """Return {uuid: name} of the domains, running or off, that have one of the files as a disk or below one."""
    wanted = {os.path.realpath(path) for path in files}
    return {uuid: name for uuid, (name, used) in _users(connection).items() if wanted & used}


def files(connection):
    """Return the files that any domain, running or off, has as a disk or below one."""
    return {path for _name, used in _users(connection).values() for path in used}


def _users(connection):
    library = require_libvirt()
    try:
        return Deadline(TIMEOUT).call(_read, connection, what="looking for the guests that have a disk")
    except (library.libvirtError, ElementTree.ParseError) as error:
        raise LibvirtUnavailable("libvirt does not tell which guests have a disk: %s" % error)


def _read(connection):
    """Return {uuid: (name, files)}."""
    library, users = require_libvirt(), {}
    for uuid, (domain, power_state) in states(connection).items():
        flags = (library.VIR_DOMAIN_XML_INACTIVE,) if power_state in INACTIVE else (0, library.VIR_DOMAIN_XML_INACTIVE)
        try:
            roots = [ElementTree.fromstring(domain.XMLDesc(flag)) for flag in flags]
        except library.libvirtError as error:
            if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
                continue  # removed since it was listed
            raise
        used = {source.get("file") for root in roots for source in root.iterfind("devices/disk//source")}
        users[uuid] = (roots[0].findtext("title") or domain.name(), {os.path.realpath(path) for path in used if path})
    return users
