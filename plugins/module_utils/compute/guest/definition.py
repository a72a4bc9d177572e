# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that libvirt keeps for a guest: its domain and the packet filters that the domain names are defined and removed
together; the mediated devices that the guest was started with are removed with them."""

from __future__ import annotations

from ..host import mdev
from . import domain, domain_xml, hardware, packet_filter


def define(connection, record, host):
    """Define the guest of the record on ``host`` (domain_xml.Host). Return the record with the hardware that libvirt
    chose. The filters come second, so that a domain that berth did not make is found before anything is changed."""
    text = domain.define(connection, record.uuid, domain_xml.render(record, host))
    packet_filter.define(connection, record)
    return record.replace(spec=hardware.keep(record.spec, text))


def remove(connection, uuid, record=None):
    """End and undefine the guest. Return whether there was anything. libvirt keeps a filter that a guest uses."""
    found = domain.remove(connection, uuid)
    found = mdev.remove(connection, uuid, record) or found
    return packet_filter.remove(connection, uuid) or found
