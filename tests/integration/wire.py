# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What passes between the hosts of a lab, read from the management network's bridge."""

from __future__ import annotations

import json
import socket
import struct
import threading

ETH_P_ALL, SO_RCVBUFFORCE, SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 3, 33, 263, 1, 1


class Wire(threading.Thread):
    """Within ``with Wire(lab, text) as wire``: counts all bytes, and the packets that have ``text`` in them."""

    def __init__(self, lab, text):
        super().__init__(daemon=True)
        self.text, self.bytes, self.found, self.done = text.encode(), 0, 0, False
        slot = json.loads((lab.state / "lab.json").read_text())["slot"]
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        link = "bl%dm" % slot
        self.socket.bind((link, 0))
        # A bridge shows what it passes on between others to who asks for all.
        request = struct.pack("iHH8s", socket.if_nametoindex(link), PACKET_MR_PROMISC, 0, b"")
        self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
        self.socket.settimeout(0.2)

    def run(self):
        while not self.done:
            try:
                packet = self.socket.recv(1 << 17)
            except TimeoutError:
                continue
            self.bytes += len(packet)
            self.found += self.text in packet

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *what):
        self.done = True
        self.join()
        self.socket.close()
