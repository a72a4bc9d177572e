# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cold move: how often the writes of a running guest are copied again before it stops."""

from __future__ import annotations

import contextlib

from ...model.move_errors import TransferFailed
from ..connection import require_libvirt

MOST = 10
LITTLE_SECONDS = 0.25  # the amount copied in this time is little
LITTLE_BYTES = 4 << 20
GAIN = 0.8  # of what was left before: a guest that writes as fast as its disks are copied leaves more


def repeat(copies, rate):
    """Copy again until little is left. ``copies``: increment.Copies after the first; ``rate`` of the first, in bytes/s.
    A failed copy is the last; its part is copied after the guest has stopped."""
    library, little = require_libvirt(), max(LITTLE_BYTES, rate * LITTLE_SECONDS)
    before = float("inf")
    for number in range(1, MOST + 1):
        try:
            left = copies.left(number - 1)
            # As much again may be written beside the disks meanwhile, and a full pool would pause the guest.
            if left <= little or left > GAIN * before or copies.room() < 4 * left:
                return
            copies.again(number)
            before = left
        except (TransferFailed, library.libvirtError):
            with contextlib.suppress(library.libvirtError):
                copies.take_back(number)
            return
