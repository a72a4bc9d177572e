# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a guest's TPM, which swtpm keeps outside of the disks. libvirt removes it with the guest's definition."""

from __future__ import annotations

import os
from typing import Optional

from .. import durable

DIRECTORY = "/var/lib/libvirt/swtpm"  # libvirt's, with a directory for each guest
FILE = "tpm2-00.permall"


def path(uuid: str) -> str:
    return os.path.join(DIRECTORY, uuid, "tpm2", FILE)


def read(uuid: str) -> Optional[bytes]:
    """Return the state of a guest that is off, or None if it has none."""
    if not os.path.lexists(path(uuid)):
        return None
    with open(path(uuid), "rb") as file:
        return file.read()


def write(uuid: str, state: bytes) -> None:
    """libvirt gives it to swtpm when the guest starts."""
    durable.make_directories(os.path.dirname(path(uuid)), durable.DIRECTORY_MODE)
    durable.write_at(path(uuid), state, durable.FILE_MODE)
