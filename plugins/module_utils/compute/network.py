# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks that a guest asks for must be on this host before anything is built (C06, A09)."""

from __future__ import annotations

import os

from .connection import require_libvirt
from .errors import NetworkNotFound

SYS_NET = "/sys/class/net"


def check(connection, nics, sys_net=SYS_NET):
    """NetworkNotFound, naming all that is missing: bridges, libvirt networks that are not active, network filters."""
    library = require_libvirt()
    lacking = []
    for nic in nics or []:
        if nic["type"] == "bridge":
            if not os.path.isdir(os.path.join(sys_net, nic["source"])):
                lacking.append("bridge %s" % nic["source"])
        else:
            try:
                if not connection.networkLookupByName(nic["source"]).isActive():
                    lacking.append("libvirt network %s (not active)" % nic["source"])
            except library.libvirtError:
                lacking.append("libvirt network %s" % nic["source"])
        if nic.get("nwfilter"):
            try:
                connection.nwfilterLookupByName(nic["nwfilter"])
            except library.libvirtError:
                lacking.append("network filter %s" % nic["nwfilter"])
    if lacking:
        raise NetworkNotFound("this host has no %s" % ", no ".join(lacking), field="networks", missing=lacking)
