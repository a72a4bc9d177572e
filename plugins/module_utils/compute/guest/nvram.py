# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The UEFI variables of a guest: a file beside its disks, which libvirt makes from the firmware's template at first
start.

In libvirt's default place, they would stay behind in a move.

A firmware that expects them in another size or format loses them or ends in an exception, so their form is compared. The
headers are EFI_FIRMWARE_VOLUME_HEADER and, behind it, VARIABLE_STORE_HEADER.
"""

from __future__ import annotations

import os
import uuid

from .. import paths
from ..disk.virtual_size import QCOW2_MAGIC

FILE = "nvram.fd"
USUAL = "/var/lib/libvirt/qemu/nvram/%s_VARS.fd"  # libvirt's default, by the name of the domain
VOLUME_SIGNATURE, STORE_OFFSET, SIGNATURE_OFFSET = b"_FVH", 48, 40
STORES = {
    uuid.UUID("aaf32c78-947b-439a-a180-2e144ec37792").bytes_le: "authenticated",
    uuid.UUID("ddcf3616-3275-4164-98b6-fe85707ffe7d").bytes_le: "plain",
}


def path(pool_path, uuid):
    return paths.instance(pool_path, uuid, FILE)


def form(path, declared=None):
    """Return the form of the variables in a file, or of a firmware's template, as one word (model/guest_settings.py), or None
    if there is no such file. The format is what is ``declared``, else what the file begins with."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        begin, size = os.pread(fd, 4096, 0), os.fstat(fd).st_size
    finally:
        os.close(fd)
    if (declared or "qcow2") == "qcow2" and begin[:4] == QCOW2_MAGIC:
        return "qcow2-%d" % int.from_bytes(begin[24:32], "big")
    return "raw-%d-%s" % (size, _store(begin))


def _store(begin):
    """Return how the variables are stored, by the headers."""
    if begin[SIGNATURE_OFFSET : SIGNATURE_OFFSET + 4] != VOLUME_SIGNATURE:
        return "blank"
    at = int.from_bytes(begin[STORE_OFFSET : STORE_OFFSET + 2], "little")
    return STORES.get(begin[at : at + 16], "blank")
