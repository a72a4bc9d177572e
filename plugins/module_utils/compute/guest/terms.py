# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Constants of a guest's definition for code that only reads one, so that the code that writes it is not sent."""

from __future__ import annotations

import collections

NAMESPACE = "https://berth.kvm/xmlns/instance/1"
GUEST_AGENT = "org.qemu.guest_agent.0"

# What every definition on a host shares: the domain type that works, the architecture, the pool's
# directory, and the CPU model, None for host-model.
Host = collections.namedtuple("Host", "domain_type arch pool_path cpu_model", defaults=(None,))


def mark_of(definition):
    """Return the element in a definition (its root) that marks a guest as berth's, or None."""
    return definition.find("metadata/{%s}instance" % NAMESPACE)
