# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address of a host."""

from __future__ import annotations

import ipaddress
import socket


def of_host(configured, name):
    """The address that others reach this host by: as configured, else of the default route, else of the name."""
    try:
        return str(ipaddress.ip_address(configured or ""))
    except ValueError:
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing, only asks the routing table
            return probe.getsockname()[0]
        except OSError:
            pass
    try:
        return socket.gethostbyname(configured or name)
    except OSError:
        return None
