# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several guests acknowledged as written, they find again at each boot, on whatever host (I3)."""

from __future__ import annotations

import os

from guest_facts import events
from invariants import Violation


class Acknowledged:
    """``floor``: {uuid: the block that the guest acknowledged last}. A revert gives up what was written since the resize."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.floor, self.reverted = {}, set()
        self.read_up_to = {}  # {(host, uuid, inode of the console log): bytes}

    def reverts(self, uuid):
        """A later boot may find less. It need not be the next one that is read: a guest that boots says so late."""
        self.reverted.add(uuid)

    def moves(self, uuid):
        """From here on nothing is given up by a revert of before."""
        self.reverted.discard(uuid)

    def forget(self, uuid):
        """The instance is deleted: one that is made anew has written nothing."""
        self.floor.pop(uuid, None)
        self.reverted.discard(uuid)

    def look(self, uuid):
        """Read what the guest said since the last look, on all hosts. Raises Violation."""
        said = {host: events(self._new_text(host, uuid)) for host in self.hosts}
        # After a revert the guest is where it finds least; what it said elsewhere it said before.
        for host in sorted(said, key=lambda host: -min(map(found_by, said[host]), default=0)):
            for event, told in said[host]:
                if event == "ack":
                    self.floor[uuid] = max(self.floor.get(uuid, 0), told["n"])
                elif event == "verify":
                    self._check(host, uuid, told["result"].split(":"))

    def _check(self, host, uuid, verdict):
        found, least = block_in(verdict), self.floor.get(uuid, 0)
        if verdict[0] == "bad" or found < least and uuid not in self.reverted:
            raise Violation("I3 the guest %s on %s acknowledged %d and found %s" % (uuid, host, least, verdict))
        if found < least:
            self.reverted.discard(uuid)
            self.floor[uuid] = found

    def _new_text(self, host, uuid):
        """The whole lines that its console log on a host has got since the last look."""
        try:
            with open(self.hosts[host].console(uuid), "rb") as file:
                key = (host, uuid, os.fstat(file.fileno()).st_ino)
                file.seek(self.read_up_to.get(key, 0))
                whole = file.read().rpartition(b"\n")[0]
        except OSError:
            return ""
        self.read_up_to[key] = self.read_up_to.get(key, 0) + len(whole)
        return whole.decode(errors="replace")


def block_in(verdict):
    return int(verdict[1]) if verdict[0] == "ok" else 0


def found_by(event):
    """The last block that a boot found; of other events more than any."""
    name, told = event
    return block_in(told["result"].split(":")) if name == "verify" else 1 << 62
