# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image file really is: its format and virtual size, from its own bytes, before any other program opens it.

Guests use raw and qcow2 alone; see converted_image.py for others. A qcow2 image is refused if it points to another file
(backing file, data file), is encrypted, or has an incompatible feature that is not known to be harmless: such images made
hosts disclose their files (CVE-2024-32498, CVE-2024-40767, CVE-2022-47951).
"""

from __future__ import annotations

import os
import struct

from ...model import disk_formats, disk_hints
from ..errors import ImageInvalid

HEAD = 64 * 1024
TAIL = 512
SECTOR = 512
MOST_SNAPSHOTS = 64  # every qemu-img reads the tables of each
QCOW2 = struct.Struct(">4sIQIIQIIQQIIQ")  # the part that versions 2 and 3 share
QCOW2_V3 = struct.Struct(">QQQII")
# feature bits that change only how the file's own data is laid out
COMPRESSION_TYPE, EXTENDED_L2 = 1 << 3, 1 << 4
FEATURES = {1 << 0: "dirty (not closed cleanly)", 1 << 1: "corrupt", 1 << 2: "external data file"}
EXTENSION_END, EXTENSION_ENCRYPTION, EXTENSION_DATA_FILE = 0, 0x0537BE77, 0x44415441

# format -> (offset, magic bytes); a negative offset counts from the end
MAGICS = {
    "qcow": (0, b"QFI\xfb"),
    "vmdk": (0, b"KDMV"),
    "vmdk (COWD)": (0, b"COWD"),
    "vmdk descriptor": (0, b"# Disk DescriptorFile"),
    "qed": (0, b"QED\0"),
    "luks": (0, b"LUKS\xba\xbe"),
    "vhdx": (0, b"vhdxfile"),
    "vhd": (0, b"conectix"),
    "vhd footer": (-512, b"conectix"),
    "vdi": (64, b"\x7f\x10\xda\xbe"),
    "parallels": (0, b"WithoutFreeSpace"),
    "parallels 2": (0, b"WithouFreSpacExt"),
    "bochs": (0, b"Bochs Virtual HD Image"),
    "cloop": (0, b"#!/bin/sh\n#V2.0 Format"),
    "dmg": (-512, b"koly"),
}
ISO_9660 = "ISO 9660"
# The same for files that are not disks, but contain or describe one.
PACKED = {
    "xz": (0, b"\xfd7zXZ\0"),
    "gzip": (0, b"\x1f\x8b\x08"),
    "bzip2": (0, b"BZh"),
    "zstd": (0, b"\x28\xb5\x2f\xfd"),
    "lz4": (0, b"\x04\x22\x4d\x18"),
    "7z": (0, b"7z\xbc\xaf\x27\x1c"),
    "zip": (0, b"PK\x03\x04"),
    "tar": (257, b"ustar"),
    ISO_9660: (0x8001, b"CD001"),
}
BOOT_SIGNATURE = b"\x55\xaa"  # at the end of the first sector of a disk


def detect(head, tail, magics=None):
    """Return the formats whose magic bytes are in a file's first 64 KiB and last 512 bytes; none means raw."""
    found = []
    for name, (offset, magic) in (magics or MAGICS).items():
        part = head[offset : offset + len(magic)] if offset >= 0 else tail[offset:][: len(magic)]
        if part == magic:
            found.append(name)
    return found


def _check_disk(head):
    """Raise ImageInvalid for an archive, or for a CD that is not also a disk to boot from."""
    for kind in detect(head, b"", PACKED):
        if kind != ISO_9660 or head[SECTOR - 2 : SECTOR] != BOOT_SIGNATURE:
            raise ImageInvalid(
                "the image is not a disk: its content is %s" % kind,
                field="disk_format",
                value=kind,
                rule="a disk as raw or qcow2; xz, gzip and bzip2 are unpacked, and zstd where the host's Python can",
                hint=disk_hints.unpack_image(kind),
            )


def inspect(fd, declared, is_disk=True, is_layer=False):
    """Return {format, virtual_size (bytes)} of an open file, or raise ImageInvalid. ``declared`` is raw, qcow2 or iso.
    Files that are not disks, such as an initrd, may be compressed. ``is_layer``: it may have a backing file."""
    size, head = check_format(fd, declared, is_disk)
    if declared in ("raw", disk_formats.CD):
        if size == 0:
            raise ImageInvalid("the image is empty", field="checksum")
        return {"format": "raw", "virtual_size": -(-size // SECTOR) * SECTOR}
    return {"format": "qcow2", "virtual_size": _qcow2(head, size, is_layer)}


def check_format(fd, declared, is_disk=True):
    """Return (bytes of an open file, its first 64 KiB) if its format is ``declared``, or raise ImageInvalid."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, HEAD, 0)
    tail = os.pread(fd, TAIL, max(0, size - TAIL))
    found = detect(head, tail)
    is_cd = declared == disk_formats.CD and ISO_9660 in detect(head, b"", PACKED)
    if is_disk and not is_cd:
        _check_disk(head)
    plain = disk_formats.CD if is_cd else "raw"
    detected = "qcow2" if found == ["qcow"] else " and ".join(found) or plain
    if detected != declared:
        raise ImageInvalid(
            "the image is declared as %s, its content is %s" % (declared, detected),
            field="disk_format",
            value=declared,
            rule="declared = detected, one of " + ", ".join(disk_formats.FORMATS),
            hint=_way_on(detected),
        )
    return size, head


def _way_on(detected):
    if detected == "vmdk descriptor":
        return disk_hints.one_vmdk()
    return disk_hints.right_format(detected) if detected in disk_formats.FORMATS else None


def _refuse(what):
    return ImageInvalid("the qcow2 image %s" % what, field="disk_format", value="qcow2")


def _qcow2(head, size, is_layer):
    """Return the virtual size in bytes from a qcow2 header that refers to no other file, or only to that below a layer."""
    if len(head) < QCOW2.size:
        raise _refuse("is cut off inside its header")
    (_magic, version, backing, backing_length, cluster_bits, virtual_size, encryption, l1_size, l1_offset,
     refcount_offset, refcount_clusters, snapshots, snapshots_offset) = QCOW2.unpack_from(head)  # fmt: skip
    if version not in (2, 3):
        raise _refuse("has the unknown version %d" % version)
    if (backing or backing_length) and not is_layer:
        raise _refuse("has a backing file")
    if encryption:
        raise _refuse("is encrypted")
    if not 9 <= cluster_bits <= 21:
        raise _refuse("has clusters of 2^%d bytes" % cluster_bits)
    cluster = 1 << cluster_bits
    if virtual_size == 0 or virtual_size % SECTOR:
        raise _refuse("has the virtual size %d" % virtual_size)
    for table, offset, length in (
        ("L1 table", l1_offset, l1_size * 8),
        ("refcount table", refcount_offset, refcount_clusters * cluster),
    ):
        if offset % cluster or offset == 0 or offset + length > size:
            raise _refuse("has its %s outside of the file" % table)
    if snapshots > MOST_SNAPSHOTS or snapshots and not 0 < snapshots_offset < size:
        raise _refuse("has %d internal snapshots (at most %d are read)" % (snapshots, MOST_SNAPSHOTS))
    l2_entry = 8
    header_length = QCOW2.size
    if version == 3:
        header_length, extended = _qcow2_features(head)
        l2_entry = 16 if extended else 8
    if virtual_size > l1_size * (cluster // l2_entry) * cluster:
        raise _refuse("has a virtual size that its L1 table does not reach")
    _qcow2_extensions(head, header_length)
    return virtual_size


def _qcow2_features(head):
    if len(head) < QCOW2.size + QCOW2_V3.size:
        raise _refuse("is cut off inside its header")
    incompatible, _compatible, _autoclear, _order, header_length = QCOW2_V3.unpack_from(head, QCOW2.size)
    for bit, name in FEATURES.items():
        if incompatible & bit:
            raise _refuse("is marked: %s" % name)
    unknown = incompatible & ~(COMPRESSION_TYPE | EXTENDED_L2)
    if unknown:
        raise _refuse("has the unknown incompatible features %#x" % unknown)
    if not QCOW2.size + QCOW2_V3.size <= header_length <= len(head) - 8:
        raise _refuse("has a header of %d bytes" % header_length)
    return header_length, bool(incompatible & EXTENDED_L2)


def _qcow2_extensions(head, offset):
    while True:
        if offset + 8 > len(head):
            raise _refuse("has header extensions without an end")
        kind, length = struct.unpack_from(">II", head, offset)
        if kind == EXTENSION_END:
            return
        if kind == EXTENSION_ENCRYPTION:
            raise _refuse("is encrypted")
        if kind == EXTENSION_DATA_FILE:
            raise _refuse("names an external data file")
        offset += 8 + -(-length // 8) * 8
