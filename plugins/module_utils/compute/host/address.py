# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address at which other hosts reach this one, and whether it can listen there."""

from __future__ import annotations

import ipaddress
import socket


def of_host(configured, name):
    """Return the address at which others reach this host: the configured one, else the default route's, else the
    name's, or None. A configured address is never replaced by one of another network."""
    if configured:
        return _of_name(configured)
    return (
        _of_default_route(socket.AF_INET, "192.0.2.1")
        or _of_default_route(socket.AF_INET6, "2001:db8::1")
        or _of_name(name)
    )


def _of_default_route(family, far):
    """Return the address from which this host would reach the address ``far``, or None. One of a link alone is none."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))  # sends nothing, only reads the routing table
            found = probe.getsockname()[0]
            return None if ipaddress.ip_address(found.partition("%")[0]).is_link_local else found
    except OSError:
        return None


def why_not(address, port=0):
    """Return why this host cannot listen there (0: on any port), or None if it can."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as error:
        return error.strerror
    return None


def _of_name(name):
    """Return the address of ``name``, which may be an address itself, or None. IPv4 comes first."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0]
