# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a guest's domain in libvirt: its uuid, unless somebody renamed it (virsh domrename)."""

from __future__ import annotations

from ...model import state_hints
from ...model.errors import InstanceExists

NAMED = "<name>%s</name>"


def kept(xml, uuid, name):
    """Return the definition with the name that libvirt's domain has: libvirt refuses another."""
    from html import escape  # slow, and only a guest that is defined already needs it

    return xml.replace(NAMED % uuid, NAMED % escape(name, quote=False), 1)


def taken(host, uuid, other):
    """Return the error that a domain with the uuid ``other`` has the name, as after virsh edit gave the guest that uuid."""
    return InstanceExists(
        "the guest %s cannot be defined on %s: another domain, with the uuid %s, has its name. That was left alone"
        % (uuid, host, other),
        hint=state_hints.rename_domain(host, other),
        host=host,
    )
