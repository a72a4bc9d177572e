# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that libvirt keeps for a guest: its domain, and the packet filters that the domain names. They come and go together, and the
mediated devices that a guest was started with go with them."""

from __future__ import annotations

from ..host import mdev
from . import domain, domain_xml, hardware, packet_filter


def define(connection, record, host):
    """The guest as its record says, on ``host`` (domain_xml.Host): the record with the hardware that libvirt chose for it. The
    filters come second, so that a domain which is not berth's is found before anything is changed."""
    text = domain.define(connection, record.uuid, domain_xml.render(record, host))
    packet_filter.define(connection, record)
    return record.replace(spec=hardware.keep(record.spec, text))


def remove(connection, uuid, record=None):
    """End and undefine the guest; whether there was anything. libvirt lets no filter go that a guest uses."""
    found = domain.remove(connection, uuid)
    found = mdev.remove(connection, uuid, record) or found
    return packet_filter.remove(connection, uuid) or found
