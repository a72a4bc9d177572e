# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this host would carry the packets of a guest that is to come: asked before a move stops or changes anything."""

from __future__ import annotations

from ...model import adopted, packet_hints
from ...model.errors import BerthError
from ..connection import require_libvirt
from ..errors import GuestNotSupported
from ..host import firmware
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


def check_adopted(host, record):
    """Raise GuestNotSupported unless this host can run the definition of an adopted instance that a move brings. ``host``:
    compute/host/host.py. A created guest gets a definition of this host."""
    if not adopted.of(record.spec):
        return
    root = adopted.root_of(record.spec[adopted.KEY])
    machine, loader = root.find("os/type"), root.findtext("os/loader")
    lacks = []
    if root.get("type") == "kvm" and host.domain_type != "kvm":
        lacks.append("KVM")
    if machine.get("arch") not in (None, host.capabilities.arch):
        lacks.append("CPUs of architecture %s" % machine.get("arch"))
    if loader and loader not in firmware.executables():
        lacks.append("the firmware %s" % loader)
    if lacks:
        name = host.connection.getHostname()
        raise GuestNotSupported(
            "%s was adopted with what %s lacks: %s" % (record.name, name, " and ".join(lacks)), host=name
        )
