# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as the kernel shows them below /sys: real files in a temporary directory. Writing to ``create`` and ``remove`` does what the
kernel does; everything else is read as it lies there."""

from __future__ import annotations

import errno
import os
import shutil

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import mdev


class FakeGpus:
    """``add`` a GPU before it is used. ``written`` are the (file name, text) of each write."""

    def __init__(self, top, monkeypatch):
        self.top, self.written = top / "sys", []
        self.parents, self.devices = self.top / "class/mdev_bus", self.top / "bus/mdev/devices"
        for directory in (self.parents, self.devices):
            directory.mkdir(parents=True)
        monkeypatch.setattr(mdev, "PARENTS", str(self.parents))
        monkeypatch.setattr(mdev, "DEVICES", str(self.devices))
        monkeypatch.setattr(mdev, "_write", self.write)

    def add(self, parent="0000:84:00.0", interface="vfio-pci", **types):
        """A GPU with {type: how many}; the type's name with _ for -."""
        real = self.top / "devices/pci0000:80" / parent
        for name, free in types.items():
            place = real / "mdev_supported_types" / name.replace("_", "-")
            place.mkdir(parents=True)
            for file, text in (
                ("available_instances", free),
                ("device_api", interface),
                ("name", "GRID X"),
                ("create", ""),
            ):
                (place / file).write_text("%s\n" % text)
        (self.parents / parent).symlink_to(real)
        return self

    def take_out(self, parent="0000:84:00.0"):
        (self.parents / parent).unlink()

    def lose_power(self):
        """The kernel forgets every device."""
        for uuid in os.listdir(self.devices):
            self.write(str(self.devices / uuid / "remove"), "1")

    def make(self, uuid, parent="0000:84:00.0", kind="nvidia-35"):
        """As somebody else does it."""
        self.write(str(self.parents / parent / "mdev_supported_types" / kind / "create"), uuid)

    def write(self, path, text):
        place, file = os.path.split(path)
        self.written.append((file, text))
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if file == "create":
            self._create(os.path.realpath(place), text)
        else:
            self._remove(os.path.realpath(place))

    def _create(self, kind, uuid):
        if uuid in os.listdir(self.devices):
            raise OSError(errno.EEXIST, "File exists")
        self._count(kind, -1)
        device = os.path.join(kind, "..", "..", uuid)
        os.mkdir(device)
        os.symlink(
            os.path.join("..", "mdev_supported_types", os.path.basename(kind)), os.path.join(device, "mdev_type")
        )
        with open(os.path.join(device, "remove"), "w", encoding="ascii"):
            os.symlink(os.path.realpath(device), self.devices / uuid)

    def _remove(self, device):
        self._count(os.path.realpath(os.path.join(device, "mdev_type")), 1)
        (self.devices / os.path.basename(device)).unlink()
        shutil.rmtree(device)

    def _count(self, kind, more):
        path = os.path.join(kind, "available_instances")
        with open(path, encoding="ascii") as file:
            free = int(file.read()) + more
        if free < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        with open(path, "w", encoding="ascii") as file:
            file.write("%d\n" % free)

    def made(self):
        return sorted(os.listdir(self.devices))
