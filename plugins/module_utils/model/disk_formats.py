# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formats that an image may have, and the one that a host keeps it in."""

from __future__ import annotations

OWN = ("raw", "qcow2")
CONVERTED = ("vmdk", "vhdx")  # of VMware and Hyper-V
CD = "iso"  # which a rescue boots, and no disk is made from
FORMATS = (*OWN, *CONVERTED, CD)


def in_cache(disk_format: str) -> str:
    """The format of the cached file of an image."""
    return "qcow2" if disk_format in CONVERTED else disk_format
