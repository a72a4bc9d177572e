# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In words, what is wrong in a host's kernel with the packets of a guest, see compute/guest/packet_path.py."""

from __future__ import annotations

from typing import Mapping, Sequence

from . import packet_hints


def told(name: str, wrong: Sequence[Mapping[str, str]]) -> str:
    """``wrong``: [{nic, code, said}], at least one."""
    texts = ["%s: %s" % (each["nic"], each["said"]) for each in wrong]
    dropped = all(each["code"] == "PacketsDropped" for each in wrong)
    return "%s. %s" % (
        ", ".join(texts),
        packet_hints.let_packets_pass() if dropped else packet_hints.repair_packets(name),
    )


def unknown(name: str, why: str) -> str:
    return "%s runs, but whether its packets pass is not known: %s" % (name, why)
