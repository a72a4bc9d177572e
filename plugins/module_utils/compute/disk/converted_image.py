# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of other hypervisors (vmdk, vhdx), which become qcow2 when they come into the cache.

A vmdk may name other files to read the disk from, which made hosts disclose their own (CVE-2022-47951). So only a file that has
the whole disk is taken: of the types monolithicSparse and streamOptimized, as in Nova's vmdk_allowed_types. QEMU opens no vhdx
that has a parent.
"""

from __future__ import annotations

import collections
import json
import os
import re
import struct

from ...model import disk_hints
from ..errors import ImageInvalid
from ..run import run
from .image_check import SECTOR, check_format

TIME = 3600  # s for a conversion, by the clock and of CPU time
WHOLE = ("monolithicSparse", "streamOptimized")
HEADER = struct.Struct("<4sIIQQQQIQQ")
Header = collections.namedtuple(
    "Header", "magic version flags capacity grain descriptor descriptor_size entries redundant directory"
)
AT_END = (1 << 64) - 1  # for the grain directory: QEMU reads the header again from the footer
FOOTER = 2 * SECTOR  # bytes from there to the end of the file
DESCRIPTOR = 20 * SECTOR  # bytes that QEMU reads, whatever size the header says
TYPE = re.compile(rb'^\s*createType\s*=\s*"(\w*)"', re.MULTILINE)


def check(path, declared):
    """Raise ImageInvalid unless the file has the format ``declared`` and is all that QEMU would read."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        check_format(fd, declared)
        if declared == "vmdk":
            _check_vmdk(fd)
    finally:
        os.close(fd)


def room(path, declared):
    """Bytes that the qcow2 file of a checked image takes."""
    told = run(
        ["qemu-img", "measure", "--output=json", "-f", declared, "-O", "qcow2", "--", path],
        error=ImageInvalid,
        over=ImageInvalid,
    )
    return json.loads(told)["required"]


def make(path, declared, made):
    """Make the qcow2 file ``made`` of a checked image."""
    run(["qemu-img", "convert", "-f", declared, "-O", "qcow2", "--", path, made], timeout=TIME, over=ImageInvalid)
    os.chmod(made, 0o600)


def _check_vmdk(fd):
    header = _header(fd, 0)
    if header.directory == AT_END:
        footer = _header(fd, os.fstat(fd).st_size - FOOTER)
        if (footer.magic, footer.capacity, footer.descriptor) != (header.magic, header.capacity, header.descriptor):
            raise _refuse("has a footer that contradicts its header")
    if not header.capacity or not header.descriptor:
        raise _refuse("does not have the disk itself, but names other files")
    text = os.pread(fd, DESCRIPTOR, min(header.descriptor, 1 << 40) * SECTOR)
    kinds = TYPE.findall(text)
    if len(kinds) != 1 or kinds[0].decode() not in WHOLE:
        raise _refuse("is of the type %s" % (b" and ".join(kinds).decode() or "none"))
    if b"parentfilenamehint" in text.lower():
        raise _refuse("has a parent, as that of a snapshot or linked clone")


def _header(fd, at):
    part = os.pread(fd, HEADER.size, max(0, at))
    if len(part) < HEADER.size:
        raise _refuse("is cut off")
    return Header(*HEADER.unpack(part))


def _refuse(what):
    return ImageInvalid(
        "the vmdk image %s" % what,
        field="disk_format",
        value="vmdk",
        rule="one file with the whole disk: " + " or ".join(WHOLE),
        hint=disk_hints.one_vmdk(),
    )
