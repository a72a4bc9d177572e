# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guests of the host have a file among their disks: also those that berth did not make, and those that are off."""

from __future__ import annotations

import os
from xml.etree import ElementTree

from ..connection import Deadline, LibvirtUnavailable, require_libvirt
from .domains import INACTIVE, states

TIMEOUT = 60  # s


def of(connection, files):
    """{uuid: name} of the domains, running or off, that have one of the files among their disks or below them."""
    library = require_libvirt()
    try:
        return Deadline(TIMEOUT).call(_of, connection, files, what="looking for the guests that have a disk")
    except (library.libvirtError, ElementTree.ParseError) as error:
        raise LibvirtUnavailable("libvirt does not tell which guests have a disk: %s" % error)


def _of(connection, files):
    library, wanted = require_libvirt(), {os.path.realpath(path) for path in files}
    users = {}
    for uuid, (domain, power_state) in states(connection).items():
        flags = (library.VIR_DOMAIN_XML_INACTIVE,) if power_state in INACTIVE else (0, library.VIR_DOMAIN_XML_INACTIVE)
        try:
            roots = [ElementTree.fromstring(domain.XMLDesc(flag)) for flag in flags]
        except library.libvirtError as error:
            if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
                continue  # gone since it was listed
            raise
        used = {source.get("file") for root in roots for source in root.iterfind("devices/disk//source")}
        if wanted & {os.path.realpath(path) for path in used if path}:
            users[uuid] = roots[0].findtext("title") or domain.name()
    return users
