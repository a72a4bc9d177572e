# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual size of a guest's disk and its real size in the pool, without asking QEMU."""

from __future__ import annotations

import os
import stat

QCOW2_MAGIC = b"QFI\xfb"


def read(path, disk_format):
    """Return (virtual, allocated, device): bytes and the file's st_dev. OSError or ValueError if it cannot be read.

    ``disk_format`` is what the domain declares. It is never guessed: a guest may write any header to its raw disk.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            virtual, allocated = status.st_size, status.st_blocks * 512
        elif stat.S_ISBLK(status.st_mode):
            virtual = allocated = os.lseek(fd, 0, os.SEEK_END)
        else:
            raise ValueError("neither a file nor a block device")
        if disk_format == "qcow2":
            header = os.pread(fd, 32, 0)
            if len(header) < 32 or header[:4] != QCOW2_MAGIC:
                raise ValueError("no qcow2 header")
            virtual = int.from_bytes(header[24:32], "big")
        return virtual, allocated, status.st_dev
    finally:
        os.close(fd)
