# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this host would carry the packets of a guest that is to come: asked before a move stops or changes anything."""

from __future__ import annotations

from ...model import packet_hints
from ...model.errors import BerthError
from ..connection import require_libvirt
from . import packet_path

TAP = "vnet"  # how libvirt's names of taps begin


class DestinationDropsPackets(BerthError):
    """A bridge of the destination that the guest needs is down, or its firewall drops what the bridge forwards. Nothing was
    changed."""

    retryable = True


def check(connection, nics):
    """Raise DestinationDropsPackets naming all that is sure to cut off the NICs (those of a request). What cannot be read or
    depends on addresses refuses nothing."""
    coming = [nic for nic in (_coming(connection, asked) for asked in nics or ()) if nic]
    try:
        seen = packet_path.look_at_kernel(coming)
    except (packet_path.PacketRulesNotRead, ValueError):
        return
    texts = list(dict.fromkeys(text for nic in coming for text in packet_path.awaits(nic, seen)))
    if texts:
        raise DestinationDropsPackets(
            "the guest would be cut off on %s: %s" % (connection.getHostname(), ", ".join(texts)),
            hint=packet_hints.carry_packets(),
            field="networks",
        )


def _coming(connection, asked):
    """The NIC, or None if this host's kernel does not forward its packets on a bridge."""
    bridge = None if asked.get("virtualport") else asked.get("source") if asked.get("type") == "bridge" else None
    if asked.get("type") == "network":
        bridge = _of_network(connection, asked.get("source"))
    grouped = (asked.get("security") or {}).get("rules") is not None
    return (
        packet_path.Nic(asked.get("mac", ""), TAP, "bridge", bridge, accepts={} if grouped else None)
        if bridge
        else None
    )


def _of_network(connection, name):
    try:
        return connection.networkLookupByName(name).bridgeName()
    except (
        require_libvirt().libvirtError
    ):  # its NICs are not on a bridge of libvirt, or it is missing, which others tell
        return None
