# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the QEMU of a running guest answers: waiting for one that does not could take for ever."""

from __future__ import annotations

from ...model import hints
from ..connection import Deadline, LibvirtTimeout, require_libvirt
from ..errors import GuestHung
from . import domain
from .domains import hung

ANSWER = 20  # s in which a healthy QEMU answers


def check(connection, uuid, name, host):
    """Raise GuestHung if the guest is on and its QEMU does not answer."""
    library = require_libvirt()
    guest = domain.find(connection, uuid) if domain.is_active(connection, uuid) else None
    if guest is None:
        return
    reason = hung({uuid: (guest, "running")}).get(uuid)
    if not reason:
        try:
            Deadline(ANSWER).call(guest.blockStatsFlags, "", 0, what="asking QEMU")
        except LibvirtTimeout:
            reason = "QEMU has not answered for %d s" % ANSWER
        except library.libvirtError as error:
            if error.get_error_code() != library.VIR_ERR_OPERATION_TIMEOUT:
                return  # it answered, or has just ended
            reason = "another call to it has not ended: %s" % error
    if reason:
        raise GuestHung(
            "the guest of %s (%s) on %s does not answer: %s. Nothing was done to it" % (name, uuid, host, reason),
            hint=hints.hung_guest(name),
            instance=name,
            host=host,
        )
