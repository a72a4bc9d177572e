# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In words, what is wrong in a host's kernel with the packets of a guest, see compute/guest/packet_path.py."""

from __future__ import annotations

from typing import Mapping, Sequence

from . import packet_hints
from .host_hints import NO_BRIDGE


def told(name: str, wrong: Sequence[Mapping[str, str]]) -> str:
    """``wrong``: [{nic, code, said}], at least one."""
    texts = ["%s: %s" % (each["nic"], each["said"]) for each in wrong]
    if any(each["said"].endswith(NO_BRIDGE) for each in wrong):
        todo = packet_hints.make_bridge_of_tap(name)
    elif all(each["code"] == "PacketsDropped" for each in wrong):
        todo = packet_hints.let_packets_pass()
    else:
        todo = packet_hints.repair_packets(name)
    return "%s. %s" % (", ".join(texts), todo)


def unknown(name: str, why: str) -> str:
    return "%s runs, but whether its packets pass is not known: %s" % (name, why)
