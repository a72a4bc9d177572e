# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses may be a guest's: none of the controller itself (loopback), and only a single machine's."""

from __future__ import annotations

import ipaddress
from typing import Any, Optional, Union


def guest_address(value: Any) -> Optional[Union[ipaddress.IPv4Address, ipaddress.IPv6Address]]:
    """Return the address without its prefix length, or None if it cannot be a guest's."""
    try:
        address = ipaddress.ip_address(str(value or "").partition("/")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None) or address
    if mapped.is_loopback or mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified or mapped.is_reserved:
        return None
    return mapped
