# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the view of a record (steps/common.view_of) needs from a host: its store, and the guests' state in libvirt as far
as a move needs it. Read-only.
"""

from __future__ import annotations

from ..connection import Bounded, LibvirtTimeout, require_libvirt
from ..guest import domain
from ..guest import domain as guests
from ..host import boot_time
from ..host.host import Host

# The state of a guest in libvirt, as far as a move needs it. Changes nothing.


def has_left(connection, uuid):
    """Whether libvirt on the source says that the guest has left: only then is the destination's copy the newer one."""
    library = require_libvirt()
    guest = guests.find(connection, uuid)
    return guest is not None and guest.state() == [library.VIR_DOMAIN_SHUTOFF, library.VIR_DOMAIN_SHUTOFF_MIGRATED]


def is_halted(connection, uuid):
    """Whether the guest is paused here with no job to resume or move it, as after an interrupted migration."""
    library = require_libvirt()
    guest = guests.find(connection, uuid)
    try:
        return guest is not None and guest.state()[0] == library.VIR_DOMAIN_PAUSED and not is_migrating(guest)
    except (library.libvirtError, LibvirtTimeout):
        return False  # unknown, so draw no conclusion


def job_of(found):
    """Return libvirt's name (VIR_DOMAIN_JOB_OPERATION_...) of the guest's running job, or None."""
    library = require_libvirt()
    stats = found.jobStats(0)
    if stats.get("type", library.VIR_DOMAIN_JOB_NONE) == library.VIR_DOMAIN_JOB_NONE:
        return None
    return stats.get("operation", library.VIR_DOMAIN_JOB_OPERATION_UNKNOWN)


def is_migrating(found):
    return job_of(found) == require_libvirt().VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT


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
        return has_left(self.connection, uuid)

    def halted(self, uuid):
        return is_halted(self.connection, uuid)
