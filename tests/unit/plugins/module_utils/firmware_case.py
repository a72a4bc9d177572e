# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware for tests: files of UEFI variables as OVMF's templates begin, and the descriptors that name them."""

from __future__ import annotations

import json
import struct
import uuid

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import firmware

AUTHENTICATED, PLAIN = "aaf32c78-947b-439a-a180-2e144ec37792", "ddcf3616-3275-4164-98b6-fe85707ffe7d"
TWO_MIB, FOUR_MIB = 131072, 540672  # the variables of OVMF's builds of 2 and 4 MiB


def variables(size=FOUR_MIB, store=AUTHENTICATED):
    """The bytes of a file of variables; without ``store``, one that no firmware has formatted."""
    if store is None:
        return bytes(size)
    head = bytes(16) + uuid.UUID("fff12b8d-7696-4c8b-a985-2747075b4f50").bytes_le + struct.pack("<Q", size) + b"_FVH"
    head += struct.pack("<IHHHBB", 0x0004FEFF, 72, 0, 0, 0, 2) + bytes(16) + uuid.UUID(store).bytes_le
    return head.ljust(size, b"\xff")


def qcow2(size=FOUR_MIB):
    return (b"QFI\xfb" + bytes(20) + struct.pack(">Q", size)).ljust(4096, b"\0")


class Firmware:
    """The directories of a host's descriptors below ``top``: those of the distribution, and those of its administrator."""

    def __init__(self, top, monkeypatch):
        self.top = top
        self.directories = [top / "share", top / "etc"]
        for directory in self.directories:
            directory.mkdir()
        monkeypatch.setattr(firmware, "DIRECTORIES", [str(directory) for directory in self.directories])

    def add(self, name="60-edk2", content=None, features=(), machines=("pc-q35-*", "q35"), etc=False, form="raw"):
        template = self.top / (name + ".fd")
        template.write_bytes(variables() if content is None else content)
        found = {
            "interface-types": ["uefi"],
            "mapping": {
                "device": "flash",
                "executable": {"filename": "CODE.fd", "format": "raw"},
                "nvram-template": {"filename": str(template), "format": form},
            },
            "targets": [{"architecture": "x86_64", "machines": list(machines)}],
            "features": list(features),
        }
        (self.directories[etc] / (name + ".json")).write_text(json.dumps(found))
