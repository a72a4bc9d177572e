# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about numbers that no instance reaches, see counting.py. Every hint says what to do, and a test does that."""

from __future__ import annotations


def take_out_miscounting(hosts: str) -> str:
    """Hosts say what can not be of an instance."""
    return (
        "What %s remembers is damaged or forged: look at /var/lib/berth/whereabouts.json and the instance's record there. "
        "Until it is repaired, take %s out of the inventory, and run the same again" % (hosts, hosts)
    )
