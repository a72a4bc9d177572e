# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The established TCP connections of this host, from the kernel's table (proc_net_tcp.txt of Linux)."""

from __future__ import annotations

import ipaddress
import struct
from typing import Iterator, NamedTuple, Optional, Sequence

FILES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"
MOST_REPEATED = 5  # without an answer, 6 s at least: where some packets are lost, one of so many comes through


class Connection(NamedTuple):
    """``repeated``: how often the kernel has sent again what the other end has not acknowledged, since its last answer."""

    local_port: int
    address: str
    port: int
    repeated: int


def established(files: Sequence[str] = FILES) -> Iterator[Connection]:
    for path in files:
        try:
            with open(path, encoding="ascii") as stream:
                rows = [line.split() for line in stream][1:]
        except OSError:
            continue
        for row in rows:
            if row[3] == ESTABLISHED:
                address, _colon, port = row[2].partition(":")
                local_port = int(row[1].rpartition(":")[2], 16)
                yield Connection(local_port, _address(address), int(port, 16), int(row[6], 16))


def is_stuck(address: str, port: Optional[int] = None) -> bool:
    """Whether the other end acknowledges nothing of what this host sends to it, on that port or on any."""
    to_it = (each for each in established() if each.address == address and port in (None, each.port))
    return any(each.repeated >= MOST_REPEATED for each in to_it)


def _address(text: str) -> str:
    """The kernel prints an address as 32-bit numbers of this machine."""
    words = [struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))
