# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the view of a record (steps/common.view_of) needs from a host: its store, and the guests' state. Read-only."""

from __future__ import annotations

from ..connection import Bounded
from ..guest import domain
from ..host import boot_time
from ..host.host import Host
from . import guest_state


class Onlooker:
    """``identity`` is {uuid, name}: libvirt's uuid, and the host's own name."""

    def __init__(self, host=None):
        self.compute = host or Host.here("migration")
        self.store = self.compute.store
        self.connection = Bounded(self.compute.connection)
        self.identity = {"uuid": self.compute.identify(), "name": self.connection.getHostname()}
        self.effects = Guests(self.connection)

    def since_boot(self):
        """Return {boot_id, uptime}, from which the window of a confirm is counted."""
        return boot_time.now()


class Guests:
    """The observed state of the guests."""

    def __init__(self, connection):
        self.connection = connection

    def running(self, uuid):
        return domain.is_active(self.connection, uuid)

    def executing(self, uuid):
        return domain.state(self.connection, uuid) == "running"

    def has_left(self, uuid):
        return guest_state.has_left(self.connection, uuid)

    def halted(self, uuid):
        return guest_state.is_halted(self.connection, uuid)
