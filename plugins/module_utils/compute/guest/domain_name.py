# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a guest's domain in libvirt: its uuid, unless somebody renamed it (virsh domrename)."""

from __future__ import annotations

from html import escape

from ...model import state_hints
from ...model.errors import InstanceExists
from ..connection import Deadline, LibvirtUnavailable, require_libvirt

TIMEOUT = 60  # s
NAMED = "<name>%s</name>"


def kept(xml, uuid, name):
    """Return the definition with the name that libvirt's domain has: libvirt refuses another."""
    return xml.replace(NAMED % uuid, NAMED % escape(name, quote=False), 1)


def check_free(connection, uuid):
    """Raise InstanceExists if a domain of another uuid has the name, as after virsh edit gave the guest that uuid."""
    library = require_libvirt()
    try:
        other = Deadline(TIMEOUT).call(connection.lookupByName, uuid, what="looking for the name").UUIDString()
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return
        raise LibvirtUnavailable("looking for the name: %s" % error)
    host = connection.getHostname()
    raise InstanceExists(
        "the guest %s cannot be defined on %s: another domain, with the uuid %s, has its name. That was left alone"
        % (uuid, host, other),
        hint=state_hints.rename_domain(host, other),
        host=host,
    )
