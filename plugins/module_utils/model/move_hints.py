# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the network between the two hosts of a move."""

from __future__ import annotations


def open_ports(address: str) -> str:
    """QEMU of the source reaches no port of the destination, as behind a firewall."""
    return "Let the firewall of %s accept TCP ports 49152-49343 from the other hosts, and run the same again" % address
